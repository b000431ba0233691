"""What a server sends: its members are read strictly, and it is delivered as it was read.

A line passes byte for byte when it can be read in one way only. Where a member stands twice, or a character stands in it at which
some peers end a line, its text is encoded again from what was read. No rule looks into a result, an error or params: there
invalid UTF-8, half a surrogate pair, NaN and any depth pass (`lenient`). The answer is there, and so its call is settled.

Must never: let what it reads of a result change what is delivered.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from adjourn.mcp import lenient
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
_value_of = msgspec.json.decode
_encode = msgspec.json.encode

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
    if type(line) is lenient.Oversize:
        raise FrameError(PARSE_ERROR, "longer than the limit")
    try:
        if not line.isascii():
            line.decode()
            line = one_line(line)
        reply = _decode(line)
        if b"\r" in line and b"\r" in line.rstrip():  # blank space, since no text holds one; some peers end lines there
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
        members = _members(line)
        is_once = b"\\u00" not in line and all(line.count(b'"%b"' % key.encode()) == 1 for key in members)
        return _read_members(line, members, is_once=is_once)
    except lenient.UNREADABLE as error:
        return _read_leniently(line, error)


def _is_plain(line: bytes, reply: Reply, value: msgspec.Raw) -> bool:
    """Whether the line is an answer of three members. That each stands once is plain from their lengths."""
    if type(reply.id) is not int and type(reply.id) is not str:
        return False
    before = _before(line)
    after = _after(line, before.end() + len(value)) if before is not None else None
    return before is not None and after is not None and (before[1] is None) != (after[1] is None)


def _read_leniently(line: bytes, error: Exception) -> tuple[bytes, Reply]:
    """The same of a line that is not strict JSON."""
    try:
        line = one_line(lenient.without_controls(line))
        parts = list(lenient.members_of(line))
        if any("\ufffd" in key for key, _ in parts):
            raise FrameError(PARSE_ERROR, "a member's name cannot be read")
        return _read_members(line, dict(parts), is_once=len(dict(parts)) == len(parts))
    except lenient.UNREADABLE:
        why = "nested too deeply" if isinstance(error, RecursionError) else f"not strict JSON: {error}"
        raise FrameError(PARSE_ERROR, why) from None


def _read_members(line: bytes, members: dict[str, msgspec.Raw], *, is_once: bool) -> tuple[bytes, Reply]:
    check_keys(members)
    for name in ("method", "error", "result"):  # some servers name what there is not
        if bytes(members.get(name, b"")) == b"null" and len(_KINDS.intersection(members)) > 1:
            del members[name]
            is_once = False
    if not is_once:
        line = _encode(members) + b"\n"
    reply = Reply(result=members.get("result", UNSET), error=members.get("error", UNSET))
    reply.id = _value_of(members["id"]) if "id" in members else UNSET
    reply.method = _value_of(members["method"]) if "method" in members else UNSET
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
        lines = [element + b"\n" for element in map(bytes, lenient.list_of(line)) if element[:1] != b"["]
    except msgspec.DecodeError:
        return []
    return lines if len(lines) <= MAX_BATCH else []


# --- what an answer says about its call. For this alone a result is looked into, and never changed

MAX_BLOCKS = 10
"""Blocks of a failed call's answer in which a text is looked for."""


class ResultHead(msgspec.Struct):
    """What is read of a result."""

    isError: Any = False  # noqa: N815  # the wire's name
    resultType: Any = "complete"  # noqa: N815
    requestState: Any = ""  # noqa: N815
    inputRequests: Any = None  # noqa: N815


class _TextBlock(msgspec.Struct):
    text: Any = ""


class _Failure(msgspec.Struct):
    """What a failed call is answered with: the content of a result, or the message of an error."""

    content: list[_TextBlock] = []
    message: Any = ""


def result_head(raw: bytes) -> ResultHead:
    """What a result says of itself. What cannot be read even leniently is no request for input, and no state."""
    head = ResultHead()
    try:
        return _value_of(raw, type=ResultHead)
    except msgspec.ValidationError:
        return head
    except lenient.UNREADABLE:
        try:
            members = lenient.object_of(raw)
        except msgspec.DecodeError:
            return head
    for name in members.keys() & set(ResultHead.__struct_fields__):
        try:
            setattr(head, name, lenient.value_of(members[name]))
        except msgspec.DecodeError:
            setattr(head, name, "unreadable")
    return head


def is_error(error: msgspec.Raw | msgspec.UnsetType, code: int) -> bool:
    """Whether a server's error has this code."""
    try:
        body = lenient.value_of(error) if isinstance(error, msgspec.Raw) else None
    except msgspec.DecodeError:
        return False
    return isinstance(body, dict) and body.get("code") == code


def failure_texts(raw: bytes) -> list[str]:
    """The texts that a failed call was answered with: an error's message, the first blocks of a result."""
    try:
        failure = _value_of(raw, type=_Failure)
    except msgspec.ValidationError:
        return []
    except lenient.UNREADABLE:
        try:
            failure = msgspec.convert(lenient.value_of(raw), _Failure)
        except msgspec.DecodeError:
            return []
    texts = [failure.message, *(block.text for block in failure.content[:MAX_BLOCKS])]
    return [text for text in texts if isinstance(text, str)]
