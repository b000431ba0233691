"""Writes each statement in its one canonical spelling.

Owns: blanks, order and quotes within a statement. Must never: know what stands around it, change what a value means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from adjourn.aex.ast import (
    Budget,
    CheckpointRule,
    CheckStep,
    ConfirmStep,
    DoStep,
    ForStep,
    Header,
    IfStep,
    LimitRule,
    MakeStep,
    Mode,
    Need,
    OnceRule,
    Permission,
    Require,
    ReturnStep,
    RuleBlock,
    Where,
)
from adjourn.aex.expr import MAX_DEPTH, ObjectEntry, Text, arguments, parse_value, scan
from adjourn.aex.meaning import by_name, meaning
from adjourn.aex.rule import EACH
from adjourn.aex.text import BLANK, Word

INDENT = "  "


def spelled(parts: Sequence[Any], indent: str, *, policy: bool) -> list[str]:
    """The lines of a statement without its body. `parts` are several only in a `budget` and in lists to be joined."""
    part = parts[0]
    match part:
        case MakeStep():
            items = [f"{indent}{INDENT}- {word.text}".rstrip(" ") for word in part.instructions]
            return [indent + _make(part), *items]
        case ReturnStep():
            return _return(part, indent)
        case Permission():
            return [indent + _permission(parts, part, policy=policy)]
        case Budget():
            return [f"{indent}budget {', '.join(map(_amount, parts))}"]
        case _:
            return [indent + _LINES[type(part)](part)]


def _amount(budget: Budget) -> str:
    unit = f" per {budget.unit.text}" if budget.unit else ""
    each = EACH if budget.each else ""
    return f"{budget.key.text}={budget.text.text}{unit}{each}"


def _permission(parts: Sequence[Permission], first: Permission, *, policy: bool) -> str:
    patterns = [word for part in parts for word in part.patterns]
    keyword = "deny" if first.keyword == "deny" else "allow" if policy else "use"
    return f"{keyword} {_list(patterns)}{_where(first.where)}" if patterns else first.word.text


def _list(words: Iterable[Word]) -> str:
    return ", ".join(word.text for word in words)


def _where(where: Where | None) -> str:
    if where is None:
        return ""
    tests = []
    for test in where.tests:
        values = ", ".join(value.word.text for value in test.values)
        right = f"[{values}]" if test.operator.text == "in" else values
        tests.append(f"{test.path.text} {test.operator.text} {right}")
    return f" where {' and '.join(tests)}"


def _confirm(step: ConfirmStep) -> str:
    by = f" by {step.by.text}" if step.by else ""
    within = f" within {step.within.word.text}" if step.within else ""
    otherwise = f" else {step.otherwise.text}" if step.otherwise else ""
    return f"confirm before {_list(step.patterns)}{_where(step.where)}{by}{within}{otherwise}"


def _checkpoint(line: CheckpointRule) -> str:
    before = f"before {_list(line.patterns)}" if line.patterns else ""
    at = f"at {_list(percent.word for percent in line.percents)}" if line.percents else ""
    return f"checkpoint {', '.join(filter(None, (before, at)))}"


def _do(step: DoStep) -> str:
    """The call with its arguments in order of name; as written, where that order would be read as something else."""
    entries = sorted(step.arguments, key=by_name)
    written = Word(", ".join(_argument(entry) for entry in entries), 1, 1)
    if written.text != step.args.text and meaning(arguments(written)) != meaning(entries):
        return step.word.text
    return f"do {step.tool.text}({written.text})" + (f" -> {step.bind.text}" if step.bind else "")


def _argument(entry: ObjectEntry) -> str:
    value = entry.value
    if value is None:
        return entry.key.text
    if isinstance(value, Text) and value.quoted and '"' not in value.value:
        return f'{entry.key.text}="{value.value}"'
    return f"{entry.key.text}={entry.raw}"


def _make(step: MakeStep) -> str:
    names = _list(step.inputs)
    return f"make {step.bind.text}: {step.type.text} from {names} with:" if names else step.word.text


_LINES: dict[type, Callable[[Any], str]] = {
    Header: lambda part: f"{'policy' if part.kind == 'policy' else 'task'} {part.name.text} v{part.version}",
    Word: lambda goal: f'goal "{goal.text}"',
    Need: lambda part: f"need {part.name.text}: {part.type.text}",
    LimitRule: lambda part: f"limit {_list(part.patterns)} {part.count.text} per {part.unit.text}",
    OnceRule: lambda part: f"once {_list(part.patterns)} by {part.by.text}",
    CheckpointRule: _checkpoint,
    Mode: lambda part: f"mode {part.value.text}",
    Require: lambda part: f"require signed by {_list(part.signers)}",
    RuleBlock: lambda block: f"for {_list(block.whom)}",
    DoStep: _do,
    CheckStep: lambda step: f"check {step.condition.text}",
    ConfirmStep: _confirm,
    IfStep: lambda step: f"if {step.condition.text}",
    ForStep: lambda step: f"for {step.variable.text} in {step.iterable.text}",
}


def _return(step: ReturnStep, indent: str) -> list[str]:
    """The value with each line indented by the brackets around it; as written, where blanks of its lines are text."""
    lines = step.expression.text.split("\n")
    depths = _depths(step.expression.text, lines)
    bare = [line.strip(BLANK) for line in lines]
    laid = [indent + INDENT * depth + line if line else "" for depth, line in zip(depths, bare, strict=True)]
    if meaning(parse_value(Word("\n".join(laid), 1, 1))) != meaning(step.value):
        laid[1:] = lines[1:]
    return [f"{indent}return {bare[0]}", *laid[1:]]


def _depths(text: str, lines: Sequence[str]) -> list[int]:
    """How many brackets are open where each line begins, without those that the line begins by closing."""
    pairs = {start: end for start, end in scan(text).ends.items() if text[start] in "([{"}
    closers = set(pairs.values())
    depth = at = 0
    found = []
    for line in lines:
        end = at + len(line)
        while at < end and (text[at] in BLANK or at in closers):
            depth -= at in closers
            at += 1
        found.append(min(depth, MAX_DEPTH))
        while at < end:
            depth += (at in pairs) - (at in closers)
            at += 1
        at = end + 1
    return found
