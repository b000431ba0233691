"""Events as published JSON: the entries of `toolHistory` and `auditSummary`.

Owns: this projection. Must never: add members to the published ones.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.log import Event, kinds
from adjourn.tasks import Ledger

_REFUSED = {kinds.BudgetExhausted.KIND: "budget_exhausted", kinds.ConfirmDenied.KIND: "confirm_required"}
_SHOWN = ("entry", "tool", "reason", "used", "limit", "name", "code", "signal", "message")


def tool_history_entry(event: Event, data: kinds.Data | None) -> dict[str, Any] | None:
    """The entry `{tool, timestamp, decision, reason?}` of an event that is a decision on a call, else None."""
    if isinstance(data, kinds.ToolAllowed):
        return {"tool": data.tool, "timestamp": event.timestamp, "decision": "forward"}
    if isinstance(data, kinds.EntryImported):
        return _imported_decision(data) if data.decision else None
    reason = _REFUSED.get(event.event, "")
    if isinstance(data, kinds.ToolDenied):
        reason = data.reason
    if not reason:
        return None
    tool = getattr(data, "tool", "")
    return {"tool": tool, "timestamp": event.timestamp, "decision": "block", "reason": reason}


def _imported_decision(data: kinds.EntryImported) -> dict[str, Any]:
    """The entry as the imported file has it: its tool, its time, its decision."""
    shown = {"tool": data.tool, "timestamp": data.at, "decision": data.decision}
    return shown | ({"reason": data.reason} if data.reason else {})


def audit_entry(event: Event, data: kinds.Data | None) -> dict[str, Any]:
    """The entry `{event, data}` of an event: the members that say what happened. Digests and ids are in the audit log only."""
    shown = {name: getattr(data, name) for name in _SHOWN if getattr(data, name, None) not in (None, "", 0)}
    if isinstance(data, kinds.EntryImported):
        shown |= ({"at": data.at} if data.at else {}) | {"verified": False}
    elif isinstance(data, kinds.TaskImported) and not data.signer and not data.head:
        shown = {"from": data.source or "aex", "calls": data.calls, "verified": False}
    return {"event": event.event, "data": shown}


def imported_history(ledger: Ledger) -> dict[str, Any] | None:
    """What a task's history has of an import that nobody could verify: its formats and the number of its entries; None for nothing."""
    if not ledger.imported_from:
        return None
    return {"from": ledger.imported_from, "entries": ledger.imported, "verified": False}


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
        kinds.EffectRepeated,
        kinds.EntryImported,
        kinds.TaskImported,
        kinds.TaskFinished,
        kinds.TaskReopened,
    )
)
"""Kinds of events that the answer of a resume lists."""
