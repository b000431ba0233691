"""What the clock does to a record: questions expire, resume points time out (spec/record.md, section 7).

Owns: `expire_due`. It is looked at lazily, before a record is resumed or decided on. Must never: read a clock, or open a gate that needs
a person.
"""

from __future__ import annotations

from adjourn.knowledge.cognition.transitions import (
    RecordChange,
    Transition,
    derived_id,
    path_of,
    put,
    with_blocking,
)
from adjourn.knowledge.model import Tree
from adjourn.knowledge.records.interventions import (
    MAX_ATTEMPTS,
    SYSTEM,
    approved,
    denied,
    escalation_of,
    may_run_by_itself,
    timed_out,
)

_LABEL = 200


def expire_due(record: Tree, now: int) -> Transition | None:
    """What is due at this time, as the system's; None when nothing is. Ticking again at the same time does nothing."""
    events: list[RecordChange] = []
    after = record
    for question in record["questionsForUser"]:
        if question["status"] == "open" and question.get("expiresAt", now + 1) <= now:
            after = _expired(after, question, now)
            events.append(RecordChange("question-expired", path_of("question", question["id"])))
    after = with_blocking(record, after, now)
    for point in record["resumePoints"]:
        if after["task"]["status"] not in ("completed", "failed") and timed_out(after, point, now):
            after, action = _late(after, point, now)
            path = path_of("resume point", point["id"])
            events.append(RecordChange("resume-point-timeout", path, {"action": action}))
    return Transition(after, tuple(events)) if events else None


def _expired(record: Tree, question: Tree, now: int) -> Tree:
    """A blocking question keeps blocking, through the one that is raised in its place."""
    after = put(record, "question", {**question, "status": "expired"})
    if question["priority"] != "blocking":
        return after
    text = f"Expired without an answer: {question['question'][:_LABEL]}"
    raised = _question(
        derived_id("again", question["id"]), text, question["context"], question["blocksResumePoints"], now
    )
    options = {"options": question["options"]} if "options" in question else {}
    return put(after, "question", {**raised, "type": question["type"], **options})


def _late(record: Tree, point: Tree, now: int) -> tuple[Tree, str]:
    """The record after a point's time is up, and what was done."""
    action, attempts = point["onTimeout"], point.get("attempts", 0)
    if action == "abort":
        after = denied(record, point, "timed out", SYSTEM, now).record
        return {**after, "task": {**after["task"], "status": "failed", "completedAt": now}}, "abort"
    if action == "retry" and attempts < MAX_ATTEMPTS:
        return put(record, "resume point", {**point, "createdAt": now, "attempts": attempts + 1}), "retry"
    if action == "continue" and may_run_by_itself(record, point):
        return approved(record, point, "auto-approved", SYSTEM, now).record, "continue"
    text = f"Not decided in time: {point['label'][:_LABEL]}. May it go on?"
    raised = _question(escalation_of(point), text, point["description"], [point["id"]], now)
    return with_blocking(record, put(record, "question", raised), now), "escalate"


def _question(name: str, text: str, context: str, points: list[str], now: int) -> Tree:
    return {
        "id": name,
        "type": "approval",
        "question": text,
        "context": context,
        "status": "open",
        "blocksResumePoints": points,
        "priority": "blocking",
        "askedAt": now,
    }
