"""What a person says: yes or no to a question, and what became of a call in doubt.

Owns: writing that down, in the same step as what it makes of claims. Must never: say it for a person.
"""

from __future__ import annotations

from adjourn.errors import NotFoundError, RefusedError
from adjourn.log import Actor, kinds, timestamp
from adjourn.tasks import idempotency
from adjourn.tasks.ledger import Approval, Ledger
from adjourn.tasks.task import NewEvent, Task


def answer(task: Task, approval: str, *, yes: bool, via: str, by: Actor, session: str = "") -> Approval:
    """A person's (or a time-out's) answer to a question. Raises `NotFoundError` when it is not open any more."""
    found: list[Approval] = []

    def build(ledger: Ledger) -> list[NewEvent]:
        asked = ledger.approvals.get(approval)
        if asked is None or (yes and asked.expires <= timestamp(task.clock())):
            raise NotFoundError(
                f"question {approval} of task {task.id} is not open: it was used, or has expired",
                "repeat the call to ask again",
            )
        if asked.who and yes and by.id != asked.who:
            raise RefusedError(
                f"question {approval} of task {task.id} is for {asked.who} to answer, not for {by.id}",
                f"{asked.who} can run `adjourn approve {approval}`",
            )
        found[:] = [asked]
        kind = kinds.ConfirmApproved if yes else kinds.ConfirmDenied
        return [NewEvent(kind(approval=approval, tool=asked.tool, via=via), by, session)]

    task.commit(build)
    return found[0]


def settle_doubt(task: Task, call: str, *, happened: bool, by: Actor, note: str = "") -> None:
    """A person's word on a call in doubt. Raises `NotFoundError` when that call is not in doubt."""

    def build(ledger: Ledger) -> list[NewEvent]:
        if call not in ledger.doubts:
            known = ", ".join(ledger.doubts) or "none is"
            raise NotFoundError(f"call {call} of task {task.id} is not in doubt", f"in doubt: {known}")
        settled = kinds.EffectSettled(call=call, note=note[:2000], outcome="done" if happened else "not-done")
        changes.update(idempotency.settled_by_hand(task.id, ledger.doubts[call], happened=happened))
        return [NewEvent(settled, by)]

    changes: dict[str, str | None] = {}
    task.commit(build, refs=lambda _: changes)
