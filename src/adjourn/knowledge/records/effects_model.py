"""The effects of a task, folded from its events: the `toolEffects` of a record (spec/record.md, section 10).

Owns: how each event changes an effect, and how many effects a record shows. Must never: read a store, or drop an effect that is not
settled, or that a library claimed with more details than its event has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjourn.errors import InvalidError
from adjourn.knowledge.model import MAX_ID, EffectStatus, Tree, same
from adjourn.log import MAX_SAFE_INTEGER, Event, canonical, digest, kinds, milliseconds, tool_name

OPERATION = "tools/call"
"""The operation of a call that a session of the task made."""
MAX_SETTLED = 50
MAX_UNSETTLED = 500
"""How many calls a record shows, the newest ones. `effectsThrough.count` counts all."""
UNSETTLED = ("claimed", "unknown")
THROUGH = "effectsThrough"
_OUTCOMES: dict[str, EffectStatus] = {
    "ok": "completed",
    "tool-error": "failed",
    "error": "failed",
    "no-answer": "unknown",
}


def fold_events(record: Tree, events: Iterable[Event]) -> Tree:
    """The record with its effects changed by the events after `effectsThrough`; the same tree if nothing changes."""
    before: Tree = record.get(THROUGH, {"seq": -1, "count": 0})
    fold = _Fold(record["toolEffects"], before["count"])
    seq = before["seq"]
    for event in events:
        fold.apply(event)
        seq = event.seq
    effects = _bounded(list(fold.effects.values()))
    if same(effects, record["toolEffects"]):
        return record
    return {**record, "toolEffects": effects, THROUGH: {"seq": seq, "count": fold.count}}


def last_folded_position(record: Tree) -> int:
    """The position of the last event that a record's effects include; -1 for none."""
    return int(record[THROUGH]["seq"]) if THROUGH in record else -1


def omitted_count(record: Tree) -> int:
    """How many settled effects of the task a record leaves out, because they are older than those it shows."""
    return max(0, record[THROUGH]["count"] - len(record["toolEffects"])) if THROUGH in record else 0


def is_call(effect: Tree) -> bool:
    """Whether an effect has only the details of its event."""
    return "digest" in effect


def name_of(effect: Tree) -> str:
    """The name of an effect's tool in the task's events."""
    return event_name(effect["toolName"], effect["operation"])


def event_name(tool: str, operation: str) -> str:
    """The name of a tool's operation in the task's events: `payments.charge` for `payments`, `charge`."""
    return tool if operation == OPERATION else f"{tool}.{operation}"


def digest_of(effect: Tree) -> str:
    """The digest of an effect's arguments."""
    return str(effect["digest"]) if is_call(effect) else digest(canonical(effect["inputs"]))


class _Fold:
    """The effects by id, in order."""

    def __init__(self, effects: Iterable[Tree], count: int) -> None:
        self.effects: dict[str, Tree] = {effect["id"]: effect for effect in effects}
        self.count = count

    def apply(self, event: Event) -> None:
        try:
            data = kinds.data_of(event)
            at = milliseconds(event.timestamp)
        except InvalidError:  # an event of another format
            return
        if isinstance(data, kinds.ToolAllowed):
            self._allowed(event, data, at)
        elif isinstance(data, kinds.ToolSettled):
            self._settled(data)
        elif isinstance(data, kinds.ToolContinued):
            self._change(data.call, session=event.session, status="claimed")
        elif isinstance(data, kinds.EffectSettled):
            by = {"id": event.by.id, "type": event.by.type}
            self._change(data.call, status="completed" if data.outcome == "done" else "failed", settledBy=by)
        elif isinstance(data, kinds.SessionClosed):
            self._over(event.session)
        elif isinstance(data, kinds.SessionLost):
            self._over(data.lost)

    def _allowed(self, event: Event, data: kinds.ToolAllowed, at: int) -> None:
        if not (data.effectful or not event.session) or not 0 < len(data.call) <= MAX_ID or at < 0:
            return
        self.count += 1
        if data.approval:
            self._repeated(data)
        if data.call not in self.effects:
            self.effects[data.call] = _effect(event, data, at)

    def _repeated(self, data: kinds.ToolAllowed) -> None:
        """A person allowed another attempt of a call in doubt: the new call replaces it."""
        for effect in list(self.effects.values()):
            if effect.get("status") not in UNSETTLED:
                continue
            named = effect.get("idempotencyKey", "") in data.once.split()
            same = digest_of(effect) == data.digest and name_of(effect) in (data.tool, tool_name(data))
            if named or same:
                self._change(effect["id"], status="failed", error=f"it was let through again as {data.call}")

    def _settled(self, data: kinds.ToolSettled) -> None:
        status = _OUTCOMES.get(data.outcome)
        effect = self.effects.get(data.call, {})
        if status is None or (status == "unknown" and effect.get("status") == "failed"):
            return
        took = min(max(data.milliseconds, 0), MAX_SAFE_INTEGER)
        answer = {"answer": data.answer} if data.answer else {}
        self._change(data.call, status=status, durationMs=took, **answer)

    def _over(self, session: str) -> None:
        for effect in list(self.effects.values()):
            if effect.get("session") == session and effect.get("status") == "claimed":
                self._change(effect["id"], status="unknown")

    def _change(self, name: str, **members: Any) -> None:
        effect = self.effects.get(name)
        if effect is not None and effect.get("status", "completed") != "completed":
            self.effects[name] = {**effect, **members}


def _effect(event: Event, data: kinds.ToolAllowed, at: int) -> Tree:
    key = data.once.partition(" ")[0]
    return {
        "id": data.call,
        "toolName": tool_name(data),
        "operation": OPERATION,
        "inputs": {"redacted": data.arguments} if data.arguments else {},
        **({"idempotencyKey": key} if 0 < len(key) <= MAX_ID else {}),
        "isReplayable": not data.effectful,
        "sideEffects": [],
        "reversible": False,
        "executedAt": at,
        "durationMs": 0,
        # Without a session nobody can tell whether the claimant is alive: the effect is in doubt until it is settled.
        "status": "claimed" if event.session else "unknown",
        "digest": data.digest,
        **({"session": event.session} if event.session else {}),
    }


def _bounded(effects: list[Tree]) -> list[Tree]:
    """The effects without the oldest settled calls and the oldest unsettled ones beyond the limits."""
    spare: set[str] = set()
    for unsettled, limit in ((False, MAX_SETTLED), (True, MAX_UNSETTLED)):
        calls = [
            effect["id"]
            for effect in effects
            if is_call(effect) and (effect.get("status") in UNSETTLED) is unsettled
        ]
        spare.update(calls[:-limit])
    return [effect for effect in effects if effect["id"] not in spare] if spare else effects
