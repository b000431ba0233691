"""Tool effects: claimed durably before a tool is run, settled after, and what is made of a claim that was never settled.

An effect is named by its key, once in a task, whichever record, fork or older version asks: the ref `effect/…` says in which record
it was claimed first, and that record tells how it stands. What is not replayable is never run twice without a word from
somebody who looked: a probe, or a person.

Owns: that table. Must never: run a tool, or take a claim that nobody settled for an effect that did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from adjourn.errors import ConflictError, RefusedError
from adjourn.log.canonical import canonical, digest
from adjourn.state.documents import Tree, by_id, same, without
from adjourn.state.machines import Happening, Step, derived_id, find, path_of, put, require_edge
from adjourn.state.record import CRAuthor

if TYPE_CHECKING:
    from adjourn.engine.records.store import CRStore

Probe = Callable[[Tree], bool | None]
"""Looks whether an effect happened; None where that cannot be told."""
DONE, NOT_DONE = "done", "not done"
"""The answers to the question about an effect in doubt."""


class Call(NamedTuple):
    """What a tool is to do. Prefer a `key` from the business (`invoice:INV-001`): agents word arguments anew after a resume."""

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


class Claim(NamedTuple):
    """`run`: run the tool now, and settle. Else it was done before, and `effect` has the `outputs`, where they were kept."""

    run: bool
    record: str
    effect: Tree


class Compensation(NamedTuple):
    """What a return to an older version leaves behind: effects to undo, the newest first, and those that cannot be undone."""

    undo: list[Tree]
    irreversible: list[Tree]


class Effects:
    """The effects in the records of a store."""

    def __init__(self, store: CRStore) -> None:
        self._store = store

    def claim(self, cr_id: str, call: Call, author: CRAuthor, *, probe: Probe | None = None) -> Claim:
        """Claim an effect, or learn that it happened. `RefusedError` where that is not known, or the key is another call's."""
        head = self._store.resolve(cr_id)
        name = f"effect/{digest(canonical([head['task']['id'], call.idempotency_key]))}"
        value = self._store.store.ref(name)
        if value is None:
            inherited = [
                one for one in head["toolEffects"] if one.get("idempotencyKey") == call.idempotency_key
            ]
            effect_id = inherited[0]["id"] if inherited else str(uuid4())
            value = f"{effect_id} {cr_id}"
            try:
                self._store.store.swap(name, value, expect=None)
            except ConflictError:
                value = self._store.store.ref(name) or value
        effect_id, _, home = value.partition(" ")
        known = by_id(self._store.resolve(home)["toolEffects"]).get(effect_id)
        if known is None:
            return self._claim_first(home, effect_id, call, author, probe)
        return self._claim_known(home, known, call, author, probe)

    def complete(
        self, claim: Claim, outputs: Mapping[str, Any] | None, author: CRAuthor, *, took_ms: int = 0
    ) -> Tree:
        """The tool has answered: the effect happened. Returns the record."""
        given = {} if outputs is None else {"outputs": dict(outputs)}
        return self._settle(
            claim.record, claim.effect["id"], "completed", author, durationMs=took_ms, **given
        )

    def fail(self, claim: Claim, error: str, author: CRAuthor, *, took_ms: int = 0) -> Tree:
        """The tool has said that nothing happened. Where that is not sure, do not settle."""
        return self._settle(
            claim.record, claim.effect["id"], "failed", author, durationMs=took_ms, error=error
        )

    def unsettled(self, cr_id: str) -> list[Tree]:
        """Effects of which nobody knows whether they happened: to be looked at first."""
        effects: list[Tree] = self._store.resolve(cr_id)["toolEffects"]
        return [effect for effect in effects if effect.get("status") in ("claimed", "unknown")]

    def compensation(self, cr_id: str, content_hash: str) -> Compensation:
        """What was done since a version of the record, for those who go back to it."""
        before = self._store.resolve(content_hash)["toolEffects"]
        settled = {effect["id"] for effect in before if effect.get("status", "completed") == "completed"}
        since = [
            effect
            for effect in self._store.resolve(cr_id)["toolEffects"]
            if effect["id"] not in settled and effect.get("status") != "failed"
        ]
        since.sort(key=lambda effect: effect["executedAt"], reverse=True)
        return Compensation(
            [effect for effect in since if effect["reversible"]],
            [effect for effect in since if not effect["reversible"]],
        )

    # --- the table

    def _claim_first(
        self, home: str, effect_id: str, call: Call, author: CRAuthor, probe: Probe | None
    ) -> Claim:
        """Whoever adds the effect to the record has claimed it."""
        added: list[Tree] = []

        def add(record: Tree, at: int) -> Step:
            added.clear()
            if effect_id in by_id(record["toolEffects"]):
                return Step(record, ())
            added.append(_effect(effect_id, call, at))
            return _recorded(put(record, "effect", added[0]), added[0])

        record = self._store.act(home, add, author)
        if added:
            return Claim(run=True, record=home, effect=added[0])
        return self._claim_known(home, find(record, "effect", effect_id), call, author, probe)

    def _claim_known(
        self, home: str, effect: Tree, call: Call, author: CRAuthor, probe: Probe | None
    ) -> Claim:
        if not (
            same(effect["inputs"], call.inputs)
            and effect["toolName"] == call.tool
            and effect["operation"] == call.operation
        ):
            raise RefusedError(
                f"the key {call.idempotency_key!r} is of another call: {effect['toolName']} {effect['operation']}, with other inputs",
                "use a key of its own for another effect",
            )
        status = effect.get("status", "completed")
        if status == "completed":
            return Claim(run=False, record=home, effect=effect)
        if status == "failed":
            if not effect["isReplayable"] and not self._answered(home, effect, NOT_DONE):
                self._ask(home, effect, author, "It failed. Was nothing done, so that it may be run again?")
            return self._again(home, effect, author)
        if effect["isReplayable"]:
            return Claim(run=True, record=home, effect=effect)
        happened = probe(effect) if probe else None
        if happened is None:
            happened = True if self._answered(home, effect, DONE) else None
            happened = False if self._answered(home, effect, NOT_DONE) else happened
        if happened is None:
            self._ask(home, effect, author, "It was begun, and nobody knows whether it was done. Was it?")
        record = self._settle(home, effect["id"], "completed" if happened else "failed", author)
        effect = find(record, "effect", effect["id"])
        return Claim(run=False, record=home, effect=effect) if happened else self._again(home, effect, author)

    def _again(self, home: str, effect: Tree, author: CRAuthor) -> Claim:
        """Claim a failed effect once more. Of two who try, one does."""
        claimed: list[Tree] = []

        def claim(record: Tree, at: int) -> Step:
            claimed.clear()
            known = find(record, "effect", effect["id"])
            require_edge("effect", effect["id"], known["status"], "claimed")
            claimed.append({**without(known, "error"), "status": "claimed", "executedAt": at})
            return _recorded(put(record, "effect", claimed[0]), claimed[0])

        self._store.act(home, claim, author)
        return Claim(run=True, record=home, effect=claimed[0])

    def _settle(self, home: str, effect_id: str, status: str, author: CRAuthor, **members: Any) -> Tree:
        def settle(record: Tree, at: int) -> Step:
            del at
            effect = find(record, "effect", effect_id)
            require_edge("effect", effect_id, effect.get("status", "completed"), status)
            settled = {**effect, **members, "status": status}
            return _recorded(put(record, "effect", settled), settled)

        return self._store.act(home, settle, author)

    def _answered(self, home: str, effect: Tree, answer: str) -> bool:
        asked = by_id(self._store.resolve(home)["questionsForUser"]).get(_question_id(effect))
        return asked is not None and asked.get("answer") == answer

    def _ask(self, home: str, effect: Tree, author: CRAuthor, question: str) -> None:
        """Have a person look, and refuse until one has."""
        name = _question_id(effect)

        def ask(record: Tree, at: int) -> Step:
            if name in by_id(record["questionsForUser"]):
                return Step(record, ())
            asked = {
                "id": name,
                "type": "approval",
                "question": f"{effect['toolName']} {effect['operation']}: {question}"[:500],
                "context": canonical(effect["inputs"]).decode()[:2000],
                "options": [DONE, NOT_DONE],
                "status": "open",
                "blocksResumePoints": [],
                "priority": "blocking",
                "askedAt": at,
            }
            return Step(put(record, "question", asked), (Happening("updated", path_of("question", name)),))

        self._store.act(home, ask, author)
        raise RefusedError(
            f"whether {effect['toolName']} {effect['operation']} was done is not known, and it must not be done twice",
            f"look, then: adjourn answer {name} '{DONE}' (or '{NOT_DONE}')",
        )


def _question_id(effect: Tree) -> str:
    """An answer counts for the attempt that it is about."""
    return derived_id("effect", f"{effect['id']}.{effect['executedAt']}")


def _effect(effect_id: str, call: Call, at: int) -> Tree:
    return {
        "id": effect_id,
        "toolName": call.tool,
        "operation": call.operation,
        "inputs": call.inputs,
        "idempotencyKey": call.idempotency_key,
        "isReplayable": call.replayable,
        "sideEffects": list(call.side_effects),
        "reversible": call.reversible,
        "executedAt": at,
        "durationMs": 0,
        "status": "claimed",
    }


def _recorded(record: Tree, effect: Tree) -> Step:
    detail = {"toolName": effect["toolName"], "status": effect["status"]}
    return Step(record, (Happening("effect-recorded", path_of("effect", effect["id"]), detail),))
