"""What the rules of version 1 mean: the findings about clauses that can be read.

Owns: regular expressions that cannot be used, rules that have no effect or contradict each other. Must never: repeat what
the parser reports, take more than linear time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from adjourn.aex.ast import ConfirmStep, Document, Where, WhereTest, steps_of
from adjourn.aex.diagnostics import Severity, quoted
from adjourn.aex.expr import Text
from adjourn.aex.match import never_matches
from adjourn.aex.text import Word
from adjourn.aex.where import why_no_regex


class FindingSink(Protocol):
    def __call__(
        self,
        code: str,
        message: str,
        word: Word | None = None,
        severity: Severity | None = None,
        help: str = "",  # noqa: A002 - as `finding`
    ) -> None: ...


def check_v1(document: Document, report: FindingSink) -> None:
    """Report what is wrong with the rules that version 1 adds."""
    _patterns(document, report)
    for keyword, where in _conditions(document):
        for test in where.tests:
            if test.operator.text == "~":
                _regex(test, keyword, report)
    _modes(document, report)
    if any(line.percents for line in document.checkpoints) and not document.budget:
        word = next(line.percents[0].word for line in document.checkpoints if line.percents)
        report("AEX048", f"there is no budget of which {quoted(word.text)} could be spent", word)


def _patterns(document: Document, report: FindingSink) -> None:
    lines = [line.patterns for line in document.limits]
    lines += [line.patterns for line in document.once]
    lines += [line.patterns for line in document.checkpoints]
    for word in (word for words in lines for word in words):
        reason = never_matches(word.text)
        if not reason and ":" in word.text:
            reason = "a scope belongs to `allow`, `deny` and `confirm`"
        if reason:
            report("AEX041", f"pattern {quoted(word.text)} can never match: {reason}", word)


def _conditions(document: Document) -> Iterator[tuple[str, Where]]:
    """Every `where`, with the keyword of its line."""
    for line in document.permissions:
        if line.where:
            yield line.keyword, line.where
    for step in steps_of(document.steps):
        if isinstance(step, ConfirmStep) and step.where:
            yield "confirm", step.where


def _regex(test: WhereTest, keyword: str, report: FindingSink) -> None:
    value = test.values[0]
    if not isinstance(value, Text):
        return
    if reason := why_no_regex(value.value):
        report("AEX142", f"cannot use the expression {quoted(value.value)}: {reason}", value.word)
    elif keyword in ("use", "allow") and not value.value.startswith(("^", r"\A", "(?")):
        message = f"{quoted(value.value)} permits every text that holds a match anywhere"
        report("AEX047", message, value.word, None, "begin the expression with `^`, and end it with `$`")


def _modes(document: Document, report: FindingSink) -> None:
    for earlier, mode in zip(document.modes, document.modes[1:], strict=False):
        same = earlier.value.text == mode.value.text
        message = f"the mode was given before, in line {earlier.word.line}"
        report("AEX042", message, mode.word, "warning" if same else "error")
