"""A real `adjourn proxy` in front of a real server, in a workspace of its own, and a client that sees raw lines.

Owns: `PolicyWorkspace` and `RawClient`, which `in_process` has in common with it, the same with processes (`ProxyWorkspace`, `Client`), and
`run` (any other command, to its end).
Must never: know how the proxy works inside.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from adjourn.clients.policy_watch import LOOK_SECONDS
from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.log.chain import verify_chain
from adjourn.log.event import Actor, Event, decode
from adjourn.log.kinds import data_of, facts_of
from adjourn.store import Store, open_store
from adjourn.tasks.approvals import answer, settle_doubt
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task, existing
from support.processes import children, with_word
from support.terminal import at_terminal

ECHO = Path(__file__).parents[1] / "e2e" / "servers" / "echo.py"
OLD, NEW, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"
ERAS = (OLD, NEW, MODERN)
SECONDS = 30.0
"""How long anything may take here before the test fails."""
PERSON = Actor("ann", "human")
META = "io.modelcontextprotocol/"
META_TOOLS = [
    "aex.checkpoint", "aex.resume", "aex.finish", "aex.rollback", "aex.list_tasks", "aex.review_task", "adjourn.note", "adjourn.record",
    "adjourn.effect", "adjourn.ask",
]  # fmt: skip

Message = dict[str, Any]


class Done(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def first(self) -> str:
        return self.out.partition("\n")[0]


def run(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    apart: bool = True,
    program: Sequence[str] = (sys.executable, "-m", "adjourn"),
) -> Done:
    """Run `adjourn` to its end, which is no traceback, at a person's terminal; not `apart`, as a child of the clients here.

    `program` is another installation of it.
    """
    command = [*program, *arguments]
    done = at_terminal(command, cwd=cwd, env=env, stdin=stdin, apart=apart)
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def adjourn(workspace: ProxyWorkspace, *words: str) -> Done:
    """A command of a person at a terminal."""
    return run(*words, cwd=workspace.root, env=workspace.environment)


class PolicyWorkspace:
    """A folder with a policy, what reached the server of its clients, and what its store holds."""

    def __init__(self, path: Path, *policy: str, name: str = "work", version: str = "v0") -> None:
        self.version = version
        self.root = path / name
        self.config = path / "config"
        self.upstream = path / f"{name}-upstream"
        for folder in (self.root / ".aex", self.upstream):
            folder.mkdir(parents=True, exist_ok=True)
        self.policy_file = self.root / ".aex" / "policy.aex"
        if policy:
            self.write_policy(*policy)

    def write_policy(self, *lines: str, goal: str = "a test") -> None:
        self.policy_file.write_text("\n".join([f"policy test {self.version}", f'goal "{goal}"', *lines, ""]))
        self.wait_until_it_counts()

    def wait_until_it_counts(self) -> None:
        """Wait until proxies examine an edited policy."""
        raise NotImplementedError

    def now(self) -> int:
        """The time of day in milliseconds, for what a person does."""
        return now()

    # --- what the upstream saw

    def forwarded(self) -> list[bytes]:
        """Every line that reached the upstream."""
        path = self.upstream / "lines"
        return path.read_bytes().splitlines(keepends=True) if path.exists() else []

    def forwarded_calls(self) -> list[Message]:
        """The params of every tools/call that reached the upstream."""
        found = []
        for line in self.forwarded():
            body = json.loads(line)
            if isinstance(body, dict) and body.get("method") == "tools/call":
                found.append(body["params"])
        return found

    def executed(self) -> list[str]:
        """The tool of every call that the upstream executed."""
        path = self.upstream / "calls"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    # --- what the store holds

    @property
    def store_url(self) -> str:
        return str(self.root / ".aex" / "adjourn.db")

    @contextmanager
    def store(self) -> Iterator[Store]:
        store = open_store(self.store_url)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def task(self, task: str = "") -> Iterator[Task]:
        """A task opened by us, as another terminal would; by default the only one there is."""
        with self.store() as store, self._config():
            name = task or only(store.streams())
            yield existing(store, name, clock=self.now, secret=keys.secret())

    @contextmanager
    def _config(self) -> Iterator[None]:
        before = os.environ.get("ADJOURN_CONFIG")
        os.environ["ADJOURN_CONFIG"] = str(self.config)
        try:
            yield
        finally:
            if before is None:
                del os.environ["ADJOURN_CONFIG"]
            else:
                os.environ["ADJOURN_CONFIG"] = before

    def tasks(self) -> list[str]:
        with self.store() as store:
            return sorted(store.streams())

    def tasks_exist(self) -> bool:
        """Whether anything was ever written to the store."""
        return Path(self.store_url).exists() and bool(self.tasks())

    def ledger(self, task: str = "") -> Ledger:
        with self.task(task) as opened:
            return opened.ledger

    def events(self, task: str = "") -> list[Event]:
        """The history; an event of several readings as one for each fact."""
        with self.store() as store:
            entries = list(store.read(task or only(store.streams())))
        assert verify_chain(entries).valid
        return [fact for entry in entries for fact in facts_of(decode(entry.data))]

    def facts(self, kind: str, task: str = "") -> list[Any]:
        """The data of every event of a kind."""
        return [data_of(event) for event in self.events(task) if event.event == kind]

    def decide(self, *, yes: bool, approval: str = "") -> None:
        """A person answers the only open question, from another terminal."""
        with self.task() as task:
            answer(task, approval or only(task.ledger.approvals), yes=yes, via="terminal", by=PERSON)

    def settle(self, *, happened: bool, call: str = "") -> None:
        """A person says the outcome of a call in doubt, or of the only one."""
        with self.task() as task:
            settle_doubt(task, call or only(task.ledger.doubts), happened=happened, by=PERSON)


class ProxyWorkspace(PolicyWorkspace):
    """Use it as a context manager: what it started is ended with it."""

    def __init__(self, path: Path, *policy: str, name: str = "work", version: str = "v0") -> None:
        super().__init__(path, *policy, name=name, version=version)
        self.clients: list[Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients:
            client.kill()
            if error is not None:
                print(f"--- stderr of proxy {client.process.pid}\n{client.stderr()[-4000:]}")
        for pid in with_word(str(self.upstream)):  # a server that sleeps outlives a killed proxy
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait_until_it_counts(self) -> None:
        """They do so every 10 ms at most."""
        time.sleep(2 * LOOK_SECONDS)

    # --- processes

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ADJOURN_")}
        return kept | {"ADJOURN_CONFIG": str(self.config)}

    def command(
        self, *options: str, server: Sequence[str] = (), upstream: Sequence[str] = (), python: Sequence[str] = ()
    ) -> list[str]:
        """The proxy's command line. `server` are options of the echo server, `upstream` another command."""
        behind = list(upstream) or [sys.executable, "-I", "-S", str(ECHO), str(self.upstream), *server]
        return [sys.executable, *python, "-m", "adjourn", "proxy", *options, "--", *behind]

    def client(
        self,
        *options: str,
        era: str = NEW,
        name: str = "tester",
        capabilities: Message | None = None,
        elicits: bool = False,
        server: Sequence[str] = (),
        upstream: Sequence[str] = (),
        python: Sequence[str] = (),
        env: dict[str, str] | None = None,
        foreign: bool = False,
        greet: bool = True,
        cwd: Path | None = None,
    ) -> Client:
        """A client with its proxy. `foreign`: started by another process than the other clients'; `cwd` is another folder than the
        workspace.
        """
        command = self.command(*options, server=server, upstream=upstream, python=python)
        if foreign:
            command = ["sh", "-c", '"$@"; exit $?', "sh", *command]
        declared = capabilities or ({"elicitation": {}} if elicits else {})
        client = Client(command, cwd or self.root, self.environment | (env or {}), era, name, declared)
        client.wrapped = foreign
        self.clients.append(client)
        if greet:
            client.greet()
        return client


class RawClient:
    """A client that sees raw lines: what it sends in either era. Every received line is kept in `received`, as bytes."""

    era: str
    name: str
    capabilities: Message
    received: list[bytes]
    greeting: Message
    _ids: Iterator[int]

    def send(self, *lines: bytes) -> None:
        """Raw bytes."""
        raise NotImplementedError

    def find(self, wanted: Callable[[Message], bool], seconds: float = SECONDS) -> Message:
        """The first message that is wanted; others stay for later."""
        raise NotImplementedError

    def post(self, *messages: object) -> None:
        self.send(*(encode(message) for message in messages))

    def answer(self, request_id: object, seconds: float = SECONDS) -> Message:
        """The answer to a request."""
        return self.find(lambda body: "method" not in body and body.get("id") == request_id, seconds)

    def asked(self, method: str = "elicitation/create") -> Message:
        """The next request of the other side."""
        return self.find(lambda body: body.get("method") == method)

    # --- messages

    def message(self, method: str, params: Message | None = None, request_id: object = None) -> Message:
        """A request as this client's era has it. Give `request_id` to choose the id."""
        params = dict(params or {})
        if self.era == MODERN:
            own = {
                f"{META}protocolVersion": MODERN,
                f"{META}clientInfo": {"name": self.name, "version": "1"},
                f"{META}clientCapabilities": self.capabilities,
            }
            params["_meta"] = own | params.get("_meta", {})
        request_id = next(self._ids) if request_id is None else request_id
        return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}

    def ask(self, method: str, params: Message | None = None) -> Message:
        """Send a request and wait for its answer."""
        message = self.message(method, params)
        self.post(message)
        return self.answer(message["id"])

    def begin(self, tool: str, arguments: Message | None = None, **params: Any) -> Any:
        """Send a tools/call without waiting; returns its id."""
        message = self.call_message(tool, arguments, **params)
        self.post(message)
        return message["id"]

    def call_message(self, tool: str, arguments: Message | None = None, **params: Any) -> Message:
        return self.message("tools/call", {"name": tool, "arguments": arguments or {}} | params)

    def call(self, tool: str, arguments: Message | None = None, **params: Any) -> Message:
        """A tools/call and its answer."""
        return self.answer(self.begin(tool, arguments, **params))

    def meta(self, tool: str, **arguments: Any) -> Any:
        """What a meta-tool answers, decoded."""
        result = self.call(tool, arguments)["result"]
        assert not result.get("isError"), result
        return json.loads(result["content"][0]["text"])

    def tools(self) -> list[str]:
        """Every name of tools/list, over all pages."""
        names, cursor = [], None
        while True:
            result = self.ask("tools/list", {"cursor": cursor} if cursor else {})["result"]
            names += [tool["name"] for tool in result["tools"]]
            cursor = result.get("nextCursor")
            if not cursor:
                return names

    def greet(self) -> None:
        if self.era == MODERN:
            self.greeting = self.ask("server/discover")
            return
        self.greeting = self.ask(
            "initialize",
            {
                "protocolVersion": self.era,
                "capabilities": self.capabilities,
                "clientInfo": {"name": self.name, "version": "1"},
            },
        )
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.ask("ping")  # the upstream has seen all of it


class Client(RawClient):
    """A raw client of one proxy."""

    def __init__(  # noqa: PLR0917  # what a process is, in the order of the words
        self, command: Sequence[str], cwd: Path, env: dict[str, str], era: str, name: str, capabilities: Message
    ) -> None:
        self.era = era
        self.name = name
        self.capabilities = capabilities
        self.wrapped = False
        self.received: list[bytes] = []
        self.greeting: Message = {}
        self._ids = itertools.count(1)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._unread: list[bytes] = []
        self.paused = threading.Event()
        """While it is set, nobody reads what the proxy writes."""
        self._errors = cwd.parent / f"stderr-{time.monotonic_ns()}"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin
        self.stdout = self.process.stdout
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError), os.fdopen(os.dup(self.stdout.fileno()), "rb") as file:
            for line in file:
                self.received.append(line)
                self._lines.put(line)
                while self.paused.is_set() and self.process.poll() is None:
                    time.sleep(0.02)
        self._lines.put(None)

    # --- lines

    def send(self, *lines: bytes) -> None:
        """Raw bytes, in one write if the pipe takes it."""
        data = memoryview(b"".join(lines))
        while data:
            data = data[self.stdin.write(data) :]

    def line(self, seconds: float = SECONDS) -> bytes | None:
        """The next line that nobody has waited for; None at the end of the proxy's output, however often it is asked for."""
        line = self._unread.pop(0) if self._unread else self._lines.get(timeout=seconds)
        if line is None:
            self._lines.put(None)
        return line

    def find(self, wanted: Callable[[Message], bool], seconds: float = SECONDS) -> Message:
        """The first message that is wanted; others stay for later."""
        for line in self._unread:
            body = decoded(line)
            if wanted(body):
                self._unread.remove(line)
                return body
        end = time.monotonic() + seconds
        while True:
            try:
                got = self._lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no such message in {seconds} s; there are {self._unread}") from None
            if got is None:
                self._lines.put(None)
                raise AssertionError(f"the proxy's output ended; there are {self._unread}")
            body = decoded(got)
            if wanted(body):
                return body
            self._unread.append(got)

    def forget(self) -> None:
        """Drop what has arrived and nobody waited for."""
        self._unread.clear()

    def silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing arrives for a while."""
        try:
            self._unread.append(self._lines.get(timeout=seconds) or b"")
        except queue.Empty:
            return not self._unread
        return False

    # --- the end

    @property
    def proxy_pid(self) -> int:
        """The proxy's process, which is a child of the one we started when that is a wrapper."""
        if not self.wrapped:
            return self.process.pid
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if started := children(self.process.pid):
                return started[0]
            time.sleep(0.01)
        raise AssertionError("the wrapper has no child")

    def stderr(self) -> str:
        return self._errors.read_text(errors="replace")

    def close(self) -> int:
        """End of input; returns the proxy's exit code."""
        self.stdin.close()
        return self.ended()

    def ended(self, seconds: float = SECONDS) -> int:
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code

    def kill(self) -> None:
        """SIGKILL, as a crash. The upstream sees the end of its input."""
        if self.process.poll() is None:
            if self.wrapped:
                with suppress(AssertionError, ProcessLookupError, FileNotFoundError):
                    os.kill(self.proxy_pid, signal.SIGKILL)
            else:
                self.process.kill()
        with suppress(OSError):
            self.stdin.close()
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        self.stdout.close()


def encode(message: object) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decoded(line: bytes) -> Message:
    body = json.loads(line)
    return body if isinstance(body, dict) else {"batch": body}


def only(names: Any) -> str:
    """The one element there is."""
    found: list[str] = list(names)
    assert len(found) == 1, found
    return found[0]


def text_of(answer: Message) -> str:
    """What an answer to tools/call says, whatever its shape."""
    if "error" in answer:
        return str(answer["error"]["message"])
    return str(answer["result"]["content"][0]["text"])


def refused(answer: Message) -> bool:
    """Whether an answer is a refusal in the default shape: a tool result that is an error."""
    return bool(answer.get("result", {}).get("isError"))


def wait_for(what: Callable[[], object], seconds: float = SECONDS) -> None:
    """Poll until something is true."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
