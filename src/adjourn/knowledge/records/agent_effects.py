"""Effects that an agent makes beside adjourn, with a shell or an SDK: claimed before, settled after, and looked up, by a meta-tool.

A claim is an intent of the agent's session in the task's chain, as a call of a proxied tool is. If the session ends before the agent
says how it went, the effect is in doubt, and a person settles it. An agent settles only what its own session claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.model.documents import MAX_ID, Tree, tree_of
from adjourn.knowledge.records.agent_notes import author_of, own_record, without_secret_texts
from adjourn.knowledge.records.effect_lookup import OPERATION, EffectCall, FoundEffect, digest_of, from_chain
from adjourn.knowledge.records.effects import Effects
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.tasks.session import Session
from adjourn.text.strict_json import in_words

MAX_VALUE = 64 * 1024
"""Bytes of the inputs or the outputs of an effect, as canonical JSON."""
MAX_CLAIMED = 100
"""Calls that are open while another effect is claimed."""
_NEXT = "make the effect now, then say done, or failed if nothing happened"


class AgentEffect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The input of `adjourn.effect`. `key` names the effect for the business, `effect` what is called, with `inputs`."""

    action: Literal["claim", "done", "failed", "look"]
    key: Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
    effect: Annotated[str, Meta(pattern=r"^[\w.:/-]{1,128}$")] = "effect"
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] | UnsetType = UNSET


def read_effect(arguments: Mapping[str, Any]) -> AgentEffect:
    """Read a request from outside. Raises `InvalidError`."""
    try:
        request = msgspec.convert(without_secret_texts(arguments), AgentEffect)
    except msgspec.ValidationError as error:
        raise InvalidError(in_words(error), "see the tool's description") from error
    for name, value in (("inputs", request.inputs), ("outputs", request.outputs)):
        if value is not UNSET and len(canonical(value)) > MAX_VALUE:
            raise InvalidError(f"the {name} have more than {MAX_VALUE >> 10} KiB", "give what identifies the effect")
    return request


def act(session: Session, request: AgentEffect) -> dict[str, Any]:
    """Do what a request asks for. Returns the effect's `state`: `free`, `claimed` (by this session), `under way`, `in doubt` or `done`.

    Raises `HeldError` if another client holds the task, `RefusedError` for a claim of an effect that may have happened, or whose key
    belongs to another one, and for an effect to settle that this session did not claim.
    """
    session.hold()
    task, author = session.task, author_of(session)
    record = own_record(task, author)
    effects = Effects(task.store, RecordTrees(task.store, clock=task.clock), task.clock, session=session.id)
    call = EffectCall(request.effect, OPERATION, request.inputs, key=request.key)
    found = effects.find(record["id"], call)
    task.refresh()
    if request.action in ("done", "failed"):
        return _settle(session, request, found)
    if request.action == "look" or _is_own(session, found):
        return _state(session, found)
    if len(task.ledger.open_calls) >= MAX_CLAIMED:
        raise RefusedError(f"{MAX_CLAIMED} calls of this task are open", "say of each effect how it went, then retry")
    claim = effects.claim(record["id"], call, author)
    task.refresh()
    if claim.run:
        return {"state": "claimed", "call": claim.effect.id, "next": _NEXT}
    effect = tree_of(claim.effect)
    if digest_of(effect) != call.digest:
        raise RefusedError(f"the key {request.key!r} belongs to the same effect with other inputs", "use another key")
    return _done(effect)


def _is_own(session: Session, found: FoundEffect | None) -> bool:
    """Whether an effect was claimed by this session, and has not ended. A call that the session carries, SESSION.NUMBER, is no claim."""
    call = session.task.ledger.open_calls.get(found.call) if found else None
    return call is not None and call.session == session.id and not call.call.startswith(f"{session.id}.")


def _state(session: Session, found: FoundEffect | None) -> dict[str, Any]:
    if found is None:
        return {"state": "free"}
    if _is_own(session, found):
        return {"state": "claimed", "call": found.call, "next": _NEXT}
    if found.state == "done":
        return _done(_chained(session, found))
    if found.state == "open":
        return {"state": "under way", "call": found.call}
    return {
        "state": "in doubt",
        "call": found.call,
        "next": f"find out whether it happened; a person settles it: `adjourn settle {found.call} --done` (or --not-done)",
    }


def _chained(session: Session, found: FoundEffect) -> Tree:
    """A completed effect with its outputs. Of one of another task, or of an import, only that it is done."""
    if found.owner not in ("", session.task.id):
        return {"id": found.call}
    effect = from_chain(session.task, found.call)
    outputs = session.task.store.get_blob(effect["answer"]) if effect.get("answer") else None
    return effect | ({"outputs": msgspec.json.decode(outputs)} if outputs else {})


def _done(effect: Tree) -> dict[str, Any]:
    outputs = {"outputs": effect["outputs"]} if "outputs" in effect else {}
    return {"state": "done", "call": effect["id"], **outputs, "next": "it happened before: do not make it again"}


def _settle(session: Session, request: AgentEffect, found: FoundEffect | None) -> dict[str, Any]:
    if found is None or not _is_own(session, found):
        state = _state(session, found)
        raise RefusedError(
            f"this session has not claimed {request.key!r}: it is {state['state']}", state.get("next", "claim it first")
        )
    if request.action == "failed":
        session.settle([kinds.ToolSettled(call=found.call, outcome="tool-error", seen=True)])
        return {"state": "free", "call": found.call, "next": "it may be claimed again"}
    document = b"" if request.outputs is UNSET else canonical(request.outputs)
    answer = digest(document) if document else ""
    settled = kinds.ToolSettled(answer=answer, call=found.call, outcome="ok", seen=True)
    session.settle([settled], answers={found.call: document} if document else {})
    return {"state": "done", "call": found.call}
