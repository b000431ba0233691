"""The interpreter of a task's steps: in order, each written down, the first one that is blocked ends the run.

A run that is resumed goes through the same steps again, and takes what the journal has of them instead of doing them: so it
reaches the step where it was with the same names bound, and continues there. Its caller asks for each step. Owns: the meaning
of each statement, and a step's position. Must never: have an effect of its own; `calls` makes those.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import msgspec

from adjourn.aex import (
    CheckStep,
    ConfirmStep,
    Document,
    DoStep,
    ForStep,
    IfStep,
    MakeStep,
    ReturnStep,
    Statement,
    Word,
    parse_condition,
)
from adjourn.errors import AdjournError
from adjourn.log import kinds
from adjourn.runs.expressions import Names, evaluate, holds, members
from adjourn.runs.journal import Journal
from adjourn.runs.make_step import MakeRequest
from adjourn.runs.patches import touched
from adjourn.runs.permission import RunPermissions
from adjourn.runs.step_calls import MAX_NAME, BlockedError, Caller, Means

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
            raise BlockedError(
                at, f"check failed: {text}: {reason}", "fix what it checks, and start a new run"
            )
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
        known = self._journal.history.passed.get(at)
        if known is not None:
            return isinstance(known, kinds.IfTrue)
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
