"""A payment that may happen only once: its policy, its calls and its answer."""

from __future__ import annotations

from typing import Any

from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.policy.calls import arguments_digest
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.session import Admitted, Session
from support.policies import policy_of

PAYMENTS_POLICY = policy_of("allow payments.*", "allow echo", "once payments.* by invoice.number", version="v1")
ANSWER = b'{"content":[{"type":"text","text":"paid"}]}'


def pay(invoice: Any = "A-7", tool: str = "payments.charge", **more: Any) -> ToolRequest:
    given = {"invoice": {"number": invoice}, "amount": more.pop("amount", 1)}
    return ToolRequest(tool=tool, digest=arguments_digest(given), given=given, **more)


def settled(admitted: Admitted, outcome: Any = "ok", answer: bytes = ANSWER) -> kinds.ToolSettled:
    return kinds.ToolSettled(answer=digest(answer), call=admitted.call, outcome=outcome)


def finish(session: Session, admitted: Admitted, outcome: Any = "ok", *, kept: bool = True) -> None:
    """What comes of a call, with its answer if that is to be kept."""
    answers = {admitted.call: ANSWER} if kept and outcome == "ok" else {}
    session.settle([settled(admitted, outcome)], answers=answers)
