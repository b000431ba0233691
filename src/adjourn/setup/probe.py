"""Starts an MCP server to see which tools it lists, calls none of them, and ends it.

The server is not trusted: the time, the bytes, the pages and the tools are bounded, what it wrote to stderr is redacted, and its whole
process group is killed when it does not end by itself. It is asked in the protocol of the handshake first, in that of the stateless era
if it refuses the handshake.

No tool is called, no shell used, and no process left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from select import POLLERR, POLLHUP, POLLIN, poll
from threading import Event
from typing import Any, NamedTuple

import msgspec

from adjourn.aex.match import KnownTool
from adjourn.host.executables import find
from adjourn.mcp import frames, server_lines
from adjourn.mcp.frames import FrameError, LineReader, write_all
from adjourn.mcp.lenient import value_of
from adjourn.mcp.server_lines import Reply
from adjourn.policy.tool_effects import reaches_network
from adjourn.text.quoting import last_lines
from adjourn.text.redact import beginning, visible_line

SECONDS = 15.0
"""How long a server may take until it has listed its tools. Some are downloaded first (`npx`, `uvx`)."""
AT_ONCE = 8
"""Servers that are probed at a time."""
MAX_BYTES = 32 * 1024 * 1024
"""Of all that a server writes to stdout."""
MAX_TOOLS = 10_000
MAX_PAGES = 1_000
MAX_NAME = 200
"""Characters of a name or a title."""
MAX_ERRORS = 16 * 1024
"""Bytes kept of what a server wrote to stderr last."""
MAX_ERROR_LINES = 10
MAX_ERROR_LINE = 300
MAX_LISTINGS = 5
"""How often a server may say that its list has changed, and be asked for it again."""
SETTLE_SECONDS = 0.3
"""How long a server may take to list more, once it knows what its client can do."""
GRACE_SECONDS = 1.0
"""How long a server may take to end once its input is closed, and again after SIGTERM."""
VERSION, STATELESS = "2025-11-25", "2026-07-28"
_CLIENT = {"name": "adjourn", "version": "0"}
_META_SERVER = "io.modelcontextprotocol/serverInfo"
_SLICE = 0.1
_CHANGED = "notifications/tools/list_changed"


class ProbedTool(NamedTuple):
    """A tool as its server lists it. A hint is None where the server says nothing; nothing that it says is proven."""

    name: str
    title: str = ""
    read_only: bool | None = None
    destructive: bool | None = None
    reaches: bool = False
    """It reads at an address of the network that its caller chooses."""

    @classmethod
    def of_known(cls, tool: KnownTool) -> ProbedTool:
        """A tool as the store keeps it."""
        read_only = True if tool.read_only else False if tool.writes else None
        return cls(tool.name, "", read_only, tool.destructive or None, tool.reaches)

    def merged(self, other: ProbedTool | None) -> ProbedTool:
        """This tool, listed a second time: as dangerous as the more dangerous of the two, since a client may take either."""
        if other is None:
            return self
        hints = (self.read_only, other.read_only)
        return self._replace(
            read_only=False if False in hints else True if all(hints) else None,
            destructive=True if self.destructive or other.destructive else None,
            reaches=self.reaches or other.reaches,
        )


class Probed(NamedTuple):
    """What a server answered. `failure` is "" if it listed its tools, else why it did not, as a predicate ("exited with code 2").

    `name` is what the server calls itself, "" if it does not say. `exit_code` is set if the server ended before it had answered
    (negative: by that signal). `errors` are the last lines that it wrote to stderr, without secrets.
    """

    name: str = ""
    tools: tuple[ProbedTool, ...] = ()
    failure: str = ""
    exit_code: int | None = None
    errors: tuple[str, ...] = ()
    timed_out: bool = False

    @property
    def known_tools(self) -> list[KnownTool]:
        """The tools as the store keeps them."""
        return [
            KnownTool(tool.name, bool(tool.read_only), bool(tool.destructive), tool.read_only is False, tool.reaches)
            for tool in self.tools
        ]


class ServerStart(NamedTuple):
    """How a server is started: its command, its whole environment, its working folder."""

    words: Sequence[str]
    environment: Mapping[str, str]
    cwd: str


def probe(
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str,
    seconds: float = SECONDS,
    stop: Event | None = None,
) -> Probed:
    """The tools of the server that `words` start, or the reason that there are none.

    The server gets `environment` as it is. A name is looked up in the absolute folders of its PATH. `stop` ends the probe early.
    """
    program = find(words[0], given=environment)
    if program is None:
        return Probed(failure=f"cannot be started: {_shown(words[0])} is not on PATH")
    try:
        process = subprocess.Popen(
            list(words),
            executable=program,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Probed(failure=f"cannot be started: {reason}: {_shown(words[0])}")
    server = _Server(process, time.monotonic() + seconds, stop or Event(), os.path.abspath(cwd))
    try:
        return _asked(server, seconds)
    finally:
        server.end()


def probe_all(starts: Sequence[ServerStart], *, seconds: float = SECONDS) -> list[Probed]:
    """The same for several servers at a time, in their order."""
    stop = Event()

    def probe_next(start: ServerStart) -> Probed:
        return probe(start.words, environment=start.environment, cwd=start.cwd, seconds=seconds, stop=stop)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            return list(pool.map(probe_next, starts))
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


# --- the conversation


class _ProbeError(Exception):
    """A server cannot be asked any further: why, as a predicate."""

    def __init__(self, reason: str, *, timed_out: bool = False, ended: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out
        self.ended = ended


class _Hints(msgspec.Struct, rename="camel"):
    title: Any = None
    read_only_hint: Any = None
    destructive_hint: Any = None
    open_world_hint: Any = None


class _Tool(msgspec.Struct, rename="camel"):
    name: Any = None
    title: Any = None
    annotations: Any = None
    input_schema: Any = None


class _Listed(msgspec.Struct):
    tools: list[_Tool] = []
    next_cursor: Any = msgspec.field(default=None, name="nextCursor")
    meta: Any = msgspec.field(default=None, name="_meta")


def _asked(server: _Server, seconds: float) -> Probed:
    name = ""
    try:
        greeted = server.request("initialize", _HELLO)
        if greeted.error is msgspec.UNSET:
            name = _name_in(_value(greeted), "serverInfo")
            server.say(frames.notification("notifications/initialized"))
            may_change = _may_change(_value(greeted))
            for _ in range(MAX_LISTINGS):
                tools, _ = _listed(server, {})
                if not server.has_changed(SETTLE_SECONDS if may_change else 0):
                    break
        else:
            tools, name = _listed(server, {"_meta": _ENVELOPE})
    except _ProbeError as error:
        code = server.ended() if error.ended else None
        reason = _ending(code) if code is not None else str(error)
        if error.timed_out:
            reason = f"did not answer `{server.asked}` within {seconds:g} seconds"
        return Probed(name, (), reason + server.junk, code, server.errors(), error.timed_out)
    return Probed(name, tools, errors=server.errors())


_CAPABILITIES: dict[str, Any] = {"roots": {}, "sampling": {}, "elicitation": {}}
"""Those of a capable client: some servers list more tools to one. What they ask for is declined (`_Server`)."""
_HELLO = {"protocolVersion": VERSION, "capabilities": _CAPABILITIES, "clientInfo": _CLIENT}
_ENVELOPE = {frames.META_VERSION: STATELESS, frames.META_CAPABILITIES: _CAPABILITIES, frames.META_CLIENT: _CLIENT}


def _listed(server: _Server, params: dict[str, Any]) -> tuple[tuple[ProbedTool, ...], str]:
    """All pages of the server's tools, and the name that it gives itself beside them."""
    tools: dict[str, ProbedTool] = {}
    name, cursor = "", None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        reply = server.request("tools/list", params if cursor is None else {**params, "cursor": cursor})
        if reply.error is not msgspec.UNSET:
            if _error_of(reply).get("code") == frames.METHOD_NOT_FOUND and not tools:
                return (), name  # a server of prompts or resources alone
            message = str(_error_of(reply).get("message", "no reason given"))
            raise _ProbeError(f"refused `tools/list`: {_shown(message)}")
        try:
            page = msgspec.convert(_value(reply), _Listed)
        except msgspec.ValidationError as error:
            raise _ProbeError(f"sent an invalid answer to `tools/list`: {_shown(str(error))}") from None
        name = name or _name_in(page.meta, _META_SERVER)
        for tool in map(_tool, page.tools):
            if tool is not None:
                tools[tool.name] = tool.merged(tools.get(tool.name))
        if len(tools) > MAX_TOOLS:
            raise _ProbeError(f"lists more than {MAX_TOOLS:,} tools")
        cursor = page.next_cursor
        if not isinstance(cursor, str) or not cursor:
            return tuple(tools.values()), name
        if cursor in seen:
            raise _ProbeError("repeats the same page of tools")
        seen.add(cursor)
    raise _ProbeError(f"lists its tools on more than {MAX_PAGES:,} pages")


def _tool(listed: _Tool) -> ProbedTool | None:
    """The tool; None if it has no usable name."""
    if not isinstance(listed.name, str) or not 0 < len(listed.name) <= MAX_NAME:
        return None
    try:
        hints = msgspec.convert(listed.annotations or {}, _Hints)
    except msgspec.ValidationError:
        hints = _Hints()
    title = next((text for text in (listed.title, hints.title) if isinstance(text, str)), "")
    schema = listed.input_schema if isinstance(listed.input_schema, dict) else {}
    arguments = schema.get("properties")
    reaches = reaches_network(
        listed.name, arguments if isinstance(arguments, dict) else (), open_world=_said(hints.open_world_hint)
    )
    return ProbedTool(listed.name, _shown(title), _said(hints.read_only_hint), _said(hints.destructive_hint), reaches)


def _said(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _value(reply: Reply) -> Any:
    try:
        return value_of(reply.result) if isinstance(reply.result, msgspec.Raw) else None
    except msgspec.DecodeError:
        return None


def _may_change(value: Any) -> bool:
    """Whether an answer to `initialize` says that the list of tools may change."""
    capabilities = value.get("capabilities") if isinstance(value, dict) else None
    tools = capabilities.get("tools") if isinstance(capabilities, dict) else None
    return isinstance(tools, dict) and tools.get("listChanged") is True


def _name_in(value: Any, member: str) -> str:
    """What the server calls itself, in a member of a result or of its `_meta`."""
    info = value.get(member) if isinstance(value, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name[:MAX_NAME] if isinstance(name, str) else ""


def _error_of(reply: Reply) -> dict[str, Any]:
    with suppress(msgspec.DecodeError):
        value = value_of(reply.error) if isinstance(reply.error, msgspec.Raw) else None
        return value if isinstance(value, dict) else {}
    return {}


def _shown(text: str) -> str:
    """A text of the server's as it may be shown: one line, bounded, without secrets."""
    return visible_line(beginning(text, MAX_NAME))


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


# --- the process


class _Server:
    """A running server: one request at a time, everything that it writes is read meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float, stop: Event, cwd: str) -> None:
        self._process = process
        self._deadline = deadline
        self._stop = stop
        streams = [stream for stream in (process.stdin, process.stdout, process.stderr) if stream]
        self._in, self._out, self._err = (stream.fileno() for stream in streams)
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._lines = LineReader(self._out, MAX_BYTES)
        self._taken: deque[bytes] = deque()
        self._told = b""
        self._bytes = 0
        self._open = {self._out, self._err}
        self._count = 0
        self._roots = [{"uri": Path(cwd).as_uri(), "name": "workspace"}]
        self._is_changed = False
        self.asked = ""
        self.junk = ""
        """A line of stdout that is no message, as the end of a sentence."""

    def request(self, method: str, params: object) -> Reply:
        """The answer to a request. Raises `_ProbeError`."""
        self._count += 1
        self.asked, own = method, f"probe-{self._count}"
        self.say(frames.request(own, method, params))
        for line in self._messages():
            try:
                reply = server_lines.read(line)[1]
            except FrameError:
                if not line.strip():
                    continue
                self.junk = self.junk or f" (it wrote a line that is not JSON-RPC: {_shown(_text(line[:300]))})"
                continue
            if reply.method is not msgspec.UNSET:
                self._answer(reply)
            elif reply.id == own:
                return reply
        raise _ProbeError("closed its output", ended=True)

    def has_changed(self, seconds: float) -> bool:
        """Whether the server says, within `seconds`, that it lists other tools than a moment ago. Raises `_ProbeError`."""
        until = min(time.monotonic() + seconds, self._deadline)
        while not self._is_changed and self._out in self._open and time.monotonic() < until:
            self._read(_SLICE)
            while self._taken:
                with suppress(FrameError):
                    message = server_lines.read(self._taken.popleft())[1]
                    if message.method is not msgspec.UNSET:
                        self._answer(message)
        changed, self._is_changed = self._is_changed, False
        return changed

    def say(self, line: bytes) -> None:
        """Send a line. Raises `_ProbeError` if the server does not read it."""
        try:
            write_all(self._in, line, max(self._deadline - time.monotonic(), 0))
        except TimeoutError:
            raise _ProbeError("does not read its input", timed_out=True) from None
        except OSError:
            self._drain()
            raise _ProbeError("closed its input", ended=True) from None

    def _answer(self, request: Reply) -> None:
        """Answer a server's request: with the folder that it works in, and else with a no."""
        if request.id is msgspec.UNSET:
            self._is_changed |= request.method == _CHANGED
        elif request.method == "ping":
            self.say(frames.result(request.id, {}))
        elif request.method == "roots/list":
            self.say(frames.result(request.id, {"roots": self._roots}))
        elif request.method == "elicitation/create":
            self.say(frames.result(request.id, {"action": "decline"}))
        else:
            self.say(frames.error(request.id, frames.METHOD_NOT_FOUND, "not available while tools are listed"))

    def _messages(self) -> Iterator[bytes]:
        """The lines of stdout, until its end. Raises `_ProbeError` when time is up."""
        while True:
            while self._taken:
                yield self._taken.popleft()
            if self._out not in self._open:
                return
            left = self._deadline - time.monotonic()
            if left <= 0 or self._stop.is_set():
                raise _ProbeError("did not answer", timed_out=True)
            self._read(min(left, _SLICE))

    def _read(self, seconds: float) -> None:
        watch = poll()
        for descriptor in self._open:
            watch.register(descriptor, POLLIN)
        for descriptor, event in watch.poll(seconds * 1000):
            if event & (POLLIN | POLLHUP | POLLERR):
                (self._read_errors if descriptor == self._err else self._read_lines)()

    def _read_lines(self) -> None:
        lines = self._lines.take()
        if lines is None:
            self._open.discard(self._out)
            return
        self._taken += lines
        self._bytes += sum(map(len, lines))
        if self._bytes > MAX_BYTES:
            raise _ProbeError(f"wrote more than {MAX_BYTES // 1024 // 1024} MiB to stdout")

    def _read_errors(self) -> None:
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self._err, 65_536)
            if not data:
                self._open.discard(self._err)
        self._told = (self._told + data)[-MAX_ERRORS:]

    def _drain(self) -> None:
        """Read what is left of stderr, for as long as something comes soon."""
        end = time.monotonic() + GRACE_SECONDS
        while self._err in self._open and time.monotonic() < end:
            self._open.discard(self._out)
            before = self._told
            self._read(_SLICE)
            if self._told == before and self._process.poll() is not None:
                return

    def ended(self) -> int | None:
        """Its exit code, if it has ended or does so soon."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(GRACE_SECONDS)
        return None

    def errors(self) -> tuple[str, ...]:
        """The last lines of stderr."""
        if self._process.poll() is not None:
            self._drain()
        return last_lines(self._told, MAX_ERROR_LINES, MAX_ERROR_LINE)

    def end(self) -> None:
        """End it: its input closes, then SIGTERM, then SIGKILL for what is left of its process group."""
        with suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        for sign in (0, signal.SIGTERM):
            if sign:
                self._signal(sign)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
                break
        self._signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
