"""Checkpoints that nobody has to think of: before the calls that a policy names, and at shares of the budget.

Owns: when such a checkpoint is due, and its name. Must never: let a call go on when the checkpoint it waits for was not
made, or make a name for each of a thousand of them: a later one takes the name of the earlier, which stays in the chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjourn.aex.policy import Policy
from adjourn.engine.decide import Call, budgets_used
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
    if policy.percents:
        for share, key, trigger in due_shares(session.task.ledger, policy):
            _make(session, f"at-{share:g}".replace(".", "-") + (f"-{key}" if key != "calls" else ""), trigger)


def due_shares(ledger: Ledger, policy: Policy) -> list[tuple[float, str, str]]:
    """Of each budget the largest share that is spent, if it has no checkpoint yet: the share, the budget's key, the trigger.

    The trigger names the budget's size, so that one which is raised arms its shares again.
    """
    due: list[tuple[float, str, str]] = []
    for key, used, limit in budgets_used(policy, ledger):
        share = max((share for share in policy.percents if limit and used * 100 >= share * limit), default=0)
        trigger = f"{AT_SHARE}{share:g}% of {key}={limit:.15g}"
        if share and trigger not in ledger.marks:
            due.append((share, key, trigger))
    return due


def _may_pass(session: Session, call: Call) -> bool:
    policy = session.policy
    return (
        policy.observe or policy.judge_call(call.tool, call.given, call.paths, call.matcher).effect == "allow"
    )


def _make(session: Session, what: str, trigger: str) -> None:
    from adjourn.engine.checkpoint import create  # noqa: PLC0415  # signing is not on the start path

    session.hold()
    task = session.task.id
    if len(task) > MAX_NAME - len(what) - 1 or "." in task:
        task = digest(task.encode())[:16]
    create(session.task, f"{task}-{what}", trigger=trigger, sitting=session)
