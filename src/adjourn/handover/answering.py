"""A person's answer to what waits in the inbox: from one value to the one use case that records it.

Of two answers the first is recorded; the second person learns who answered, how and when.

Owns: which answers each kind of item has, and what is said of an answer. Must never: record an answer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from adjourn.checkpoints import refresh_page
from adjourn.errors import AdjournError, NotFoundError, RefusedError, UsageError
from adjourn.knowledge.model import CRAuthor, Tree
from adjourn.knowledge.records import CRStore
from adjourn.log import Actor, tool_name
from adjourn.store import Store
from adjourn.tasks import (
    AnsweredError,
    PersonsAnswer,
    Task,
    answer_first,
    existing,
    expire_dead_sessions,
    given_answer,
    given_outcome,
    settle_doubt,
)
from adjourn.text import ago

MAX_ANSWER: Final = 2_000
"""Characters of the text of an answer."""
_WAYS = {
    "cli": "in a terminal",
    "terminal": "in a terminal",
    "page": "on the page",
    "elicitation:accept": "in the client",
}
"""The ways of answering, as events name them."""


class ItemReply(NamedTuple):
    """An answer to the item `id` of a task or record. `option` is the number of the chosen option, from 0."""

    kind: str
    id: str
    action: str
    task: str = ""
    record: str = ""
    text: str = ""
    option: int | None = None


class ReplyOutcome(NamedTuple):
    """What an answer came to, in words. `is_yes`: it permits something."""

    text: str
    is_yes: bool = False


class Answerer(NamedTuple):
    """Who answers, in which store; `via` is the way of answering, as events name it. `root` and `tree` are the workspace, where it is
    known: they have the checkpoints and pages that tell of a call in doubt.
    """

    store: Store
    person: Actor
    via: str
    clock: Callable[[], int]
    secret: bytes
    root: str = ""
    tree: str = ""

    @property
    def author(self) -> CRAuthor:
        """The person, as records name authors."""
        return CRAuthor(id=self.person.id, type="human")

    @property
    def records(self) -> CRStore:
        """The records of the store."""
        return CRStore(self.store, clock=self.clock)

    def task(self, name: str) -> Task:
        """A task by its whole id. Raises `NotFoundError`."""
        found = existing(self.store, name, clock=self.clock, secret=self.secret)
        if found.id != name:
            raise NotFoundError(f"no task has the id {name!r}", "look at the inbox again")
        return found


def record_answer(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    """Record an answer. Raises `UsageError` for one that the item does not have, and as the use cases do."""
    rule = _RULES.get(reply.kind)
    if rule is None:
        raise UsageError(
            f"nothing of the kind {reply.kind[:40]!r} can be answered", "look at the inbox again"
        )
    if len(reply.text) > MAX_ANSWER:
        raise UsageError(f"the text has more than {MAX_ANSWER:,} characters", "shorten it")
    return rule(by, reply)


def _approval(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    yes = _choice(reply, "approve", "deny") == "approve"
    task = by.task(reply.task)
    try:
        asked = answer_first(task, reply.id, PersonsAnswer(yes, by.via, by.person, _text(reply)))
    except (AnsweredError, NotFoundError):
        before = given_answer(by.store, task.ledger, reply.id)
        if before is None:
            raise
        return ReplyOutcome(_too_late(by, before))
    what = tool_name(asked)
    if not yes:
        return ReplyOutcome(f"Denied: {what}.")
    if asked.refused:
        return ReplyOutcome(f"Approved: {what}. It runs once the agent repeats the call.", is_yes=True)
    return ReplyOutcome(f"Approved: {what}. It runs once.", is_yes=True)


def _too_late(by: Answerer, before: PersonsAnswer) -> str:
    said = "approved" if before.yes else "denied"
    way = "on this page" if before.via == by.via == "page" else _WAYS.get(before.via, "in the client")
    return f"{_name(by, before.by)} {said} this {way}, {ago(before.at, by.clock())}{_because(before)}."


def _name(by: Answerer, person: Actor) -> str:
    return "You" if person.id == by.person.id else person.id


def _because(before: PersonsAnswer) -> str:
    return f": {before.reason}" if before.reason else ""


def _question(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    records = by.records
    if _choice(reply, "answer", "skip") == "skip":
        records.skip_question(
            reply.record, reply.id, _text(reply, "say why you skip the question"), by.author
        )
        return ReplyOutcome("Skipped the question.")
    options = _item(records, reply, "questionsForUser").get("options", ())
    said = options[_number(reply, options)] if options else _text(reply, "write an answer")
    try:
        records.answer_question(reply.record, reply.id, said, by.author)
    except AdjournError:
        now = _item(records, reply, "questionsForUser")
        if now["status"] != "answered":
            raise
        return ReplyOutcome(f"{now['answeredBy']['id']} answered this before: {now['answer']}.")
    return ReplyOutcome(f"Answered: {said}.", is_yes=True)


def _resume_point(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    records = by.records
    yes = _choice(reply, "approve", "deny") == "approve"
    point = _item(records, reply, "resumePoints")
    if point["approvalStatus"] != "pending":
        who = point.get("approvedBy") or point.get("deniedBy") or {"id": "somebody"}
        return ReplyOutcome(f"{who['id']} {point['approvalStatus']} this before.")
    if yes:
        records.approve_resume_point(reply.record, reply.id, by.author)
        return ReplyOutcome(f"Approved: {point['label']}. Its steps may start once.", is_yes=True)
    reason = _text(reply) or f"denied by {by.person.id}"
    records.deny_resume_point(reply.record, reply.id, reason, by.author)
    return ReplyOutcome(f"Denied: {point['label']}.")


def _decision(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    records = by.records
    decision = _item(records, reply, "decisions")
    text, variant, variants = "", None, decision.get("variants", ())
    if _choice(reply, "accept", "override") == "override":
        text = _text(reply, "write the decision")
    elif variants and decision["status"] == "contested":
        variant = _number(reply, variants)
    try:
        records.answer_contested(reply.record, reply.id, by.author, text=text, variant=variant)
    except RefusedError:
        now = _item(records, reply, "decisions")
        if now["status"] == "contested":
            raise
        return ReplyOutcome(f"This decision was settled before: {now['description']} ({now['status']}).")
    return ReplyOutcome(f"Decided: {text}." if text else "Accepted the decision.", is_yes=True)


def _in_doubt(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    happened = _choice(reply, "done", "not-done") == "done"
    task = by.task(reply.task)
    expire_dead_sessions(task)
    try:
        settle_doubt(task, reply.id, happened=happened, by=by.person, note=_text(reply))
    except NotFoundError:
        before = given_outcome(by.store, task.ledger, reply.id)
        if before is None:
            raise
        outcome = "happened" if before.yes else "did not happen"
        return ReplyOutcome(
            f"{_name(by, before.by)} said {ago(before.at, by.clock())} that it {outcome}{_because(before)}."
        )
    refresh_page(task, by.root, by.tree)
    said = "took effect" if happened else "did not take effect"
    return ReplyOutcome(f"Recorded: the call {said}.", is_yes=True)


def _blocker(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    _choice(reply, "resolve")
    text = _text(reply, "say how it was resolved")
    blocker = _item(by.records, reply, "blockers")
    if blocker["status"] == "resolved":
        return ReplyOutcome(f"{blocker['resolvedBy']['id']} resolved this before: {blocker['resolution']}.")
    by.records.resolve_blocker(reply.record, reply.id, text, by.author)
    return ReplyOutcome("Resolved the blocker.", is_yes=True)


def _choice(reply: ItemReply, *choices: str) -> str:
    if reply.action not in choices:
        raise UsageError(
            f"{reply.kind} {reply.id[:80]!r} has no such answer", "give one of the answers shown"
        )
    return reply.action


def _text(reply: ItemReply, missing: str = "") -> str:
    """The text of an answer; `missing` is what to do where it must have one."""
    text = reply.text.strip()
    if missing and not text:
        raise UsageError("the text is empty", missing)
    return text


def _number(reply: ItemReply, options: Sequence[object]) -> int:
    if reply.option is None or not 0 <= reply.option < len(options):
        raise UsageError("no option is chosen", "choose one of the options")
    return reply.option


def _item(records: CRStore, reply: ItemReply, collection: str) -> Tree:
    record = records.resolve(reply.record)
    for one in record[collection]:
        if one["id"] == reply.id:
            found: Tree = one
            return found
    raise NotFoundError(f"record {record['id']} has no {reply.id!r} any more", "look at the inbox again")


_RULES: Mapping[str, Callable[[Answerer, ItemReply], ReplyOutcome]] = {
    "approval": _approval,
    "blocker": _blocker,
    "decision": _decision,
    "in-doubt": _in_doubt,
    "question": _question,
    "resume-point": _resume_point,
}
