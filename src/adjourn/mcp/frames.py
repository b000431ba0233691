"""One line, one message: strict decoding of what a client sends, and the answers a proxy makes itself.

The gate must see what the upstream will see, so a line that two parsers could read differently is refused: invalid
UTF-8, NaN, trailing text, a carriage return inside (some peers split lines there), a key that stands twice in an object,
differently-cased `method`, `params`, `name`, `id` and the like (some ignore case). Of the objects that the proxy reads itself,
none may have two keys that are one to some readers (`text.strict_json`); of the arguments, those who examine them say so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from select import POLLIN, POLLOUT, poll
from typing import Any, TypeVar

import msgspec

from adjourn.errors import InvalidError, sentences
from adjourn.mcp.lenient import Oversize, list_of
from adjourn.text.strict_json import BLANKS, check_alike, check_text, fold_key, survey

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UPSTREAM_GONE = -31001
"""Ours: outside the range that JSON-RPC reserves."""
OUTCOME_UNKNOWN = -31002
"""Ours, of `adjourn connect`: the server may have done what it was asked, and does not say."""

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_BATCH = 1000
"""Elements of a JSON-RPC batch."""
_FLATTEN = "nest it less deeply"
META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
"""The first that a subscriber hears."""
ASKING = ("tools/call", "prompts/get", "resources/read")
"""Methods whose answer may ask for input, in the stateless era."""
BATCH_REVISIONS = ("2024-11-05", "2025-03-26")
"""Protocol revisions whose transport allows JSON-RPC batches."""

_WATCHED = frozenset(
    [
        "jsonrpc",
        "id",
        "method",
        "params",
        "result",
        "error",
        "name",
        "arguments",
        "_meta",
        "uri",
        "ref",
        "inputResponses",
        "requestState",
    ]
)
_READ = ("_meta", "ref", "argument", "clientInfo", "capabilities")
"""Members of params that are read, beside the arguments."""
_FOLDED = {fold_key(key): key for key in _WATCHED}
_BLANKS = " \t\n\r\f\v\0"

_LINE_ENDS = re.compile("\u0085|\u2028|\u2029".encode())

_decode = msgspec.json.decode
_encode = msgspec.json.encode


def is_id(value: object) -> bool:
    """Whether a request may have this id. A `true` or a `1.0` equals 1 in Python, and is none."""
    return type(value) is str or type(value) is int


def is_method(value: object) -> bool:
    """Whether it names one method to every reader: beside the case of letters, there is nothing to strip or to fold in it."""
    return type(value) is str and value != "" and fold_key(value) == value.lower()


class FrameError(Exception):
    """A line that cannot be decided on. `code` is the JSON-RPC code."""

    def __init__(self, code: int, reason: str, line: bytes = b"", remedy: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.text = sentences(reason, remedy)
        """What the sender of the line is answered."""
        self._line = line

    @property
    def id(self) -> str | int | float | None:
        """That of the request that the line is; None where it has none, several, or is no request."""
        from adjourn.mcp.unreadable import unread_id  # few lines are refused

        return unread_id(self._line)


class Message(msgspec.Struct, eq=False):
    """A decoded client message. `raw` is its line with the line feed, `body` the decoded object.

    `modern`: it is of the stateless era (2026-07-28 and later). `plain`: msgspec's sorted encoding of any value in it is canonical.
    `may_clash`: two keys in its data may be one to some reader.
    """

    raw: bytes
    body: dict[str, Any]
    id: str | int | None
    method: str
    params: dict[str, Any]
    meta: dict[str, Any]
    modern: bool
    plain: bool
    may_clash: bool

    @property
    def is_request(self) -> bool:
        return self.method != "" and self.id is not None


_M = TypeVar("_M", bound=Message)
_NO_MEMBERS: dict[str, Any] = {}


def one_line(line: bytes) -> bytes:
    """A line of JSON without the characters at which some peers end one (U+0085, U+2028, U+2029): their escapes mean the same."""
    if b"\xc2\x85" in line or b"\xe2\x80" in line:
        return _LINE_ENDS.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), line)
    return line


def read(line: bytes, kind: type[_M]) -> _M | list[bytes]:  # noqa: C901, PLR0912  # one branch a rule, on the path of every call
    """The message in a line, as a `kind` of message, or for a batch the bytes of its elements. Raises `FrameError`."""
    if type(line) is Oversize:
        raise FrameError(PARSE_ERROR, "a message longer than the limit", line, "shorten it")
    if b"\r" in line and b"\r" in line.rstrip(b"\r\n "):
        raise FrameError(PARSE_ERROR, "a carriage return inside the message", line, r"write \\r")
    try:
        if not line.isascii():
            line.decode()
            line = one_line(line)
        body = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = str(error).removeprefix("JSON is malformed: ")
        return _odd_batch(line, f"not strict JSON: {why}", "send one JSON value a line")
    except RecursionError:
        return _odd_batch(line, "nested too deeply", _FLATTEN)
    if type(body) is list:
        return _batch(_decode(line, type=list[msgspec.Raw]))
    if type(body) is not dict:
        raise FrameError(INVALID_REQUEST, "a message must be an object", line, "send a JSON-RPC request")
    message_id = body.get("id")
    if type(message_id) is not int and type(message_id) is not str and "id" in body:
        if "method" in body or message_id is not None:
            raise FrameError(INVALID_REQUEST, "an id must be a string or an integer", line, "send such an id")
        message_id = None
    value = body.get("params")
    params: dict[str, Any] = value if type(value) is dict else _NO_MEMBERS
    if not (_WATCHED.issuperset(body) and _WATCHED.issuperset(params)):
        check_keys([*body, *params], line)
    try:
        keys, plain, may_clash = survey(body)
        if line.translate(None, BLANKS).count(b'":') != keys:
            check_text(line, keys)
        if may_clash:
            _check_alike(body, params)
    except InvalidError as error:
        raise FrameError(INVALID_REQUEST, error.message, line, error.remedy) from None
    except RecursionError:
        raise FrameError(PARSE_ERROR, "nested too deeply", line, _FLATTEN) from None
    method = body.get("method", "")
    if method != "tools/call" or "result" in body or "error" in body or params is not value:
        _check_members(body, line)
    meta = params.get("_meta")
    meta = meta if type(meta) is dict else _NO_MEMBERS
    return kind(line, body, message_id, method, params, meta, META_VERSION in meta, plain, may_clash)


def _odd_batch(line: bytes, why: str, remedy: str) -> list[bytes]:
    """The elements of a batch that is not strict JSON as a whole: each is read by itself. Raises `FrameError`."""
    if line.lstrip()[:1] == b"[":
        with suppress(msgspec.DecodeError):
            return _batch(list_of(line))
    raise FrameError(PARSE_ERROR, why, line, remedy)


def _batch(elements: list[msgspec.Raw]) -> list[bytes]:
    if not elements:
        raise FrameError(INVALID_REQUEST, "an empty batch", remedy="send one message a line")
    if len(elements) > MAX_BATCH:
        raise FrameError(INVALID_REQUEST, f"a batch of more than {MAX_BATCH:,} messages", remedy="send several batches")
    return [bytes(raw) for raw in elements]


def check_keys(keys: Iterable[str], line: bytes = b"") -> None:
    """Raises `FrameError` for a key that some peers read as another one."""
    for key in keys:
        if key not in _WATCHED and (meant := _FOLDED.get(fold_key(key))) is not None:
            raise FrameError(INVALID_REQUEST, f"key {key!r} could be read as {meant!r}", line, "use another name")


_ANSWER_LEVELS = 3
"""Levels of an answer of the client that are read: which question, what is said to it, and the fields of that."""


def _check_alike(body: dict[str, Any], params: dict[str, Any]) -> None:
    """Raise `InvalidError` for two keys that are one to some reader, in an object that the proxy reads itself."""
    level: list[Any] = [params.get("inputResponses"), [body.get("result")]]
    for part in (body, params, *(params.get(name) for name in _READ)):
        if type(part) is dict:
            check_alike(part)
    for _ in range(_ANSWER_LEVELS):
        for part in level:
            if type(part) is dict:
                check_alike(part)
        level = [
            inner
            for part in level
            if type(part) in (dict, list)
            for inner in (part.values() if type(part) is dict else part)
        ]


def _check_members(body: dict[str, Any], line: bytes) -> None:
    """Whether a message is one of a request and an answer, and its method is one to every reader."""
    if "method" not in body:
        if "result" not in body and "error" not in body:
            raise FrameError(
                INVALID_REQUEST, "neither a request nor an answer", line, "send a method, a result or an error"
            )
        return
    method = body["method"]
    if type(method) is not str or not method:
        raise FrameError(INVALID_REQUEST, "method must be a string", line, "name one, such as tools/call")
    if method != "tools/call" and method.strip(_BLANKS).casefold() == "tools/call":
        raise FrameError(INVALID_REQUEST, "method could be read as 'tools/call'", line, "write tools/call")
    if not is_method(method):
        raise FrameError(INVALID_REQUEST, "method could be read as another one", line, "spell it as the protocol does")
    if "result" in body or "error" in body:
        raise FrameError(INVALID_REQUEST, "a message is a request or an answer, not both", line, "send two messages")
    if "params" in body and type(body["params"]) is not dict:
        raise FrameError(INVALID_REQUEST, "params must be an object", line, "send named parameters")


# --- answers


def result(message_id: object, value: object) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": message_id, "result": value}) + b"\n"


def error(message_id: object, code: int, message: str, data: object = None) -> bytes:
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return _encode({"jsonrpc": "2.0", "id": message_id, "error": body}) + b"\n"


def request(message_id: str, method: str, params: object) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}) + b"\n"


def notification(method: str, params: object = None) -> bytes:
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return _encode(body if params is None else body | {"params": params}) + b"\n"


def tool_result(text: str, *, modern: bool, is_error: bool = False) -> dict[str, Any]:
    """The `result` of a tools/call that is answered here."""
    value: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if is_error:
        value["isError"] = True
    if modern:
        value["resultType"] = "complete"
    return value


def without_params(raw: bytes, names: tuple[str, ...]) -> bytes:
    """A request's line without some members of its params; every other value keeps its text."""
    body: dict[str, msgspec.Raw] = _decode(raw, type=dict[str, msgspec.Raw])
    params: dict[str, msgspec.Raw] = _decode(body["params"], type=dict[str, msgspec.Raw])
    for name in names:
        params.pop(name, None)
    body["params"] = msgspec.Raw(_encode(params))
    return _encode(body) + b"\n"


# --- lines over file descriptors

CHUNK = 1 << 16
ENDS = 16 * 1024
"""Bytes that are kept of the beginning of a line that is too long, and of its end."""


class LineReader:
    """Complete lines from a descriptor, as many as have arrived, each with its line feed."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._partial: list[bytes] = []
        self._size = 0
        self._ends: tuple[bytes, bytes] | None = None
        """Of a line that is too long, so far."""

    def read(self) -> list[bytes] | None:
        """Wait for lines; None at the end."""
        while not (lines := self.take()):
            if lines is None:
                return None
            _wait(self._descriptor, writing=False)
        return lines

    def take(self) -> list[bytes] | None:
        """The lines that one read of the descriptor completes; None at the end.

        A last line without line feed is returned with one. Blocks while there is nothing to read, unless the descriptor does not.
        """
        try:
            chunk = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return []
        except OSError:  # the peer is gone in a way that read() reports as an error (EIO of a terminal)
            chunk = b""
        if not chunk:
            return self._end()
        end = chunk.rfind(b"\n") + 1
        if end == len(chunk) and not self._size:
            return [chunk] if chunk.count(b"\n") == 1 else _split(chunk)
        if not end:
            self._keep(chunk)
            return []
        lines = self._complete(chunk[:end])
        if end < len(chunk):
            self._keep(chunk[end:])
        return lines

    def _complete(self, data: bytes) -> list[bytes]:
        if not self._size:
            return _split(data)
        first, _, rest = data.partition(b"\n")
        self._keep(first + b"\n")
        lines = [self._taken()]
        return lines + _split(rest)

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._ends is not None:
            self._ends = self._ends[0], (self._ends[1] + data)[-ENDS:]
        elif self._size <= self._limit:
            self._partial.append(data)
        else:
            whole = b"".join([*self._partial, data])
            self._partial, self._ends = [], (whole[:ENDS], whole[ENDS:][-ENDS:])

    def _taken(self) -> bytes:
        line = b"".join(self._partial) if self._ends is None else Oversize(b"".join(self._ends))
        self._partial, self._size, self._ends = [], 0, None
        return line

    def _end(self) -> list[bytes] | None:
        if not self._size:
            return None
        line = self._taken()
        return [line if type(line) is Oversize else line + b"\n"]


def _split(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def write_all(descriptor: int, data: bytes, seconds: float | None = None) -> None:
    """Write every byte. Raises `OSError` when the reader has exited, or reads nothing for `seconds` from a non-blocking pipe."""
    view = None
    while True:
        try:
            written = os.write(descriptor, data if view is None else view)
        except BlockingIOError:
            if not _wait(descriptor, writing=True, seconds=seconds):
                raise TimeoutError("the reader stopped reading") from None
            continue
        if written == len(data if view is None else view):
            return
        view = memoryview(data)[written:] if view is None else view[written:]


def _wait(descriptor: int, *, writing: bool, seconds: float | None = None) -> bool:
    """Some clients hand over non-blocking pipes. Returns whether it came to anything in time."""
    ready = poll()
    ready.register(descriptor, POLLOUT if writing else POLLIN)
    return bool(ready.poll(None if seconds is None else seconds * 1000))
