"""The layout of a document: `formatted` writes the text again, and changes only its layout.

Must never: drop or invent a comment, write what does not say the same, do I/O, take more than linear time.

A comment belongs to the statement that it precedes, and goes where that goes. One at the end of a body or of the
document stays there; so does one at the beginning that a blank line sets apart. Lines of one list are joined where
neither has a comment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from adjourn.aex.ast import (
    Budget,
    CheckpointRule,
    CheckStep,
    ConfirmStep,
    Document,
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
    steps_of,
)
from adjourn.aex.expr import BLANK, MAX_DEPTH, ObjectEntry, Text, Word, arguments, parse_value, scan
from adjourn.aex.parser import parse
from adjourn.aex.rule import EACH
from adjourn.aex.tree import SOMEBODY, TreeNode, walk
from adjourn.errors import InvalidError

_GROUPS = (
    (("task", "agent", "policy"),),
    (("goal",),),
    (("mode",), ("require",)),
    (("use", "allow"), ("deny",)),
    (("need",),),
    (("budget",), ("limit",), ("once",), ("checkpoint",)),
)
"""Declarations in order. Those of one group are not separated by a blank line."""
_PLACES = {
    kind: (group, place) for group, kinds in enumerate(_GROUPS) for place, alike in enumerate(kinds) for kind in alike
}
_STEP = (len(_GROUPS), 0)
_PLACES[SOMEBODY] = (len(_GROUPS) + 1, 0)


def formatted(document: Document) -> str:
    r"""The document's text in the one layout. Raises `InvalidError` when it would not say the same.

    The document must be free of errors.

    >>> print(formatted(examine("task greet v0\ngoal   \"Say hello\"\nuse   mail.send\n")).rstrip())
    task greet v0
    <BLANKLINE>
    goal "Say hello"
    <BLANKLINE>
    use mail.send
    """
    text = _Writer(document).text()
    again = parse(text, document.source)
    if (
        any(found.severity == "error" for found in again.findings)
        or meaning(again) != meaning(document)
        or comments(again) != comments(document)
        or _Writer(again).text() != text
    ):
        raise InvalidError(
            f"{document.source or 'the document'} was not formatted: formatting would change its meaning",
            "write texts of several lines in one line, in quotes",
        )
    return text


def comments(document: Document) -> list[str]:
    """Every comment, sorted."""
    tree = document.tree
    return sorted(tree.word(node).text for node in walk(tree.nodes) if node.kind == "comment")


class _Statement(msgspec.Struct):
    """A statement with what it says, and the comments above it; an empty one is a blank line."""

    node: TreeNode
    parts: list[Any]
    above: list[str]

    @property
    def place(self) -> tuple[int, int]:
        return _PLACES.get(self.node.kind, _STEP)

    @property
    def joins(self) -> bool:
        """Whether the statement is a list that can take the items of another one."""
        if any(self.above) or not self.parts:
            return False
        part = self.parts[0]
        return isinstance(part, Budget) or (isinstance(part, Permission) and part.where is None)


class _Writer:
    """Writes one document out."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.parts: dict[int, list[Any]] = {}
        for part in _statements(document):
            self.parts.setdefault(_line_of(part), []).append(part)

    def text(self) -> str:
        pieces, end = self.pieces(self.document.tree.nodes)
        lines = _set_apart(pieces[0]) if pieces else []
        group = -1
        for piece in _joined(sorted(pieces, key=lambda piece: piece.place)):
            blank = piece.above[:1] == [""]
            if lines and (blank or group != piece.place[0] or piece.place >= _STEP):
                lines.append("")
            lines += piece.above[blank:]
            lines += self.statement(piece, "")
            group = piece.place[0]
        return "\n".join([*lines, *end]) + "\n"

    def pieces(self, nodes: Sequence[TreeNode]) -> tuple[list[_Statement], list[str]]:
        """The statements, each with the comments above it, and the comments below the last one."""
        statements: list[_Statement] = []
        waiting: list[str] = []
        for node in nodes:
            if node.kind == "comment":
                waiting.append(self.document.tree.word(node).text)
            elif node.kind == "blank":
                waiting.append("")
            else:
                parts = self.parts.get(node.first + 1, [])
                statements.append(_Statement(node, parts, waiting if any(waiting) else []))
                waiting = []
        while waiting and not waiting[-1]:
            waiting.pop()
        return statements, waiting

    def statement(self, piece: _Statement, indent: str) -> Iterator[str]:
        if piece.parts:
            yield from spelled(piece.parts, indent, policy=self.document.is_policy)
        else:  # a list of nothing
            yield self.document.tree.word(piece.node).text
        if piece.node.children:
            yield from self.body(piece.node.children, indent + INDENT)

    def body(self, nodes: Sequence[TreeNode], indent: str) -> Iterator[str]:
        pieces, end = self.pieces(nodes)
        for piece in pieces:
            yield from (indent + line for line in piece.above if line)
            yield from self.statement(piece, indent)
        yield from (indent + line for line in end if line)


def _statements(document: Document) -> Iterator[Any]:
    yield from document.headers
    yield from document.goals
    yield from document.permissions
    yield from document.needs
    yield from document.budget
    yield from document.limits
    yield from document.once
    yield from document.checkpoints
    yield from document.modes
    yield from document.requires
    yield from steps_of(document.steps)
    for block in document.blocks:
        yield block
        yield from (part for part in _statements(block.rules) if not isinstance(part, Header))


def _line_of(part: Any) -> int:
    word: Word
    match part:
        case Word():
            word = part
        case Header():
            word = part.line
        case Need():
            word = part.name
        case Budget():
            word = part.key
        case _:
            word = part.word
    return word.line


def _set_apart(first: _Statement) -> list[str]:
    """Remove from the first statement the comments above it that a blank line separates."""
    above = first.above
    while above and not above[0]:
        del above[0]
    if "" not in above:
        return []
    last = len(above) - above[::-1].index("")
    top = above[:last]
    del above[:last]
    while not top[-1]:
        top.pop()
    if above:
        above.insert(0, "")
    return top


def _joined(pieces: Iterable[_Statement]) -> list[_Statement]:
    """The pieces, with adjacent parts of one list joined."""
    statements: list[_Statement] = []
    for piece in pieces:
        last = statements[-1] if statements else None
        if last and last.place == piece.place and last.joins and piece.joins:
            last.parts = [*last.parts, *piece.parts]
        else:
            statements.append(piece)
    return statements


# --- writes each statement in its one canonical spelling

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
    """How many brackets are open where each line starts, without those that the line starts by closing."""
    pairs = {start: end for start, end in scan(text).ends.items() if text[start] in "([{"}
    closers = set(pairs.values())
    depth = at = 0
    depths = []
    for line in lines:
        end = at + len(line)
        while at < end and (text[at] in BLANK or at in closers):
            depth -= at in closers
            at += 1
        depths.append(min(depth, MAX_DEPTH))
        while at < end:
            depth += (at in pairs) - (at in closers)
            at += 1
        at = end + 1
    return depths


# --- the meaning of a document without its layout, to compare whether two texts mean the same

_WRITTEN = frozenset(("tree", "findings", "source", "line", "word", "end", "raw", "args", "expression"))
"""Fields that say where or how something is written; what it says is in another field of the same struct."""
_OF_FINDINGS = frozenset(("guesses", "has_kind", "has_bad_header", "has_bad_goal"))
"""Fields that only say which findings a document gets."""
_FIRST = str.maketrans({"_": "\x01", "-": "\x02", ".": "\x03"})


def meaning(value: Any) -> Any:
    """A document or a part of it as plain data that is equal where the same is said."""
    match value:
        case str() | None:
            return value
        case Word():
            return value.text
        case list():
            return [meaning(item) for item in value]
        case Document():
            denies, allows = ([*_permissions(value, denies=denies)] for denies in (True, False))
            return _fields(value) | {"permissions": (denies, allows)}
        case DoStep():
            return "do", _fields(value) | {"arguments": meaning(sorted(value.arguments, key=by_name))}
        case Header():
            return _fields(value) | {"kind": "policy" if value.kind == "policy" else "task"}
        case ConfirmStep():
            return "confirm", _fields(value) | {"before": ""}
        case msgspec.Struct():
            return type(value).__name__, _fields(value)
        case _:
            return value


def by_name(entry: ObjectEntry) -> tuple[str, str]:
    """Order of arguments, as people sort: punctuation, digits, letters; the small letter before its capital."""
    name = entry.key.text
    return name.lower().translate(_FIRST), name.swapcase()


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    return {name: meaning(getattr(value, name)) for name in _names(type(value))}


@cache
def _names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in _WRITTEN | _OF_FINDINGS)


def _permissions(document: Document, *, denies: bool) -> Iterator[Any]:
    for line in document.permissions:
        if (line.keyword == "deny") is denies:
            yield from ((word.text, meaning(line.where)) for word in line.patterns)
