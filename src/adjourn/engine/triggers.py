"""Checkpoints that nobody has to think of: before the calls that a policy names, and at shares of the budget.

Owns: when such a checkpoint is due, and its name. Must never: let a call go on when the checkpoint it waits for was not
made, or make a name for each of a thousand of them: a later one takes the name of the earlier, which stays in the chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjourn.engine.decide import Call
from adjourn.engine.session import Session
from adjourn.engine.workspace import MAX_NAME
from adjourn.log.canonical import digest
from adjourn.state.ledger import AT_SHARE, Ledger

BEFORE = "before "
"""How the trigger of a checkpoint begins that was made before a call: `before deploy.run`."""


def before(session: Session, calls: Sequence[Call]) -> None:
    """Make the checkpoints that are due before these calls are decided on. Raises what making one raises."""
    policy = session.policy
    if policy.checkpoints:
        for call in calls:
            if not call.named_only and policy.checkpoint_before(call.tool) and _may_pass(session, call):
                _make(session, "before", f"{BEFORE}{call.tool}")
                break  # one holds for all that are decided on together
    if policy.percents and (share := due_share(session.task.ledger, policy.budget, policy.percents)):
        _make(session, f"at-{share:g}".replace(".", "-"), f"{AT_SHARE}{share:g}%")


def due_share(ledger: Ledger, budget: int | None, percents: Sequence[float]) -> float:
    """The largest share of the budget that is spent and has no checkpoint yet; 0 when none is due.

    A budget that is raised arms its shares again.
    """
    if not budget:
        return 0
    reached = [share for share in percents if ledger.calls_used * 100 >= share * budget]
    share = max(reached, default=0)
    return 0 if ledger.marks.get(f"{AT_SHARE}{share:g}%") == budget else share


def _may_pass(session: Session, call: Call) -> bool:
    policy = session.policy
    return (
        policy.observe or policy.judge_call(call.tool, call.given, call.paths, call.matcher).effect == "allow"
    )


def _make(session: Session, what: str, trigger: str) -> None:
    from adjourn.engine.checkpoint import create  # noqa: PLC0415  # signing is not on the start path

    task = session.task.id
    if len(task) > MAX_NAME - len(what) - 1 or "." in task:
        task = digest(task.encode())[:16]
    create(session.task, f"{task}-{what}", trigger=trigger, sitting=session)
