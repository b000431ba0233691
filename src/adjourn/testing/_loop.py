"""What a test has in its own process: time that it moves, the event loop of one relay, and MCP servers that are objects."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol, TypeVar

from adjourn.mcp import frames
from adjourn.relay.ports import NEVER, Outcome

_T = TypeVar("_T")


class SteppedClock:
    """A clock that stands still until `seconds` is set. `began` is its first time of day, in milliseconds since 1970."""

    def __init__(self, began: int) -> None:
        self._began = began
        self.seconds = 0.0
        """Since it began."""

    def now(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        return self._began + round(self.seconds * 1000)


class SteppedLoop:
    """The `EventLoop` of one relay. It does one thing a step."""

    def __init__(self, clock: SteppedClock) -> None:
        self._clock = clock
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: dict[Callable[[], None], float] = {}

    def time(self) -> float:
        return self._clock.seconds

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers[action] = self._clock.seconds + seconds

    def soon(self, action: Callable[[], None]) -> None:
        self._soon.append(action)

    def work(self, job: Callable[[], _T], then: Callable[[Outcome[_T]], None]) -> None:
        # Not at once: a relay is busy from here on, and takes up no other line until the outcome is there.
        self._soon.append(lambda: then(Outcome(job)))

    @property
    def next(self) -> float:
        """The time of the next timer; `NEVER` without one."""
        return min(self._timers.values(), default=NEVER)

    def step(self) -> bool:
        """Do one thing that is due. Returns whether there was one."""
        if self._soon:
            self._soon.popleft()()
            return True
        for action in self._due():
            del self._timers[action]
            action()
            return True
        return False

    def _due(self) -> Iterator[Callable[[], None]]:
        """The timer that is due first, if any is."""
        if self.next <= self._clock.seconds:
            yield min(self._timers, key=self._timers.__getitem__)

    def close(self) -> None:
        """Forget what waits."""
        self._soon.clear()
        self._timers.clear()


# --- MCP servers that are objects in the process of a test

Message = dict[str, Any]
Send = Callable[[bytes], None]
Tool = Callable[..., object]


class LineServer(Protocol):
    r"""A server that reads and writes lines of its own, for tests of odd, slow or talkative servers.

    >>> class Echo:
    ...     def receive(self, line, send):
    ...         message = json.loads(line)
    ...         if "id" in message:
    ...             send(b'{"jsonrpc": "2.0", "id": %d, "result": {}}\n' % message["id"])
    >>> with InProcessRelay(Echo(), "allow *") as relay:
    ...     relay.request("ping").result
    {}
    """

    def receive(self, line: bytes, send: Send, /) -> None:
        """Take one line of the client, with its line feed. `send` passes lines to the client, now or later."""


class FunctionServer:
    """A server that is one function: it takes each message as a dict, and returns the answer, or None."""

    def __init__(self, function: Callable[[Message], Message | None]) -> None:
        self._function = function

    def receive(self, line: bytes, send: Send) -> None:
        message = json.loads(line)
        for value in message if isinstance(message, list) else [message]:
            if (answer := self._function(value)) is not None:
                send(encoded(answer))


class ToolServer:
    """An MCP server with tools that are Python functions, or only names: such a tool answers `done`.

    `tools` are names and functions; a function's tool has the name of the function, and gets the arguments of the call as keywords. It
    returns a text, a whole result of MCP (a dict with `content`), or any other value, which is answered as JSON. `read_only` names
    the tools that the server declares to be without effect. What a function raises reaches the test.

    >>> def add(a, b):
    ...     return a + b
    >>> server = ToolServer(add, "deploy", read_only=["add"])
    >>> with InProcessRelay(server, "allow add") as relay:
    ...     relay.call("add", {"a": 2, "b": 3}).text
    ...     relay.call("deploy").is_error
    '5'
    True
    >>> server.calls
    [('add', {'a': 2, 'b': 3})]
    """

    def __init__(self, *tools: str | Tool, read_only: Collection[str] = (), name: str = "server") -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """The name and the arguments of every call that reached the server, in order."""
        self._name = name
        self._read_only = frozenset(read_only)
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if isinstance(tool, str):
                self.add(tool)
            else:
                self.add(tool.__name__, tool)

    def add(self, name: str, function: Tool | None = None) -> None:
        """Add a tool under a name that no function can have, such as `file.read`.

        >>> server = ToolServer()
        >>> server.add("file.read", lambda path: f"the text of {path}")
        >>> with InProcessRelay(server, "allow file.*") as relay:
        ...     relay.call("file.read", {"path": "notes"}).text
        'the text of notes'
        """
        self._tools[name] = function or _done

    def receive(self, line: bytes, send: Send) -> None:
        """Answer one request (`LineServer`)."""
        message = json.loads(line)
        if message.get("id") is None or "method" not in message:
            return
        params = message.get("params") or {}
        try:
            result = self._result(message["method"], params)
        except _NoSuchThingError as error:
            send(encoded({"jsonrpc": "2.0", "id": message["id"], "error": error.args[0]}))
            return
        if frames.META_VERSION in (params.get("_meta") or {}):
            result = {"resultType": "complete"} | result
        send(encoded({"jsonrpc": "2.0", "id": message["id"], "result": result}))

    def _result(self, method: str, params: Message) -> Message:
        info = {"name": self._name, "version": "1"}
        match method:
            case "initialize":
                version = params.get("protocolVersion")
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "server/discover":
                versions = [(params.get("_meta") or {}).get(frames.META_VERSION)]
                return {"supportedVersions": versions, "capabilities": {"tools": {}}, "serverInfo": info}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [self._listed(name) for name in self._tools]}
            case "tools/call" if params.get("name") in self._tools:
                return self._call(params["name"], params.get("arguments") or {})
        code = frames.INVALID_PARAMS if method == "tools/call" else frames.METHOD_NOT_FOUND
        raise _NoSuchThingError({"code": code, "message": f"not found: {params.get('name') or method}"})

    def _listed(self, name: str) -> Message:
        hints = {"annotations": {"readOnlyHint": True}} if name in self._read_only else {}
        return {"name": name, "inputSchema": {"type": "object"}} | hints

    def _call(self, name: str, arguments: Message) -> Message:
        self.calls.append((name, arguments))
        value = self._tools[name](**arguments)
        if isinstance(value, dict) and "content" in value:
            return value
        return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


class _NoSuchThingError(Exception):
    """The error of a JSON-RPC answer."""


def _done(**arguments: object) -> str:
    del arguments
    return "done"


def encoded(message: object) -> bytes:
    """Encode a message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
