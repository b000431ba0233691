"""The parts of a JSON text that strict readers refuse: found where its structure is JSON's all the same.

Servers cut texts in the middle of a character, and write NaN, raw control characters, bytes of another encoding, or thousands of
levels. Most clients read that. Each function here reads strictly first, and then splits such a text by its structure alone,
so that its parts keep their bytes. All of them raise `msgspec.DecodeError` for what is no JSON even so.

Must never: be used on what a rule decides about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

Raw = msgspec.Raw
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the decoder raises for a text that is not strict JSON."""
MAX_DEEP = 1 << 20
"""Bytes of a value nested beyond Python's limit, which is walked token by token."""


class Oversize(bytes):
    """The ends of a line that was longer than the limit; what is between them was dropped."""


# Patterns are compiled where a text is odd: few are.
_BLANKS = r"[ \t\n\r]*"
_KEY = r'[ \t\n\r]*("(?:[^"\\]|\\.)*")[ \t\n\r]*:[ \t\n\r]*'
_PIECE = (
    r'[ \t\n\r]*(?:("(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
    r"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity)|([\[\]{},:]))"
)
_ESCAPE = r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)"
_TEXT = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_CONTROL = rb"[\0-\x1f]"

_strict = msgspec.json.decode


def object_of(raw: bytes | Raw) -> dict[str, Raw]:
    """The members of an object; the last of those of one name."""
    try:
        return _strict(raw, type=dict[str, Raw])
    except msgspec.ValidationError:
        raise
    except UNREADABLE:
        return dict(members_of(bytes(raw)))


def list_of(raw: bytes | Raw) -> list[Raw]:
    """The elements of a list."""
    try:
        return _strict(raw, type=list[Raw])
    except msgspec.ValidationError:
        raise
    except UNREADABLE:
        return [part for _, part in _parts(bytes(raw), "[]")]


def value_of(raw: bytes | Raw) -> Any:
    """The value of a text. What is no character in it is U+FFFD."""
    try:
        return _strict(raw)
    except UNREADABLE:
        import json  # only the odd text needs it

        text = re.sub(_ESCAPE, _whole, bytes(raw).decode(errors="replace"), flags=re.DOTALL)
        try:
            return json.loads(text, strict=False, parse_int=_integer)
        except (ValueError, RecursionError) as error:
            raise msgspec.DecodeError(str(error)) from None


def members_of(text: bytes) -> Iterator[tuple[str, Raw]]:
    """Each member of an object, in order. Raises where the text stops being JSON, after the members before that."""
    return _parts(text, "{}")


def _parts(text: bytes, marks: str) -> Iterator[tuple[str, Raw]]:
    """The members of an object, or the elements of a list with "" as their names."""
    # As Latin-1, a character is a byte: places in the text are places in the line.
    chars = text.decode("latin-1")
    blanks, key = re.compile(_BLANKS).match, re.compile(_KEY, re.DOTALL).match
    at = blanks(chars).end()  # type: ignore[union-attr]  # matches anything
    _expect(chars, at, marks[0])
    at = blanks(chars, at + 1).end()  # type: ignore[union-attr]
    while chars[at : at + 1] != marks[1]:
        name = ""
        if marks == "{}":
            if (match := key(chars, at)) is None:
                raise msgspec.DecodeError(f"no member at byte {at}")
            name, at = value_of(text[match.start(1) : match.end(1)]), match.end()
        end = _end_of_value(chars, at)
        yield name, Raw(text[at:end])
        at = blanks(chars, end).end()  # type: ignore[union-attr]
        if chars[at : at + 1] == ",":
            at = blanks(chars, at + 1).end()  # type: ignore[union-attr]
            if chars[at : at + 1] == marks[1]:
                raise msgspec.DecodeError(f"a trailing comma before byte {at}")
        else:
            _expect(chars, at, marks[1])
    if len(chars) != blanks(chars, at + 1).end():  # type: ignore[union-attr]
        raise msgspec.DecodeError(f"trailing characters at byte {at + 1}")


def _expect(chars: str, at: int, mark: str) -> None:
    if chars[at : at + 1] != mark:
        raise msgspec.DecodeError(f"no {mark!r} at byte {at}")


def _end_of_value(chars: str, at: int) -> int:
    """Where the value ends that starts at a place."""
    import json  # as above

    scan = json.JSONDecoder(strict=False, parse_int=float).raw_decode
    try:
        return scan(chars, at)[1]
    except RecursionError:
        return _end_of_deep(chars, at)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None


def _end_of_deep(chars: str, at: int) -> int:
    """The same for a value of more levels than Python's reader takes."""
    opened: list[str] = []
    wanted, last = "value", at + MAX_DEEP
    piece = re.compile(_PIECE).match
    while at <= last and (match := piece(chars, at)) is not None:
        at = match.end()
        scalar, mark = match.groups()
        if wanted == ":" and mark == ":":
            wanted = "value"
        elif wanted in ("key", "first key") and scalar and scalar[0] == '"':
            wanted = ":"
        elif wanted in ("value", "first value") and scalar:
            wanted = ","
        elif wanted in ("value", "first value") and mark in ("[", "{"):
            opened.append(mark)
            wanted = "first value" if mark == "[" else "first key"
        elif wanted == "," and mark == ",":
            wanted = "value" if opened[-1] == "[" else "key"
        elif wanted in (",", "first value", "first key") and mark and opened.pop() + mark in ("[]", "{}"):
            wanted = ","
        else:
            break
        if not opened:
            return at
    raise msgspec.DecodeError("nested too deeply")


def without_controls(line: bytes) -> bytes:
    """A line without control characters in its texts: their escapes mean the same, and some peers end a line at one."""
    line = line.rstrip(b"\r\n")
    return (re.sub(_TEXT, _escaped, line, flags=re.DOTALL) if re.search(_CONTROL, line) else line).replace(
        b"\r", b" "
    ) + b"\n"


def _escaped(text: re.Match[bytes]) -> bytes:
    return re.sub(_CONTROL, lambda match: b"\\u%04x" % ord(match[0]), text[0])


def _whole(escape: re.Match[str]) -> str:
    """An escape, without half a surrogate pair."""
    return "\\ufffd" if len(escape[0]) == 6 else escape[0]


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 1000 else float(digits)
