"""What a document says: declarations and steps, each piece with its place in the source.

Owns: the syntax structs that parser, checker, policy, formatter and runtime share. Must never: hold behaviour
beyond looking at itself. The published shape (what `parse` prints) is in `shape`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from adjourn.aex.expr import Entry, Value
from adjourn.aex.text import Word
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
    """`key=number`; `text` is the number as written."""

    key: Word
    value: float
    text: Word


class Step(msgspec.Struct, frozen=True):
    """A statement that runs. `word` is its first line."""

    word: Word


class Do(Step, frozen=True):
    tool: Word
    arguments: list[Entry]
    args: Word
    bind: Word | None


class Make(Step, frozen=True):
    bind: Word
    type: Word
    inputs: list[Word]
    instructions: list[Word]


class Check(Step, frozen=True):
    condition: Word


class Confirm(Step, frozen=True):
    before: Word


class Return(Step, frozen=True):
    """`end` is the 1-based line where the expression ends."""

    expression: Word
    value: Value
    end: int


class If(Step, frozen=True):
    condition: Word
    body: list[Step]


class For(Step, frozen=True):
    variable: Word
    iterable: Word
    value: Value
    body: list[Step]


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
    use: list[Word] = []
    deny: list[Word] = []
    needs: list[Need] = []
    budget: list[Budget] = []
    steps: list[Step] = []
    findings: list[Finding] = []

    @property
    def name(self) -> str:
        return self.headers[-1].name.text if self.headers else ""

    @property
    def version(self) -> str:
        return self.headers[-1].version if self.headers else ""

    @property
    def goal(self) -> str:
        return self.goals[-1].text if self.goals else ""

    @property
    def confirm(self) -> list[Word]:
        """The patterns of the top-level `confirm before` lines: the ones that make up a policy layer."""
        return [step.before for step in self.steps if isinstance(step, Confirm)]


def steps_of(steps: list[Step]) -> Iterator[Step]:
    """Every step, bodies included, in the order of the text."""
    for step in steps:
        yield step
        if isinstance(step, If | For):
            yield from steps_of(step.body)
