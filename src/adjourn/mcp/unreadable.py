"""The ids in lines that cannot be read (too long, nested too deeply, no JSON): whoever waits for an answer gets an error.

An id of a server's answer may be wrong without harm: the server could have sent that error itself. The id of a client's request is
told only where there is one: an error with another one would end another call.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from adjourn.mcp import lenient
from adjourn.mcp.lenient import UNREADABLE, Oversize
from adjourn.text.strict_json import fold_key

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 4 * 1024
"""How much of the beginning and of the end of a line is examined."""

_tokens = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[{}]', re.DOTALL).finditer
_value = re.compile(rb'\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d{1,19}(?![\d.eE]))?', re.DOTALL).match
_last_id = re.compile(rb'[{,]\s*"id"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d{1,19})\s*\}\s*\Z').search


def ids_in(line: bytes) -> list[str | int]:
    """The ids of the answers in a line, as far as its beginning and end contain them."""
    answered: list[str | int] = []
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
                answered += ids
            depth = max(0, depth - 1)
        elif depth == 1 and (value := _value(head, token.end())) is not None:
            key = _text(text)
            asks = asks or (key == "method" and value[1] is not None)
            if key == "id" and type(found_id := _text(value[1] or b"")) in (int, str):
                ids.append(found_id)
    if depth and not asks:
        answered += ids
    if len(line) > HEAD_BYTES and (last := _last_id(line, len(line) - min(len(line), TAIL_BYTES))):
        answered.append(_text(last[1]))
    return list(dict.fromkeys(answered))


# --- requests

MAX_SCANNED = 1 << 20
"""Bytes of a broken line that are examined whole."""
_BLANKS = b" \t\r\n"
_brackets = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[{}\[\]]', re.DOTALL).finditer
_number_or_text = re.compile(rb'\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*(?=[\s,}]))?', re.DOTALL).match
_flat_end = re.compile(
    rb'((?:,\s*"(?:[^"\\]|\\.)*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[\w.+-]+)\s*)+)\}\s*\Z', re.DOTALL
).search
_flat = re.compile(rb'("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*"|[\w.+-]+)', re.DOTALL).findall


def unread_id(line: bytes) -> str | int | float | None:
    """The id of the request that a refused line is; None where it has none, several, or is no request."""
    is_long = type(line) is Oversize or len(line) > MAX_SCANNED
    members: list[tuple[str, Any]] = []
    try:
        if type(line) is not Oversize:
            members += ((name, _text(bytes(raw))) for name, raw in lenient.members_of(line))
            return _only_id(members)
    except UNREADABLE:
        before = [value for name, value in members if name == "id"]
    else:
        before = []
    members, is_whole = _scanned(line[:HEAD_BYTES] if is_long else line)
    if is_long:
        if match := _flat_end(line, max(HEAD_BYTES, len(line) - TAIL_BYTES)):
            members += ((_text(key), _text(value)) for key, value in _flat(match[1]))
    elif not is_whole and not before:
        return None  # where one of its objects ends is not known
    return _only_id(members)


def _only_id(members: list[tuple[Any, Any]]) -> str | int | float | None:
    names = [fold_key(name) if isinstance(name, str) else "" for name, _ in members]
    ids = [
        value if name == "id" else None for (name, value), folded in zip(members, names, strict=True) if folded == "id"
    ]
    is_request = not {"method", "params"}.isdisjoint(names) and {"result", "error"}.isdisjoint(names)
    if not is_request or len(ids) != 1:
        return None
    return ids[0] if type(ids[0]) in (int, str, float) else None


def _scanned(line: bytes) -> tuple[list[tuple[Any, Any]], bool]:
    """The members of the object in a line, by its brackets and quotes alone, and whether these match."""
    pairs: list[tuple[Any, Any]] = []
    depth, end = 0, 0
    for token in _brackets(line):
        text = token[0]
        if depth == 0 and end:
            return [*pairs, ("id", None), ("id", None)], False  # another message starts
        if depth == 0 and text != b"{":
            return [], False
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
            end = token.end()
        elif depth == 1 and (value := _number_or_text(line, token.end())) is not None:
            pairs.append((_text(text), _text(value[1] or b"")))
    return pairs, depth == 0 and not line[end:].strip(_BLANKS)


def _text(token: bytes) -> Any:
    try:
        return msgspec.json.decode(token)
    except UNREADABLE:
        return None
