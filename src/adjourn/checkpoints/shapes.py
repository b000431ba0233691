"""Events as published JSON: the entries of `toolHistory` and `auditSummary`.

Owns: this projection. Must never: add members to the published ones.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.log import Event, kinds

_REFUSED = {kinds.BudgetExhausted.KIND: "budget_exhausted", kinds.ConfirmDenied.KIND: "confirm_required"}
_SHOWN = ("tool", "reason", "used", "limit", "name", "code", "signal", "message")


def tool_history_entry(event: Event, data: kinds.Data | None) -> dict[str, Any] | None:
    """The entry `{tool, timestamp, decision, reason?}` of an event that is a decision on a call, else None."""
    if isinstance(data, kinds.ToolAllowed):
        return {"tool": data.tool, "timestamp": event.timestamp, "decision": "forward"}
    reason = _REFUSED.get(event.event, "")
    if isinstance(data, kinds.ToolDenied):
        reason = data.reason
    if not reason:
        return None
    tool = getattr(data, "tool", "")
    return {"tool": tool, "timestamp": event.timestamp, "decision": "block", "reason": reason}


def audit_entry(event: Event, data: kinds.Data | None) -> dict[str, Any]:
    """The entry `{event, data}` of an event: the members that say what happened. Digests and ids are in the audit log only."""
    shown = {name: getattr(data, name) for name in _SHOWN if getattr(data, name, None) not in (None, "", 0)}
    return {"event": event.event, "data": shown}


def shown_size(value: object) -> int:
    """The bytes of a value in an answer: indented by two, in a list that is a member of the answer."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return len(text) + 4 * text.count(b"\n") + 6


AUDITED = frozenset(
    kind.KIND
    for kind in (
        kinds.ToolAllowed,
        kinds.ToolChanged,
        kinds.ToolDenied,
        kinds.BudgetExhausted,
        kinds.ConfirmRequired,
        kinds.ConfirmApproved,
        kinds.ConfirmDenied,
        kinds.ConfirmAutoApproved,
        kinds.CheckpointCreated,
        kinds.CheckpointResumed,
        kinds.UpstreamCrashed,
        kinds.UpstreamError,
        kinds.EffectSettled,
    )
)
"""Kinds of events that the answer of a resume lists."""
