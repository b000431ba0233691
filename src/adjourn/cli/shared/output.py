"""How things are shown: safely, in 80 columns, coloured only for a person who can see it.

Owns: cleaning of foreign text, tables, JSON, colour, progress. Must never: know a command.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TextIO
from unicodedata import combining, east_asian_width

from adjourn.text import fit_text, visible_line, visible_lines, without_secrets

if TYPE_CHECKING:
    from adjourn.findings import Finding

WIDTH = 80
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}
_PROGRESS_AFTER = 1.0
_PROGRESS_EVERY = 0.2


def safe(text: str) -> str:
    """Text of an agent or a server on one line: without secrets, and without anything that a terminal would obey."""
    return visible_line(without_secrets(text))


def safe_lines(text: str) -> str:
    """As `safe`, but line by line, with the indentation kept."""
    return visible_lines(without_secrets(text))


def described(description: str, signer: str, key: str) -> str:
    """What a checkpoint says of itself; whose word that is, where its signer (`signer` names a trusted one) is not trusted."""
    if not description or signer:
        return description
    return f"(by an untrusted signer{key and ', '}{key}) {description}"


def imported_line(imported: dict[str, Any] | None) -> str:
    """What of a history was imported and nobody could verify; "" for nothing."""
    if not imported:
        return ""
    entries = f"{imported['entries']} {'entry' if imported['entries'] == 1 else 'entries'}"
    return f"{entries} from {', '.join(imported['from'])}, not verified"


def width() -> int:
    """Columns to write in: those of $COLUMNS or of the terminal, else 80."""
    if not sys.stdout.isatty():
        return WIDTH
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return max(40, int(named))
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH)
    except (OSError, ValueError):  # a stream of another kind
        return WIDTH


def cells(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, room: int) -> str:
    """The text in at most `room` columns; an ellipsis marks the cut."""
    return fit_text(text, room, measure=cells)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their titles. The last one takes the rest of the line; numbers are right-aligned."""
    shown = [[safe(value) for value in row] for row in rows]
    sizes = [max(map(cells, column)) for column in zip(head, *shown, strict=True)]
    used = sum(sizes[:-1]) + 2 * (len(head) - 1)
    sizes[-1] = max(min(sizes[-1], width() - used), 0)
    right = [
        bool(shown) and all(value.isdigit() or not value for value in column)
        for column in zip(*shown, strict=True)
    ]
    right = right or [False] * len(head)
    return "\n".join(
        "  ".join(
            _cell(cut(value, size), size, to_right=side)
            for value, size, side in zip(row, sizes, right, strict=True)
        ).rstrip()
        for row in [list(head), *shown]
    )


def _cell(text: str, size: int, *, to_right: bool) -> str:
    blanks = " " * (size - cells(text))
    return blanks + text if to_right else text + blanks


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """`name  value` lines; long values wrap. Empty values are left out."""
    kept = [(name, safe(value)) for name, value in rows if value]
    size = max((len(name) for name, _ in kept), default=0)
    room = width() - size - 2
    lines = []
    for name, value in kept:
        for number, part in enumerate(_wrapped(value, room)):
            lines.append(f"{name if not number else '':<{size}}  {part}")
    return "\n".join(lines)


def _wrapped(text: str, room: int) -> list[str]:
    lines, line = [], ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) > room:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def shown_bytes(size: int) -> str:
    """`812 B`, `3.4 kB`, `12 MB`."""
    number = float(size)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def counted(number: int, thing: str) -> str:
    """`1 page`, `2 pages`."""
    return f"{number} {thing}{'s' * (number != 1)}"


def say(text: str, colour: str = "") -> None:
    """A line of the answer, or several. Nothing in it is obeyed by a terminal, wherever it comes from."""
    print(paint(visible_lines(text), colour, sys.stdout))


def say_facts(*rows: tuple[str, str]) -> None:
    """Names with their values, one below the other."""
    say(facts(rows))


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under their titles."""
    say(table(head, rows))


def say_json(value: Any = None, /, **members: Any) -> None:
    """One JSON document: a value, or an object of the members. All beyond ASCII is escaped, so that it is safe on a terminal too."""
    print(json.dumps(members if value is None else value, indent=2))


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as an object of `--json`."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "source": finding.source,
        "line": finding.span.line,
        "column": finding.span.column,
        "length": finding.span.length,
        "help": finding.help,
    }


def unified_diff(before: Sequence[str], after: Sequence[str], before_name: str, after_name: str) -> str:
    """The difference of two texts, given as lines, in the unified format; no line feed at the end."""
    import difflib  # noqa: PLC0415  # 10 ms, only for those who ask for a difference

    lines = difflib.unified_diff(before, after, before_name, after_name, lineterm="")
    return "\n".join(line.rstrip("\n") for line in lines)


def complain(message: str, remedy: str = "") -> None:
    """What went wrong, on stderr, and the next step."""
    sys.stdout.flush()
    print(f"{paint('adjourn:', 'red', sys.stderr)} {_clean(message)}", file=sys.stderr)
    if remedy:
        print(f"  {_clean(remedy)}", file=sys.stderr)


def _clean(text: str) -> str:
    return visible_lines(without_secrets(text))


def paint(text: str, colour: str, stream: TextIO) -> str:
    """Coloured on a terminal, unless NO_COLOR is set."""
    if not colour or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


class ProgressLine:
    """A line on stderr for what takes more than a second, on a terminal only. Call it with how much is done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _PROGRESS_AFTER
        self._shown = False
        self._on = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._on and time.monotonic() >= self._next:
            share = f" {100 * done // total}%" if total else ""
            sys.stderr.write(f"\r{self._what}: {done:,} of {total:,}{share} ")
            sys.stderr.flush()
            self._shown = True
            self._next = time.monotonic() + _PROGRESS_EVERY

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._shown:
            _clear()


class Spinner:
    """The same for what cannot be counted: a line that says what is done, and for how long already."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._over = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._tell, daemon=True) if sys.stderr.isatty() else None

    def _tell(self) -> None:
        began = time.monotonic()
        while not self._over.wait(_PROGRESS_AFTER):
            sys.stderr.write(f"\r{self._what}: {time.monotonic() - began:.0f} s ")
            sys.stderr.flush()
            self._shown = True

    def __enter__(self) -> Self:
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()
        if self._shown:
            _clear()


def _clear() -> None:
    sys.stderr.write("\r\x1b[K" if os.environ.get("TERM", "dumb") != "dumb" else "\n")
    sys.stderr.flush()
