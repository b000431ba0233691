"""Verbs with arguments of the wrong type: the error is always one of ours, and names the argument."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from adjourn import AdjournError, CognitiveStore, CRAuthor, MemoryStore, TaskRecord, UsageError
from adjourn.knowledge.records.record import NoteMembers

ODD: list[Any] = [
    None, 5, 1.5, "x", b"x", "\ud800", "x" * 100_000, [], [5], [None], {}, {"a": 1}, object(), float("nan"), [float("nan")],
]  # fmt: skip
BEA = CRAuthor(id="bea", type="human")


def record() -> Any:
    return TaskRecord(MemoryStore(), "t", goal="g")


def memory() -> Any:
    return CognitiveStore(MemoryStore(), "m", goal="g")


def make(**options: Any) -> None:
    """An effect with these arguments; `outputs` are what it sets."""
    outputs = options.pop("outputs", {"a": 1})
    with record().effect(**{"tool": "a", "operation": "b", "inputs": {}} | options) as effect:
        effect.outputs = outputs


def of_question(**options: Any) -> None:
    asked = record()
    asked.answer(**{"question": asked.ask("Which?"), "answer": "a", "by": BEA} | options)


def of_step(**options: Any) -> None:
    minded = memory()
    minded.update(minded.step("x"), **options)


def with_each(what: str, call: Callable[..., object], good: dict[str, Any]) -> dict[str, Callable[[Any], object]]:
    """The call with one argument after another replaced, by name."""

    def odd_one(name: str) -> Callable[[Any], object]:
        return lambda odd: call(**good | {name: odd})

    return {f"{what} {name}": odd_one(name) for name in good}


CALLS: dict[str, Callable[[Any], object]] = {
    "task": lambda odd: TaskRecord(MemoryStore(), odd).decide("x"),
    "author": lambda odd: TaskRecord(MemoryStore(), "t", author=odd).decide("x"),
    "goal": lambda odd: TaskRecord(MemoryStore(), "t", goal=odd).decide("x"),
    "merge": lambda odd: record().merge(odd),
    "diff": lambda odd: record().diff(odd),
    "fork": lambda odd: record().fork(odd),
    "assume": lambda odd: memory().assume(odd),
    "update item": lambda odd: memory().update(odd, status="completed"),
    **with_each("note", lambda **given: record().note(**given), dict.fromkeys(NoteMembers.__annotations__, ())),
    **with_each("decide", lambda **given: record().decide(**given), {"decision": "x", "because": "", "status": "accepted"}),
    **with_each("ask", lambda **given: record().ask(**given), {"question": "x", "context": "", "options": (), "priority": "low"}),
    **with_each(
        "resume_point",
        lambda **given: record().resume_point(**given),
        {"label": "x", "when": "", "preconditions": (), "next_steps": (), "authority": "any"},
    ),
    **with_each("effect", make, {"tool": "a", "operation": "b", "inputs": {}, "key": "", "outputs": None}),
    **with_each("answer", of_question, {"question": None, "answer": "a", "by": BEA}),
    **with_each(
        "step",
        lambda **given: memory().step(**given),
        {"label": "x", "type": "reasoning", "phase": "setup", "status": "active", "parent": None, "confidence": 1},
    ),
    **with_each("fact", lambda **given: memory().fact(**given), {"content": "x", "source": "s", "confidence": 1}),
    **with_each("goal", lambda **given: memory().goal(**given), {"description": "x", "parent": None, "priority": 1}),
    **with_each("update", of_step, {"label": "x", "status": "active", "confidence": 1, "child_ids": ()}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_whatever_is_given_the_error_is_one_of_ours(name: str) -> None:
    """No argument of any type leads to another error than an `AdjournError`."""
    for odd in ODD:
        with suppress(AdjournError):
            CALLS[name](odd)


def test_the_error_names_the_argument() -> None:
    """And says what to give."""
    with pytest.raises(UsageError, match=r"TaskRecord.decide: because is 5 \(give a text in UTF-8\)"):
        record().decide("x", because=5)
    with pytest.raises(UsageError, match=r"TaskRecord.answer: by is None \(give a CRAuthor"):
        of_question(by=None)
