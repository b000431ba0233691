"""Rules that hold only for somebody and change nothing for them, since a rule for all says as much.

Owns: these findings. Must never: repeat what is reported of any rule, take more than linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adjourn.aex.ast import Budget, ConfirmStep, Document, RuleBlock
from adjourn.aex.check_v1 import FindingSink
from adjourn.aex.diagnostics import quoted
from adjourn.aex.match import PatternIndex, fold_pattern, split_scope
from adjourn.aex.text import Word

_Kinds = dict[str, "_Plain"]
_Key = tuple[str, int]


class _Plain:
    """The patterns of one kind that hold for all, without scope and condition, and the lines that they are in."""

    def __init__(self, words: Iterable[Word], *, folded: bool) -> None:
        self._folded = folded
        first: dict[str, int] = {}
        for word in words:
            if ":" not in word.text:
                first.setdefault(self._form(word.text), word.line)
        self._lines = list(first.values())
        self._index = PatternIndex(enumerate(first))

    def line_of(self, pattern: str, *, folded: bool = False) -> int:
        """The line of a pattern that names all that this one names; 0 for none."""
        form = fold_pattern(pattern) if folded else self._form(pattern)
        position = self._index.first(form)
        return 0 if position is None else self._lines[position]

    def _form(self, pattern: str) -> str:
        return fold_pattern(pattern) if self._folded else pattern


def check_blocks(document: Document, report: FindingSink) -> None:
    """Report what in the blocks of a policy has no effect."""
    kinds = {
        kind: _Plain(_plain(document, kind), folded=kind != "allow") for kind in ("allow", "deny", "confirm")
    }
    budgets = _least(document)
    for block in document.blocks:
        _names(block, report)
        for kind, word in _patterns(block.rules):
            _pattern(kind, word, kinds, report)
        for entry in block.rules.budget:
            _budget(entry, budgets, report)


def _names(block: RuleBlock, report: FindingSink) -> None:
    seen = set[str]()
    for name in block.whom:
        if name.text in seen:
            report("AEX042", f"{quoted(name.text)} is named twice", name)
        seen.add(name.text)


def _pattern(kind: str, word: Word, kinds: _Kinds, report: FindingSink) -> None:
    tool = split_scope(word.text)[0]
    if line := kinds["deny"].line_of(tool, folded=True):
        report("AEX048", f"{quoted(word.text)} is denied for all, in line {line}", word)
    elif kind != "deny" and (line := kinds[kind].line_of(tool)):
        told = "allowed" if kind == "allow" else "to be confirmed"
        report("AEX048", f"{quoted(word.text)} is {told} for all, in line {line}", word)


def _budget(entry: Budget, budgets: dict[_Key, Budget], report: FindingSink) -> None:
    least = budgets.get((entry.key.text, entry.per_seconds))
    if least is not None and entry.value >= least.value:
        line = least.key.line
        message = f"the budget for all in line {line} is spent before {quoted(entry.word.text)}"
        report("AEX048", message, entry.word)


def _least(document: Document) -> dict[_Key, Budget]:
    """The budgets that all share or each task has, by key and unit: the last one of each, which counts."""
    return {(entry.key.text, entry.per_seconds): entry for entry in document.budget if not entry.each}


def _plain(document: Document, kind: str) -> Iterator[Word]:
    for line in document.permissions:
        if (line.keyword == "deny") == (kind == "deny") and not line.where and kind != "confirm":
            yield from line.patterns
    for step in document.steps:
        if kind == "confirm" and isinstance(step, ConfirmStep) and step.is_plain:
            yield from step.patterns


def _patterns(rules: Document) -> Iterator[tuple[str, Word]]:
    for line in rules.permissions:
        for word in line.patterns:
            yield ("deny" if line.keyword == "deny" else "allow"), word
    for step in rules.steps:
        if isinstance(step, ConfirmStep) and step.is_plain:
            for word in step.patterns:
                yield "confirm", word
