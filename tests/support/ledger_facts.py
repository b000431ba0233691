"""Facts of a task's chain, and the ledger that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from adjourn.log import kinds
from adjourn.log.event import timestamp
from adjourn.tasks.entries import rate_key
from adjourn.tasks.ledger import Ledger
from support.clock import NOON
from support.events import TASK, chained

ONE, TWO, STATE = "1" * 64, "2" * 64, "5" * 64
LIMIT, DAILY = rate_key(3, 60, "deploy"), rate_key(9, 86_400, "*")
Facts = list[tuple[kinds.Data, str]]


def after(*facts: tuple[kinds.Data, str], ledger: Ledger | None = None) -> Ledger:
    """The ledger after these facts, a second apart from NOON on."""
    ledger = ledger or Ledger(task=TASK)
    for (event, event_hash, _), (item, _) in zip(chained(facts), facts, strict=True):
        ledger.apply(event, event_hash, item)
    return ledger


def opened(session: str = "s1", group: str = "g1", budget: int = 5) -> tuple[kinds.Data, str]:
    item = kinds.SessionOpened(budget=budget, client="cc", group=group, host="box:b:n", pid=3, policy=ONE, started=7)
    return item, session


def allowed(
    call: str,
    session: str = "s1",
    *,
    effectful: bool = True,
    approval: str = "",
    uncounted: bool = False,
    limits: Sequence[str] = (),
    once: str = "",
    behind: bool = False,
) -> tuple[kinds.Data, str]:
    item = kinds.ToolAllowed(
        approval=approval,
        arguments="{}",
        behind=behind,
        call=call,
        digest=TWO,
        effectful=effectful,
        limits=list(limits),
        once=once,
        tool="deploy",
        uncounted=uncounted,
    )
    return item, session


def settled(
    call: str, outcome: Any = "ok", session: str = "s1", state: str = "", *, seen: bool = False
) -> tuple[kinds.Data, str]:
    return kinds.ToolSettled(call=call, outcome=outcome, seen=seen, state=state), session


def asked(
    approval: str = "q1",
    *,
    doubt: str = "",
    expires: str = timestamp(NOON + 60_000),
    who: str = "",
    otherwise: Literal["deny", "allow"] = "deny",
    definition: str = "",
) -> tuple[kinds.Data, str]:
    item = kinds.ConfirmRequired(
        approval=approval,
        arguments="{}",
        cause="why",
        definition=definition,
        digest=TWO,
        doubt=doubt,
        expires=expires,
        otherwise=otherwise,
        tool="deploy",
        who=who,
    )
    return item, "s1"


def answered(yes: bool, approval: str = "q1") -> tuple[kinds.Data, str]:
    kind = kinds.ConfirmApproved if yes else kinds.ConfirmDenied
    return kind(approval=approval, tool="deploy", via="cli"), ""


def changed(before: str, after: str, tool: str = "deploy") -> tuple[kinds.Data, str]:
    return kinds.ToolChanged(after=after, before=before, server="s", tool=tool), "s1"
