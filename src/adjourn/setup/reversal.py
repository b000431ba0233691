"""Takes an own change back out of a text that was edited since: piece by piece, where what it wrote still stands.

JSON is compared by its values, so that it does not matter how a client writes the file again; every other text by its lines, and a piece
is taken back if it and the lines around it are as they were written. What comes of it must be readable by the client.

Owns: that comparison. Must never: change what somebody else wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from adjourn.errors import InvalidError
from adjourn.setup import jsonc, toml_text

MAX_LINES = 20_000
MAX_SHOWN = 60
_ABSENT = object()


class Reversal(NamedTuple):
    """The text without the change, None for no file; and the pieces that stay, since they were edited."""

    text: str | None
    left: list[str]


def reversal(path: str, now: str, wrote: str, before: str | None) -> Reversal | None:
    """The text of a file as it is `now` without the change from `before` to `wrote`; None if nothing of it can be taken back."""
    try:
        found = _json(now, wrote, before) if path.endswith(".json") else _lines(now, wrote, before)
        if found is not None and found.text is not None and path.endswith(".toml"):
            toml_text.read(found.text)
    except InvalidError:
        return None
    return None if found is None or found.text == now else found


# --- JSON


class _Piece(NamedTuple):
    """A place, with what was written there and what was there before (`_ABSENT`: nothing)."""

    path: tuple[jsonc.Step, ...]
    wrote: Any
    before: Any


def _json(now: str, wrote: str, before: str | None) -> Reversal:
    was = jsonc.read(before).value if before and before.strip() else _ABSENT
    left: list[str] = []
    text = now
    for piece in _pieces((), jsonc.read(wrote).value, {} if was is _ABSENT else was):
        text = _taken_back(text, piece, left)
    is_empty = jsonc.read(text).value == {}
    return Reversal(None if before is None and is_empty else text, left)


def _pieces(path: tuple[jsonc.Step, ...], wrote: Any, before: Any) -> Iterator[_Piece]:
    """What differs, as far down as both are objects."""
    if isinstance(wrote, dict) and isinstance(before, dict):
        for name in dict.fromkeys((*wrote, *before)):
            there, held = wrote.get(name, _ABSENT), before.get(name, _ABSENT)
            if there != held:
                yield from _pieces((*path, name), there, held)
    else:
        yield _Piece(path, wrote, before)


def _taken_back(text: str, piece: _Piece, left: list[str]) -> str:
    there = _at(jsonc.read(text).value, piece.path)
    if there is _ABSENT or there == piece.before:
        return text if piece.before is _ABSENT or there == piece.before else _set(text, piece, left)
    if there == piece.wrote:
        return _set(text, piece, left)
    if isinstance(there, dict) and isinstance(piece.wrote, dict):
        for name, value in piece.wrote.items():
            text = _taken_back(text, _Piece((*piece.path, name), value, _ABSENT), left)
        return _without_empty(text, piece.path)
    if isinstance(there, list) and isinstance(piece.wrote, list):
        return _without_elements(text, piece, left)
    left.append(_dotted(piece.path))
    return text


def _set(text: str, piece: _Piece, left: list[str]) -> str:
    try:
        if piece.before is _ABSENT:
            return jsonc.removed(text, piece.path)
        return jsonc.edited(text, piece.path, piece.before)
    except InvalidError:
        left.append(_dotted(piece.path))
        return text


def _without_elements(text: str, piece: _Piece, left: list[str]) -> str:
    """The text without the elements that were added to a list, wherever they stand by now; those before must still be there."""
    before = piece.before if isinstance(piece.before, list) else []
    added = [value for value in piece.wrote if value not in before]
    if any(value not in piece.wrote for value in before) or any(isinstance(value, str) for value in added):
        left.append(_dotted(piece.path))  # it was changed, or the order of its words counts
        return text
    for value in added:
        values = _at(jsonc.read(text).value, piece.path)
        if value in values:
            text = jsonc.removed(text, (*piece.path, values.index(value)))
        else:
            left.append(_dotted(piece.path))
    return _without_empty(text, piece.path) if piece.before is _ABSENT else text


def _without_empty(text: str, path: tuple[jsonc.Step, ...]) -> str:
    """The text without an object or list that was made for what is gone again."""
    return jsonc.removed(text, path) if path and not _at(jsonc.read(text).value, path) else text


def _at(value: Any, path: Sequence[jsonc.Step]) -> Any:
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def _dotted(path: Sequence[jsonc.Step]) -> str:
    return ".".join(map(str, path)) or "the whole file"


# --- lines


def _lines(now: str, wrote: str, before: str | None) -> Reversal | None:
    from difflib import SequenceMatcher  # noqa: PLC0415  # 10 ms, only for a file that was edited since

    current, ours, held = (text.splitlines(keepends=True) for text in (now, wrote, before or ""))
    if max(map(len, (current, ours, held))) > MAX_LINES:
        return None
    kept = [
        (one.a, one.a + one.size, one.b)
        for one in SequenceMatcher(None, ours, current, autojunk=False).get_matching_blocks()
    ]
    left: list[str] = []
    for kind, start, end, first, last in reversed(
        SequenceMatcher(None, ours, held, autojunk=False).get_opcodes()
    ):
        if kind == "equal":
            continue
        near = max(start - 1, 0), min(end + 1, len(ours))
        place = next((to - a for a, b, to in kept if a <= near[0] and near[1] <= b), None)
        if place is None:
            left.append(f"line {start + 1}: {''.join(ours[start : start + 1]).strip()[:MAX_SHOWN]}")
        else:
            current[start + place : end + place] = held[first:last]
    return Reversal(None if before is None and not current else "".join(current), left[::-1])
