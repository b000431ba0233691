"""The interpreter of a task's steps: in order, each written down, the first one that is blocked ends the run.

A run that is resumed goes through the same steps again, and takes what the journal has of them instead of doing them:
so it reaches the step where it was with the same names bound, and continues there. Its caller asks for each step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from adjourn.aex import check_steps as conditions
from adjourn.aex.ast import CheckStep, ConfirmStep, Document, DoStep, ForStep, IfStep, MakeStep, ReturnStep, Statement
from adjourn.aex.check_steps import Condition, parse_condition
from adjourn.aex.expr import Constant, ListOf, Name, ObjectEntry, ObjectOf, Text, Value, Word
from adjourn.errors import AdjournError, InvalidError
from adjourn.log import kinds
from adjourn.runs.journal import Journal
from adjourn.runs.step_calls import MAX_NAME, BlockedError, Caller, MakeRequest, Means, RunPermissions
from adjourn.runs.subprocesses import touched
from adjourn.text.fitting import fit_text

MAX_CONDITION = 500


class Returned(msgspec.Struct, frozen=True):
    """The value of the `return` that was reached."""

    value: Any


Walk: TypeAlias = Generator[str, None, Returned | None]
"""Steps as they are taken: yields the position of each right before it, and again (`2:1`) after each turn of a loop."""


class Interpreter:
    """One run of one document."""

    def __init__(
        self, document: Document, names: Names, permissions: RunPermissions, journal: Journal, means: Means
    ) -> None:
        self._document = document
        self._names = names
        self._permissions = permissions
        self._journal = journal
        self._means = means
        self._caller = Caller(permissions, journal, means)

    def walk(self) -> Generator[str, None, Returned]:
        """Run the steps, each when the next position is requested. Raises `BlockedError`, and what the store raises."""
        returned = yield from self._block(self._document.steps, "")
        if returned is None:
            raise BlockedError("", "the task ended without `return`", "end the task with `return`")
        return returned

    def _block(self, steps: Sequence[Statement], before: str) -> Walk:
        for number, step in enumerate(steps, 1):
            yield f"{before}{number}"
            self._means.stop.check()
            returned = yield from self._step(step, f"{before}{number}")
            if returned is not None:
                return returned
        return None

    def _step(self, step: Statement, at: str) -> Walk:
        if isinstance(step, DoStep):
            self._do(step, at)
        elif isinstance(step, MakeStep):
            self._make(step, at)
        elif isinstance(step, CheckStep):
            self._check(step, at)
        elif isinstance(step, ConfirmStep):
            self._confirm(step, at)
        elif isinstance(step, ReturnStep):
            return Returned(evaluate(step.value, self._names))
        elif isinstance(step, IfStep):
            return (yield from self._block(step.body, f"{at}.")) if self._if(step, at) else None
        elif isinstance(step, ForStep):
            return (yield from self._for(step, at))
        return None

    # --- calls

    def _do(self, step: DoStep, at: str) -> None:
        bind = step.bind.text if step.bind else ""
        arguments = members(step.arguments, self._names)
        self._bind(bind, self._caller.do(step.tool.text, arguments, bind, at))

    def _make(self, step: MakeStep, at: str) -> None:
        names = [word.text.removeprefix("$") for word in step.inputs]
        make = MakeRequest(
            bind=step.bind.text,
            type=step.type.text,
            inputs={name: self._names.look_up(name) for name in names},
            instructions=[word.text for word in step.instructions],
        )
        self._bind(make.bind, self._caller.make(make, at))

    def _bind(self, name: str, value: Any) -> None:
        if name:
            self._names.variables[name] = value

    # --- conditions, loops

    def _check(self, step: CheckStep, at: str) -> None:
        if at in self._journal.history.passed:
            return
        text = step.condition.text[:MAX_CONDITION]
        reason = self._why_not(step.condition)
        if reason:
            reason = reason[:MAX_CONDITION]
            self._journal.note(kinds.CheckFailed(condition=text, reason=reason, step=at))
            self._means.emit("check.failed", {"condition": text, "reason": reason})
            raise BlockedError(at, f"check failed: {text}: {reason}", "fix what it checks, and start a new run")
        self._journal.note(kinds.CheckPassed(condition=text, step=at))
        self._means.emit("check.passed", {"condition": text})

    def _why_not(self, word: Word) -> str:
        condition = parse_condition(word)
        if condition is None:
            return "no condition of this form is supported"
        try:
            with self._means.stop.allowed():
                return holds(condition, self._names, lambda patch: touched(self._means.root, patch))
        except AdjournError as error:  # what cannot be examined is false
            return error.message

    def _if(self, step: IfStep, at: str) -> bool:
        passed = self._journal.history.passed.get(at)
        if passed is not None:
            return isinstance(passed, kinds.IfTrue)
        text = step.condition.text[:MAX_CONDITION]
        kind = kinds.IfFalse if self._why_not(step.condition) else kinds.IfTrue
        self._journal.note(kind(condition=text, step=at))
        self._means.emit(kind.KIND, {"condition": text})
        return kind is kinds.IfTrue

    def _confirm(self, step: ConfirmStep, at: str) -> None:
        """At the top level it has counted from the beginning; in a body it counts from here on."""
        if "." in at:
            self._permissions.ask_before(self._document, step)

    def _for(self, step: ForStep, at: str) -> Walk:
        items = evaluate(step.value, self._names)
        name = step.variable.text
        if not isinstance(items, list):
            raise BlockedError(
                at, f"`for {name} in {step.iterable.text[:100]}`: the value is not a list", "name a list"
            )
        if self._journal.note(kinds.ForStart(count=len(items), step=at, variable=name[:MAX_NAME])):
            self._means.emit("for.start", {"variable": name, "count": len(items)})
        variables = self._names.variables
        hidden = {name: variables[name]} if name in variables else {}
        for turn, item in enumerate(items, 1):
            variables[name] = item
            returned = yield from self._block(step.body, f"{at}:{turn}.")
            if returned is not None:
                return returned
            yield f"{at}:{turn}"
        variables.pop(name, None)
        variables.update(hidden)
        return None


# --- evaluating expressions and conditions, given the names that are bound

MAX_TEXT = 50_000_000
"""Longest JSON text of a value that is used as text, in characters."""
_CITATION = re.compile(r"\[[^\[\]]*\]\([^()\s]+\)|\[[0-9]+\]|https?://\S")
_PATH_KEYS = ("path", "file", "newPath")

Touched = Callable[[str], Sequence[str]]
"""The files that a patch touches. Raises `InvalidError` for a text that is no patch."""


class Names:
    """Inputs, and the variables bound so far. An input that is declared and absent is null."""

    def __init__(self, inputs: Mapping[str, Any], declared: Sequence[str] = ()) -> None:
        self._inputs = dict.fromkeys(declared) | dict(inputs)
        self.variables: dict[str, Any] = {}

    def known(self, path: str) -> bool:
        """Whether a path, or its first part, names something."""
        first = path.partition(".")[0]
        return any(name in names for name in (path, first) for names in (self.variables, self._inputs))

    def look_up(self, path: str) -> Any:
        """What a path leads to, None if there is no such value. Variables hide inputs."""
        first, _, text = path.partition(".")
        for name, parts in ((path, []), (first, text.split(".") if text else [])):
            for names in (self.variables, self._inputs):
                if name in names:
                    return _member(names[name], parts)
        return None


def _member(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def evaluate(value: Value | None, names: Names) -> Any:
    """A value of the language as JSON. An unbound name is its own text; an entry without a value is empty."""
    if value is None:
        return ""
    if isinstance(value, Text):
        return value.value
    if isinstance(value, Constant):
        return _constant(value)
    if isinstance(value, Name):
        return names.look_up(value.path) if names.known(value.path) else value.path
    if isinstance(value, ListOf):
        return [evaluate(item, names) for item in value.items]
    return members(value.entries, names) if isinstance(value, ObjectOf) else None


def members(entries: Sequence[ObjectEntry], names: Names) -> dict[str, Any]:
    """The arguments of a call, or the entries of an object. Of a key that is given twice the last counts."""
    return {entry.key.text: evaluate(entry.value, names) for entry in entries}


def _constant(constant: Constant) -> Any:
    value = constant.value
    if isinstance(value, bool):
        return value
    if value - value != 0:  # infinite: JSON has no such number
        return constant.word.text
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def truthy(value: Any) -> bool:
    """Truth as in JavaScript, except that an empty list is false."""
    return True if isinstance(value, dict) else bool(value)


def as_text(value: Any) -> str:
    """A value as text to search in: a text unchanged, empty for null, else JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_TEXT:
        raise InvalidError(f"the value has more than {MAX_TEXT:,} characters as text", "use a part of it")
    return text


def holds(condition: Condition, names: Names, touched: Touched) -> str:
    """The reason that a condition is false; empty when it is true. Raises `InvalidError` if it cannot be evaluated."""
    return _FORMS[condition.form](condition, names, touched)


def _path(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    path = condition.subject.text
    return "" if truthy(names.look_up(path)) else f"{path} is {_shown(names.look_up(path))}"


def _has_text(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    index = condition.text in as_text(names.look_up(condition.subject.text))
    return "" if index else f'{condition.subject.text} has no "{condition.text}"'


def _has_citations(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    match = _CITATION.search(as_text(names.look_up(condition.subject.text)))
    return "" if match else f"{condition.subject.text} has no link, no [number] and no URL"


def _not_include_text(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    return _absent(condition, condition.text, names)


def _not_include(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    assert condition.other is not None  # its form has one
    return _absent(condition, as_text(names.look_up(condition.other.text)), names)


def _absent(condition: Condition, part: str, names: Names) -> str:
    """The reason that a text includes `part`; empty if it does not. An empty part is in every text."""
    if part in as_text(names.look_up(condition.subject.text)):
        return f"{condition.subject.text} includes {_shown(part)}"
    return ""


def _touches_only(condition: Condition, names: Names, touched: Touched) -> str:
    assert condition.other is not None  # its form has one
    permitted = names.look_up(condition.other.text)
    if not isinstance(permitted, list):
        return f"{condition.other.text} is {_shown(permitted)}, not a list of files"
    listed = {_plain(item) for item in permitted if isinstance(item, str)}
    beyond = [file for file in files_of(names.look_up(condition.subject.text), touched) if file not in listed]
    return f"{condition.subject.text} touches {', '.join(beyond[:5])}" if beyond else ""


def _valid_diff(condition: Condition, names: Names, touched: Touched) -> str:
    value = names.look_up(condition.subject.text)
    try:
        if value == [] or files_of(value, touched):
            return ""
    except InvalidError as error:
        return f"{condition.subject.text} is not a diff: {error.message}"
    return f"{condition.subject.text} is not a diff: it names no file"


def files_of(value: Any, touched: Touched) -> list[str]:
    """The files that a patch or a list of changes touches. Raises `InvalidError` if they cannot be determined.

    A patch is read as git reads it. A list holds paths, or objects with a `path`, `file` or `newPath`; an object has such a
    list in `files`, or is one of them.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [_plain(file) for file in touched(value)] if value.strip() else []
    if isinstance(value, dict) and isinstance(value.get("files"), list):
        value = value["files"]
    return [_plain(_file(item)) for item in (value if isinstance(value, list) else [value])]


def _file(item: Any) -> str:
    path = next((item[key] for key in _PATH_KEYS if key in item), None) if isinstance(item, dict) else item
    if not isinstance(path, str) or not path:
        raise InvalidError(f"{_shown(item)} does not name a file", "list paths, or objects with a `path`")
    return path


def _plain(path: str) -> str:
    return path.removeprefix("./")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else repr(value[:80])
    return fit_text(text, 80)


_FORMS: dict[str, Callable[[Condition, Names, Touched], str]] = {
    conditions.PATH: _path,
    conditions.HAS_TEXT: _has_text,
    conditions.HAS_CITATIONS: _has_citations,
    conditions.NOT_INCLUDE_TEXT: _not_include_text,
    conditions.NOT_INCLUDE: _not_include,
    conditions.TOUCHES_ONLY: _touches_only,
    conditions.VALID_DIFF: _valid_diff,
}
