"""What a well-formed document means, checked before anything runs: every finding but the parser's own.

Must never: refuse a text that v0 accepts and runs correctly (what v0 let pass and could run is a warning), examine
files or inputs, take more than linear time.

A new diagnostic is an error only where every run is blocked by it: at the top level, before anything that might
have ended the run. In a body, or behind a possible `return`, the same is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adjourn.aex.ast import (
    TYPES,
    Budget,
    ConfirmStep,
    Document,
    ReturnStep,
    RuleBlock,
    Where,
    WhereTest,
    known_type,
    steps_of,
)
from adjourn.aex.check_steps import Checker, Steps
from adjourn.aex.diagnostics import finding, quoted
from adjourn.aex.expr import MAX_BUDGET, Text, Word
from adjourn.aex.match import PatternIndex, fold_pattern, never_matches, split_scope
from adjourn.aex.parser import parse
from adjourn.aex.rule import why_no_regex
from adjourn.aex.suggestions import means_every_tool, pattern_help, type_near, unknown_budget
from adjourn.findings import Finding

MAX_FINDINGS = 1000


def examine(text: str, source: str = "") -> Document:
    r"""The document of a text with every finding about it, the parser's first. Never raises.

    >>> [found.code for found in examine("task greet v0\nuse mail.send\n").findings]
    ['AEX100', 'AEX002', 'AEX003']
    """
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
                self.report("AEX004", f"version {quoted(header.version)} of the language is not known", header.line)
        self.repeated("header", (header.line for header in document.headers), one=True)
        self.repeated("goal", document.goals, one=True)
        if not document.is_policy:
            self.task()
        self.patterns()
        self.budget()
        if document.is_v1:
            check_v1(self)
        for block in document.blocks:
            _Declarations(block.rules, self.findings).check_rules()
        check_blocks(self)

    def check_rules(self) -> None:
        """The findings about rules that hold for somebody."""
        self.patterns()
        self.budget()
        check_v1(self)

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
                self.report("AEX047", message, word, None, "write the path as it is from the workspace's folder")
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
        by_unit: dict[tuple[int, bool, bool], list[Word]] = {}
        for entry in document.budget:
            by_unit.setdefault((entry.per_seconds, entry.each, entry.is_of_session), []).append(entry.key)
        for keys in by_unit.values():
            self.repeated("budget key", keys)
        for entry in document.budget:
            key = entry.key.text
            if key not in document.budget_keys:
                severity, remedy = unknown_budget(key, document.budget_keys)
                self.report("AEX046", f"budget {quoted(key)} is not counted", entry.key, severity, remedy)
            elif entry.unit is not None and key != "calls":
                message = f"budget {quoted(key)} cannot be counted per {quoted(entry.unit.text)}"
                self.report("AEX046", message, entry.unit, "error", "only `calls` can: budget calls=500 per day")
            elif MAX_BUDGET < entry.value < float("inf"):
                message = f"budget {quoted(key)} is larger than any count: {quoted(entry.text.text)}"
                self.report("AEX046", message, entry.text, "error", f"write a number of at most {MAX_BUDGET}")
            elif not entry.text.text:
                self.report("AEX047", "an empty number is read as 0", entry.key)
            elif entry.value == float("inf"):
                continue  # no limit, and said so
            elif entry.value < 0 or (key == "calls" and entry.value % 1):
                taken = 0 if entry.value < 0 else entry.value // 1
                message = f"{quoted(entry.text.text)} is read as {taken:.0f}"
                self.report("AEX047", message, entry.text, None, f"write {taken:.0f}, or a larger whole number")

    def idle_confirms(self) -> None:
        """Report a `confirm` that shares no tool with any `use`."""
        use = [fold_pattern(split_scope(word.text)[0]) for word in self.document.use]
        texts = [fold_pattern(split_scope(word.text)[0]) for word in self.document.confirm]
        used = PatternIndex(enumerate(use))
        wider = {position for name in use for position in PatternIndex(enumerate(texts)).all(name)} if texts else set()
        for position, word in enumerate(self.document.confirm):
            if position not in wider and used.first(texts[position]) is None:
                self.report("AEX048", f"`use` names no tool that {quoted(word.text)} asks for", word)


# --- rules that hold only for somebody and change nothing for them, since a rule for all says as much

_Kinds = dict[str, "_Plain"]
_Key = tuple[str, int, bool]


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


def check_blocks(checker: Checker) -> None:
    """Report what in the blocks of a policy has no effect."""
    document = checker.document
    kinds = {kind: _Plain(_plain(document, kind), folded=kind != "allow") for kind in ("allow", "deny", "confirm")}
    budgets = {
        (entry.key.text, entry.per_seconds, entry.is_of_session): entry for entry in document.budget if not entry.each
    }
    for block in document.blocks:
        _names(block, checker)
        for kind, word in _patterns(block.rules):
            _pattern(kind, word, kinds, checker)
        for entry in block.rules.budget:
            _budget(entry, budgets, checker)


def _names(block: RuleBlock, checker: Checker) -> None:
    seen = set[str]()
    for name in block.whom:
        if name.text in seen:
            checker.report("AEX042", f"{quoted(name.text)} is named twice", name)
        seen.add(name.text)


def _pattern(kind: str, word: Word, kinds: _Kinds, checker: Checker) -> None:
    tool = split_scope(word.text)[0]
    if line := kinds["deny"].line_of(tool, folded=True):
        checker.report("AEX048", f"{quoted(word.text)} is denied for all, in line {line}", word)
    elif kind != "deny" and (line := kinds[kind].line_of(tool)):
        text = "allowed" if kind == "allow" else "to be confirmed"
        checker.report("AEX048", f"{quoted(word.text)} is {text} for all, in line {line}", word)


def _budget(entry: Budget, budgets: dict[_Key, Budget], checker: Checker) -> None:
    least = budgets.get((entry.key.text, entry.per_seconds, entry.is_of_session))
    if least is not None and entry.value >= least.value:
        line = least.key.line
        message = f"the budget for all in line {line} is spent before {quoted(entry.word.text)}"
        checker.report("AEX048", message, entry.word)


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


# --- what the rules of version 1 mean


def check_v1(checker: Checker) -> None:
    """Report what is wrong with the rules that version 1 adds."""
    document = checker.document
    _check_v1_patterns(document, checker)
    for keyword, where in _conditions(document):
        for test in where.tests:
            if test.operator.text == "~":
                _regex(test, keyword, checker)
    _modes(document, checker)
    if any(line.percents for line in document.checkpoints) and not document.budget:
        word = next(line.percents[0].word for line in document.checkpoints if line.percents)
        checker.report("AEX048", f"unknown budget {quoted(word.text)}", word)


def _check_v1_patterns(document: Document, checker: Checker) -> None:
    lines = [line.patterns for line in document.limits]
    lines += [line.patterns for line in document.once]
    lines += [line.patterns for line in document.checkpoints]
    for word in (word for words in lines for word in words):
        reason = never_matches(word.text)
        if not reason and ":" in word.text:
            reason = "a scope belongs to `allow`, `deny` and `confirm`"
        if reason:
            checker.report("AEX041", f"pattern {quoted(word.text)} can never match: {reason}", word)


def _conditions(document: Document) -> Iterator[tuple[str, Where]]:
    """Every `where`, with the keyword of its line."""
    for line in document.permissions:
        if line.where:
            yield line.keyword, line.where
    for step in steps_of(document.steps):
        if isinstance(step, ConfirmStep) and step.where:
            yield "confirm", step.where


def _regex(test: WhereTest, keyword: str, checker: Checker) -> None:
    value = test.values[0]
    if not isinstance(value, Text):
        return
    if reason := why_no_regex(value.value):
        checker.report("AEX142", f"cannot use the expression {quoted(value.value)}: {reason}", value.word)
    elif keyword in ("use", "allow") and not value.value.startswith(("^", r"\A", "(?")):
        message = f"{quoted(value.value)} permits every text that holds a match anywhere"
        checker.report("AEX047", message, value.word, None, "start the expression with `^`, and end it with `$`")


def _modes(document: Document, checker: Checker) -> None:
    for earlier, mode in zip(document.modes, document.modes[1:], strict=False):
        same = earlier.value.text == mode.value.text
        message = f"the mode was given before, in line {earlier.word.line}"
        checker.report("AEX042", message, mode.word, "warning" if same else "error")
