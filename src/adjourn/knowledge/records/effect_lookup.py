"""The effects of a task: folded from its events into the `toolEffects` of a record, and found again (spec/record.md, section 10).

This is the reading side of `effects`. No effect is dropped that is not settled, or that a library claimed with more details than its
event has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.aex.permissions import from_text
from adjourn.errors import IntegrityError, InvalidError
from adjourn.knowledge.model.documents import MAX_ID, Tree, by_id, same, without
from adjourn.knowledge.model.record import EFFECTS_THROUGH, EffectStatus
from adjourn.log import kinds
from adjourn.log.canonical_json import MAX_SAFE_INTEGER, canonical, digest
from adjourn.log.event import Event, decode, milliseconds
from adjourn.log.kinds import tool_name
from adjourn.policy.calls import arguments_digest
from adjourn.store.base import Store
from adjourn.tasks import idempotency
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task, check_task_id
from adjourn.tasks.workspace_calls import open_elsewhere

_HASH = re.compile(r"[0-9a-f]{64}")
_TELLS = (b'"event":"tool.', b'"event":"effect.', b'"event":"session.')
"""An event without any of these bytes says nothing about an effect."""


class EffectCall(NamedTuple):
    """A call of a tool. Prefer a business `key` (`invoice:INV-001`): agents may phrase arguments differently after a resume.

    A call of a proxy's tool has the operation `tools/call`. For a proxy, `payments`, `charge` is the tool `payments.charge`.
    """

    tool: str
    operation: str
    inputs: dict[str, Any]
    key: str = ""
    replayable: bool = False
    reversible: bool = False
    side_effects: Sequence[str] = ()

    @property
    def idempotency_key(self) -> str:
        named = {"inputs": self.inputs, "operation": self.operation, "toolName": self.tool}
        return self.key or digest(canonical(named))

    @property
    def name(self) -> str:
        """The name of the tool in the events of the task."""
        return event_name(self.tool, self.operation)

    @property
    def digest(self) -> str:
        return arguments_digest(self.inputs)


class FoundEffect(NamedTuple):
    """An effect that was found: its call and the state of that call. `free`: nobody has claimed it.

    `keyed`: it was found by the claim's own key. `writes`: the chain does not have it yet. `owner`: the other task of the workspace that
    made the call, if it is one.
    """

    call: str
    state: Literal["free", "open", "doubt", "done"]
    keyed: bool = False
    writes: bool = False
    stamp: str = ""
    owner: str = ""


def current(store: Store, record: Tree) -> Tree:
    """A record with the newer effects of its task's chain; the same tree if there are none."""
    try:
        task = check_task_id(record["task"]["id"])
    except InvalidError:  # no task of a chain can have that name
        return record
    return fold_events(record, _events(store, task, last_folded_position(record) + 1))


def _events(store: Store, task: str, start: int) -> Iterator[Event]:
    for entry in verified_entries_from(store, task, start, store.head(task)):
        if any(tells in entry.data for tells in _TELLS):
            with suppress(InvalidError):  # an event of a later format
                yield decode(entry.data)


# --- looking for an effect


def names_of(task: Task, ledger: Ledger, call: EffectCall) -> list[str]:
    """The names of an effect in the refs of its task, that of its key first.

    An effect that is not replayable also has the names that a proxy looks up: those of matching `once` rules, and that of the call.
    """
    key = call.idempotency_key
    own = key if _HASH.fullmatch(key) else digest(f"key {key}".encode())
    if call.replayable:
        return [own]
    return list(dict.fromkeys([own, *_ruled(task, ledger, call), idempotency.call_key(call.name, call.digest)]))


def _ruled(task: Task, ledger: Ledger, call: EffectCall) -> Iterator[str]:
    """The names by the `once` rules in the texts of the task's last policy and contract."""
    for text_digest in (ledger.policy, ledger.contract):
        text = (task.store.get_blob(text_digest) if text_digest else None) or b""
        if b"once" in text:
            rules = from_text(text.decode(errors="replace"), "policy")[0].once_of(call.name)
            for key in filter(None, (idempotency.key_of(rule, call.inputs) for rule in rules)):
                yield from dict.fromkeys((idempotency.WORKSPACE + key, *idempotency.names_of(task, key)))


def look_up(task: Task, ledger: Ledger, call: EffectCall, names: Sequence[str]) -> FoundEffect | None:
    """Find an effect in the chain; None if it is not there. Skips the name of the call itself, which only a proxy looks up."""
    claims = [idempotency.known(task, ledger, name) for name in names[: 1 if call.replayable else -1]]
    for state in ("open", "done", "doubt"):
        for claim in claims:
            is_own = claim.owner in ("", task.id)
            let_again = state == "doubt" and is_own and claim.call not in ledger.doubts  # by a person, as another call
            if claim.state == state and not let_again:
                return FoundEffect(claim.call, claim.state, keyed=claim.key == names[0], owner=claim.owner)
    if call.replayable:
        return None
    for open_call in (*ledger.open_calls.values(), *ledger.doubts.values()):
        if (
            open_call.session
            and open_call.digest == call.digest
            and call.name in (open_call.tool, tool_name(open_call))
        ):
            return FoundEffect(open_call.call, "doubt" if open_call.call in ledger.doubts else "open")
    if done := _done_by_others(task, ledger, call):
        return FoundEffect(done, "done")
    elsewhere = open_elsewhere(task, call.digest)
    # a key is its caller's own: what another task did under one is another effect
    for open_call in (*elsewhere.state.doubts, *(() if call.key else elsewhere.state.unseen)):
        if call.name in (open_call.tool, tool_name(open_call)):
            return FoundEffect(
                open_call.call, "done" if open_call.ended else "doubt", owner=elsewhere.owners[open_call.call]
            )
    return None


def _done_by_others(task: Task, ledger: Ledger, call: EffectCall) -> str:
    """The last completed call of a session of the task with the same tool and arguments; "" without one. Reads the chain."""
    if not ledger.calls_used:
        return ""
    done = ""
    wanted: dict[str, bytes] = {"": call.digest.encode()}
    for entry in verified_entries_from(task.store, task.id, 0, task.head):
        if not any(needle in entry.data for needle in wanted.values()):
            continue
        with suppress(InvalidError):
            event = decode(entry.data)
            data = kinds.data_of(event)
            if isinstance(data, kinds.ToolAllowed) and data.effectful and event.session:
                if data.digest == call.digest and call.name in (data.tool, tool_name(data)):
                    wanted[data.call] = f'"{data.call}"'.encode()
            elif isinstance(data, kinds.ToolSettled) and data.outcome in ("ok", "tool-error", "error"):
                done = data.call if wanted.pop(data.call, b"") and data.outcome == "ok" else done
            elif isinstance(data, kinds.EffectSettled):
                done = data.call if wanted.pop(data.call, b"") and data.outcome == "done" else done
    return done


def found_in_record(record: Tree, call: EffectCall) -> FoundEffect | None:
    """Find an effect that only the record has, because the record was imported without its chain."""
    for effect in record["toolEffects"]:
        if effect.get("idempotencyKey") != call.idempotency_key or "settledBy" in effect:
            continue
        status = effect.get("status", "completed")
        if status == "completed":
            return FoundEffect(effect["id"], "done", keyed=True)
        if status != "failed" or not effect["isReplayable"]:
            return FoundEffect(effect["id"], "doubt", keyed=True, writes=True)
    return None


# --- the effect as a record shows it


def claimed_effect(effect: FoundEffect, call: EffectCall) -> Tree:
    """An effect that was just claimed, as a record has it."""
    return {
        "id": effect.call,
        **_details(call),
        "executedAt": milliseconds(effect.stamp),
        "durationMs": 0,
        "status": "claimed",
    }


def _details(call: EffectCall) -> Tree:
    return {
        "toolName": call.tool,
        "operation": call.operation,
        "inputs": call.inputs,
        "idempotencyKey": call.idempotency_key,
        "isReplayable": call.replayable,
        "sideEffects": list(call.side_effects),
        "reversible": call.reversible,
    }


def complete_effect(task: Task, record: Tree, looked_up: FoundEffect, call: EffectCall) -> Tree:
    """An effect that was found, with all that the record and the chain have of it."""
    effect = by_id(record["toolEffects"]).get(looked_up.call) or from_chain(task, looked_up.call)
    if is_call(effect) and digest_of(effect) == call.digest:  # so the inputs are the same
        own = {**without(effect, "digest"), **_details(call)}
        effect = own if is_own(effect) else {**effect, "inputs": call.inputs}
    if "outputs" not in effect and effect.get("answer"):
        outputs = task.store.get_blob(effect["answer"])
        effect = effect | ({"outputs": msgspec.json.decode(outputs)} if outputs else {})
    return effect


def from_chain(task: Task, call: str) -> Tree:
    """An effect from the chain. Raises `IntegrityError` if the chain does not have it."""
    needle = f'"{call}"'.encode()
    told_of = (
        decode(entry.data)
        for entry in verified_entries_from(task.store, task.id, 0, task.head)
        if needle in entry.data or b'"event":"session.' in entry.data
    )
    effects = by_id(fold_events({"toolEffects": []}, told_of)["toolEffects"])
    if call not in effects:
        raise IntegrityError(f"call {call[:80]} is not in the history of task {task.id}", "run: adjourn verify")
    return effects[call]


def is_own(effect: Tree) -> bool:
    """Whether an effect was claimed by this library, not by a session of the task."""
    return "session" not in effect


def is_of(effect: Tree, call: EffectCall) -> bool:
    """Whether an effect belongs to a call. An effect of a session always does: the key names it."""
    same = (name_of(effect), digest_of(effect)) == (call.name, call.digest)
    return same or not is_own(effect)


# --- the effects of a task, folded from its events

OPERATION = "tools/call"
"""The operation of a call that a session of the task made."""
MAX_SETTLED = 50
MAX_UNSETTLED = 500
"""How many calls a record shows, the newest ones. `effectsThrough.count` counts all."""
UNSETTLED = ("claimed", "unknown")
_OUTCOMES: dict[str, EffectStatus] = {
    "ok": "completed",
    "tool-error": "failed",
    "error": "failed",
    "no-answer": "unknown",
}


def fold_events(record: Tree, events: Iterable[Event]) -> Tree:
    """The record with its effects changed by the events after `effectsThrough`; the same tree if nothing changes."""
    before: Tree = record.get(EFFECTS_THROUGH, {"seq": -1, "count": 0})
    fold = _Fold(record["toolEffects"], before["count"])
    seq = before["seq"]
    for event in events:
        fold.apply(event)
        seq = event.seq
    effects = _bounded(list(fold.effects.values()))
    if same(effects, record["toolEffects"]):
        return record
    return {**record, "toolEffects": effects, EFFECTS_THROUGH: {"seq": seq, "count": fold.count}}


def last_folded_position(record: Tree) -> int:
    """The position of the last event that a record's effects include; -1 for none."""
    return int(record[EFFECTS_THROUGH]["seq"]) if EFFECTS_THROUGH in record else -1


def omitted_count(record: Tree) -> int:
    """How many settled effects of the task a record leaves out, because they are older than those it shows."""
    return max(0, record[EFFECTS_THROUGH]["count"] - len(record["toolEffects"])) if EFFECTS_THROUGH in record else 0


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
            effect["id"] for effect in effects if is_call(effect) and (effect.get("status") in UNSETTLED) is unsettled
        ]
        spare.update(calls[:-limit])
    return [effect for effect in effects if effect["id"] not in spare] if spare else effects
