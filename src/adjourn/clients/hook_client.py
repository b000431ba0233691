"""A hook process, which a client starts for one answer: who that client is, which task it works on, what is left behind.

- A client whose proxies work here is found among the processes that this one descends from: its hooks belong to its
  group, work on its task, and count against the same budget.
- Otherwise the task is the workspace's, whoever asks, and under whatever name: one budget for all of them, which no new
  session and no new process starts over until a person finishes the task. `--task` names another.

Owns: that choice, and keeping a store quick to open that only such processes write to. Must never: speak a client's format.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from adjourn.aex.layers import narrowed
from adjourn.aex.match import NOTHING_KNOWN, KnownTools, as_client_names_it
from adjourn.clients.client_process import ClientOptions, ClientProcess
from adjourn.clients.hook_session import DEFAULT_CAPABILITIES, ClientCapabilities, Decided, HookSession
from adjourn.clients.served_tools import is_listed, known_tools
from adjourn.clients.task_choice import BOUND, CLIENT, MAX_MOVES, TaskChoice
from adjourn.errors import ConflictError
from adjourn.host import process
from adjourn.host.process import Process, group_of
from adjourn.log.canonical_json import digest
from adjourn.policy.calls import call_paths
from adjourn.policy.contract import for_task
from adjourn.policy.protected.places import ProtectedPlaces
from adjourn.store.base import Store
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.lease import SessionIdentity, TaskSwitchedError, is_alive
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task

FOLD_EVERY = 64
"""Events between two cached folds. Each hook loads the task, so fewer than between those of a session that stays."""
MAX_EVENTS_OF_HOOK = 6
_WORKSPACE = "workspace/"
"""How the group of clients without proxies starts."""


class HookClient(ClientProcess):
    """A process that was started for one answer. Opens the store when it is first needed."""

    def __init__(
        self,
        options: ClientOptions,
        client: str,
        client_process: int = 0,
        capabilities: ClientCapabilities = DEFAULT_CAPABILITIES,
    ) -> None:
        """`client` is its name, `client_process` its process where it says so; it must be one that this one descends from."""
        super().__init__(options)
        self.client, self.era = client, "hook"
        self.task = TaskChoice(self)
        self.notes: list[str] = []
        """What is to be said about the checkpoints that were made."""
        self._capabilities = capabilities
        self.follow: Callable[[Task], bool] = lambda _: False
        """Learn what the client's transcript says of a task. Returns whether that is something new."""
        self.announce: Callable[[Task], None] = lambda _: None
        """Keep which transcript the client writes while it works on a task."""
        self._groups = {group_of(process_, options.root): process_ for process_ in process.ancestors()}
        """The processes that this one descends from, nearest first, by the name of the group they would be."""
        self._named = next((group for group, process_ in self._groups.items() if process_.pid == client_process), "")

    def places(self) -> ProtectedPlaces:
        """All places that no gated call may touch."""
        return self.options.places_under(self.options.contract)

    def is_listed(self, tool: str) -> bool:
        """Whether a living proxy of the client has listed an MCP server's tool, which is named as the client spells it."""
        return is_listed(self.store, self.secret, self._groups, tool)

    def has_proxies(self) -> bool:
        """Whether the client has proxies in this workspace, and so the meta-tools."""
        return bool(_proxied(self.store, self._groups)[0])

    def claim(self) -> None:
        """Settle on a task for the client's hooks and proxies, whichever comes first. Only where it is to have proxies."""
        if not _proxied(self.store, self._groups)[0]:
            self.join(self._named or next(iter(self._groups), ""))
            self.task.current()

    def continues(self, name: str) -> bool:
        """Work on the task that the client's conversation worked on in an earlier process. Returns whether it does.

        It does not once it has begun a task of its own, nor on a task that is finished, or that a living session or another living client
        works on: one that continues the same conversation may have made no call yet. The client has proxies, or had them in the earlier
        process: they may start after this hook.
        """
        if self.options.task or not name:
            return False
        has_proxies = self.has_proxies()
        own = self.session().task if has_proxies else None
        if own is None or own.id != name:
            ledger = Task(self.store, name, clock=self.clock, secret=self.secret).ledger
            now, holders = self.clock(), ledger.sessions.values()
            if not (has_proxies or self._had_proxies(ledger)):
                return False
            if (own is not None and own.ledger.exists) or not ledger.exists or ledger.finished:
                return False
            if any(is_alive(self.store, name, holder, now) for holder in holders) or self._is_taken(name):
                return False
            if own is None:
                self.claim()
            self.task.move(name)
        return self.session().task.id == name  # a process of this client may have set another at the same time

    def _had_proxies(self, ledger: Ledger) -> bool:
        """Whether who worked on a task last was a client with proxies, and this client's process is known, so that it can claim a task."""
        return bool(self._named) and ledger.worker is not None and not ledger.worker.group.startswith(_WORKSPACE)

    def _is_taken(self, task: str) -> bool:
        """Whether another client that lives is to work on a task."""
        names = [ref for kind in (CLIENT, BOUND) for ref, of in self.store.refs(kind).items() if of == task]
        for group in {name.partition("/")[2] for name in names} - set(self._groups):
            with suppress(ValueError):  # a name of another make
                host, pid, began, _ = group.rsplit("/", 3)
                if process.lives(Process(host, int(pid), int(began))):
                    return True
        return False

    def lists_as_reading(self, call: ToolRequest) -> bool:
        """Whether the server of a call listed its tool as one that reads, and its name says nothing else. Raises `StoreError`."""
        from adjourn.policy.tool_effects import reading_of, shared_words  # tables that few hooks need

        tools = known_tools(self.store)
        read_only = {tool.name: tool.read_only for tool in tools.servers.get(call.server, ())}
        name = _as_listed(call, tools).tool
        return read_only.get(name, False) and reading_of(name, shared_words(read_only)) is not None

    def ask(self, call: ToolRequest, working_directory: str = "", name: str = "", server: str = "") -> Decided:
        """Decide on a call, which the client has a `name` for, and write it down; relative paths among its arguments are of
        `working_directory`. `server` is the name of its server as the client spells it.

        Raises `HeldError` or another `RefusedError`, `StoreError`.
        """
        tools = known_tools(self.store) if call.server else NOTHING_KNOWN
        for _ in range(MAX_MOVES):
            session = self.session()
            policy = session.policy.at_server(server or call.server, tools)
            session.decide_under(policy)
            if not policy.rules_of(call.tool).allowed:
                call = _as_listed(call, tools)
            leads_to = call_paths(
                session.policy, call.tool, call.given, self.options.tree, working_directory, around=self.options.root
            )
            placed = msgspec.structs.replace(call, paths=leads_to.paths, matcher=leads_to.matcher)
            try:
                decided = session.ask(placed, name)
            except TaskSwitchedError:
                self.close_store()
                self.task = TaskChoice(self)
                continue
            self.notes += session.notes
            self.keep(session)
            return decided
        raise ConflictError("the task switched repeatedly during this call", "retry")

    def session(self) -> HookSession:
        """The client's session on its task. It may not be open yet."""
        own = self.options.task
        workspace = f"{_WORKSPACE}{digest(os.fsencode(self.options.root))[:8]}"
        group, shared = _proxied(self.store, self._groups)
        self.join(group or workspace)
        name = own or shared or self.task.current()
        task = Task(self.store, name, clock=self.clock, secret=self.secret)
        if not (own or shared) and _is_over(task):
            name = self.task.begin()
            task = Task(self.store, name, clock=self.clock, secret=self.secret)
        if own and not group:
            held_by = {holder.group for holder in task.ledger.sessions.values()}
            group = next((ancestor for ancestor in self._groups if ancestor in held_by), "") or self._named
        # A process without a machine is known by its lease only.
        client = self._groups.get(group or self._named, Process(workspace, 0, 0))
        identity = SessionIdentity(
            client, group or workspace, self.client, self.era, self.options.root, self.options.tree
        )
        contract = for_task(self.options.contract, self.store, task.ledger.contract)
        contract = msgspec.structs.replace(contract, policy=narrowed(contract.policy, None, self.client))
        session = HookSession(task, contract, identity, self._capabilities)
        session.observe, session.announce = partial(self.follow, task), partial(self.announce, task)
        self.task.begin_with_prompt(session)
        return session

    def keep(self, session: HookSession) -> None:
        """Keep the head, and now and then leave things so that the next hooks load little: a cached fold, and a log that was copied."""
        session.task.keep_head()
        if session.task.ledger.seq % FOLD_EVERY < MAX_EVENTS_OF_HOOK:
            session.task.fold()
            self.close_store()


def _as_listed(call: ToolRequest, known: KnownTools) -> ToolRequest:
    """The call of a tool by the name that its server lists it by, where the client can mean only one that it spells otherwise."""
    names = [tool.name for tool in known.servers.get(call.server, ())]
    meant = [name for name in names if as_client_names_it(name) == call.tool]
    if call.tool in names or len(meant) != 1:
        return call
    return msgspec.structs.replace(call, tool=meant[0])


def _is_over(task: Task) -> bool:
    """Whether a person finished the task, and nobody works on it. An agent's word would give it a new budget."""
    ledger = task.ledger
    return bool(ledger.finished) and ledger.finished_by == "human" and not ledger.sessions


def _proxied(store: Store, groups: Mapping[str, Process]) -> tuple[str, str]:
    """The group whose proxies work in this store, and on which task; "" and "" for none."""
    for kind in (CLIENT, BOUND):
        tasks = store.refs(kind)
        for group in groups:
            if task := tasks.get(f"{kind}{group}"):
                return group, task
    return "", ""
