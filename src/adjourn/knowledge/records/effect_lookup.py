"""Find an effect in a task's chain: the reading side of `effects`.

Owns: what a call is, the names of its effect, and the search for it. Must never: write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.aex import from_text
from adjourn.errors import IntegrityError, InvalidError
from adjourn.knowledge.model import Tree, by_id, without
from adjourn.knowledge.records import effects_model
from adjourn.log import Event, canonical, decode, digest, kinds, milliseconds, tool_name
from adjourn.policy import arguments_digest
from adjourn.store import Store
from adjourn.tasks import Ledger, Task, check_task_id, following, idempotency, open_elsewhere

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
        return effects_model.event_name(self.tool, self.operation)

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
    return effects_model.fold_events(
        record, _events(store, task, effects_model.last_folded_position(record) + 1)
    )


def _events(store: Store, task: str, start: int) -> Iterator[Event]:
    for entry in following(store, task, start, store.head(task)):
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
    return list(
        dict.fromkeys([own, *_ruled(task, ledger, call), idempotency.call_key(call.name, call.digest)])
    )


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
    known = [idempotency.known(task, ledger, name) for name in names[: 1 if call.replayable else -1]]
    for state in ("open", "done", "doubt"):
        for claim in known:
            is_own = claim.owner in ("", task.id)
            let_again = (
                state == "doubt" and is_own and claim.call not in ledger.doubts
            )  # by a person, as another call
            if claim.state == state and not let_again:
                return FoundEffect(claim.call, claim.state, keyed=claim.key == names[0], owner=claim.owner)
    if call.replayable:
        return None
    for one in (*ledger.open_calls.values(), *ledger.doubts.values()):
        if one.session and one.digest == call.digest and call.name in (one.tool, tool_name(one)):
            return FoundEffect(one.call, "doubt" if one.call in ledger.doubts else "open")
    if done := _done_by_others(task, ledger, call):
        return FoundEffect(done, "done")
    elsewhere = open_elsewhere(task, call.digest)
    for one in (*elsewhere.state.doubts, *elsewhere.state.unseen):
        if call.name in (one.tool, tool_name(one)):
            return FoundEffect(one.call, "done" if one.ended else "doubt", owner=elsewhere.owners[one.call])
    return None


def _done_by_others(task: Task, ledger: Ledger, call: EffectCall) -> str:
    """The last completed call of a session of the task with the same tool and arguments; "" without one. Reads the chain."""
    if not ledger.calls_used:
        return ""
    done = ""
    wanted: dict[str, bytes] = {"": call.digest.encode()}
    for entry in following(task.store, task.id, 0, task.head):
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


def claimed_effect(found: FoundEffect, call: EffectCall) -> Tree:
    """An effect that was just claimed, as a record has it."""
    return {
        "id": found.call,
        **_details(call),
        "executedAt": milliseconds(found.stamp),
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


def complete_effect(task: Task, record: Tree, found: FoundEffect, call: EffectCall) -> Tree:
    """An effect that was found, with all that the record and the chain have of it."""
    effect = by_id(record["toolEffects"]).get(found.call) or from_chain(task, found.call)
    if (
        effects_model.is_call(effect) and effects_model.digest_of(effect) == call.digest
    ):  # so the inputs are the same
        own = {**without(effect, "digest"), **_details(call)}
        effect = own if is_own(effect) else {**effect, "inputs": call.inputs}
    if "outputs" not in effect and effect.get("answer"):
        kept = task.store.get_blob(effect["answer"])
        effect = effect | ({"outputs": msgspec.json.decode(kept)} if kept else {})
    return effect


def from_chain(task: Task, call: str) -> Tree:
    """An effect from the chain. Raises `IntegrityError` if the chain does not have it."""
    needle = f'"{call}"'.encode()
    told_of = (
        decode(one.data)
        for one in following(task.store, task.id, 0, task.head)
        if needle in one.data or b'"event":"session.' in one.data
    )
    found = by_id(effects_model.fold_events({"toolEffects": []}, told_of)["toolEffects"])
    if call not in found:
        raise IntegrityError(
            f"call {call[:80]} is not in the history of task {task.id}", "run: adjourn verify"
        )
    return found[call]


def is_own(effect: Tree) -> bool:
    """Whether an effect was claimed by this library, not by a session of the task."""
    return "session" not in effect


def is_of(effect: Tree, call: EffectCall) -> bool:
    """Whether an effect belongs to a call. An effect of a session always does: the key names it."""
    same = (effects_model.name_of(effect), effects_model.digest_of(effect)) == (call.name, call.digest)
    return same or not is_own(effect)
