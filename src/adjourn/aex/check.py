"""What a well-formed document means, checked before anything runs: every finding but the parser's own.

Owns: validation of declarations, `examine`. Must never: refuse a text that v0 accepts and runs correctly
(what v0 let pass and could run is a warning), examine files or inputs, take more than linear time.

A new diagnostic is an error only where every run is blocked by it: at the top level, before anything that might
have ended the run. In a body, or behind a possible `return`, the same is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adjourn.aex.ast import ConfirmStep, Document, ReturnStep, steps_of
from adjourn.aex.check_blocks import check_blocks
from adjourn.aex.check_steps import Checker, Steps
from adjourn.aex.check_v1 import check_v1
from adjourn.aex.diagnostics import finding, quoted
from adjourn.aex.match import PatternIndex, fold_pattern, never_matches, split_scope
from adjourn.aex.parser import parse
from adjourn.aex.suggestions import means_every_tool, pattern_help, type_near, unknown_budget
from adjourn.aex.text import MAX_BUDGET, Word
from adjourn.aex.types import TYPES, known_type
from adjourn.findings import Finding

MAX_FINDINGS = 1000


def examine(text: str, source: str = "") -> Document:
    """The document of a text with every finding about it, the parser's first. Never raises."""
    document = parse(text, source)
    if document.tree.looked_at:
        document.findings += check(document)
    if len(document.findings) > MAX_FINDINGS:
        left = len(document.findings) - MAX_FINDINGS
        document.findings = document.findings[:MAX_FINDINGS]
        document.findings.append(finding("AEX137", f"{left} more findings are left out", source=source))
    return document


def check(document: Document) -> list[Finding]:
    """The findings about a parsed document, without the parser's."""
    checker = _Declarations(document, [])
    checker.check()
    steps = Steps(document, checker.findings)
    if not document.is_policy:
        steps.check()
    return checker.findings


class _Declarations(Checker):
    """Header, goal, patterns, inputs and budget."""

    def check(self) -> None:
        document = self.document
        kind = "document" if not document.has_kind else "policy" if document.is_policy else "task"
        if not document.headers and not document.has_bad_header:
            self.report("AEX001", "the document has no `task` or `policy` declaration")
        if not document.goal and not document.has_bad_goal and not document.may_lack_goal:
            self.report("AEX002", f"the {kind} has no goal")
        for header in document.headers:
            if header.version.partition(".")[0].lstrip("0") not in ("", "1"):
                self.report(
                    "AEX004", f"version {quoted(header.version)} of the language is not known", header.line
                )
        self.repeated("header", (header.line for header in document.headers), one=True)
        self.repeated("goal", document.goals, one=True)
        if not document.is_policy:
            self.task()
        self.patterns()
        self.budget()
        if document.is_v1:
            check_v1(document, self.report)
        for block in document.blocks:
            _Declarations(block.rules, self.findings).check_rules()
        check_blocks(document, self.report)

    def check_rules(self) -> None:
        """The findings about rules that hold for somebody."""
        self.patterns()
        self.budget()
        check_v1(self.document, self.report)

    def task(self) -> None:
        document = self.document
        returns = any(isinstance(step, ReturnStep) for step in steps_of(document.steps))
        if not returns and document.has_kind:
            self.report("AEX003", "the task has no return")
        for need in document.needs:
            if not known_type(need.type.text):
                near = type_near(need.type.text, TYPES) if document.may_guess() else ""
                remedy = f"did you mean {near}?" if near else ""
                self.report("AEX032", f"unknown type {quoted(need.type.text)}", need.type, None, remedy)
        self.repeated("need", (need.name for need in document.needs))
        self.idle_confirms()

    def patterns(self) -> None:
        document = self.document
        for keyword, word in self.pattern_words():
            if reason := never_matches(word.text):
                message = f"pattern {quoted(word.text)} can never match: {reason}"
                self.report("AEX041", message, word, None, pattern_help(word.text, keyword))
            elif means_every_tool(word.text):
                message = f"{quoted(word.text)} is the name of one tool"
                self.report("AEX047", message, word, None, f"write `{keyword} *` for every tool")
            elif split_scope(word.text)[1].startswith(("/", "./", "../")):
                message = f"as a path, the scope of {quoted(word.text)} is in no workspace"
                self.report(
                    "AEX047", message, word, None, "write the path as it is from the workspace's folder"
                )
        plain: dict[str, list[Word]] = {"use": [], "deny": [], "confirm": []}
        for line in document.permissions:
            plain["deny" if line.keyword == "deny" else "use"] += [] if line.where else line.patterns
        for step in document.steps:
            if isinstance(step, ConfirmStep) and step.is_plain:
                plain["confirm"] += step.patterns
        for keyword, words in plain.items():
            self.repeated(f"`{keyword}` pattern", words)

    def pattern_words(self) -> Iterator[tuple[str, Word]]:
        """The patterns of every permission and confirmation, with what stands before them."""
        for line in self.document.permissions:
            for word in line.patterns:
                yield line.keyword, word
        for step in steps_of(self.document.steps):
            if isinstance(step, ConfirmStep):
                for word in step.patterns:
                    yield "confirm before", word

    def repeated(self, what: str, words: Iterable[Word], *, one: bool = False) -> None:
        """Report every word whose text (or, with `one`, any text) occurred before."""
        seen: dict[str, int] = {}
        for word in words:
            key = "" if one else word.text
            if key in seen:
                name = "" if one else f" {quoted(word.text)}"
                self.report("AEX042", f"{what}{name} was given before, in line {seen[key]}", word)
            seen[key] = word.line

    def budget(self) -> None:
        document = self.document
        by_unit: dict[tuple[int, bool], list[Word]] = {}
        for entry in document.budget:
            by_unit.setdefault((entry.per_seconds, entry.each), []).append(entry.key)
        for keys in by_unit.values():
            self.repeated("budget key", keys)
        for entry in document.budget:
            key = entry.key.text
            if key not in document.budget_keys:
                severity, remedy = unknown_budget(key, document.budget_keys)
                self.report("AEX046", f"budget {quoted(key)} is not counted", entry.key, severity, remedy)
            elif entry.unit is not None and key != "calls":
                message = f"budget {quoted(key)} cannot be counted per {quoted(entry.unit.text)}"
                self.report(
                    "AEX046", message, entry.unit, "error", "only `calls` can: budget calls=500 per day"
                )
            elif MAX_BUDGET < entry.value < float("inf"):
                message = f"budget {quoted(key)} is larger than any count: {quoted(entry.text.text)}"
                self.report("AEX046", message, entry.text, "error", f"write a number of at most {MAX_BUDGET}")
            elif not entry.text.text:
                self.report("AEX047", "an empty number counts as 0", entry.key)
            elif entry.value == float("inf"):
                continue  # no limit, and said so
            elif entry.value < 0 or (key == "calls" and entry.value % 1):
                taken = 0 if entry.value < 0 else entry.value // 1
                message = f"{quoted(entry.text.text)} counts as {taken:.0f}"
                self.report(
                    "AEX047", message, entry.text, None, f"write {taken:.0f}, or a larger whole number"
                )

    def idle_confirms(self) -> None:
        """Report a `confirm` that shares no tool with any `use`."""
        use = [fold_pattern(split_scope(word.text)[0]) for word in self.document.use]
        asked = [fold_pattern(split_scope(word.text)[0]) for word in self.document.confirm]
        used = PatternIndex(enumerate(use))
        wider = (
            {position for name in use for position in PatternIndex(enumerate(asked)).all(name)}
            if asked
            else set()
        )
        for position, word in enumerate(self.document.confirm):
            if position not in wider and used.first(asked[position]) is None:
                self.report("AEX048", f"`use` names no tool that {quoted(word.text)} asks for", word)
