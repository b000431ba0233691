"""The arguments of a call as a person reads them: each by its name, long ones as text, and a change of a file as a diff.

Owns: that reading of what an agent sent, which may be anything. Must never: open a file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Literal, NamedTuple

import msgspec

MAX_ARGUMENTS = 40
MAX_VALUE = 8_000
"""Characters of one value."""
MAX_DIFF_LINES = 400
MAX_COMPARED = 400
"""Lines that differ, of either text, that are compared with each other: a hostile text must not keep the page busy."""
_AROUND = 3
_LONG = 72
_BEFORE = ("old_string", "old_str", "oldText", "old_text", "old", "search")
_AFTER = ("new_string", "new_str", "newText", "new_text", "new", "replace", "replacement")
_LISTS = ("edits", "changes", "replacements")
_PATHS = ("path", "file_path", "filename", "notebook_path")
_CONTENTS = ("content", "contents", "file_text", "text")
_FIELDS = tuple(zip(_BEFORE, _AFTER, strict=False))


class Argument(NamedTuple):
    """One argument. `is_text`: shown as lines of its own."""

    name: str
    value: str
    is_text: bool


class DiffLine(NamedTuple):
    """A line of a diff: `added`, `removed`, `same`, or `gap`, where lines are left out."""

    kind: Literal["added", "removed", "same", "gap"]
    text: str


_GAP = DiffLine("gap", "…")


class ShownArguments(NamedTuple):
    """The arguments of a call. `is_cut`: the record has only the beginning of them."""

    rows: Sequence[Argument] = ()
    diff: Sequence[DiffLine] = ()
    raw: str = ""
    is_cut: bool = False


def read_arguments(text: str, read_file: Callable[[str], str | None]) -> ShownArguments:
    """What a person is shown of arguments, given as JSON, which may be cut.

    `read_file` gives the text of a file as it is now, "" for a file that is not there yet, None for what is not to be shown. A call
    that writes a whole file is shown as a change of it.
    """
    try:
        given = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return ShownArguments(raw=text[:MAX_VALUE], is_cut=True)
    if not isinstance(given, dict):
        return ShownArguments(raw=text[:MAX_VALUE])
    edits = list(_edits(given))
    hidden = {name for pair in _FIELDS for name in pair} | {*_LISTS} if edits else set[str]()
    if not edits and (written := _written(given)) and (now := read_file(written.path)) is not None:
        edits, hidden = [(now, written.content)], {written.name}
    rows = [_row(name, value) for name, value in list(given.items())[:MAX_ARGUMENTS] if name not in hidden]
    return ShownArguments(rows, diff_lines(edits))


def diff_lines(edits: Sequence[tuple[str, str]]) -> list[DiffLine]:
    """The lines of a diff of each pair of texts, before and after."""
    found: list[DiffLine] = []
    for before, after in edits:
        lines = _difference(before.splitlines(), after.splitlines())
        if found and lines:
            found.append(_GAP)
        found += lines
        if len(found) > MAX_DIFF_LINES:
            return [*found[:MAX_DIFF_LINES], DiffLine("gap", "… more lines are not shown")]
    return found


def _difference(before: list[str], after: list[str]) -> list[DiffLine]:
    """The lines that differ, with `_AROUND` equal ones around them."""
    start = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    tails = zip(reversed(before[start:]), reversed(after[start:]), strict=False)
    same = next((n for n, (a, b) in enumerate(tails) if a != b), min(len(before), len(after)) - start)
    first, last = max(0, start - _AROUND), max(0, same - _AROUND)
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    if max(len(old), len(new)) > MAX_COMPARED:
        return [*(DiffLine("removed", line) for line in old), *(DiffLine("added", line) for line in new)]
    return [_diff_line(line) for line in list(unified_diff(old, new, n=_AROUND, lineterm=""))[3:]]


def _diff_line(line: str) -> DiffLine:
    mark, text = line[:1], line[1:]
    if mark == "@":
        return _GAP  # its numbers would count from the piece that is replaced, not from the file
    return DiffLine("added" if mark == "+" else "removed" if mark == "-" else "same", text)


def _edits(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The pieces of text that a call replaces, in the forms that tools which edit files have."""
    parts = [given]
    for name in _LISTS:
        listed = given.get(name)
        if isinstance(listed, list):
            parts += [one for one in listed[:MAX_ARGUMENTS] if isinstance(one, dict)]
    for part in parts:
        for before, after in _FIELDS:
            old, new = part.get(before), part.get(after)
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


class _WrittenFile(NamedTuple):
    """A file that a call writes: the argument that has its content, and that content."""

    path: str
    name: str
    content: str


def _written(given: Mapping[str, object]) -> _WrittenFile | None:
    path = next((given[name] for name in _PATHS if isinstance(given.get(name), str)), None)
    name = next((name for name in _CONTENTS if isinstance(given.get(name), str)), None)
    return _WrittenFile(str(path), name, str(given[name])) if path and name else None


def _row(name: str, value: object) -> Argument:
    text = value if isinstance(value, str) else _json(value)
    if len(text) > MAX_VALUE:
        text = f"{text[:MAX_VALUE]}… ({len(text):,} characters)"
    return Argument(name, text, "\n" in text or len(text) > _LONG)


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
