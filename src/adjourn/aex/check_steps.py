"""The steps of a task, checked before anything runs: tools, names, conditions, what is never reached.

What does not block every run (in a body, or behind a possible end) is a warning, no error. Takes linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from adjourn.aex.ast import CheckStep, ConfirmStep, Document, DoStep, ForStep, IfStep, MakeStep, ReturnStep, Statement
from adjourn.aex.diagnostics import WHOLE, Severity, finding, quoted
from adjourn.aex.expr import (
    BIND,
    BLANK,
    Constant,
    Name,
    ObjectEntry,
    ObjectOf,
    Text,
    Value,
    Word,
    only,
    parts,
    too_deep,
)
from adjourn.aex.match import PatternIndex, fold, fold_pattern, split_scope
from adjourn.aex.suggestions import tool_near
from adjourn.findings import Finding, Span
from adjourn.text.near_words import did_you_mean


class Checker:
    """Collects findings about one document."""

    def __init__(self, document: Document, findings: list[Finding]) -> None:
        self.document = document
        self.findings = findings

    def report(
        self,
        code: str,
        message: str,
        word: Word | None = None,
        severity: Severity | None = None,
        help: str = "",  # noqa: A002 - as `finding`
    ) -> None:
        """Add a finding."""
        span: Span = word.span if word else WHOLE
        found = finding(code, message, span, source=self.document.source, severity=severity, help=help)
        self.findings.append(found)


class _Names:
    """Names known at a point of the document, with nested scopes."""

    def __init__(self, names: Iterable[str]) -> None:
        self.count = dict.fromkeys(names, 1)
        self.scopes: list[list[str]] = []

    def add(self, name: str) -> None:
        self.count[name] = self.count.get(name, 0) + 1
        if self.scopes:
            self.scopes[-1].append(name)

    def enter(self) -> None:
        self.scopes.append([])

    def leave(self) -> None:
        for name in self.scopes.pop():
            self.count[name] -= 1

    def known(self) -> Iterator[str]:
        return (name for name, count in self.count.items() if count > 0)

    def __contains__(self, name: str) -> bool:
        return self.count.get(name, 0) > 0

    def resolve(self, path: str) -> bool:
        return path in self or path.partition(".")[0] in self


class Steps(Checker):
    """The steps of a task, in order, with the names that are known at each.

    `declared` is what AEX020 knows (nothing of a `for` body after it), `bound` what a run may have bound by then.
    """

    def __init__(self, document: Document, findings: list[Finding]) -> None:
        super().__init__(document, findings)
        self.used = PatternIndex((position, split_scope(word.text)[0]) for position, word in enumerate(document.use))
        self.refusals = [
            word
            for line in document.permissions
            if line.keyword == "deny" and not line.where
            for word in line.patterns
            if not split_scope(word.text)[1]
        ]
        self.denied = PatternIndex((position, fold_pattern(word.text)) for position, word in enumerate(self.refusals))
        inputs = [need.name.text for need in document.needs]
        self.declared = _Names(inputs)
        self.bound = _Names(inputs)
        self.depth = 0
        self.may_have_ended = False

    def check(self) -> None:
        self.block(self.document.steps)

    @property
    def blocking(self) -> Severity:
        """The severity of a finding that blocks the run when its step is reached."""
        return "warning" if self.depth or self.may_have_ended else "error"

    def block(self, steps: list[Statement]) -> None:
        ended = reported = False
        for step in steps:
            if ended and not reported and not (isinstance(step, ConfirmStep) and not self.depth):
                self.report("AEX045", "the step follows a `return` and never runs", step.word)
                reported = True
            self.step(step)
            if isinstance(step, ReturnStep):
                ended = self.may_have_ended = True

    def step(self, step: Statement) -> None:
        if isinstance(step, DoStep):
            self.do(step)
        elif isinstance(step, MakeStep):
            self.make(step)
        elif isinstance(step, CheckStep):
            self.condition(step.condition, self.blocking)
        elif isinstance(step, ReturnStep):
            self.value(step.value, step.expression)
        elif isinstance(step, IfStep):
            self.condition(step.condition, "warning")
            self.body(step.body)
        elif isinstance(step, ForStep):
            self.loop(step)

    def body(self, steps: list[Statement]) -> None:
        self.depth += 1
        self.block(steps)
        self.depth -= 1

    def bind(self, name: str) -> None:
        self.declared.add(name)
        self.bound.add(name)

    def do(self, step: DoStep) -> None:
        tool = step.tool
        if "*" in tool.text:
            message = f"{quoted(tool.text)} is a pattern, not the name of a tool"
            self.report("AEX041", message, tool, self.blocking, "name one tool")
        if self.used.first(tool.text) is None:
            tools = (split_scope(word.text)[0] for word in self.document.use)
            near = tool_near(tool.text, tools) if self.document.may_guess() else ""
            remedy = f"did you mean {near}? otherwise add the tool to `use`" if near else ""
            self.report("AEX010", f"tool {quoted(tool.text)} is not in `use`", tool, None, remedy)
        if (denied := self.denied.first(fold(tool.text))) is not None:
            rule = self.refusals[denied]
            message = f"tool {quoted(tool.text)} is denied by {quoted(rule.text)} in line {rule.line}"
            self.report("AEX011", message, tool)
        self.entries(step.arguments, "argument", "=")
        self.deep(step.args)
        for entry in step.arguments:
            self.value(entry.value, None)
        if step.bind:
            self.bind(step.bind.text)

    def make(self, step: MakeStep) -> None:
        for word in step.inputs:
            if word.text.removeprefix("$") not in self.declared:
                remedy = self.near(word.text.removeprefix("$"), self.declared)
                self.report("AEX020", f"make input {quoted(word.text)} is not known here", word, None, remedy)
        self.bind(step.bind.text)

    def loop(self, step: ForStep) -> None:
        value = step.value
        self.deep(step.iterable)
        if isinstance(value, Name):
            self.name(value.word, self.blocking, "the `for` has no list to go over")
        elif isinstance(value, Text | Constant | ObjectOf):
            message = f"{quoted(step.iterable.text)} is not a list"
            self.report("AEX049", message, step.iterable, self.blocking)
        else:
            self.value(value, None)
        variable = step.variable.text
        stays = variable in self.bound
        self.declared.enter()
        self.declared.add(variable)
        self.bound.add(variable)
        self.body(step.body)
        self.declared.leave()
        if not stays:
            self.bound.count[variable] = 0

    def condition(self, word: Word, severity: Severity) -> None:
        if not word.text:
            return
        condition = parse_condition(word)
        if condition is None or not _named(condition):
            self.report("AEX044", f"unsupported condition {quoted(word.text)}", word, severity)
            return
        harmless = condition.form in (NOT_INCLUDE, NOT_INCLUDE_TEXT, TOUCHES_ONLY)
        self.name(condition.subject, "warning" if harmless else severity, "the condition is false")
        if condition.other:
            self.name(condition.other, severity, "the condition is false")

    def name(self, word: Word, severity: Severity, outcome: str) -> None:
        if not self.bound.resolve(word.text):
            remedy = self.near(word.text, self.bound)
            self.report("AEX043", f"{quoted(word.text)} is not defined here: {outcome}", word, severity, remedy)

    def near(self, path: str, names: _Names) -> str:
        """The remedy for a name that is not one of `names`; "" for that of the diagnostic."""
        return did_you_mean(path.partition(".")[0], names.known()) if self.document.may_guess() else ""

    def value(self, value: Value | None, word: Word | None) -> None:
        """Report the undefined names of a value, and texts that are easily misread."""
        if word is not None:
            self.deep(word)
        for name in parts(value, Name):
            if not self.bound.resolve(name.path):
                message = f"{quoted(name.path)} is not defined here: it is taken as a text"
                self.report("AEX043", message, name.word, "warning", self.near(name.path, self.bound))
        for text in parts(value, Text):
            if text.open_quote:
                self.report("AEX047", f"the quote in {quoted(text.value)} is not closed", text.word)
        for inner in parts(value, ObjectOf):
            self.entries(inner.entries, "key", ":")

    def entries(self, entries: list[ObjectEntry], what: str, sign: str) -> None:
        seen: set[str] = set()
        for entry in entries:
            if entry.value is None:
                message = f"{what} {quoted(entry.key.text)} has no value: it is taken as empty"
                self.report("AEX047", message, entry.key, None, f"write `name{sign}value`")
            if entry.key.text in seen:
                self.report("AEX042", f"{what} {quoted(entry.key.text)} is given twice", entry.key)
            seen.add(entry.key.text)

    def deep(self, word: Word) -> None:
        if too_deep(word):
            self.report("AEX133", "brackets are nested too deeply; the inner ones are text", word, "warning")


def _named(condition: Condition) -> bool:
    """Whether a lone word is a path; the longer forms are recognized by their verbs."""
    return condition.form != PATH or only(condition.subject.text, BIND)


# --- conditions of `check` and `if`: the six supported forms, distinguished as in v0

PATH = "path"
HAS_TEXT = "has text"
HAS_CITATIONS = "has citations"
NOT_INCLUDE_TEXT = "does not include text"
NOT_INCLUDE = "does not include"
TOUCHES_ONLY = "touches only"
VALID_DIFF = "valid diff"


class Condition(msgspec.Struct, frozen=True):
    """`subject` is a dotted path; `other` the second one of "does not include" and "touches only"; `text` the quoted
    literal of the two text forms.
    """

    form: str
    subject: Word
    other: Word | None = None
    text: str = ""


def parse_condition(word: Word) -> Condition | None:
    """The form of a condition, None for an unsupported one."""
    if not _blank_in(word.text):
        return Condition(PATH, word) if word.text else None
    for verb, read in (
        (" has ", _has),
        (" does not include ", _not_include),
        (" touches only ", _touches),
        (" is valid diff", _valid),
    ):
        at = word.text.find(verb)
        if at > 0:
            condition = read(word.strip(0, at), word.strip(at + len(verb)))
            if condition is not None:
                return condition
    return None


def _has(subject: Word, word: Word) -> Condition | None:
    literal = _literal(word.text)
    if literal is not None:
        return Condition(HAS_TEXT, subject, text=literal)
    form = {"citations": HAS_CITATIONS, "valid diff": VALID_DIFF}.get(word.text)
    return Condition(form, subject) if form else None


def _not_include(subject: Word, word: Word) -> Condition | None:
    literal = _literal(word.text)
    if literal is not None:
        return Condition(NOT_INCLUDE_TEXT, subject, text=literal)
    return None if _blank_in(word.text) else Condition(NOT_INCLUDE, subject, word)


def _touches(subject: Word, word: Word) -> Condition | None:
    return None if _blank_in(word.text) else Condition(TOUCHES_ONLY, subject, word)


def _valid(subject: Word, word: Word) -> Condition | None:
    return None if word.text else Condition(VALID_DIFF, subject)


def _literal(text: str) -> str | None:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else None


def _blank_in(text: str) -> bool:
    return not text or any(blank in text for blank in BLANK)
