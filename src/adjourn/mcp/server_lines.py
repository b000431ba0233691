"""What a server sends: read as strictly as the strictest client would, and delivered as it was read.

A line passes byte for byte when it can be read in one way only. Where a member stands twice, or a character stands in it at which
some peers end a line, its text is encoded again from what was read.

Of a line that cannot be read (too large, nested too deeply, no strict JSON) the ids are found in linear time, so that whoever waits
for it gets an error. A wrong id does no harm: the peer could have sent that error itself.

Owns: these rules. Must never: look into a result.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from adjourn.mcp.frames import (
    INVALID_REQUEST,
    MAX_BATCH,
    PARSE_ERROR,
    FrameError,
    check_keys,
    is_id,
    is_method,
    one_line,
)
from adjourn.mcp.stdio import Oversize

UNSET = msgspec.UNSET


class Reply(msgspec.Struct):
    """What is read of a server's message."""

    id: Any = UNSET
    method: Any = UNSET
    result: msgspec.Raw | msgspec.UnsetType = UNSET
    error: msgspec.Raw | msgspec.UnsetType = UNSET


_KINDS = frozenset(("method", "result", "error"))
"""One of these members says what a message is."""

_decode = msgspec.json.Decoder(Reply).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.encode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode

_VALUE = b"\0"
_SPELLINGS = (
    b'{"jsonrpc":"2.0","id":%b,"result":\0}\n',
    b'{"result":\0,"jsonrpc":"2.0","id":%b}\n',
    b'{"jsonrpc": "2.0", "id": %b, "result": \0}\n',
)
"""How most servers write an answer; `_VALUE` stands for its result."""
_ID = rb'"id"\s*:\s*(-?\d{1,19}|"[^"\\]*")\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_before = re.compile(rb'\s*\{\s*(?:%b,\s*)?(?:%b,\s*)?"(?:result|error)"\s*:\s*' % (_VERSION, _ID)).match
_after = re.compile(rb"\s*(?:,\s*%b)?(?:,\s*%b)?\}\s*" % (_VERSION, _ID)).fullmatch


def read(line: bytes) -> tuple[bytes, Reply]:
    """The line as it may be delivered, and what it says: one request or notification, or one answer. Raises `FrameError`."""
    if type(line) is Oversize:
        raise FrameError(PARSE_ERROR, "longer than the limit")
    try:
        if not line.isascii():
            line.decode()
            line = one_line(line)
        reply = _decode(line)
        if (
            b"\r" in line and b"\r" in line.rstrip()
        ):  # blank space, since no text holds one; some peers end lines there
            line = line.replace(b"\r", b" ")
            reply = _decode(line)
        value = reply.result if reply.error is UNSET else reply.error
        if type(value) is msgspec.Raw and reply.method is UNSET and reply.id is not UNSET:
            around, answer_id = len(line) - len(value), _encode(reply.id)
            for spelling in _SPELLINGS:
                begin, _, end = (spelling % answer_id).partition(_VALUE)
                # of this length, it has no second member of one name
                if len(begin) + len(end) == around and line.startswith(begin) and line.endswith(end):
                    return line, reply
            if _is_plain(line, reply, value):
                return line, reply
        return _read_members(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FrameError(PARSE_ERROR, f"not strict JSON: {error}") from None
    except RecursionError:
        raise FrameError(PARSE_ERROR, "nested too deeply") from None


def _is_plain(line: bytes, reply: Reply, value: msgspec.Raw) -> bool:
    """Whether the line is an answer of three members. That each stands once is plain from their lengths."""
    if type(reply.id) is not int and type(reply.id) is not str:
        return False
    before = _before(line)
    after = _after(line, before.end() + len(value)) if before is not None else None
    return before is not None and after is not None and (before[1] is None) != (after[1] is None)


def _read_members(line: bytes) -> tuple[bytes, Reply]:
    members = _members(line)
    check_keys(members, None)
    once = b"\\u00" not in line and all(line.count(b'"%b"' % key.encode()) == 1 for key in members)
    for name in ("method", "error", "result"):  # some servers name what there is not
        if bytes(members.get(name, b"")) == b"null" and len(_KINDS.intersection(members)) > 1:
            del members[name]
            once = False
    if not once:
        line = _encode(members) + b"\n"
    reply = _decode(line)
    answers = (reply.result is not UNSET) + (reply.error is not UNSET)
    if answers + (reply.method is not UNSET) != 1:
        raise FrameError(INVALID_REQUEST, "not one of a request, a result and an error")
    if not answers and (not is_method(reply.method) or not (reply.id is UNSET or is_id(reply.id))):
        raise FrameError(INVALID_REQUEST, "method must be a plain text, an id a text or an integer")
    return line, reply


def elements(line: bytes) -> list[bytes]:
    """The messages of a batch, each as a line; nothing for a line that is none."""
    if line.lstrip()[:1] != b"[":
        return []
    try:
        found = [one + b"\n" for one in map(bytes, _elements(line)) if one[:1] != b"["]
    except (msgspec.DecodeError, RecursionError):
        return []
    return found if len(found) <= MAX_BATCH else []


# --- lines that cannot be read

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 4 * 1024
"""How much of the beginning and of the end of a line is examined."""

_tokens = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[{}]', re.DOTALL).finditer
_value = re.compile(rb'\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d{1,19}(?![\d.eE]))?', re.DOTALL).match
_last_id = re.compile(rb'[{,]\s*"id"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d{1,19})\s*\}\s*\Z').search


def ids_in(line: bytes) -> list[str | int]:
    """The ids of the answers in a line, as far as its beginning and end contain them."""
    found: list[str | int] = []
    ids: list[str | int] = []
    depth, asks = 0, False
    head = line[:HEAD_BYTES]
    for token in _tokens(head):
        text = token[0]
        if text == b"{":
            depth += 1
            if depth == 1:
                ids, asks = [], False
        elif text == b"}":
            if depth == 1 and not asks:
                found += ids
            depth = max(0, depth - 1)
        elif depth == 1 and (value := _value(head, token.end())) is not None:
            key = _text(text)
            asks = asks or (key == "method" and value[1] is not None)
            if key == "id" and is_id(told := _text(value[1] or b"")):
                ids.append(told)
    if depth and not asks:
        found += ids
    if len(line) > HEAD_BYTES and (last := _last_id(line, len(line) - min(len(line), TAIL_BYTES))):
        found.append(_text(last[1]))
    return list(dict.fromkeys(found))


def _text(token: bytes) -> Any:
    try:
        return msgspec.json.decode(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
