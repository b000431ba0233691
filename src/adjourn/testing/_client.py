"""A client of a relay in this process, and the edge between both: what `proxy.main` does with pipes.

Owns: the life of one session, from its greeting to its end. Must never: decide, or wait in real time.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import deque
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from adjourn.clients.client import ClientContext
from adjourn.errors import AdjournError
from adjourn.host import process
from adjourn.host.process import Process
from adjourn.mcp import frames
from adjourn.relay.ports import NEVER, StderrLog
from adjourn.relay.relay import Relay, RelayOptions
from adjourn.testing._loop import LineServer, Message, SteppedClock, SteppedLoop, encoded

STATELESS = "2026-07-28"
"""The first protocol revision without a handshake."""
SECONDS = 60.0
"""How long a client waits for an answer, of the test's time: longer than a call waits for a person by default."""
TIDY_SECONDS, HEARTBEAT_SECONDS = 0.25, 20.0
"""As in `proxy.main`."""


class ToolAnswer(NamedTuple):
    """The answer to a request: a result, or an error.

    >>> with InProcessRelay(ToolServer("echo"), "allow echo") as relay:
    ...     answer = relay.call("echo")
    ...     answer.text, answer.is_error, answer.message["id"]
    ('done', False, 4)
    """

    message: dict[str, Any]
    """The whole JSON-RPC message."""

    @property
    def result(self) -> dict[str, Any]:
        """The result. Raises `AssertionError` with the error where there is none."""
        assert "result" in self.message, self.message.get("error")
        result: dict[str, Any] = self.message["result"]
        return result

    @property
    def is_error(self) -> bool:
        """Whether the call was refused, or its tool failed, or the request has no result."""
        return "result" not in self.message or bool(self.message["result"].get("isError"))

    @property
    def text(self) -> str:
        """The first text of a call's result, or the message of an error."""
        if "result" not in self.message:
            return str(self.message["error"]["message"])
        content = self.message["result"].get("content") or []
        return next((str(block["text"]) for block in content if "text" in block), "")


class World(Protocol):
    """What a client needs of the place where it is (`InProcessRelay`)."""

    clock: SteppedClock

    def run(self) -> None:
        """Do all that is due, of all clients."""

    def skip(self, end: float) -> bool:
        """Move the clock to the next timer, and do what is due then; False where there is none until `end`."""

    def advance(self, seconds: float) -> None:
        """Let time pass."""

    def here(self) -> AbstractContextManager[None]:
        """The environment that relays work in."""


class _Outlet:
    """Takes what one side is sent: nobody makes it wait."""

    size, since = 0, NEVER

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in lines_of(data):
            self._take(line)

    def lose(self) -> None: ...

    def drain(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class InProcessClient:
    """One client of an `InProcessRelay`, which makes it: a second client, another protocol revision, a crash.

    >>> with InProcessRelay(ToolServer("echo"), "allow *", "budget calls=2") as relay:
    ...     relay.call("echo").is_error
    ...     relay.call("aex.checkpoint", {"name": "half-way"}).is_error
    ...     relay.first.kill()
    ...     later = relay.client(name="another", protocol="2026-07-28")
    ...     later.call("aex.resume", {"name": "half-way"}).is_error
    ...     [later.call("echo").is_error for _ in range(2)]
    False
    False
    False
    [False, True]
    """

    def __init__(
        self,
        world: World,
        context: Callable[[Callable[[str, str], None]], ClientContext],
        server: LineServer,
        options: RelayOptions,
        *,
        name: str,
        protocol: str,
        capabilities: Message,
        as_json: bool = False,
        processes: Collection[Process] = (),
    ) -> None:
        """`context` makes the client's context, given where it reports events. `processes` are those that end with the session."""
        self.name = name
        self.protocol = protocol
        self.capabilities = capabilities
        self.received: list[bytes] = []
        """Every line that the client got, in order."""
        self.unread: list[bytes] = []
        """Those of them that nobody has waited for."""
        self.greeting: Message = {}
        """The answer to `initialize` or `server/discover`."""
        self.is_over = False
        """Whether the session ended, in order or by a kill."""
        self._world = world
        self._server = server
        self._ids = itertools.count(1)
        self._to_relay: deque[bytes] = deque()
        self._to_server: deque[bytes] = deque()
        self._from_server: deque[bytes] = deque()
        self._log = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115  # closed with the client
        self.report = StderrLog(as_json=as_json, descriptor=self._log.fileno())
        self._logged = b""
        self.loop = SteppedLoop(world.clock)
        self.context = context(self._on_event)
        self.relay = Relay(self.loop, self.context, self.report, options)
        self.relay.connection.client = _Outlet(self._deliver)
        self.relay.connection.server = _Outlet(self._to_server.append)
        self._processes = processes
        process.simulated.update(processes)
        self.loop.after(HEARTBEAT_SECONDS, self._beat)
        try:
            self.report.event("task", self.context.task.claim())
            self.context.meet_servers()
        except AdjournError as error:
            self.report.event("store.error", str(error))

    # --- what a test does

    def call(self, tool: str, arguments: Message | None = None, **params: Any) -> ToolAnswer:
        """Call a tool, and return the answer; `params` are further members of the request's params.

        A call that a person has to confirm, and does not, is answered after the time that it waits, of the test's clock.
        """
        return self.answer(self.begin(tool, arguments, **params))

    def begin(self, tool: str, arguments: Message | None = None, **params: Any) -> Any:
        """Call a tool without waiting for the answer; returns the request's id."""
        message = self.message("tools/call", {"name": tool, "arguments": arguments or {}} | params)
        self.send(encoded(message))
        return message["id"]

    def answer(self, request_id: Any, seconds: float = SECONDS) -> ToolAnswer:
        """Return the answer to a request. Time passes until it is there; `AssertionError` if it is not within `seconds`."""
        return ToolAnswer(self.find(lambda body: "method" not in body and body.get("id") == request_id, seconds))

    def request(self, method: str, params: Message | None = None) -> ToolAnswer:
        """Send a request of any method, and return the answer."""
        message = self.message(method, params)
        self.send(encoded(message))
        return self.answer(message["id"])

    def tools(self) -> list[str]:
        """Return the names that tools/list answers, of all pages."""
        names: list[str] = []
        cursor: Message = {}
        while True:
            result = self.request("tools/list", cursor).result
            names += [tool["name"] for tool in result["tools"]]
            if not result.get("nextCursor"):
                return names
            cursor = {"cursor": result["nextCursor"]}

    def asked(self, method: str = "elicitation/create") -> Message:
        """Return the next request of the other side, such as the question of a dialog."""
        return self.find(lambda body: body.get("method") == method)

    def reply(self, question: Message, result: Message) -> None:
        """Answer a request of the other side."""
        self.send(encoded({"jsonrpc": "2.0", "id": question["id"], "result": result}))

    def send(self, *lines: bytes) -> None:
        """Send lines that arrive together, with their line feeds, and do all that is due."""
        assert not self.is_over, "the session of this client has ended"
        self._to_relay.extend(lines_of(b"".join(lines)))
        self._world.run()

    def find(self, wanted: Callable[[Message], bool], seconds: float = SECONDS) -> Message:
        """Return the first message that is wanted; others stay for later. Time passes until it is there, at most `seconds`."""
        end = self._world.clock.seconds + seconds
        while True:
            self._world.run()
            for line in self.unread:
                body = json.loads(line)
                if wanted(body if isinstance(body, dict) else {"batch": body}):
                    self.unread.remove(line)
                    return body if isinstance(body, dict) else {"batch": body}
            if not self._world.skip(end):
                raise AssertionError(f"no such message in {seconds} s; there are {self.unread}")

    def message(self, method: str, params: Message | None = None, request_id: Any = None) -> Message:
        """Compose a request as the client's protocol revision has it, with the next id or one that is given."""
        params = dict(params or {})
        if self.protocol >= STATELESS:
            own = {
                frames.META_VERSION: self.protocol,
                frames.META_CLIENT: {"name": self.name, "version": "1"},
                frames.META_CAPABILITIES: self.capabilities,
            }
            params["_meta"] = own | params.get("_meta", {})
        request_id = next(self._ids) if request_id is None else request_id
        return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}

    def greet(self) -> None:
        """Open the connection as the client's protocol revision does."""
        if self.protocol >= STATELESS:
            self.greeting = self.request("server/discover").message
            return
        info = {"name": self.name, "version": "1"}
        params = {"protocolVersion": self.protocol, "capabilities": self.capabilities, "clientInfo": info}
        self.greeting = self.request("initialize", params).message
        self.send(encoded({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        self.request("ping")

    @property
    def log(self) -> str:
        """What `adjourn proxy` would have written to stderr."""
        if not self.is_over:
            self.report.flush()
            self._log.seek(0)
            self._logged = self._log.read()
        return self._logged.decode(errors="replace")

    def close(self) -> None:
        """End the session in order, as when a client closes the proxy's input. Its last checkpoint is made."""
        if self.is_over:
            return
        self._world.run()
        with self._world.here():
            self.report.event("ending", "client-eof")
            self.context.served.stop_listing()
            self.relay.leave_unanswered("the session ended")
            self.relay.end_sessions("client-eof")
            self.context.close("client-eof")
        self._end()

    def kill(self) -> None:
        """End the session as a crash does: nothing is written any more, and other clients see a process that has exited."""
        if not self.is_over:
            self._end()

    # --- the edge

    def step(self) -> bool:
        """Do one thing that is due. Returns whether there was one."""
        if self.is_over:
            return False
        if self.loop.step():
            return True
        if self._to_server:
            self._server.receive(self._to_server.popleft(), self._take)
        elif self._from_server and self.relay.may_read_server():
            lines = list(self._from_server)
            self._from_server.clear()
            self.relay.answers.handle(lines)
            self._tidy_later()
        elif self._to_relay and self.relay.may_read_client():
            lines = list(self._to_relay)
            self._to_relay.clear()
            self.relay.gate.handle(lines)
            self._tidy_later()
        else:
            return False
        return True

    def _take(self, data: bytes) -> None:
        """Of the server."""
        self._from_server.extend(lines_of(data))

    def _deliver(self, line: bytes) -> None:
        """To the client."""
        self.received.append(line)
        self.unread.append(line)

    def _on_event(self, event: str, text: str) -> None:
        self.report.event(event, text)
        if event == "policy.changed":
            self.loop.soon(self.relay.tools.compare)
            self.loop.soon(self.relay.tools.report_rules)

    def _tidy_later(self) -> None:
        if not self.relay.is_tidy_due:
            self.relay.is_tidy_due = True
            self.loop.after(TIDY_SECONDS, self.relay.tidy)

    def _beat(self) -> None:
        self.loop.after(HEARTBEAT_SECONDS, self._beat)
        self.relay.beat()

    def _end(self) -> None:
        self._logged = self.log.encode()
        self.is_over = True
        self.loop.close()
        process.simulated.difference_update(self._processes)
        self._log.close()


def lines_of(data: bytes) -> list[bytes]:
    """Split at line feeds, and only there. Each line keeps its own."""
    whole = data.endswith(b"\n") or not data
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([] if whole else [last])
