"""How things are said: safely, in 80 columns, as the same text to everybody."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

from adjourn.cli.terminal import Spans, cells, fancy, paint, width
from adjourn.text.fitting import fit_text
from adjourn.text.redact import visible_json, visible_line, visible_lines, without_secrets

if TYPE_CHECKING:
    from adjourn.findings import Finding


_SEVERITIES: Final = {"error": "red", "warning": "yellow"}


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


def print_spans(line: Spans) -> None:
    """Print one line; a terminal gets the styles, too."""
    if not fancy():
        print("".join(visible_lines(text) for text, _ in line).rstrip())
        return
    from adjourn.cli.drawing import draw_line  # rich takes 50 ms, only for a terminal

    draw_line(line)


def cut(text: str, room: int) -> str:
    """The text in at most `room` columns; an ellipsis marks the cut."""
    return fit_text(text, room, measure=cells)


_NARROW, _LAST = 12, 24


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their titles. The last one takes the rest of the line; numbers are right-aligned."""
    cleaned = [[safe(value) for value in row] for row in rows]
    sizes = _sizes(head, cleaned)
    right = _numbers(head, cleaned)
    lines = []
    for row in [list(head), *cleaned]:
        line = []
        for value, size, to_right in zip(row, sizes, right, strict=True):
            text = cut(value, size)
            blanks = " " * (size - cells(text))
            line.append(blanks + text if to_right else text + blanks)
        lines.append("  ".join(line).rstrip())
    return "\n".join(lines)


def _sizes(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The widths of the columns. Those between the first and the last get narrower where the last would have no room."""
    sizes = [max(map(cells, column)) for column in zip(head, *rows, strict=True)]
    room = width() - 2 * (len(head) - 1)
    excess = sum(sizes[:-1]) + min(sizes[-1], _LAST) - room
    for place in sorted(range(1, len(sizes) - 1), key=lambda place: -sizes[place]):
        given = max(min(excess, sizes[place] - max(_NARROW, cells(head[place]))), 0)
        sizes[place] -= given
        excess -= given
    sizes[-1] = min(sizes[-1], max(room - sum(sizes[:-1]), _NARROW))
    return sizes


def _numbers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns hold numbers only: they are aligned to the right."""
    columns = list(zip(*rows, strict=True)) or [()] * len(head)
    return [bool(column) and all(value.isdigit() or not value for value in column) for column in columns]


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """`name  value` lines; long values wrap. Empty values are left out."""
    filled = [(name, safe(value)) for name, value in rows if value]
    size = max((len(name) for name, _ in filled), default=0)
    room = width() - size - 2
    lines = []
    for name, value in filled:
        for number, part in enumerate(_wrapped(value, room)):
            lines.append(f"{name if not number else '':<{size}}  {part}")
    return "\n".join(lines)


def wrapped(text: str, stream: TextIO) -> str:
    """The text for a stream: on a terminal, its lines wrap at words, and what follows is indented below their beginning."""
    if not fancy(stream):
        return text
    lines = []
    for line in text.split("\n"):
        if cells(line) <= width():
            lines.append(line)
            continue
        start = line[: len(line) - len(line.lstrip(" "))]
        first, *following = _wrapped(line[len(start) :], width() - len(start) - 2)
        lines += [start + first, *(f"{start}  {part}" for part in following)]
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


def say_prose(text: str, colour: str = "") -> None:
    """As `say`; on a terminal, lines wrap at words, below their own beginning."""
    say(wrapped(text, sys.stdout), colour)


def say_finding(text: str, *, err: bool = False) -> None:
    """A finding: a line that starts with its severity and code, what it quotes, and a line `help: `."""
    stream = sys.stderr if err else sys.stdout
    head, *lines = visible_lines(text).split("\n")
    mark = " ".join(head.split(" ")[:2])
    colour = _SEVERITIES.get(mark.partition(" ")[0], "")
    print(paint(mark, colour, stream) + wrapped(head, stream).removeprefix(mark), file=stream)
    for line in lines:
        print(wrapped(line, stream) if line.lstrip().startswith("help: ") else line, file=stream)


def say_facts(*rows: tuple[str, str]) -> None:
    """Names with their values, one below the other."""
    text = facts(rows)
    if not fancy():
        say(text)
        return
    size = max((cells(name) for name, value in rows if value), default=0)
    for line in text.split("\n") if text else ():
        print_spans([(line[:size], "dim"), (line[size:], "")])


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under their titles; on a terminal long cells wrap."""
    if not fancy():
        say(table(head, rows))
        return
    cleaned = [[safe(value) for value in row] for row in rows]
    from adjourn.cli.drawing import print_table  # as above

    print_table(head, cleaned, right=_numbers(head, cleaned))


def say_stored(line: bytes) -> None:
    """A line of JSON as it is stored, with its line feed. A terminal gets the same JSON, with what it would obey escaped."""
    if sys.stdout.isatty():
        print(visible_json(line.decode(errors="replace")), end="")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(line)


def say_json(value: Any = None, /, **members: Any) -> None:
    """One JSON document: a value, or an object of the members. All beyond ASCII is escaped, so that it is safe on a terminal too."""
    import json  # 2 ms, only for a program that asks

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
    import difflib  # 10 ms, only for those who ask for a difference

    lines = difflib.unified_diff(before, after, before_name, after_name, lineterm="")
    return "\n".join(line.rstrip("\n") for line in lines)


def complain(message: str, remedy: str = "") -> None:
    """What went wrong, on stderr, and the next step."""
    sys.stdout.flush()
    head = wrapped(f"adjourn: {_clean(message)}", sys.stderr).removeprefix("adjourn:")
    print(f"{paint('adjourn:', 'red', sys.stderr)}{head}", file=sys.stderr)
    if remedy:
        print(wrapped(f"  {_clean(remedy)}", sys.stderr), file=sys.stderr)


def _clean(text: str) -> str:
    return visible_lines(without_secrets(text))
