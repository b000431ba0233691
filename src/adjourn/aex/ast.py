"""What a document says: declarations and steps with their places in the source, and the types of its inputs.

Parser, checker, policy, formatter and runtime share these structs. The published shape (what `parse` prints) is in `shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from adjourn.aex.diagnostics import finding
from adjourn.aex.expr import BLANK, LETTERS, ObjectEntry, Value, Word
from adjourn.aex.tree import Tree
from adjourn.findings import Finding


class Header(msgspec.Struct, frozen=True):
    """`kind` is task, agent or policy."""

    kind: str
    name: Word
    version: str
    line: Word


class Need(msgspec.Struct, frozen=True):
    name: Word
    type: Word


class Budget(msgspec.Struct, frozen=True):
    """`key=number`, or `key=number per UNIT`; `text` is the number as written. With a unit, of `per_seconds`, it is the budget of
    all tasks of a workspace together, or, with `each`, that of each principal. The unit `session` has no seconds.
    """

    word: Word
    key: Word
    value: float
    text: Word
    unit: Word | None = None
    per_seconds: int = 0
    each: bool = False

    @property
    def is_of_session(self) -> bool:
        """Whether it is the budget of each session of a task."""
        return self.unit is not None and not self.per_seconds


class WhereTest(msgspec.Struct, frozen=True):
    """One test of a `where`: `options.depth <= 3`, `branch in ["a", "b"]`.

    `operator` is one of is, in, matches, ~, <=, >=, <, >. `values` are texts and constants: the one behind the operator, or
    those of the list of an `in`.
    """

    path: Word
    operator: Word
    values: list[Value]


class Where(msgspec.Struct, frozen=True):
    """`where TEST and TEST`; `word` is the whole clause, the keyword included."""

    word: Word
    tests: list[WhereTest]


class Permission(msgspec.Struct, frozen=True):
    """A `use`, `allow` or `deny` line. `word` is the line; the `where` holds for each of the patterns."""

    keyword: str
    word: Word
    patterns: list[Word]
    where: Where | None = None


class LimitRule(msgspec.Struct, frozen=True):
    """`limit PATTERNS COUNT per UNIT`. `per_seconds` is the length of the unit."""

    word: Word
    patterns: list[Word]
    count: Word
    unit: Word
    calls: int
    per_seconds: int


class OnceRule(msgspec.Struct, frozen=True):
    """`once PATTERNS by ARGUMENT`: the dotted path of the argument that names the effect."""

    word: Word
    patterns: list[Word]
    by: Word


class Percent(msgspec.Struct, frozen=True):
    """`75%`; `word` includes the sign."""

    word: Word
    value: float


class CheckpointRule(msgspec.Struct, frozen=True):
    """`checkpoint before PATTERNS, at 75%, 90%`: either part may be absent, not both."""

    word: Word
    patterns: list[Word]
    percents: list[Percent]


class Mode(msgspec.Struct, frozen=True):
    """`mode observe` or `mode enforce`."""

    word: Word
    value: Word


class Require(msgspec.Struct, frozen=True):
    """`require signed by NAME, NAME`: one of the signers is enough."""

    word: Word
    signers: list[Word]


class Duration(msgspec.Struct, frozen=True):
    """`30s`, `10m`, `2h`, `1d`."""

    word: Word
    seconds: int


class Statement(msgspec.Struct, frozen=True):
    """A statement that runs. `word` is its first line."""

    word: Word


class DoStep(Statement, frozen=True):
    tool: Word
    arguments: list[ObjectEntry]
    args: Word
    bind: Word | None


class MakeStep(Statement, frozen=True):
    bind: Word
    type: Word
    inputs: list[Word]
    instructions: list[Word]


class CheckStep(Statement, frozen=True):
    condition: Word


class ConfirmStep(Statement, frozen=True):
    """`confirm before PATTERNS [where …] [by WHO] [within 10m] [else deny]`, the clauses in any order.

    `before` is the patterns as one piece. `by` is `human` or a name; `otherwise` is `deny` or `allow`.
    """

    before: Word
    patterns: list[Word]
    where: Where | None = None
    by: Word | None = None
    within: Duration | None = None
    otherwise: Word | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it has no clause."""
        return not (self.where or self.by or self.within or self.otherwise)


class ReturnStep(Statement, frozen=True):
    """`end` is the 1-based line where the expression ends."""

    expression: Word
    value: Value
    end: int


class IfStep(Statement, frozen=True):
    condition: Word
    body: list[Statement]


class ForStep(Statement, frozen=True):
    variable: Word
    iterable: Word
    value: Value
    body: list[Statement]


class RuleBlock(msgspec.Struct, frozen=True):
    """`for WHOM` with rules that hold only for them. `word` is its first line, `rules` a document of its body alone."""

    word: Word
    whom: list[Word]
    rules: Document


class Document(msgspec.Struct):
    """One parsed text. Lists keep every statement in the order of the text, also repeated ones.

    One `policy` line makes the document a policy, wherever it stands. `findings` are those of the parser;
    `check.examine` adds its own.
    """

    source: str
    tree: Tree
    is_policy: bool = False
    headers: list[Header] = []
    goals: list[Word] = []
    permissions: list[Permission] = []
    needs: list[Need] = []
    budget: list[Budget] = []
    limits: list[LimitRule] = []
    once: list[OnceRule] = []
    checkpoints: list[CheckpointRule] = []
    modes: list[Mode] = []
    requires: list[Require] = []
    blocks: list[RuleBlock] = []
    steps: list[Statement] = []
    findings: list[Finding] = []
    guesses: int = 20
    """How many more times a finding may say which word was meant: that is compared with every known one."""
    has_kind: bool = True
    """Whether a line says that this is a task or a policy."""
    has_bad_header: bool = False
    has_bad_goal: bool = False
    """Whether a line that cannot be read was meant to be the header, or the goal: it is reported, and not as missing."""

    def may_guess(self) -> bool:
        """Return whether a finding may say which word was meant, and count it."""
        self.guesses -= 1
        return self.guesses >= 0

    @property
    def name(self) -> str:
        """The name in the header; "" without one."""
        return self.headers[-1].name.text if self.headers else ""

    @property
    def version(self) -> str:
        """The version in the header."""
        return self.headers[-1].version if self.headers else ""

    @property
    def is_v1(self) -> bool:
        """Whether the forms of version 1 may be used. `v1` and nothing else says so."""
        return self.version == "1"

    @property
    def may_lack_goal(self) -> bool:
        """Whether it is a policy of version 1: the goal of a task without a contract is then what the person asks for."""
        return self.is_policy and self.is_v1

    @property
    def budget_keys(self) -> tuple[str, ...]:
        """The budgets that are counted."""
        return ("calls", "minutes", "tokens", "usd", "legs") if self.is_v1 else ("calls",)

    @property
    def use(self) -> list[Word]:
        """The patterns of every `use` and `allow` line."""
        return [word for line in self.permissions if line.keyword != "deny" for word in line.patterns]

    @property
    def deny(self) -> list[Word]:
        """The patterns of every `deny` line."""
        return [word for line in self.permissions if line.keyword == "deny" for word in line.patterns]

    @property
    def goal(self) -> str:
        """The text of `goal`; "" without one."""
        return self.goals[-1].text if self.goals else ""

    @property
    def confirm(self) -> list[Word]:
        """The patterns of the top-level `confirm before` lines: the ones that make up a policy layer."""
        return [word for step in self.steps if isinstance(step, ConfirmStep) for word in step.patterns]


def steps_of(steps: list[Statement]) -> Iterator[Statement]:
    """Every step, bodies included, in the order of the text."""
    for step in steps:
        yield step
        if isinstance(step, IfStep | ForStep):
            yield from steps_of(step.body)


# --- types of inputs: which exist, and whether a value is of one


def known_type(name: str) -> bool:
    """Whether a `need` may have this type: a scalar, `list[T]` or `T?`, to any depth."""
    text = name.strip(BLANK)
    while True:
        if text.endswith("?"):
            text = text[:-1].rstrip(BLANK)
        elif text.startswith("list[") and text.endswith("]"):
            text = text[len("list[") : -1].strip(BLANK)
        else:
            return text in _SCALARS


def check_inputs(document: Document, inputs: Mapping[str, Any]) -> list[Finding]:
    """The findings that keep a run from starting: one for each missing or wrongly typed input."""
    findings = []
    needs = {need.name.text: need for need in document.needs}
    for name, need in needs.items():
        kind = need.type.text
        if name not in inputs:
            if not kind.endswith("?"):
                message = f"input `{name}` of type {kind} is missing"
                findings.append(finding("AEX030", message, need.name.span, source=document.source))
        elif not is_of(kind, inputs[name]):
            message = f"input `{name}` is {_kind_of(inputs[name])}, not {kind}"
            findings.append(finding("AEX031", message, need.type.span, source=document.source))
    return findings


def is_of(kind: str, value: Any) -> bool:
    """Whether a present value is of the type. `T?` is T: absence is not a value."""
    text = kind.strip(BLANK)
    lists = 0
    while True:
        if text.endswith("?"):
            text = text[:-1].rstrip(BLANK)
        elif text.startswith("list[") and text.endswith("]"):
            text = text[len("list[") : -1].strip(BLANK)
            lists += 1
        else:
            break
    test = _SCALARS.get(text)
    return test is not None and _all_of(test, value, lists)


def _all_of(test: Callable[[Any], bool], value: Any, lists: int) -> bool:
    level = [value]
    for _ in range(lists):
        if not all(isinstance(item, list | tuple) for item in level):
            return False
        level = [item for items in level for item in items]
    return all(test(item) for item in level)


def _number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or value - value == 0  # neither infinite nor NaN


def _integer(value: Any) -> bool:
    return _number(value) and value == int(value)


def _url(value: Any) -> bool:
    """A scheme followed by more text, as a URL parser requires."""
    if not isinstance(value, str):
        return False
    scheme, colon, text = value.strip(BLANK).partition(":")
    if not (colon and text and scheme[:1] and scheme[0] in LETTERS):
        return False
    if scheme.lower() in ("http", "https", "ws", "wss", "ftp"):
        text = text.lstrip("/\\")
    return bool(text) and scheme.replace("+", "a").replace("-", "a").replace(".", "a").isalnum()


_SCALARS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "num": _number,
    "int": _integer,
    "bool": lambda value: isinstance(value, bool),
    "json": lambda _value: True,
    "file": lambda value: isinstance(value, str) and bool(value),
    "url": _url,
}
TYPES = tuple(_SCALARS)
"""The names of the types that are no lists."""


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "a list"
    for kind, name in ((bool, "a boolean"), (str, "a string"), (int | float, "a number")):
        if isinstance(value, kind):
            return name
    return "an object"
