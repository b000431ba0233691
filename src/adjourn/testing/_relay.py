"""A workspace with a policy, a store and a clock, and the clients that work in it, all in the process of a test."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.host import keys, process
from adjourn.host.clock import now
from adjourn.host.process import Process, group_of
from adjourn.host.workspace_store import open_at
from adjourn.log.event import Actor, Event, decode
from adjourn.log.kinds import facts_of
from adjourn.policy.contract import read_contract
from adjourn.relay.ports import NEVER
from adjourn.relay.relay import RelayOptions
from adjourn.store.base import Store
from adjourn.store.memory import MemoryStore
from adjourn.tasks.approvals import answer, settle_doubt, waiting_approvals
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task, existing
from adjourn.testing._client import InProcessClient, ToolAnswer
from adjourn.testing._loop import FunctionServer, LineServer, Message, SteppedClock

_NUMBERS = itertools.count(2**22 + 1)  # above the highest number that Linux gives to a process
SEEN_SECONDS = 0.25
"""After so long, a relay has seen what a person answered elsewhere."""
_OWN = "ADJOURN_"
"""Prefixes of the variables that would change what a relay does."""


class InProcessRelay:
    """What `adjourn proxy` does between a client and a server, in a workspace of its own, in this process.

    `server` is a `ToolServer`, a `LineServer`, or a function that takes a message and returns the answer or None. `rules` are lines of a
    policy, or one text that starts with `policy`. `store` is any store; a text is the URL of one that each client opens for itself, as
    processes do. `folder` is the workspace: by default a new one, which `close` removes. `keys` is the folder of the keys, by default
    also a new one. Raises `BrokenContractError` for rules with an error.

    >>> with InProcessRelay(ToolServer("status", "deploy"), "allow status", "budget calls=1") as relay:
    ...     relay.call("status").text
    ...     relay.call("status").is_error
    ...     "deploy" in relay.call("deploy").text
    'done'
    True
    True
    """

    def __init__(
        self,
        server: LineServer | Callable[[Message], Message | None],
        *rules: str,
        store: Store | str | None = None,
        folder: str | os.PathLike[str] = "",
        keys: str | os.PathLike[str] = "",
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="adjourn-testing-")
        self.folder = Path(folder or Path(self._temporary.name) / "workspace")
        """The workspace."""
        self.keys = Path(keys or Path(self._temporary.name) / "keys")
        self.server: Any = server
        """The server that was given."""
        self.clock = SteppedClock(now())
        self.clients: list[InProcessClient] = []
        self._given = MemoryStore() if store is None else store
        self._opened: Store | None = None
        self._programs: dict[str, Process] = {}
        (self.folder / ".aex").mkdir(parents=True, exist_ok=True)
        if rules:
            self.write_policy(*rules)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the clients that are left, and remove the folders that were made."""
        for client in self.clients:
            client.kill()
        for program in self._programs.values():
            process.simulated.discard(program)
        if self._opened is not None and self._opened is not self._given:
            self._opened.close()
        self._temporary.cleanup()

    def write_policy(self, *rules: str) -> None:
        """Replace the policy. It is in force from the next call on, as an edited one is.

        >>> with InProcessRelay(ToolServer("deploy"), "allow *") as relay:
        ...     relay.call("deploy").is_error
        ...     relay.write_policy("allow *", "deny deploy")
        ...     relay.call("deploy").is_error
        False
        True
        """
        text = "\n".join(rules)
        if not text.lstrip().startswith("policy "):
            text = f'policy test v0\ngoal "a test"\n{text}\n'
        (self.folder / ".aex" / "policy.aex").write_text(text, encoding="utf-8")
        for client in self.clients:
            client.context.watch.files.look_again = 0.0

    # --- clients

    def client(
        self,
        *,
        name: str = "tester",
        protocol: str = "2025-11-25",
        capabilities: Message | None = None,
        server: LineServer | Callable[[Message], Message | None] | None = None,
        server_name: str = "",
        command: str = "in-process",
        task: str = "",
        contract: str = "",
        policy: str = "",
        store: str = "",
        take_over: bool = False,
        auto_confirm: bool = False,
        brief_bytes: int = 8192,
        confirm_seconds: int = 50,
        errors: str = "tool",
        tool_names: str = "auto",
        meta_tools: str = "once",
        budget_notice: bool = True,
        log_json: bool = False,
        program: str = "",
        greet: bool = True,
    ) -> InProcessClient:
        """Start another client, with a relay of its own.

        `protocol` is a revision of MCP; from 2026-07-28 on there is no handshake. `capabilities` are those that the client declares, as
        in `{"elicitation": {}}` for one that can ask its user. `program` names the process of the client: clients with one name are the
        proxies of one program, and share its task. `command` stands for the command that would start the server: servers of one command
        are the same to the policy and the history. The others are the options of `adjourn proxy`.

        >>> with InProcessRelay(ToolServer("deploy"), "allow *", "confirm before deploy") as relay:
        ...     client = relay.client(capabilities={"elicitation": {}})
        ...     call = client.begin("deploy")
        ...     client.reply(client.asked(), {"action": "decline"})
        ...     client.answer(call).is_error
        True
        """
        own = Process(process.host(), next(_NUMBERS), 1)
        parent = self._program(program or str(own.pid))
        with self.here():
            read = read_contract(str(self.folder), policy, contract)
            url = store or (self._given if isinstance(self._given, str) else "")
            settings = ClientOptions(
                root=str(self.folder),
                contract=read,
                store=url,
                task=task,
                take_over=take_over,
                auto_confirm=auto_confirm,
                brief_bytes=brief_bytes,
                server=server_name,
                command=command,
            )
            shared = None if isinstance(self._given, str) or store else self._given

            def context(on_event: Callable[[str, str], None]) -> ClientContext:
                client_context = ClientContext(settings, self.clock.now, on_event, shared)
                client_context.process = own
                client_context.join(group_of(parent, str(self.folder)))
                return client_context

            behind: Any = self.server if server is None else server
            client = InProcessClient(
                self,
                context,
                behind if hasattr(behind, "receive") else FunctionServer(behind),
                RelayOptions(errors, tool_names, meta_tools, confirm_seconds, budget_notice),
                name=name,
                protocol=protocol,
                capabilities=capabilities or {},
                as_json=log_json,
                processes=(own,) if program else (own, parent),
            )
        self.clients.append(client)
        if greet:
            client.greet()
            client.tools()
        return client

    @property
    def first(self) -> InProcessClient:
        """The first client, which is started when it is first used."""
        return self.clients[0] if self.clients else self.client()

    def call(self, tool: str, arguments: Message | None = None, **params: Any) -> ToolAnswer:
        """Call a tool by the first client (`InProcessClient.call`)."""
        return self.first.call(tool, arguments, **params)

    def begin(self, tool: str, arguments: Message | None = None, **params: Any) -> Any:
        """Call a tool without waiting for the answer (`InProcessClient.begin`)."""
        return self.first.begin(tool, arguments, **params)

    def answer(self, request_id: Any) -> ToolAnswer:
        """Return the answer to a call that was begun (`InProcessClient.answer`)."""
        return self.first.answer(request_id)

    def request(self, method: str, params: Message | None = None) -> ToolAnswer:
        """Send a request of any method by the first client (`InProcessClient.request`)."""
        return self.first.request(method, params)

    def _program(self, name: str) -> Process:
        """The process of a client."""
        if name not in self._programs:
            self._programs[name] = Process(process.host(), next(_NUMBERS), 1)
            process.simulated.add(self._programs[name])
        return self._programs[name]

    # --- a person

    def approve(self, approval: str = "", *, by: str = "ann") -> None:
        """A person says yes to a question: to the one of this id, or the only one that waits.

        >>> with InProcessRelay(ToolServer("deploy"), "allow *", "confirm before deploy") as relay:
        ...     call = relay.begin("deploy")
        ...     relay.approve()
        ...     relay.answer(call).text
        'done'
        """
        self._decide(approval, yes=True, by=by)

    def deny(self, approval: str = "", *, by: str = "ann") -> None:
        """A person says no to a question."""
        self._decide(approval, yes=False, by=by)

    def _decide(self, approval: str, *, yes: bool, by: str) -> None:
        waiting = [
            (task, question.id)
            for task in map(self.task, self.tasks())
            for question in waiting_approvals(task.ledger, self.clock.now())
            if approval in ("", question.id)
        ]
        assert len(waiting) == 1, f"{len(waiting)} questions wait: {[name for _, name in waiting]}"
        task, name = waiting[0]
        answer(task, name, yes=yes, via="terminal", by=Actor(by, "human"))
        self.advance(SEEN_SECONDS)

    def settle(self, *, happened: bool, by: str = "ann") -> None:
        """A person says whether the only call in doubt has had its effect.

        >>> class Silent(ToolServer):
        ...     def receive(self, line, send):
        ...         if b"tools/call" not in line:
        ...             super().receive(line, send)
        >>> with InProcessRelay(Silent("pay"), "allow *") as relay:
        ...     call = relay.begin("pay")
        ...     relay.first.kill()
        ...     later = relay.client(confirm_seconds=0)
        ...     "in doubt" in later.call("pay").text
        ...     relay.settle(happened=False)
        ...     len(relay.ledger(relay.tasks()[0]).doubts)
        True
        0
        """
        doubts = [(task, call) for task in map(self.task, self.tasks()) for call in task.ledger.doubts]
        assert len(doubts) == 1, f"{len(doubts)} calls are in doubt"
        settle_doubt(*doubts[0], happened=happened, by=Actor(by, "human"))

    # --- what is in the store

    @property
    def store(self) -> Store:
        """The store."""
        if not isinstance(self._given, str):
            return self._given
        if self._opened is None:
            with self.here():
                self._opened = open_at(str(self.folder), self._given)
        return self._opened

    def tasks(self) -> list[str]:
        """Return the ids of all tasks."""
        return sorted(self.store.streams())

    def task(self, name: str = "") -> Task:
        """Open a task: the one of this id, or the only one."""
        names = self.tasks()
        assert name or len(names) == 1, f"{len(names)} tasks: {names}"
        with self.here():
            return existing(self.store, name or names[0], clock=self.clock.now, secret=keys.secret())

    def ledger(self, task: str = "") -> Ledger:
        """Return what a task has spent, and what is open of it.

        >>> with InProcessRelay(ToolServer("echo"), "allow *", "budget calls=2") as relay:
        ...     relay.call("echo").is_error
        ...     relay.ledger().calls_used
        False
        1
        """
        return self.task(task).ledger

    def events(self, task: str = "") -> list[Event]:
        """Return the history of a task. Readings that share an event are an event each, at the same position.

        >>> with InProcessRelay(ToolServer("echo"), "allow echo") as relay:
        ...     relay.call("rm").is_error
        ...     relay.events()[-1].event
        True
        'tool.denied'
        """
        entries = self.store.read(self.task(task).id)
        return [fact for entry in entries for fact in facts_of(decode(entry.data))]

    # --- time

    def run(self) -> None:
        """Do all that is due, of all clients."""
        with self.here():
            while any(client.step() for client in self.clients):
                pass

    def skip(self, end: float) -> bool:
        """Move the clock to the next timer, and do what is due then; False where there is none until `end`, which it is then."""
        due = min((client.loop.next for client in self.clients if not client.is_over), default=NEVER)
        if due > end:
            self.clock.seconds = max(self.clock.seconds, end)
            return False
        self.clock.seconds = max(self.clock.seconds, due)
        self.run()
        return True

    def advance(self, seconds: float) -> None:
        """Let time pass: everything that falls due meanwhile is done at its time.

        >>> with InProcessRelay(ToolServer("deploy"), "allow *", "confirm before deploy") as relay:
        ...     call = relay.begin("deploy")
        ...     relay.advance(seconds=50)
        ...     "nobody answered within 50 s" in relay.answer(call).text
        True
        """
        end = self.clock.seconds + seconds
        self.run()
        while self.skip(end):
            pass

    @contextmanager
    def here(self) -> Iterator[None]:
        """The environment that relays work in: the keys of this test, and no settings of whoever runs it."""
        before = {name: value for name, value in os.environ.items() if name.startswith(_OWN)}
        for name in before:
            del os.environ[name]
        os.environ["ADJOURN_CONFIG"] = str(self.keys)
        try:
            yield
        finally:
            del os.environ["ADJOURN_CONFIG"]
            os.environ.update(before)
