"""The server over stdio: one JSON-RPC message per line, for one client, until it closes the pipe.

The client's first request decides how the connection is spoken: with the `initialize` handshake (protocol 2025-11-25 and earlier), or
stateless (2026-07-28), where each request names its version. The other form is refused from then on.

Must never: import the MCP SDK (half a second), answer a call itself, or let a call delay the next message.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, TypeVar

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.server import tool
from adjourn.code.server.server import MAX_CALLS, PROGRESS_SECONDS, SERVER_INFO, CodeServer
from adjourn.code.server.tool import ClientRoots, RootsNeededError, no_roots
from adjourn.code.workflow.active_session import ClientConnection
from adjourn.errors import InvalidError, RefusedError
from adjourn.mcp import frames
from adjourn.mcp.frames import FrameError, LineReader, Message, write_all
from adjourn.text.strict_json import check_text, count_keys

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)
UNSUPPORTED_VERSION = -32022
CONNECTION_CLOSED = -32000
META_SERVER = "io.modelcontextprotocol/serverInfo"
_CAPABILITIES = {"tools": {"listChanged": False}}
_ROOTS_SECONDS = 10.0
_NOT_CACHED = {"ttlMs": 0, "cacheScope": "private"}

_T = TypeVar("_T")


class ClientInfo(msgspec.Struct, frozen=True):
    name: str
    version: str


class InitializeParams(msgspec.Struct, frozen=True, rename="camel"):
    protocol_version: str
    capabilities: dict[str, Any]
    client_info: ClientInfo


class ListParams(msgspec.Struct, frozen=True):
    cursor: str | None = None


class CallParams(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any] | None = None
    answers: dict[str, Any] | None = msgspec.field(name="inputResponses", default=None)


class RequestMeta(msgspec.Struct, frozen=True):
    """The client of a stateless request, from `_meta`."""

    capabilities: dict[str, Any] = msgspec.field(name=frames.META_CAPABILITIES)
    client: ClientInfo | None = msgspec.field(name=frames.META_CLIENT, default=None)


class ProtocolError(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, text: str, data: object = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.data = data


class CallInFlight:
    """A call that is not answered yet. `settled`: answered, or cancelled, which means that it gets no answer."""

    def __init__(self, message: Message) -> None:
        token = message.meta.get("progressToken")
        self.id = message.id
        self.token = None if isinstance(token, bool) else token
        self.settled = False
        self.reported = 0
        self.reported_at = time.monotonic()


class CallThreads:
    """Daemon threads that run jobs in the order given; one more is started, up to `most`, when no thread is idle.

    Unlike those of `concurrent.futures`, they do not keep the process from exiting.
    """

    def __init__(self, most: int) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = Semaphore(0)
        self._more = most

    def run(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        if not self._idle.acquire(blocking=False) and self._more:
            self._more -= 1
            Thread(target=self._work, daemon=True, name="adjourn-call").start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            self._idle.release()


class StdioConnection:
    """The connection of one client, over two descriptors."""

    def __init__(self, server: CodeServer, reading: int, writing: int) -> None:
        self._server = server
        self._lines = LineReader(reading, frames.MAX_MESSAGE_BYTES)
        self._writing = writing
        self._write_lock = Lock()
        self._stateless: bool | None = None
        self._initialized = False
        self._client: ClientConnection | None = None
        self._client_name = ""
        self._calls: dict[str, CallInFlight] = {}
        self._calls_lock = Lock()
        self._threads = CallThreads(MAX_CALLS)
        self._has_roots = False
        self._asked: dict[str, SimpleQueue[Any]] = {}

    def serve(self) -> None:
        """Answer until the client closes its end. Calls still in flight then get an error."""
        while (lines := self._lines.read()) is not None:
            for line in lines:
                self._receive(line)
        for call in list(self._calls.values()):
            self._settle(call, frames.error(call.id, CONNECTION_CLOSED, "Connection closed"))

    def _receive(self, line: bytes) -> None:
        if line.isspace():
            return
        try:
            message = _decode(line)
        except FrameError as error:
            about = None if str(error.id) in self._calls else error.id
            self._write(frames.error(about, error.code, error.text))
            return
        if message.is_request:
            self._handle_request(message)
        elif not message.method:
            if (waiting := self._asked.get(str(message.id))) is not None:
                waiting.put(message.body.get("result"))
        elif message.method == "notifications/cancelled":
            # Some clients send the id of a number as text.
            call = self._calls.get(str(message.params.get("requestId")))
            if call is not None:
                self._settle(call, b"")

    def _handle_request(self, message: Message) -> None:
        try:
            result = self._result(message)
        except ProtocolError as error:
            self._write(frames.error(message.id, error.code, error.text, error.data))
        else:
            if result is not None:
                self._write(frames.result(message.id, result))

    def _result(self, message: Message) -> dict[str, Any] | None:
        """The result of a request; None for a call, which a thread answers. Raises `ProtocolError`."""
        if self._stateless is None:
            self._stateless = message.modern and message.method != "initialize"
        if self._stateless:
            self._check_stateless(message)
        else:
            self._check_handshake(message)
        match message.method:
            case "initialize":
                return self._initialize(message)
            case "ping":
                return {}
            case "server/discover":
                result = {"supportedVersions": STATELESS_VERSIONS, "capabilities": _CAPABILITIES}
                return self._complete(result | {"instructions": self._server.instructions} | _NOT_CACHED)
            case "tools/list":
                _read(message, ListParams)
                return self._complete({"tools": self._server.listed_tools} | (_NOT_CACHED if self._stateless else {}))
        self._start_call(message, _read(message, CallParams))
        return None

    def _check_handshake(self, message: Message) -> None:
        if message.method == "initialize":
            return
        if message.modern:
            raise ProtocolError(
                frames.INVALID_REQUEST,
                "this connection serves the handshake protocol era; requests carrying the 2026-07-28 envelope are not accepted on it",
            )
        if message.method not in ("ping", "tools/list", "tools/call"):
            raise _no_method(message)
        if not self._initialized and message.method != "ping":
            raise _bad_params()
        _check_meta(message)

    def _check_stateless(self, message: Message) -> None:
        if message.method == "initialize":
            version_asked = message.params.get("protocolVersion")
            raise ProtocolError(
                UNSUPPORTED_VERSION,
                "connection is serving the 2026-07-28 protocol; the initialize handshake is not accepted",
                {"supported": STATELESS_VERSIONS}
                | ({"requested": version_asked} if isinstance(version_asked, str) else {}),
            )
        if "_meta" not in message.params or not isinstance(message.params["_meta"], dict):
            raise ProtocolError(
                frames.INVALID_PARAMS,
                f"params._meta must be an object carrying the required {frames.META_VERSION!r} and"
                f" {frames.META_CAPABILITIES!r} envelope keys",
            )
        needed = (frames.META_VERSION, frames.META_CAPABILITIES)
        if missing := [key for key in needed if key not in message.meta]:
            raise ProtocolError(
                frames.INVALID_PARAMS, f"params._meta is missing the required envelope key(s): {', '.join(missing)}"
            )
        version = message.meta[frames.META_VERSION]
        if not isinstance(version, str):
            raise ProtocolError(frames.INVALID_PARAMS, "the protocol-version envelope value must be a string")
        if version not in STATELESS_VERSIONS:
            raise ProtocolError(
                UNSUPPORTED_VERSION,
                "Unsupported protocol version",
                {"supported": STATELESS_VERSIONS, "requested": version},
            )
        if message.method not in ("server/discover", "tools/list", "tools/call"):
            raise _no_method(message)
        _check_meta(message)
        meta = _convert(message.meta, RequestMeta)
        self._has_roots = "roots" in meta.capabilities
        if meta.client is not None and self._client is None:
            self._client_name = meta.client.name

    def _initialize(self, message: Message) -> dict[str, Any]:
        params = _read(message, InitializeParams)
        version = params.protocol_version
        self._client_name = params.client_info.name
        self._has_roots = "roots" in params.capabilities
        self._initialized = True
        return {
            "protocolVersion": version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "capabilities": _CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": self._server.instructions,
        }

    def _complete(self, result: dict[str, Any]) -> dict[str, Any]:
        """A result with what the stateless protocol requires of each."""
        if not self._stateless:
            return result
        return {**result, "resultType": "complete", "_meta": {META_SERVER: SERVER_INFO}}

    # --- calls

    def _start_call(self, message: Message, params: CallParams) -> None:
        if self._client is None:
            self._client = ClientConnection(self._client_name)
        call = self._calls[str(message.id)] = CallInFlight(message)
        opened = partial(self._roots, params.answers) if self._has_roots else no_roots
        self._threads.run(partial(self._answer, call, params, self._client, opened))

    def _answer(self, call: CallInFlight, params: CallParams, client: ClientConnection, opened: ClientRoots) -> None:
        deadline = Deadline(
            cancelled=lambda: call.settled or self._server.is_ending(), progress=partial(self._report, call)
        )
        try:
            text, failed = self._server.reply(client, params.name, params.arguments or {}, deadline, roots=opened)
            content = {"content": [{"type": "text", "text": text}], "isError": failed}
            answer = frames.result(call.id, self._complete(content))
        except RootsNeededError:
            requests = {tool.ROOTS_KEY: {"method": tool.ROOTS_METHOD}}
            answer = frames.result(call.id, {"resultType": "input_required", "inputRequests": requests})
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            answer = frames.error(call.id, frames.INTERNAL_ERROR, f"{type(error).__name__}: {error}"[:2000])
        self._settle(call, answer)

    def _roots(self, answers: dict[str, Any] | None) -> list[str]:
        """The client's folders: from what its call answers, or by asking. Raises `RootsNeededError`."""
        if self._stateless:
            if answers is None:
                raise RootsNeededError
            return tool.folders_of(answers.get(tool.ROOTS_KEY))
        question = f"roots-{secrets.token_hex(8)}"
        answer = self._asked[question] = SimpleQueue()
        self._write(frames.request(question, tool.ROOTS_METHOD, {}))
        try:
            return tool.folders_of(answer.get(timeout=_ROOTS_SECONDS))
        except Empty:
            raise RefusedError(
                f"the client did not answer {tool.ROOTS_METHOD} within {_ROOTS_SECONDS:.0f} s",
                "repeat the call, or start a server in that folder",
            ) from None
        finally:
            del self._asked[question]

    def _report(self, call: CallInFlight, done: int, total: int) -> None:
        """Send progress a few times a second, if the client asked for it."""
        now = time.monotonic()
        due = done > call.reported and now - call.reported_at >= PROGRESS_SECONDS
        if call.token is None or call.settled or not due:
            return
        call.reported, call.reported_at = done, now
        params = {"progressToken": call.token, "progress": float(done)}
        self._write(frames.notification("notifications/progress", params | ({"total": float(total)} if total else {})))

    def _settle(self, call: CallInFlight, answer: bytes) -> None:
        """Send the answer to a call, or none to a cancelled one, unless the call is settled."""
        with self._calls_lock:
            if call.settled:
                return
            call.settled = True
            if self._calls.get(str(call.id)) is call:
                del self._calls[str(call.id)]
        if answer:
            self._write(answer)

    def _write(self, line: bytes) -> None:
        with self._write_lock, suppress(OSError):  # the client is gone: the end of its input follows
            write_all(self._writing, line)


def serve_stdio(server: CodeServer) -> None:
    """Serve the client at the other end of stdin and stdout."""
    StdioConnection(server, *_claim_stdio()).serve()


def _claim_stdio() -> tuple[int, int]:
    """Descriptors of the client's pipes for the connection alone.

    From now on, what a tool or a program that it starts reads from stdin is empty, and what it prints goes to stderr.
    """
    reading, writing = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1))
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    return reading, writing


def _decode(line: bytes) -> Message:
    """The message in a line. Raises `FrameError`."""
    try:
        message = frames.read(line, Message)
    except FrameError:
        message = frames.read(_without_null_params(line), Message)
    if isinstance(message, list):
        raise FrameError(frames.INVALID_REQUEST, "batches are not supported", remedy="send one message a line")
    if message.body.get("jsonrpc") != "2.0":
        raise FrameError(frames.INVALID_REQUEST, 'jsonrpc must be "2.0"', line, "send it so")
    return message


def _without_null_params(line: bytes) -> bytes:
    """The line of a client that sends null for no parameters without them; any other line as it is."""
    with suppress(msgspec.DecodeError, ValueError, RecursionError, InvalidError):
        body = msgspec.json.decode(line)
        if type(body) is dict and body.get("params", 0) is None:
            check_text(line, count_keys(body))
            del body["params"]
            return msgspec.json.encode(body)
    return line


def _read(message: Message, kind: type[_T]) -> _T:
    return _convert(message.params, kind)


def _convert(value: dict[str, Any], kind: type[_T]) -> _T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise _bad_params() from None


def _check_meta(message: Message) -> None:
    """Raises `ProtocolError` for a `_meta` or a progress token of another type."""
    if not isinstance(message.params.get("_meta", {}), dict):
        raise _bad_params()
    if not isinstance(message.meta.get("progressToken", 0), str | int):
        raise _bad_params()


def _bad_params() -> ProtocolError:
    return ProtocolError(frames.INVALID_PARAMS, "Invalid request parameters", "")


def _no_method(message: Message) -> ProtocolError:
    return ProtocolError(frames.METHOD_NOT_FOUND, "Method not found", message.method)
