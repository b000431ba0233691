"""Update a record: plain updates, which cannot bypass the rules of `transitions` and `interventions`, and decisions.

No update sets a hash, an authorship, an answer or an approval. No variant of a decision is lost, and a contested decision never looks
settled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.cognition.transitions import (
    COLLECTION,
    RecordChange,
    Transition,
    find,
    is_unanswered,
    move_task,
    path_of,
    put,
    require_edge,
    signed,
    violations,
    with_blocking,
)
from adjourn.knowledge.model.documents import Tree, by_id, check, same, tree_of, without
from adjourn.knowledge.model.record import CRAuthor, CRDecision, CRQuestion, CRResumePoint, RecordContent
from adjourn.knowledge.records.interventions import who
from adjourn.knowledge.records.versions import ENVELOPE, empty_record, first_version, updated
from adjourn.log.canonical_json import canonical

_FIRST = {"question": ("open",), "resume point": ("pending",), "blocker": ("active",)}
"""The statuses that a new item may have. Other kinds may have any."""
_OPEN_TO_UPDATE: dict[str, tuple[str, ...]] = {
    "question": ("context",),
    "resume point": ("label", "description", "nextSteps", "alternativePaths"),
    "decision": ("status", "affects"),
}
"""The only known members that an update may change in an existing item of these kinds. It may change unknown members too."""
_KNOWN = {
    kind: {field.encode_name for field in msgspec.structs.fields(type_)}
    for kind, type_ in (("question", CRQuestion), ("resume point", CRResumePoint), ("decision", CRDecision))
}
_OPERATION = {
    "question": "answer_question",
    "resume point": "approve_resume_point or deny_resume_point, or add a new one",
    "decision": "override_decision or contest_decision",
}


def create_record(
    fields: Mapping[str, Any], author: CRAuthor, now: int, *, new_id: str, parent: Tree | None = None
) -> Transition:
    """The first version of a record: empty members and `fields`, or a fork of the sealed `parent` with `fields` replaced."""
    members = without(fields, *(name for name in ENVELOPE if name != "version"))
    if parent is None:
        task = fields.get("task")
        stated_task = task if isinstance(task, Mapping) else {}
        base = first_version(empty_record(without(stated_task, "status")), author, now, new_id=new_id)
        members["task"] = {**base["task"], **stated_task}
    else:
        base = first_version(parent, author, now, new_id=new_id, parent=parent)
    step = update_record(base, members, author, now)
    others = (event for event in step.events if event.type != "updated")
    return Transition(step.record, (RecordChange("created"), *others))


def update_record(record: Tree, updates: Mapping[str, Any], author: CRAuthor, now: int) -> Transition:
    """The record with the members of `updates` (None removes one). Raises `RefusedError` if a rule forbids it."""
    after = updated(record, updates)
    try:
        return _checked(record, after, updates, author, now)
    except (KeyError, TypeError, AttributeError):
        check(after, RecordContent)  # says what is of the wrong type
        raise


def _checked(record: Tree, after: Tree, updates: Mapping[str, Any], author: CRAuthor, now: int) -> Transition:
    old = record["resumePoints"]
    after = _with_starts(after, {point["id"]: point["createdAt"] for point in old if "createdAt" in point})
    for kind, collection in COLLECTION.items():
        if collection in updates:
            _check_items(kind, record, after, author)
    if after["task"]["id"] != record["task"]["id"]:  # used approvals are stored under it
        raise RefusedError(f"the task id {record['task']['id']} cannot change", "create another record")
    status = after["task"]["status"]
    if status != record["task"]["status"]:
        kept = {**after["task"], "status": record["task"]["status"]}
        after = move_task({**after, "task": kept}, status, now)
    after = _with_starts(after, {point["id"]: record["lastModifiedAt"] for point in old}, now)
    after = with_blocking(record, after, now)
    return Transition(after, tuple(_changes(record, after, updates)))


def _with_starts(after: Tree, starts: Mapping[str, int], default: int | None = None) -> Tree:
    """The record with a start for each resume point that has a time-out and no `createdAt`, so that later versions do not delay it."""
    points = [
        point
        if "createdAt" in point or "timeoutMs" not in point or (start := starts.get(point["id"], default)) is None
        else {**point, "createdAt": start}
        for point in after["resumePoints"]
    ]
    return {**after, "resumePoints": points} if points != after["resumePoints"] else after


def _changes(before: Tree, after: Tree, updates: Mapping[str, Any]) -> Iterator[RecordChange]:
    changed = sorted(name for name in updates if not same(before.get(name), after.get(name)))
    if changed:
        yield RecordChange("updated", "", {"members": changed})
    if "toolEffects" in changed:
        old_effects = by_id(before["toolEffects"])
        for effect in after["toolEffects"]:
            if not same(old_effects.get(effect["id"]), effect):
                yield RecordChange("effect-recorded", path_of("effect", effect["id"]), {"toolName": effect["toolName"]})
    yield from violations(before, after)


def _check_items(kind: str, before: Tree, after: Tree, author: CRAuthor) -> None:
    collection = COLLECTION[kind]
    old, new = by_id(before[collection]), by_id(after[collection])
    for name, item in old.items():
        if name not in new:
            _check_removal(kind, item, before, author)
    for name, item in new.items():
        if name in old:
            if old[name] is not item and not same(old[name], item):
                _check_change(kind, old[name], item, author)
        elif _status(kind, item) not in _FIRST.get(kind, (_status(kind, item),)):
            raise RefusedError(
                f"new {kind} {name} has the status {_status(kind, item)}",
                f"add it with the status {_FIRST[kind][0]}, then decide on it",
            )


def _check_removal(kind: str, item: Tree, before: Tree, author: CRAuthor) -> None:
    name = item["id"]
    why = {
        "question": is_unanswered(before, item) if kind == "question" else False,
        "resume point": item.get("approvalStatus") == "pending" and author.type == "agent",
        "blocker": item.get("status") == "active",
        "invariant": item.get("severity") == "hard" and author.type != "human",
        "decision": bool(item.get("variants")) or author.type not in item.get("overridableBy", ()),
        "effect": True,
    }[kind]
    if why:
        raise RefusedError(
            f"{kind} {name} cannot be removed", "settle it, or ask a person with the authority to remove it"
        )


def _check_change(kind: str, old: Tree, new: Tree, author: CRAuthor) -> None:
    name, was, status = old["id"], _status(kind, old), _status(kind, new)
    if kind in _OPEN_TO_UPDATE:
        allowed = _OPEN_TO_UPDATE[kind]
        for member in old.keys() | new.keys():
            if member not in allowed and member in _KNOWN[kind] and not same(old.get(member), new.get(member)):
                raise RefusedError(f"{member} of {kind} {name} cannot be updated", f"use {_OPERATION[kind]}")
    if was != status:
        require_edge(kind, name, was, status)
        if kind == "decision":
            require_decider(old, author)
    weaker = ("severity", "check", "description", "scope")
    if kind == "invariant" and author.type != "human" and not same(_only(old, weaker), _only(new, weaker)):
        raise RefusedError(f"only a person can change invariant {name}", "add another invariant")
    if kind == "effect" and was == "completed" and not same(without(old, "sideEffects"), without(new, "sideEffects")):
        raise RefusedError(f"effect {name} is completed and cannot change", "record a new effect")


def _status(kind: str, item: Tree) -> str:
    if kind == "effect":
        return str(item.get("status", "completed"))
    return str(item["approvalStatus" if kind == "resume point" else "status"])


def _only(item: Tree, names: tuple[str, ...]) -> Tree:
    return {name: item[name] for name in names if name in item}


# --- decisions: who may override, contest and settle them


def override_decision(
    record: Tree, decision_id: str, new_decision: str, author: CRAuthor, now: int, *, rationale: str = ""
) -> Transition:
    """Replace a decision. The old text stays as a variant; the event names what to revisit.

    Raises `RefusedError` if the author may not override it.
    """
    decision = find(record, "decision", decision_id)
    _require_override(decision, author)
    changed = {
        **decision,
        "variants": with_variants(decision.get("variants", []), variant_of(decision)),
        "description": new_decision,
        "rationale": rationale or f"overridden by {author.id}",
        **signed("made", author, now),
        "status": "accepted",
    }
    detail = {"revisit": decision["affects"]}
    change = RecordChange("decision-overridden", path_of("decision", decision_id), detail)
    return Transition(put(record, "decision", changed), (change,))


def require_contested(record: Tree, decision_id: str) -> None:
    """Raise `RefusedError` for a decision that is settled: whoever answers a contested one must not undo another's answer."""
    status = find(record, "decision", decision_id)["status"]
    if status != "contested":
        raise RefusedError(f"decision {decision_id} is settled: {status}", "contest it to open it again")


def contest_decision(
    record: Tree, decision_id: str, decision_text: str, author: CRAuthor, now: int, *, rationale: str
) -> Transition:
    """Contest a decision: add another view. Anyone may. The decision is then open until it is settled."""
    decision = find(record, "decision", decision_id)
    variants = decision.get("variants", [])
    if decision["status"] != "contested":
        require_edge("decision", decision_id, decision["status"], "contested")
        variants = with_variants(variants, variant_of(decision))
    view = {"author": tree_of(author), "decision": decision_text, "rationale": rationale, "madeAt": now}
    changed = {**decision, "status": "contested", "variants": with_variants(variants, view)}
    change = RecordChange("decision-contested", path_of("decision", decision_id), {"decision": decision_text})
    return Transition(put(record, "decision", changed), (change,))


def settle_decision(
    record: Tree,
    decision_id: str,
    status: Literal["accepted", "rejected", "tentative"],
    author: CRAuthor,
    now: int,
    *,
    variant: int | None = None,
) -> Transition:
    """Set the status of a decision. Settling a contested one needs the right to override, and may take the text of a variant.

    Raises `RefusedError` without that right, `InvalidError` for an unknown `variant`.
    """
    decision = find(record, "decision", decision_id)
    require_edge("decision", decision_id, decision["status"], status)
    require_decider(decision, author)
    changed = {**decision, "status": status}
    if author.type == "human":  # what a person settled, no agent unsettles
        changed["overridableBy"] = ["human"]
    if variant is not None:
        variants = decision.get("variants", [])
        if not 0 <= variant < len(variants):
            raise InvalidError(
                f"decision {decision_id} has no variant {variant}", f"give a number from 0 to {len(variants) - 1}"
            )
        chosen = variants[variant]
        changed |= {"description": chosen["decision"], "rationale": chosen["rationale"], **signed("made", author, now)}
        if decision["status"] != "contested":  # a contested one has its text among its variants
            changed["variants"] = with_variants(variants, variant_of(decision))
    change = RecordChange(
        "updated", path_of("decision", decision_id), {"status": status, "revisit": decision["affects"]}
    )
    return Transition(put(record, "decision", changed), (change,))


def require_decider(decision: Tree, author: CRAuthor) -> None:
    """Raise `RefusedError` unless the author made the decision and it is not contested, or may override it."""
    maker = decision["madeBy"]
    if decision["status"] == "contested" or (maker["id"], maker["type"]) != (author.id, author.type):
        _require_override(decision, author)


def _require_override(decision: Tree, author: CRAuthor) -> None:
    if author.type not in decision["overridableBy"]:
        allowed = " or ".join(decision["overridableBy"]) or "nobody"
        raise RefusedError(
            f"decision {decision['id']} can be changed by {allowed}; {author.id} is {who(author.type)}",
            "contest it instead: anyone may",
        )


def variant_of(decision: Tree) -> Tree:
    """The present text of a decision, as a variant."""
    return {
        "author": decision["madeBy"],
        "decision": decision["description"],
        "rationale": decision["rationale"],
        "madeAt": decision["madeAt"],
        **({} if decision["status"] == "contested" else {"status": decision["status"]}),
    }


def with_variants(variants: list[Tree], *more: Tree) -> list[Tree]:
    """Variants with others added, equal ones once."""
    result, seen = list(variants), {_side(variant) for variant in variants}
    for variant in more:
        side = _side(variant)
        if side not in seen:
            seen.add(side)
            result.append(variant)
    return result


def _side(variant: Tree) -> bytes:
    return canonical(without(variant, "madeAt"))
