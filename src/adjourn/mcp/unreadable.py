"""Whose message a line was that cannot be read: too long, nested too deeply, or no strict JSON.

So that whoever waits for it is told. The ids found may be wrong; an error is all that is sent to them, which the peer could have
sent itself.

Owns: finding ids in linear time. Must never: read anything else of such a line.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from adjourn.mcp.frames import is_id

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 4 * 1024
"""How much of the beginning and of the end of a line is looked at."""

_tokens = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[{}]', re.DOTALL).finditer
_value = re.compile(rb'\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d{1,19}(?![\d.eE]))?', re.DOTALL).match
_last_id = re.compile(rb'[{,]\s*"id"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d{1,19})\s*\}\s*\Z').search


def ids_in(line: bytes) -> list[str | int]:
    """The ids of the answers in a line, as far as its two ends tell."""
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
