"""The clauses of a rule (`keyword patterns [clauses]`) and the small amounts in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from adjourn.aex.ast import Duration, Percent, Where, WhereTest
from adjourn.aex.diagnostics import quoted
from adjourn.aex.expr import BIND, BLANK, LETTERS, Constant, ListOf, Text, Value, Word, only, parse_value, run, scan
from adjourn.text.near_words import nearest

Report = Callable[[str, str, Word, str], None]
"""Reports a finding: code, message, piece of source, and remedy (empty: that of the code)."""

ARGUMENT = BIND + "$@"
SIGNS = "<>=!~"
SESSION = "session"
"""What stands behind `per` for the budget of each session of a task."""
UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
LETTER_UNITS = {unit[0]: seconds for unit, seconds in UNITS.items()}
MAX_CALLS = 1_000_000
"""Of one limit."""
MAX_SECONDS = 365 * UNITS["day"]
"""Of one duration."""
OPERATORS = ("is", "in", "matches", "~", "<=", ">=", "<", ">")
_MEANT = {
    "=": "write `is`",
    "==": "write `is`",
    "equals": "write `is`",
    "=~": "write `~`",
    "=<": "write `<=`",
    "=>": "write `>=`",
    "like": "write `matches`",
    "contains": 'write `matches "*text*"`',
    "has": 'write `matches "*text*"`',
    "or": "write a second rule",
    "!=": "negation is not supported: list what is permitted, or add a `deny` rule",
    "not": "negation is not supported: list what is permitted, or add a `deny` rule",
}
_WRITE = 'write `where ARGUMENT OPERATOR VALUE`, as in `where cmd matches "git *"`'
_COUNT = re.compile("[1-9][0-9]{0,8}")
_DURATION = re.compile("([1-9][0-9]{0,8})([smhd])")
_PERCENT = re.compile("([1-9][0-9]?(?:[.][0-9]{1,3})?|100)%")
_STOP = re.compile(f"[{BLANK}]+|[\"'([{{]")
"""Matches the end of a word, or a mark that may protect the blanks after it."""


class Clause(msgspec.Struct, frozen=True):
    """`word` is the clause with its keyword, `rest` what follows the keyword."""

    keyword: str
    word: Word
    rest: Word


def cut(word: Word, start: int, keywords: Sequence[str], *, listed: bool = True) -> tuple[Word, list[Clause]]:
    """The text before the first clause, and the clauses. Quotes and brackets protect the words in them.

    The first word and what follows a comma are patterns, so that a tool may have a keyword's name; unless not `listed`:
    then the line starts with a clause, and a comma may end one.
    """
    text = word.text
    if not any(keyword in text for keyword in keywords):
        return word.strip(start), []
    opening = ("and", *keywords)
    heads = [piece for piece in _words(text, start, opening, listed=listed) if text[slice(*piece)] in keywords]
    if not heads:
        return word.strip(start), []
    borders = [at for at, _ in heads[1:]]
    clauses = [
        Clause(text[at:end], word.strip(at, border), word.strip(end, border))
        for (at, end), border in zip(heads, [*borders, len(text)], strict=True)
    ]
    return word.strip(start, heads[0][0]), clauses


def _words(text: str, start: int, opening: Sequence[str], *, listed: bool = False) -> Iterator[tuple[int, int]]:
    """The offsets of the words between blanks, without those that are content: the word behind one of `opening`, and,
    if `listed`, the first one and those behind a comma.
    """
    ends = scan(text).ends
    at, content = run(text, start, BLANK), listed
    while at < len(text):
        begin = at
        while (stop := _STOP.search(text, at)) and text[stop.start()] not in BLANK:
            at = ends.get(stop.start(), stop.start()) + 1
        at = stop.start() if stop else len(text)
        if not content:
            yield begin, at
        content = (not content and text[begin:at] in opening) or (listed and text[at - 1] == ",")
        at = stop.end() if stop else at


def take(clauses: list[Clause], report: Report) -> dict[str, Clause]:
    """The clauses by keyword. A repeated clause is reported, and the first one counts."""
    found: dict[str, Clause] = {}
    for clause in clauses:
        if clause.keyword in found:
            report("AEX144", f"there are two `{clause.keyword}` in one rule", clause.word, "keep one of them")
        else:
            found[clause.keyword] = clause
    return found


def read_where(clause: Clause, report: Report) -> Where | None:
    """The comparisons of a `where`; None, and a report, when one of them cannot be read."""
    word = clause.rest
    if not word.text:
        report("AEX140", "`where` without a condition", clause.word, _WRITE)
        return None
    borders = [at for at, end in _words(word.text, 0, ("and",), listed=True) if word.text[at:end] == "and"]
    starts = [0, *(at + len("and") for at in borders)]
    tests = [
        _comparison(word.strip(at, end), word, report)
        for at, end in zip(starts, [*borders, len(word.text)], strict=True)
    ]
    read = [test for test in tests if test is not None]
    return Where(clause.word, read) if len(read) == len(tests) else None


def _comparison(word: Word, whole: Word, report: Report) -> WhereTest | None:
    text = word.text
    end = run(text, 0, ARGUMENT)
    path = word.part(0, end)
    if not argument_ok(path.text):
        report(
            "AEX140", f"no argument is named where a condition starts: {quoted(text)}", word if text else whole, _WRITE
        )
        return None
    at = run(text, end, BLANK)
    signed = text[at : at + 1] in tuple(SIGNS)
    stop = run(text, at, SIGNS if signed else LETTERS)
    operator = word.part(at, stop)
    if operator.text not in OPERATORS:
        what = f"{quoted(operator.text)} is not an operator" if operator.text else "there is no operator"
        remedy = _MEANT.get(operator.text, f"use one of: {', '.join(OPERATORS)}")
        report("AEX140", what, operator if operator.text else word, remedy)
        return None
    literal = word.strip(stop)
    if literal.text and not signed and text[stop] not in BLANK:
        report("AEX140", f"no blank follows `{operator.text}`", operator, _WRITE)
        return None
    if not literal.text:
        report("AEX140", f"nothing follows `{operator.text}`", operator, _WRITE)
        return None
    values = _values(operator.text, literal, report)
    return WhereTest(path, operator, values) if values else None


def argument_ok(path: str) -> bool:
    """Whether this is the dotted path of an argument."""
    return only(path, ARGUMENT) and all(path.split("."))


def _values(operator: str, literal: Word, report: Report) -> list[Value]:
    """The values that an operator compares with. Empty, with a finding, if they are invalid."""
    value = parse_value(literal)
    if operator == "in":
        if not isinstance(value, ListOf) or not value.items:
            what = "is an empty list" if isinstance(value, ListOf) else "is not a list"
            report("AEX141", f"{quoted(literal.text)} {what}", literal, 'write a list: ["a", "b"]')
            return []
        values = value.items
    else:
        values = [value]
    for each in values:
        if wrong := _misfit(operator, each):
            report("AEX141", f"{quoted(each.word.text)} {wrong[0]}", each.word, wrong[1])
            return []
    return values


def _misfit(operator: str, value: Value) -> tuple[str, str] | None:
    """Why a value is invalid for its operator, and the remedy; None if it is valid."""
    text = isinstance(value, Text) and value.quoted
    if isinstance(value, Text) and value.quoted and value.word.text[0] in value.value:
        return "holds the quote that it starts with", "write one text, in the other kind of quotes"
    size = value.value if isinstance(value, Constant) and not isinstance(value.value, bool) else None
    finite = size is not None and size - size == 0
    if operator in ("matches", "~"):
        return None if text else ("is not a quoted text", f'write `{operator} "…"`')
    if operator in ("is", "in"):
        fits = text or finite or (isinstance(value, Constant) and size is None)
        return None if fits else ("is no text, number, true or false", "put a text in quotes")
    return None if finite else ("is not a number", f"write a number behind `{operator}`, or use `is`")


def read_duration(clause: Clause, report: Report) -> Duration | None:
    """`10m`: whole seconds, minutes, hours or days."""
    text = clause.rest.text
    match = _DURATION.fullmatch(text)
    if match is None:
        report(
            "AEX143",
            f"{quoted(text)} is not a time" if text else f"`{clause.keyword}` without a time",
            clause.rest if text else clause.word,
            _duration_meant(text) or "write whole seconds, minutes, hours or days: 30s, 10m, 2h, 1d",
        )
        return None
    seconds = int(match[1]) * LETTER_UNITS[match[2]]
    if seconds > MAX_SECONDS:
        report("AEX143", f"{quoted(text)} is longer than a year", clause.rest, "write at most 365d")
        return None
    return Duration(clause.rest, seconds)


def _duration_meant(text: str) -> str:
    """The remedy for `10 minutes`."""
    count, _, unit = text.partition(" ")
    near = nearest(unit.strip(BLANK).removesuffix("s"), UNITS, {"min": "minute", "sec": "second", "hr": "hour"})
    return f"did you mean {count}{near[0]}?" if near and _DURATION.fullmatch(count + near[0]) else ""


def read_percent(word: Word, report: Report) -> Percent | None:
    """`75%`: more than 0, at most 100."""
    match = _PERCENT.fullmatch(word.text)
    if match is None:
        report(
            "AEX143",
            f"{quoted(word.text)} is not a share of the budget",
            word,
            f"did you mean {word.text}%?" if _PERCENT.fullmatch(word.text + "%") else "write 1% to 100%: at 75%, 90%",
        )
        return None
    return Percent(word, float(match[1]))


def read_count(word: Word) -> int:
    """A whole number of calls, at most `MAX_CALLS`; 0 for anything else."""
    count = int(word.text) if _COUNT.fullmatch(word.text) else 0
    return count if count <= MAX_CALLS else 0
