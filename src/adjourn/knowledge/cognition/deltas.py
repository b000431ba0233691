"""Checkpoints stored as differences: `apply(base, diff(base, x)) == x` for any x (spec/record.md, section 8).

A snapshot is a whole checkpoint, or a CheckpointDiff against another one. It is whole if the chain of differences would get longer than
`MAX_DIFFS`, or if the difference is bigger than half of the whole.

Must never: return a checkpoint whose hash is not the stored one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from adjourn.errors import IntegrityError, InvalidError
from adjourn.knowledge.model.cognition import WORKING_STATE, CheckpointDiff, CognitiveCheckpoint
from adjourn.knowledge.model.documents import Tree, by_id, check, load, same, without, write
from adjourn.log.canonical_json import canonical, digest

MAX_DIFFS = 20
_KNOWLEDGE = ("facts", "assumptions", "openQuestions", "beliefs")
_INTENT = ("goals",)


class Snapshot(NamedTuple):
    """A stored checkpoint: canonical bytes, whole or as a difference against `base`. `depth` counts the differences below it."""

    id: str
    data: bytes
    base: str = ""
    depth: int = 0


class _Members(NamedTuple):
    """How an object with collections differs from its base."""

    changes: Tree
    removed: dict[str, list[str]]
    order: dict[str, list[str]]
    unset: list[str]


def pack(checkpoint: Tree, base: Tree | None = None, *, base_depth: int = 0) -> Snapshot:
    """The snapshot of a checkpoint. `base_depth` is the number of differences that its base is stored as."""
    document = write(checkpoint, CognitiveCheckpoint)
    if base is not None and base_depth < MAX_DIFFS and _has_unique_ids(checkpoint) and _has_unique_ids(base):
        data = canonical(_difference(base, checkpoint, digest(document)))
        if len(data) * 2 <= len(document):
            return Snapshot(checkpoint["id"], data, base["id"], base_depth + 1)
    return Snapshot(checkpoint["id"], document)


def unpack(line: Iterable[Snapshot]) -> Tree:
    """The checkpoint of the last of some snapshots. The first is whole; the base of each other one is the one before it.

    Raises `IntegrityError` if a base is missing or a hash does not match.
    """
    tree: Tree | None = None
    for snapshot in line:
        if not snapshot.base:
            tree = load(snapshot.data)
        elif tree is None or tree["id"] != snapshot.base:
            raise IntegrityError(
                f"the base {snapshot.base} of checkpoint {snapshot.id} is missing", "restore another checkpoint"
            )
        else:
            tree = apply(tree, load(snapshot.data))
    if tree is None:
        raise InvalidError("no snapshots", "pass the snapshots from a whole checkpoint onwards")
    return tree


def rebase(dependants: Sequence[Tree], base: Tree | None = None, *, base_depth: int = 0) -> list[Snapshot]:
    """The snapshots of checkpoints whose base is about to be deleted: against the base's own base, or whole."""
    return [pack(checkpoint, base, base_depth=base_depth) for checkpoint in dependants]


def diff_checkpoints(base: Tree, current: Tree) -> Tree:
    """The CheckpointDiff from `base` to `current`. Raises `InvalidError` if ids are not unique."""
    for checkpoint in (base, current):
        if not _has_unique_ids(checkpoint):
            raise InvalidError(
                f"checkpoint {checkpoint['id']} uses one id for two items", "store it whole instead of as a difference"
            )
    return _difference(base, current, digest(canonical(current)))


def apply(base: Tree, diff: Tree) -> Tree:
    """The checkpoint that a diff makes of its base. Raises `IntegrityError` if the base or the hash is another."""
    result = _applied(base, diff)
    if base["id"] != diff["baseCheckpointId"] or digest(canonical(result)) != diff["resultHash"]:
        raise _not_its_base(base, diff["baseCheckpointId"])
    return result


def _applied(base: Tree, diff: Tree) -> Tree:
    check(diff, CheckpointDiff)
    try:
        return _rebuilt(base, diff)
    except (KeyError, TypeError, AttributeError) as error:
        raise _not_its_base(base, diff["baseCheckpointId"]) from error


def _rebuilt(base: Tree, diff: Tree) -> Tree:
    nodes = by_id(base["nodes"])
    for change in diff["modifiedNodes"]:
        nodes[change["id"]] = {**without(nodes[change["id"]], *change.get("unset", ())), **change["changes"]}
    added = by_id(diff["addedNodes"])
    knowledge = _Members(
        diff["epistemicChanges"],
        diff.get("epistemicRemoved", {}),
        diff.get("epistemicOrder", {}),
        diff.get("epistemicUnset", []),
    )
    root = {"rootIntentId": diff["rootIntentId"]} if "rootIntentId" in diff else {}
    intent = _Members(
        {**diff.get("intentChanges", {}), **root},
        {"goals": diff.get("intentRemoved", [])},
        {"goals": diff["intentOrder"]} if "intentOrder" in diff else {},
        diff.get("intentUnset", []),
    )
    return {
        **diff["meta"],
        "timestamp": diff["timestamp"],
        "nodes": _joined(nodes, added, diff["removedNodeIds"], diff.get("nodeOrder")),
        "epistemicState": _applied_members(base["epistemicState"], _KNOWLEDGE, knowledge),
        "intentGraph": _applied_members(base["intentGraph"], _INTENT, intent),
    }


# --- making


def _difference(base: Tree, current: Tree, result_hash: str) -> Tree:
    old, new = by_id(base["nodes"]), by_id(current["nodes"])
    removed = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    changed = [name for name in new if name in old and not same(old[name], new[name])]
    knowledge = _changed_members(base["epistemicState"], current["epistemicState"], _KNOWLEDGE)
    intent = _changed_members(base["intentGraph"], current["intentGraph"], _INTENT)
    order = _order(list(old), removed, added, list(new))
    return {
        "baseCheckpointId": base["id"],
        "timestamp": current["timestamp"],
        "addedNodes": [new[name] for name in added],
        "modifiedNodes": [_node_change(old[name], new[name]) for name in changed],
        "removedNodeIds": removed,
        **_given("nodeOrder", order),
        "epistemicChanges": knowledge.changes,
        **_given("epistemicRemoved", knowledge.removed),
        **_given("epistemicOrder", knowledge.order),
        **_given("epistemicUnset", knowledge.unset),
        **_given("rootIntentId", intent.changes.pop("rootIntentId", None)),
        **_given("intentChanges", intent.changes),
        **_given("intentRemoved", intent.removed.get("goals")),
        **_given("intentOrder", intent.order.get("goals")),
        **_given("intentUnset", intent.unset),
        "meta": without(current, *WORKING_STATE, "timestamp"),
        "resultHash": result_hash,
    }


def _changed_members(base: Tree, current: Tree, collections: Sequence[str]) -> _Members:
    """The differences of an object whose `collections` are lists of items with ids. Other members are compared as values."""
    result = _Members({}, {}, {}, [name for name in base if name not in current])
    for name, value in current.items():
        if name not in collections:
            if name not in base or not same(base[name], value):
                result.changes[name] = value
            continue
        old, new = by_id(base[name]), by_id(value)
        changes = [item for key, item in new.items() if key not in old or not same(old[key], item)]
        removed = [key for key in old if key not in new]
        added = [key for key in new if key not in old]
        order = _order(list(old), removed, added, list(new))
        result.changes.update(_given(name, changes))
        result.removed.update(_given(name, removed))
        result.order.update(_given(name, order))
    return result


def _node_change(old: Tree, new: Tree) -> Tree:
    changes = {name: value for name, value in new.items() if name not in old or not same(old[name], value)}
    return {"id": new["id"], "changes": changes, **_given("unset", [name for name in old if name not in new])}


def _order(old: list[str], removed: list[str], added: list[str], new: list[str]) -> list[str] | None:
    """The order of items; None if it is that of the base without the removed items, then the added ones."""
    gone = set(removed)
    return None if [name for name in old if name not in gone] + added == new else new


def _given(name: str, value: Any) -> Tree:
    return {name: value} if value else {}


def _has_unique_ids(checkpoint: Tree) -> bool:
    knowledge = checkpoint["epistemicState"]
    lists = [checkpoint["nodes"], checkpoint["intentGraph"]["goals"], *(knowledge[name] for name in _KNOWLEDGE)]
    return all(len(by_id(items)) == len(items) for items in lists)


# --- applying


def _applied_members(base: Tree, collections: Sequence[str], difference: _Members) -> Tree:
    result = {**without(base, *difference.unset), **difference.changes}
    for name in collections:
        added, removed = by_id(difference.changes.get(name, ())), difference.removed.get(name, ())
        result[name] = _joined(by_id(base[name]), added, removed, difference.order.get(name))
    return result


def _joined(
    old: Mapping[str, Tree], new: Mapping[str, Tree], removed: Iterable[str], order: Sequence[str] | None
) -> list[Tree]:
    gone = set(removed)
    items = {name: item for name, item in {**old, **new}.items() if name not in gone}
    if order is None:
        return list(items.values())
    return [items[name] for name in order if name in items]


def _not_its_base(base: Tree, due: str) -> IntegrityError:
    return IntegrityError(
        f"the difference against checkpoint {due} cannot be applied to checkpoint {base.get('id')}",
        "the base or the difference was changed; restore another checkpoint",
    )
