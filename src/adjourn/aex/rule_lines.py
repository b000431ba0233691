"""The lines that say what is permitted: `use`, `allow`, `deny`, `confirm before`, and those that version 1 adds."""

from __future__ import annotations

from collections.abc import Callable

from adjourn.aex.ast import (
    Budget,
    CheckpointRule,
    ConfirmStep,
    Document,
    LimitRule,
    Mode,
    OnceRule,
    Permission,
    Require,
    Where,
)
from adjourn.aex.clauses import (
    MAX_CALLS,
    SESSION,
    UNITS,
    Clause,
    Report,
    argument_ok,
    cut,
    read_count,
    read_duration,
    read_percent,
    read_where,
    take,
)
from adjourn.aex.diagnostics import quoted
from adjourn.aex.expr import BLANK, DIGITS, NAME, Word, comma_list, number, only
from adjourn.aex.suggestions import budget_help
from adjourn.text.fitting import fit_text
from adjourn.text.near_words import did_you_mean, nearest

_ANSWERS = {
    "refuse": "deny",
    "reject": "deny",
    "block": "deny",
    "permit": "allow",
    "accept": "allow",
    "enforced": "enforce",
}
_UNITS = {
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
}
PERSON = NAME + ".@"
NAME_OF_SOMEBODY = PERSON + "+/:|"
GROUP = "group:"
Reader = Callable[[Document, Word, Report], None]


def read_permission(document: Document, keyword: str, word: Word, report: Report) -> None:
    """Add a `use`, `allow` or `deny` line. Where its condition cannot be read an allow is left out, and a deny denies more."""
    head, clauses = cut(word, len(keyword) + 1, ("where",))
    where = _where(document, take(clauses, report), report)
    if where or not clauses or keyword == "deny":
        document.permissions.append(Permission(keyword, word, comma_list(head, 0), where))


def read_confirm(document: Document, word: Word, report: Report) -> ConfirmStep:
    """A `confirm before`. A clause that cannot be read is left out, and so asks of more."""
    before, found = cut(word, len("confirm before "), ("where", "by", "within", "else"))
    clauses = take(found, report)
    by, within, otherwise = (clauses.get(keyword) for keyword in ("by", "within", "else"))
    for clause in (by, within, otherwise):
        if clause:
            needs_v1(document, clause.keyword, clause.word, report)
    return ConfirmStep(
        word,
        before,
        comma_list(before, 0) if document.is_v1 else [before],
        _where(document, clauses, report),
        read_name(by, report, prefix=GROUP) if by else None,
        read_duration(within, report) if within else None,
        read_name(otherwise, report, ("deny", "allow")) if otherwise else None,
    )


def _where(document: Document, clauses: dict[str, Clause], report: Report) -> Where | None:
    clause = clauses.get("where")
    if clause is None:
        return None
    needs_v1(document, "where", clause.word, report)
    return read_where(clause, report)


def needs_v1(document: Document, keyword: str, word: Word, report: Report) -> None:
    """Report a form of version 1 in a document of version 0."""
    if not document.is_v1 and not document.has_bad_header and document.headers:
        report("AEX139", f"`{keyword}` needs v1 in the header", word, "")


def read_budget(document: Document, word: Word, report: Report) -> None:
    """Read `budget KEY=NUMBER, …`; each part may have `per UNIT`, which makes it the budget of all tasks together, and
    `each principal`, which makes that the budget of each principal; or `per session`.
    """
    for part in comma_list(word, len("budget ")):
        amount, found = cut(part, 0, ("per", "each"))
        clauses = take(found, report)
        equals = amount.text.find("=")
        key, text = amount.strip(0, max(equals, 0)), amount.strip(equals + 1)
        value = number(text.text) if equals >= 0 else None
        if value is None:
            message = f"not `key=number`: {quoted(part.text)}"
            report("AEX100", message, part, budget_help(part.text))
            continue
        per, each = clauses.get("per"), clauses.get("each")
        if each and not _each(each, per, report):
            continue
        if per is None:
            document.budget.append(Budget(part, key, value, text))
            continue
        needs_v1(document, "per", per.word, report)
        if per.rest.text == SESSION and each is None:
            document.budget.append(Budget(part, key, value, text, per.rest))
        elif seconds := _unit(per, report):
            document.budget.append(Budget(part, key, value, text, per.rest, seconds, bool(each)))


def _each(each: Clause, per: Clause | None, report: Report) -> bool:
    """Whether `each principal` follows `per UNIT`; a report, if it does not."""
    if each.rest.text != "principal":
        message = f"a budget is counted for each principal, not for {quoted(each.rest.text or 'each')}"
        report("AEX144", message, each.word, "write `each principal`")
    elif per is None or per.word.column > each.word.column:
        message = "`each principal` follows a unit of time"
        report("AEX144", message, each.word, "write it as in: budget calls=100 per day each principal")
    else:
        return True
    return False


def _unit(per: Clause, report: Report) -> int:
    """The seconds of a unit of time; 0, and a report, for anything else."""
    seconds = UNITS.get(per.rest.text, 0)
    if not seconds:
        message = f"{quoted(per.rest.text)} is not a unit of time"
        remedy = did_you_mean(per.rest.text, UNITS, _UNITS) or f"use one of: {', '.join(UNITS)}"
        report("AEX143", message, per.rest if per.rest.text else per.word, remedy)
    return seconds


def read_name(clause: Clause, report: Report, allowed: tuple[str, ...] = (), *, prefix: str = "") -> Word | None:
    """The one word of a clause: a name, which may have a `prefix`, or one of `allowed`."""
    name = clause.rest.text
    is_prefixed = bool(prefix) and name.startswith(prefix)
    chars = NAME_OF_SOMEBODY if is_prefixed else PERSON
    if name in allowed or (not allowed and only(name.removeprefix(prefix), chars)):
        return clause.rest
    expected = " or ".join(f"`{clause.keyword} {each}`" for each in allowed) or f"`{clause.keyword} NAME`"
    message = f"`{clause.keyword}` takes {' or '.join(allowed) or 'one name'}, not {quoted(name)}"
    near = nearest(name, allowed, {word: _ANSWERS[word] for word in _ANSWERS if _ANSWERS[word] in allowed})
    report("AEX144", message, clause.word, f"did you mean `{clause.keyword} {near}`?" if near else f"write {expected}")
    return None


def _limit(document: Document, word: Word, report: Report) -> None:
    head, clauses = cut(word, len("limit "), ("per",))
    patterns, count = _last(head)
    per = take(clauses, report).get("per")
    if per is None or not count.text:
        report(
            "AEX144",
            "a limit is a number of calls per unit of time",
            word,
            _limit_meant(patterns.text, count.text) or "write `limit TOOL 10 per minute`",
        )
        return
    calls, seconds = read_count(count), _unit(per, report)
    if not calls:
        remedy = "write `deny TOOL`" if count.text.strip("0") == "" else "write `limit TOOL 10 per minute`"
        message = f"{quoted(count.text)} is not a number of calls from 1 to {MAX_CALLS:,}"
        report("AEX143", message, count, remedy)
    if calls and seconds and _named(patterns, word, report):
        document.limits.append(LimitRule(word, comma_list(patterns, 0), count, per.rest, calls, seconds))


def _limit_meant(tools: str, amount: str) -> str:
    """The remedy for `10/minute`."""
    calls, slash, unit = amount.partition("/")
    unit = nearest(unit, UNITS, _UNITS)
    return (
        f"did you mean `{fit_text(f'limit {tools} {calls} per {unit}', 80)}`?"
        if slash and unit and only(calls, DIGITS)
        else ""
    )


def _last(head: Word) -> tuple[Word, Word]:
    """A piece of source without its last word, and that word."""
    border = len(head.text)
    while border and head.text[border - 1] not in BLANK:
        border -= 1
    return head.strip(0, border), head.part(border, len(head.text))


def _once(document: Document, word: Word, report: Report) -> None:
    head, clauses = cut(word, len("once "), ("by",))
    by = take(clauses, report).get("by")
    if by is None or not argument_ok(by.rest.text):
        message = "`once` does not say which argument names the effect"
        report("AEX144", message, by.word if by else word, "write `once TOOL by ARGUMENT`")
    elif _named(head, word, report):
        document.once.append(OnceRule(word, comma_list(head, 0), by.rest))


def _named(patterns: Word, word: Word, report: Report) -> bool:
    named = bool(patterns.text.strip(BLANK + ","))
    if not named:
        report("AEX144", "the line names no tool", word, "name a tool after the keyword")
    return named


def _checkpoint(document: Document, word: Word, report: Report) -> None:
    head, found = cut(word, len("checkpoint "), ("before", "at"), listed=False)
    clauses = take(found, report)
    before, at = clauses.get("before"), clauses.get("at")
    patterns = comma_list(before.rest, 0) if before else []
    shares = comma_list(at.rest, 0) if at else []
    if head.text or not (patterns or shares) or (before and not patterns) or (at and not shares):
        report(
            "AEX144",
            "`checkpoint` does not say when to save one",
            word,
            f"did you mean `checkpoint at {head.text}`?"
            if head.text[:3].rstrip("%").isdecimal() and len(head.text) < 5
            else "write `checkpoint before TOOL`, `checkpoint at 75%` or both",
        )
        return
    percents = [percent for share in shares if (percent := read_percent(share, report))]
    document.checkpoints.append(CheckpointRule(word, patterns, percents))


def _mode(document: Document, word: Word, report: Report) -> None:
    clause = Clause("mode", word, word.strip(len("mode ")))
    value = read_name(clause, report, ("observe", "enforce"))
    if value and _policy_only(document, "mode", word, report):
        document.modes.append(Mode(word, value))


def _require(document: Document, word: Word, report: Report) -> None:
    head, clauses = cut(word, len("require "), ("by",))
    by = take(clauses, report).get("by")
    names = comma_list(by.rest, 0) if by else []
    if head.text != "signed" or not names or not all(only(name.text, PERSON) for name in names):
        report("AEX144", f"{quoted(word.text)} does not say who signs", word, "write `require signed by NAME`")
    elif _policy_only(document, "require", word, report):
        document.requires.append(Require(word, names))


def _policy_only(document: Document, keyword: str, word: Word, report: Report) -> bool:
    if not document.is_policy:
        report("AEX145", f"a task cannot contain `{keyword}`", word, "")
    return document.is_policy


def _v1(keyword: str, reader: Reader) -> Reader:
    def read(document: Document, word: Word, report: Report) -> None:
        needs_v1(document, keyword, word, report)
        reader(document, word, report)

    return read


V1_READERS: dict[str, Reader] = {
    keyword: _v1(keyword, reader)
    for keyword, reader in (
        ("limit", _limit),
        ("once", _once),
        ("checkpoint", _checkpoint),
        ("mode", _mode),
        ("require", _require),
    )
}
