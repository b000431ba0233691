"""What a record shows of effects: that its task's chain says so, and the question about one of which nobody knows whether it happened.

Owns: the steps that bring a record up to the chain, and that question. Must never: write them, or anything to the chain (`effects` does).
"""

from __future__ import annotations

from adjourn.knowledge.cognition import RecordChange, Transition, derived_id, path_of, put
from adjourn.knowledge.model import CRAuthor, Tree, by_id, same
from adjourn.knowledge.records import effect_lookup, effects_model, interventions
from adjourn.log import canonical
from adjourn.store import Store

DONE, NOT_DONE = "done", "not done"
"""The answers to the question about an effect in doubt."""


def update_effects(store: Store, record: Tree, at: int) -> Transition:
    """A record with what its task's chain says, and questions answered that a person has answered there."""
    after = effect_lookup.current(store, record)
    before = by_id(record["toolEffects"])
    changed = [one for one in after["toolEffects"] if not same(before.get(one["id"]), one)]
    step = Transition(after, tuple(_effect_change(one) for one in changed))
    for effect in changed:
        by = effect.get("settledBy", {})
        asked = by_id(step.record["questionsForUser"]).get(question_id(effect), {})
        if by.get("type") == "human" and asked.get("status") == "open":
            answer = DONE if effect["status"] == "completed" else NOT_DONE
            person = CRAuthor(id=by["id"], type="human")
            said = interventions.answer_question(step.record, asked["id"], answer, person, at)
            step = Transition(said.record, (*step.events, *said.events))
    return step


def add_claim(store: Store, record: Tree, at: int, effect: Tree) -> Transition:
    """A record with all that is known of an effect, where it has no more than its event; how that stands, the chain says."""
    step = update_effects(store, record, at)
    known = by_id(step.record["toolEffects"]).get(effect["id"])
    if known is None or (effects_model.is_call(known) and known["status"] in effects_model.UNSETTLED):
        return _recorded(step, effect) if effect_lookup.is_own(effect) else step
    return step


def record_effect(store: Store, record: Tree, at: int, effect: Tree) -> Transition:
    """A record with an effect as it is now."""
    return _recorded(update_effects(store, record, at), effect)


def ask_about_effect(store: Store, record: Tree, at: int, effect: Tree) -> Transition:
    """A record that asks a person whether an effect happened."""
    step = add_claim(store, record, at, effect)
    name = question_id(effect)
    if name in by_id(step.record["questionsForUser"]):
        return step
    question = (
        "It failed. Was nothing done, so that it may be run again?"
        if effect.get("status") == "failed"
        else "It was begun, and nobody knows whether it was done. Was it?"
    )
    item = {
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
    change = RecordChange("updated", path_of("question", name))
    return Transition(put(step.record, "question", item), (*step.events, change))


def question_id(effect: Tree) -> str:
    """An answer counts for the attempt that it is about."""
    return derived_id("effect", f"{effect['id']}.{effect['executedAt']}")


def _recorded(step: Transition, effect: Tree) -> Transition:
    return Transition(put(step.record, "effect", effect), (*step.events, _effect_change(effect)))


def _effect_change(effect: Tree) -> RecordChange:
    detail = {"toolName": effect["toolName"], "status": effect.get("status", "completed")}
    return RecordChange("effect-recorded", path_of("effect", effect["id"]), detail)
