"""What a person says: yes or no to a question, and the outcome of a call in doubt; and which questions wait for it.

Owns: writing that down, in the same step as what it makes of claims. Must never: say it for a person.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from adjourn.errors import NotFoundError, RefusedError
from adjourn.log import kinds
from adjourn.log.event import SYSTEM, Actor, Event, decode, timestamp
from adjourn.policy.principal import GROUP, Principal
from adjourn.store.base import Head, Store
from adjourn.tasks import idempotency, workspace_calls
from adjourn.tasks.decision import subject
from adjourn.tasks.entries import Approval, OpenCall
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import ELSEWHERE, REPEATED, Ledger
from adjourn.tasks.task import NewEvent, Task

BY_A_PERSON = frozenset(("cli", "terminal", "page", "elicitation:no"))
"""Where a no came from that a person said. Declines and time-outs of clients are nobody's answer."""
MAX_REASON = 2_000
"""Characters of what a person says beside an answer."""
LOOKED_BACK = 2_000
"""Events among which the answer to a question is looked for, from the end of the history."""


class AnsweredError(RefusedError):
    """Somebody has answered the question before."""


class PersonsAnswer(NamedTuple):
    """An answer to a question: yes or no, by which way, who says so and why; `at` is the time of one that is recorded.

    `roles` are what else a rule may call whoever says so, as far as that was authenticated: its name, and `group:NAME` for each group.
    """

    yes: bool
    via: str
    by: Actor
    reason: str = ""
    at: str = ""
    roles: Collection[str] = ()

    def is_by(self, who: str) -> bool:
        """Whether the one who may answer says so: a person by name, or a member of `group:NAME`; "" is anybody."""
        return not who or who in self.roles or (self.by.id == who and not who.startswith(GROUP))


def roles_of(person: Principal) -> frozenset[str]:
    """What rules may call somebody who was authenticated. A name that looks like a group is none."""
    names = set() if person.name.startswith(GROUP) else {person.name}
    return frozenset(names | {f"{GROUP}{name}" for name in person.groups})


def waiting_approvals(ledger: Ledger, now: int) -> list[Approval]:
    """The questions that wait for a person at `now` (milliseconds): one for each call, the newest.

    Those that expired, and that a person has denied, wait no more.
    """
    stamp = timestamp(now)
    found = dict[tuple[str, ...], Approval]()
    for approval in ledger.approvals.values():
        if not approval.approved and approval.expires > stamp and not _has_no(approval):
            found[about(approval)] = approval
    return list(found.values())


def _has_no(approval: Approval) -> bool:
    return approval.refused in BY_A_PERSON or approval.refused in (REPEATED, ELSEWHERE)


def about(approval: Approval) -> tuple[str, ...]:
    """The call that a question is about, and who has to answer."""
    return (*subject(approval), approval.who)


def _waiting_alike(ledger: Ledger, asked: Approval, now: int) -> list[Approval]:
    """The unanswered questions about the call of `asked`, oldest first."""
    stamp = timestamp(now)
    return [
        approval
        for approval in ledger.approvals.values()
        if about(approval) == about(asked)
        and not approval.approved
        and approval.expires > stamp
        and not _has_no(approval)
    ]


def answer_first(task: Task, approval: str, given: PersonsAnswer) -> Approval:
    """As `answer`, but only if no person has answered the question yet. Raises `AnsweredError` otherwise, `NotFoundError` as `answer`."""
    return _answer(task, approval, given, first=True)


def answer(
    task: Task, approval: str, *, yes: bool, via: str, by: Actor, session: str = "", reason: str = ""
) -> Approval:
    """A person's (or a time-out's) answer to a question. Raises `NotFoundError` when it is no longer open.

    An approval goes to the newest question about the same call, for which the call may still wait; it closes the older ones.
    """
    return _answer(task, approval, PersonsAnswer(yes, via, by, reason), session=session)


def given_answer(store: Store, ledger: Ledger, approval: str) -> PersonsAnswer | None:
    """The last answer to a question that a person gave, among the last `LOOKED_BACK` events of its task."""
    answer = None
    for event in _last_events(store, ledger):
        data = kinds.data_of(event)
        if isinstance(data, kinds.ConfirmApproved | kinds.ConfirmDenied) and data.approval == approval:
            yes = isinstance(data, kinds.ConfirmApproved)
            if yes or data.via in BY_A_PERSON:
                answer = PersonsAnswer(yes, data.via, event.by, data.reason, event.timestamp)
    return answer


def given_outcome(store: Store, ledger: Ledger, call: str) -> PersonsAnswer | None:
    """The last word of a person on a call that was in doubt, among the last `LOOKED_BACK` events: yes is that it happened."""
    answer = None
    for event in _last_events(store, ledger):
        data = kinds.data_of(event)
        if isinstance(data, kinds.EffectSettled) and data.call == call:
            answer = PersonsAnswer(data.outcome == "done", "", event.by, data.note, event.timestamp)
    return answer


def _last_events(store: Store, ledger: Ledger) -> Iterator[Event]:
    start = max(0, ledger.seq + 1 - LOOKED_BACK)
    for entry in verified_entries_from(store, ledger.task, start, Head(ledger.seq, ledger.hash)):
        yield decode(entry.data)


def _answer(task: Task, approval: str, given: PersonsAnswer, *, session: str = "", first: bool = False) -> Approval:
    approvals: list[Approval] = []
    yes, via, by = given.yes, given.via, given.by
    reason = given.reason[:MAX_REASON]

    def build(ledger: Ledger) -> list[NewEvent]:
        asked = ledger.approvals.get(approval)
        if asked is None or (yes and asked.expires <= timestamp(task.clock())):
            raise NotFoundError(
                f"question {approval} of task {task.id} is not open: it was used, or has expired",
                "repeat the call to ask again",
            )
        if first and (asked.approved or _has_no(asked)):
            raise AnsweredError(f"question {approval} of task {task.id} was answered before")
        if yes and not given.is_by(asked.who):
            is_group = asked.who.startswith(GROUP)
            way = (
                "a member signs in to the gateway's page"
                if is_group
                else f"that person runs `adjourn approve {approval}`"
            )
            raise RefusedError(
                f"question {approval} of task {task.id} is for {asked.who} to answer, not for {by.id}", way
            )
        if not yes:
            approvals[:] = [asked]
            denied = kinds.ConfirmDenied(
                approval=approval, reason=reason, server=asked.server, tool=asked.tool, via=via
            )
            return [NewEvent(denied, by, session)]
        same = [one for one in _waiting_alike(ledger, asked, task.clock()) if one.id != approval]
        meant = next((one for one in reversed(same) if not one.refused), asked) if asked.refused else asked
        approvals[:] = [meant]
        approved = kinds.ConfirmApproved(
            approval=meant.id, reason=reason, server=meant.server, tool=meant.tool, via=via
        )
        closed = [one for one in (asked, *same) if one.id != meant.id and one.refused != REPEATED]
        repeated = [
            kinds.ConfirmDenied(approval=one.id, server=one.server, tool=one.tool, via=REPEATED) for one in closed
        ]
        return [NewEvent(data, by, session) for data in (approved, *repeated)]

    task.commit(build)
    if yes or via in BY_A_PERSON:
        workspace_calls.tell_askers(
            task, approvals[0].digest, lambda ledger: _as_elsewhere(ledger, approvals[0], given)
        )
    return approvals[0]


def _as_elsewhere(ledger: Ledger, approval: Approval, given: PersonsAnswer) -> Iterator[NewEvent]:
    """What a person's answer to a question of another task is to the same questions of this one: a no as well, or that nobody needs to
    answer them, since the approval may be used here.
    """
    for one in ledger.approvals.values():
        if about(one) == about(approval) and not one.approved and not _has_no(one):
            via, by = (ELSEWHERE, SYSTEM) if given.yes else (given.via, given.by)
            reason = "" if given.yes else given.reason[:MAX_REASON]
            yield NewEvent(
                kinds.ConfirmDenied(approval=one.id, reason=reason, server=one.server, tool=one.tool, via=via), by
            )


def settle_doubt(task: Task, call: str, *, happened: bool, by: Actor, note: str = "") -> None:
    """A person's word on a call in doubt: of this task, or of another one of the workspace that a question of this task is about.

    Raises `NotFoundError` when that call is not in doubt.
    """
    task = workspace_calls.owner_of(task, call)

    def build(ledger: Ledger) -> list[NewEvent]:
        if call in ledger.failed:
            calls[:] = [ledger.failed[call].call]
            outcome: Literal["done", "not-done"] = "done" if happened else "not-done"
            return [NewEvent(kinds.EffectSettled(call=call, note=note[:2000], outcome=outcome), by)]
        if call not in ledger.doubts:
            text = ", ".join(ledger.doubts) or "none is"
            raise NotFoundError(f"call {call} of task {task.id} is not in doubt", f"in doubt: {text}")
        settled = kinds.EffectSettled(call=call, note=note[:2000], outcome="done" if happened else "not-done")
        calls[:] = [ledger.doubts[call]]
        changes.update(idempotency.settled_by_hand(task.id, calls[0], happened=happened, value_of=task.store.ref))
        return [NewEvent(settled, by)]

    def elsewhere(ledger: Ledger) -> list[NewEvent]:
        asked = any(approval.doubt == call for approval in ledger.approvals.values())
        outcome: Literal["done", "not-done"] = "done" if happened else "not-done"
        return [NewEvent(kinds.EffectSettled(call=call, note=note[:2000], outcome=outcome), by)] if asked else []

    calls: list[OpenCall] = []
    changes: dict[str, str | None] = {}
    task.commit(build, refs=changes)
    workspace_calls.tell_askers(task, calls[0].digest, elsewhere)
