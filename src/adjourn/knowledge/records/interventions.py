"""What people, agents, the system and the clock do to questions and resume points (spec/record.md, section 7).

What is due expires before a record is resumed or decided on. Must never: guess from a text what an answer means, revive
a used approval, read a clock, or open by the clock a gate that needs a person.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.cognition.transitions import (
    RecordChange,
    Transition,
    broken_invariants,
    derived_id,
    find,
    is_unanswered,
    path_of,
    put,
    require_edge,
    signed,
    with_blocking,
)
from adjourn.knowledge.model.cognition import Collection
from adjourn.knowledge.model.documents import MAX_TEXT, Tree, shown, tree_of
from adjourn.knowledge.model.record import CRAuthor

SYSTEM = CRAuthor(id="adjourn", type="system")
"""The author of changes that follow from a rule or from the clock."""
MAX_ATTEMPTS = 3
_MAX_LABEL = 200

_MAY = {"any": ("human", "agent", "system"), "human": ("human",), "agent": ("agent", "human"), "system": ("system",)}
"""Who satisfies a resume point's required authority."""
_ASKED_OF_PEOPLE = ("approval", "override", "scope-change")


# --- questions


def answer_question(
    record: Tree, question_id: str, answer: str, author: CRAuthor, now: int, *, learn: bool = False
) -> Transition:
    """Answer an open question. `learn`: also add the answer to the learnings. The answer changes nothing else."""
    question = find(record, "question", question_id)
    require_edge("question", question_id, question["status"], "answered")
    if question.get("expiresAt", now + 1) <= now:
        raise RefusedError(f"question {question_id} has expired", "ask it again")
    if author.type != "human" and question["type"] in _ASKED_OF_PEOPLE:
        raise RefusedError(
            f"question {question_id} asks for a person's {question['type']}; {author.id} is {who(author.type)}",
            "ask a person to answer it",
        )
    options = question.get("options", ())
    if options and answer not in options:
        raise InvalidError(
            f"{path_of('question', question_id)}/answer: {shown(answer)} is not an option",
            "answer with one of " + ", ".join(options),
        )
    answered = {**question, "status": "answered", "answer": answer, **signed("answered", author, now)}
    after = put(record, "question", answered)
    if learn:
        after = {**after, "learnings": [*after["learnings"], _learned(question, answer, author, now)]}
    change = RecordChange("question-answered", path_of("question", question_id), {"answer": answer})
    return Transition(with_blocking(record, after, now), (change,))


def skip_question(record: Tree, question_id: str, reason: str, author: CRAuthor, now: int) -> Transition:
    """Skip an open question. Only people can skip a blocking question, or one that asks for a person's decision."""
    question = find(record, "question", question_id)
    require_edge("question", question_id, question["status"], "skipped")
    if author.type != "human" and (question["type"] in _ASKED_OF_PEOPLE or question["priority"] == "blocking"):
        raise RefusedError(f"only a person can skip question {question_id}", "ask a person to skip it")
    after = put(record, "question", {**question, "status": "skipped", "skippedReason": reason})
    change = RecordChange("updated", path_of("question", question_id), {"skippedReason": reason})
    return Transition(with_blocking(record, after, now), (change,))


def _learned(question: Tree, answer: str, author: CRAuthor, now: int) -> Tree:
    return {
        "id": derived_id("answer", question["id"]),
        "type": "insight",
        "source": "feedback",
        "content": f"{question['question']}\n{answer}"[:MAX_TEXT],
        "learnedBy": tree_of(author),
        "learnedAt": now,
        "affects": [],
    }


# --- resume points


def obstacles(record: Tree, point_id: str, *, but: str = "") -> list[str]:
    """Why a resume point cannot be approved or used now: unanswered questions, active blockers, violated hard invariants.

    `but` is the id of a question to ignore.
    """
    return [
        *(
            f"question {question['id']} is unanswered"
            for question in record["questionsForUser"]
            if point_id in question["blocksResumePoints"] and question["id"] != but and is_unanswered(record, question)
        ),
        *(
            f"blocker {blocker['id']} is active"
            for blocker in record["blockers"]
            if blocker["status"] == "active" and point_id in blocker["blocksResumePoints"]
        ),
        *broken_invariants(record),
    ]


def approve_resume_point(record: Tree, point_id: str, author: CRAuthor, now: int, *, note: str = "") -> Transition:
    """Approve a resume point. The approval confirms its `when` and `preconditions`, which are prose. A `note` becomes a constraint.

    Once a time-out has raised a question to a person, only a person can approve the point, which answers that question.
    """
    point = _decidable(record, point_id, "approved", author, now)
    _require_free(record, point_id, "approved", but=escalation_of(point) if author.type == "human" else "")
    if note:
        learnings = Collection(record["learnings"], "content", "learning")
        content = f"{point['label'][:_MAX_LABEL]}: {note}"[:MAX_TEXT]
        learnings.add(
            content, type="constraint", source="feedback", learnedBy=tree_of(author), learnedAt=now, affects=[]
        )
        record = {**record, "learnings": learnings.items}
    return approved(record, point, "approved", author, now)


def auto_approve_resume_point(record: Tree, point_id: str, now: int) -> Transition:
    """Approve a resume point that needs no person: it is safe to run automatically, and nothing blocks it."""
    point = _decidable(record, point_id, "auto-approved", None, now)
    if not may_run_by_itself(record, point):
        raise RefusedError(
            f"resume point {point_id} needs approval: it is not safe to run automatically, requires a person, or is blocked",
            "approve it",
        )
    return approved(record, point, "auto-approved", SYSTEM, now)


def deny_resume_point(record: Tree, point_id: str, reason: str, author: CRAuthor, now: int) -> Transition:
    """Deny a resume point permanently. The event names the alternative paths."""
    point = _decidable(record, point_id, "denied", author, now)
    return denied(record, point, reason, author, now)


def approved(
    record: Tree, point: Tree, status: Literal["approved", "auto-approved"], author: CRAuthor, now: int
) -> Transition:
    """The record with a point approved. Does not check whether that is allowed."""
    opened = {**point, "approvalStatus": status, **signed("approved", author, now)}
    after = _escalation_answered(put(record, "resume point", opened), point, "approved", author, now)
    detail = {"when": point["when"], "preconditions": point["preconditions"], "status": status}
    change = RecordChange("resume-point-approved", path_of("resume point", point["id"]), detail)
    return Transition(with_blocking(record, after, now), (change,))


def denied(record: Tree, point: Tree, reason: str, author: CRAuthor, now: int) -> Transition:
    """The record with a point denied. Does not check whether that is allowed."""
    closed = {**point, "approvalStatus": "denied", **signed("denied", author, now), "deniedReason": reason}
    after = _escalation_answered(put(record, "resume point", closed), point, "denied", author, now)
    detail = {"reason": reason, "alternativePaths": point.get("alternativePaths", [])}
    change = RecordChange("resume-point-denied", path_of("resume point", point["id"]), detail)
    return Transition(with_blocking(record, after, now), (change,))


def consumption_key(record: Tree, point_id: str) -> str:
    """The key of an approval outside the versions of a record: the same in each fork and each older version."""
    return f"{record['task']['id']}/{point_id}"


def already_used(point_id: str) -> RefusedError:
    """The error for a second use of an approval."""
    return RefusedError(
        f"the approval of resume point {point_id} was used already", "add a new resume point and ask for its approval"
    )


def consume_resume_point(record: Tree, point_id: str, now: int, *, consumed: Container[str] = ()) -> Transition:
    """Use the approval of a point whose steps start now. `consumed` are the keys of all approvals of the task ever used."""
    point = find(record, "resume point", point_id)
    if point["approvalStatus"] not in ("approved", "auto-approved"):
        raise RefusedError(f"resume point {point_id} is {point['approvalStatus']}", "ask for its approval first")
    if "consumedAt" in point or consumption_key(record, point_id) in consumed:
        raise already_used(point_id)
    _require_free(record, point_id, "used")
    after = put(record, "resume point", {**point, "consumedAt": now})
    change = RecordChange("updated", path_of("resume point", point_id), {"consumedAt": now})
    return Transition(with_blocking(record, after, now), (change,))


def usable_resume_points(record: Tree, *, consumed: Container[str] = ()) -> list[Tree]:
    """The approved resume points whose steps may start now."""
    return [
        point
        for point in record["resumePoints"]
        if point["approvalStatus"] in ("approved", "auto-approved")
        and "consumedAt" not in point
        and consumption_key(record, point["id"]) not in consumed
        and not obstacles(record, point["id"])
    ]


def may_run_by_itself(record: Tree, point: Tree) -> bool:
    """Whether a point may be approved automatically."""
    return bool(
        point["safeToAutoExecute"] and point["requiredAuthority"] != "human" and not obstacles(record, point["id"])
    )


def escalation_of(point: Tree) -> str:
    """The id of the question to a person that a point's time-out raises."""
    return derived_id("escalate", point["id"])


def timed_out(record: Tree, point: Tree, now: int) -> bool:
    """Whether a pending point has timed out without an escalation yet. Without a limit it never times out.

    Its time starts at `createdAt`. A point without it, as other programs write them, counts from the time of this version of the record.
    """
    if point["approvalStatus"] != "pending" or "timeoutMs" not in point:
        return False
    if any(question["id"] == escalation_of(point) for question in record["questionsForUser"]):
        return False
    return bool(point.get("createdAt", record["lastModifiedAt"]) + point["timeoutMs"] <= now)


def _require_free(record: Tree, point_id: str, verb: str, *, but: str = "") -> None:
    why = obstacles(record, point_id, but=but)
    if why:
        raise RefusedError(f"resume point {point_id} cannot be {verb}: {'; '.join(why)}", "settle that first")


def _decidable(record: Tree, point_id: str, status: str, author: CRAuthor | None, now: int) -> Tree:
    """A point that this author (None: no authority is needed) may give that status now."""
    point = find(record, "resume point", point_id)
    require_edge("resume point", point_id, point["approvalStatus"], status)
    if timed_out(record, point, now):
        raise RefusedError(f"resume point {point_id} has timed out", "apply the time-out first: call tick")
    if author is not None and author.type not in _MAY[point["requiredAuthority"]]:
        raise RefusedError(
            f"resume point {point_id} needs the authority of {who(point['requiredAuthority'])}; "
            f"{author.id} is {who(author.type)}",
            "ask for a decision by " + " or ".join(_MAY[point["requiredAuthority"]]),
        )
    return point


def _escalation_answered(record: Tree, point: Tree, answer: str, author: CRAuthor, now: int) -> Tree:
    """The record with the question of a point's time-out answered by the decision on the point."""
    for question in record["questionsForUser"]:
        if question["id"] == escalation_of(point) and question["status"] == "open":
            answered = {**question, "status": "answered", "answer": answer, **signed("answered", author, now)}
            return put(record, "question", answered)
    return record


def who(kind: str) -> str:
    """An authority, in a sentence."""
    return {"agent": "an agent", "human": "a person", "system": "the system", "any": "anyone"}[kind]


# --- what the clock does


def expire_due(record: Tree, now: int) -> Transition | None:
    """Expire the questions and time out the resume points that are due at `now` (milliseconds); None if none is.

    Applying it again at the same time changes nothing.
    """
    events: list[RecordChange] = []
    after = record
    for question in record["questionsForUser"]:
        if question["status"] == "open" and question.get("expiresAt", now + 1) <= now:
            after = _question_expired(after, question, now)
            events.append(RecordChange("question-expired", path_of("question", question["id"])))
    after = with_blocking(record, after, now)
    for point in record["resumePoints"]:
        if after["task"]["status"] not in ("completed", "failed") and timed_out(after, point, now):
            after, action = _timed_out(after, point, now)
            path = path_of("resume point", point["id"])
            events.append(RecordChange("resume-point-timeout", path, {"action": action}))
    return Transition(after, tuple(events)) if events else None


def _question_expired(record: Tree, question: Tree, now: int) -> Tree:
    """The record with a question expired. A blocking question is asked again, so that it keeps blocking."""
    after = put(record, "question", {**question, "status": "expired"})
    if question["priority"] != "blocking":
        return after
    text = f"Expired without an answer: {question['question'][:_MAX_LABEL]}"
    raised = _raised(
        derived_id("again", question["id"]), text, question["context"], question["blocksResumePoints"], now
    )
    options = {"options": question["options"]} if "options" in question else {}
    return put(after, "question", {**raised, "type": question["type"], **options})


def _timed_out(record: Tree, point: Tree, now: int) -> tuple[Tree, str]:
    """The record after a point timed out, and the action that was taken."""
    action, attempts = point["onTimeout"], point.get("attempts", 0)
    if action == "abort":
        after = denied(record, point, "timed out", SYSTEM, now).record
        return {**after, "task": {**after["task"], "status": "failed", "completedAt": now}}, "abort"
    if action == "retry" and attempts < MAX_ATTEMPTS:
        return put(record, "resume point", {**point, "createdAt": now, "attempts": attempts + 1}), "retry"
    if action == "continue" and may_run_by_itself(record, point):
        return approved(record, point, "auto-approved", SYSTEM, now).record, "continue"
    text = f"Not decided in time: {point['label'][:_MAX_LABEL]}. May it continue?"
    raised = _raised(escalation_of(point), text, point["description"], [point["id"]], now)
    return with_blocking(record, put(record, "question", raised), now), "escalate"


def _raised(name: str, text: str, context: str, points: list[str], now: int) -> Tree:
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
