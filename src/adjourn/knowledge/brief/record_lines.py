"""What a record and a state of mind say, in short lines, for a hand-over.

Owns: the choice, the order and the wording: the most important line of a kind comes first. Must never: bound the length, or write
what the task's events say as well (calls, budgets).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from adjourn.knowledge.brief.context import BriefContext, Item, author_of
from adjourn.knowledge.brief.knowledge_sections import contested, goals
from adjourn.knowledge.brief.resume_sections import awaited, from_nodes, warnings
from adjourn.knowledge.cognition.transitions import is_unanswered
from adjourn.knowledge.model import Tree, by_id
from adjourn.knowledge.records.interventions import usable_resume_points
from adjourn.knowledge.records.versions import ChainVerification

_RANKS = ("blocking", "critical", "high", "medium", "low")


class RecordLine(NamedTuple):
    """What a line says, and what more it says where there is room for that: a reason, a command."""

    text: str
    more: str = ""


class Recorded(NamedTuple):
    """Lines by what they are for. `steps` say what to do next, `waiting` what a person must do, `decisions` what binds, `notes` what to
    beware of.
    """

    is_finished: bool = False
    is_blocked: bool = False
    steps: Sequence[str] = ()
    progress: Sequence[str] = ()
    waiting: Sequence[RecordLine] = ()
    decisions: Sequence[RecordLine] = ()
    facts: Sequence[RecordLine] = ()
    notes: Sequence[str] = ()


def recorded(
    record: Tree,
    mind: Tree | None,
    *,
    now: int,
    verified: ChainVerification | None = None,
    consumed: Container[str] = (),
    given: Sequence[str] = (),
) -> Recorded:
    """The lines of a record and of the state of mind that belongs to it, at `now` (milliseconds).

    `verified` is the verification of the record's chain, `consumed` are the keys of all used approvals, `given` more notes.
    """
    matter = BriefContext(record, mind, now, consumed, has_record=True)
    asked = [one for one in record["questionsForUser"] if is_unanswered(record, one)]
    blockers = [one for one in record["blockers"] if one["status"] == "active"]
    usable = usable_resume_points(record, consumed=consumed)
    is_finished = record["task"]["status"] == "completed"
    return Recorded(
        is_finished=is_finished,
        is_blocked=bool(blockers) or any(one["priority"] == "blocking" for one in asked),
        steps=() if is_finished else _steps(matter, usable),
        progress=[*_subgoals(matter), *_criteria(record)],
        waiting=[
            *_questions(asked),
            *_blockers(blockers),
            *map(RecordLine, [] if usable else _joined(awaited(matter))),
        ],
        decisions=[*_constraints(record), *_answers(record), *_decisions(record)],
        facts=list(_facts(matter)),
        notes=_joined(warnings(matter, verified, given)),
    )


def _joined(items: Iterator[Item] | Sequence[Item]) -> list[str]:
    return ["; ".join(item) for item in items]


def _steps(matter: BriefContext, usable: Sequence[Tree]) -> list[str]:
    begun = [
        f"{_steps_of(point)}; these steps were started: check how far they got"
        for point in matter.record["resumePoints"]
        if matter.is_consumed(point)
    ]
    return [*map(_steps_of, usable), *begun] or _joined(from_nodes(matter))


def _steps_of(point: Tree) -> str:
    steps = "; ".join(point["nextSteps"]) or point["label"]
    first = [text for text in (point["when"], *point["preconditions"]) if text]
    check = f"; make sure first: {'; '.join(first)}" if first else ""
    about = f"; {point['description']}" if point["description"] else ""
    return f"{steps} (resume point {point['id']}: {point['label']}{about}{check})"


def _subgoals(matter: BriefContext) -> list[str]:
    """The goals without the root's, which is the task's."""
    lines = _joined([item for item, _ in goals(matter)])
    return lines[matter.graph["rootIntentId"] in by_id(matter.graph["goals"]) :]


def _criteria(record: Tree) -> Iterator[str]:
    yield from (f"done when: {criterion}" for criterion in record["task"]["successCriteria"])


def _questions(asked: Sequence[Tree]) -> Iterator[RecordLine]:
    for question in sorted(asked, key=_rank):
        options = f"; options: {'; '.join(question['options'])}" if question.get("options") else ""
        context = f"; context: {question['context']}" if question["context"] else ""
        command = f" (a person runs `adjourn answer {question['id']} ANSWER`)"
        priority = "" if question["priority"] == "medium" else f"{question['priority']} "
        text = f"{priority}{question['type']}: {question['question']}"
        yield RecordLine(text, f"{options}{context}{command}")


def _blockers(blockers: Sequence[Tree]) -> Iterator[RecordLine]:
    for blocker in sorted(blockers, key=lambda one: _RANKS.index(one["severity"])):
        yield RecordLine(f"{blocker['severity']} blocker ({blocker['id']}): {blocker['description']}")


def _constraints(record: Tree) -> Iterator[RecordLine]:
    for learning in reversed(record["learnings"]):
        if learning["type"] in ("constraint", "warning"):
            yield RecordLine(f"{learning['type']}: {learning['content']}")
    for item in record["invariants"]:
        scope = f" (in {', '.join(item['scope'])})" if item["scope"] else ""
        yield RecordLine(
            f"must remain true, {item['severity']}, {item['status']}: {item['description']}{scope}"
        )


def _answers(record: Tree) -> Iterator[RecordLine]:
    """What persons answered: the answer before its question, so that a cut takes the question."""
    for one in record["questionsForUser"]:
        if one["status"] == "answered":
            yield RecordLine(
                f"{author_of(one['answeredBy'])} answered: {one['answer']}; asked: {one['question']!r}"
            )


def _decisions(record: Tree) -> Iterator[RecordLine]:
    """Contested ones, then the others, the newest first."""
    newest = sorted(record["decisions"], key=lambda decision: -decision["madeAt"])
    yield from map(RecordLine, _joined([contested(one) for one in newest if one["status"] == "contested"]))
    for one in newest:
        if one["status"] == "contested":
            continue
        status = "" if one["status"] == "accepted" else f"{one['status']}: "
        by = "" if one["madeBy"]["type"] == "agent" else f" ({author_of(one['madeBy'])})"
        because = f", because {one['rationale']}" if one["rationale"] else ""
        yield RecordLine(f"{status}{one['description']}{by}", because)


def _facts(matter: BriefContext) -> Iterator[RecordLine]:
    """Facts that beliefs rest on, then the newest; learnings, open questions, assumptions, beliefs."""
    record, known = matter.record, matter.known
    used = {name for belief in known["beliefs"] for name in belief["evidence"]}
    for fact in _newest_first(known["facts"], used):
        sure = "" if fact["confidence"] >= 0.5 else f" (confidence {fact['confidence']:g})"
        yield RecordLine(f"{fact['content']}{sure}")
    for learning in reversed(record["learnings"]):
        if learning["type"] in ("insight", "pattern"):
            yield RecordLine(f"{learning['type']}: {learning['content']}")
    for question in sorted(known["openQuestions"], key=_rank):
        yield RecordLine(f"open question: {question['question']}")
    for assumption in reversed(known["assumptions"]):
        checked = "unverified" if assumption.get("validatedAt") is None else "validated"
        yield RecordLine(f"assumed, {checked}: {assumption['content']}")
    contents = {name: fact["content"] for name, fact in by_id(known["facts"]).items()}
    for belief in reversed(known["beliefs"]):
        evidence = "; ".join(contents.get(name, name) for name in belief["evidence"])
        yield RecordLine(
            f"believed ({belief['confidence']:g}): {belief['statement']}",
            f"; evidence: {evidence}" if evidence else "",
        )


def _newest_first(facts: Sequence[Tree], used: Container[str]) -> list[Tree]:
    """The facts that are used, then the others, the last added first."""
    newest = list(reversed(facts))
    return sorted(newest, key=lambda fact: fact["id"] not in used)


def _rank(question: Tree) -> int:
    return _RANKS.index(question["priority"])
