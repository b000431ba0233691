"""Compare two records, and merge them three ways, member by member (spec/record.md, section 9).

Items of collections are compared by id, tags as a set, actions as a multiset, other members as values. The order of items has no meaning,
and the envelope (`versions.ENVELOPE`) is not compared.

A merge takes a change of one side, and the same change of both sides. `merge_rules` has the rules for different changes of both sides. A
conflict is a value: the result lists it, and the record keeps it under `conflicts` until it is resolved. No tool effect, learning,
invariant or variant is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from msgspec import UNSET

from adjourn.errors import InvalidError, NotFoundError, RefusedError
from adjourn.knowledge.cognition.transitions import RecordChange, Transition, set_task
from adjourn.knowledge.model.documents import (
    Tree,
    by_id,
    load,
    parts_of,
    pointer,
    require_one_of,
    same,
    tree_of,
    view,
    without,
)
from adjourn.knowledge.model.record import (
    COLLECTIONS,
    EFFECTS_THROUGH,
    ContinuationRecord,
    CRAuthor,
    CRChange,
    CRConflict,
    CRCounts,
    CRDiff,
    CRMergeResult,
    Strategy,
)
from adjourn.knowledge.records.merge_rules import ITEM_RULES, KEPT, Merger, Sides, keeping_variants
from adjourn.knowledge.records.versions import ENVELOPE, empty_record
from adjourn.log.canonical_json import canonical

_OF_PEOPLE = ("resumePoints", "questionsForUser", "decisions", "invariants")


class Merged(NamedTuple):
    """The outcome of a merge. `record` has the envelope of A; pass it to `next_version` with B's hash as merged parent.

    `fast_forward`: only one side changed anything, and `record` has its content. If that side is A, `record` is A itself, and there is
    nothing to append.
    """

    record: Tree
    conflicts: tuple[CRConflict, ...]
    warnings: tuple[str, ...]
    fast_forward: bool

    @property
    def success(self) -> bool:
        """Whether no conflict is unresolved."""
        return not any(conflict.resolution == "unresolved" for conflict in self.conflicts)

    def result(self, version: Tree, strategy: Strategy, base_hash: str | None) -> CRMergeResult:
        """The result that a caller gets. `version` is the sealed version that has the merge."""
        return CRMergeResult(
            success=self.success,
            merged=view(version, ContinuationRecord),
            **({"base_hash": base_hash} if base_hash else {}),
            strategy=strategy,
            fast_forward=self.fast_forward,
            conflicts=self.conflicts,
            warnings=self.warnings,
        )


def require_strategy(strategy: str) -> None:
    """Refuse a strategy that does not exist. Raises `UsageError`."""
    require_one_of(strategy, get_args(Strategy), "strategy")


def merge(a: Tree, b: Tree, base: Tree | None, strategy: Strategy) -> Merged:
    """Merge records `a` and `b`, given their nearest common ancestor (None: they have none). Raises `UsageError` for another strategy."""
    require_strategy(strategy)
    said_a, said_b = without(a, *ENVELOPE), without(b, *ENVELOPE)
    if base is not None:
        content = without(base, *ENVELOPE)
        if same(said_a, said_b) or same(said_b, content):
            return Merged(a, (), (), fast_forward=True)
        if same(said_a, content):
            return Merged({**_envelope(a), **said_b}, (), (), fast_forward=True)
    elif same(said_a, said_b):
        return Merged(a, (), (), fast_forward=True)
    merger = Merger(strategy)
    result = _merged(merger, a, b, base)
    warnings = [*merger.warnings, *_twice(result, a, b)]
    if base is None:
        warnings.insert(0, "the records have no common ancestor: everything in them is treated as added")
    return Merged({**_envelope(a), **result}, tuple(merger.conflicts), tuple(warnings), fast_forward=False)


def resolve_conflict(
    record: Tree, path: str, take: Literal["a", "b", "base"] | None, author: CRAuthor, now: int, *, value: Any = UNSET
) -> Transition:
    """Resolve a conflict that a record keeps: take the value of one side, or set another `value`."""
    if take is not None:
        require_one_of(take, ("a", "b", "base"), "side")
    conflicts = record.get("conflicts", [])
    open_conflict = next((conflict for conflict in conflicts if conflict["path"] == path), None)
    if open_conflict is None:
        open_paths = ", ".join(conflict["path"] for conflict in conflicts[:10])
        raise NotFoundError(
            f"record {record.get('id', '')} has no conflict at {path}",
            f"use one of: {open_paths}" if open_paths else "nothing is left to resolve",
        )
    parts = parts_of(path)
    if parts[0] in _OF_PEOPLE and author.type != "human":
        raise RefusedError(f"only a person can resolve the conflict at {path}", "ask a person to resolve it")
    if (take is None) == (value is UNSET):
        raise InvalidError(f"{path}: expected either a side or a value", "take a, b or base, or give a value")
    chosen = value if take is None else open_conflict.get(take, UNSET)
    others = [conflict for conflict in conflicts if conflict is not open_conflict]
    after = without(record, "conflicts")
    if parts == ["task", "status"]:
        after = set_task(after, chosen, now)
    elif chosen is UNSET:
        after = apply(after, [CRChange(path=path, kind="removed")])
    else:
        after = apply(after, [CRChange(path=path, kind="modified", after=chosen)])
    if others:
        after["conflicts"] = others
    detail = {"resolved": take or "value"}
    return Transition(after, (RecordChange("updated", path, detail),))


def _envelope(record: Tree) -> Tree:
    return {name: record[name] for name in ENVELOPE if name in record}


def _merged(merger: Merger, a: Tree, b: Tree, base: Tree | None) -> Tree:
    old = base or {}
    blank = empty_record({})
    result: Tree = {}
    for name in COLLECTIONS:
        result[name] = _items(merger, name, Sides(old.get(name, []), a[name], b[name]))
    result["task"] = merger.task(Sides(old.get("task", UNSET), a["task"], b["task"]))
    result["executionSummary"] = merger.summary(
        Sides(old.get("executionSummary", blank["executionSummary"]), a["executionSummary"], b["executionSummary"])
    )
    result["metadata"] = merger.metadata(Sides(old.get("metadata", UNSET), a["metadata"], b["metadata"]))
    if EFFECTS_THROUGH in a:  # of the record that gets the merge; the chain has what B knows beyond it
        result[EFFECTS_THROUGH] = a[EFFECTS_THROUGH]
    done = {*result, *ENVELOPE, "conflicts", "checkpointId", EFFECTS_THROUGH}
    for name in dict.fromkeys([*old, *a, *b]):
        if name not in done:
            result |= merger.member((name,), Sides.of(name, old, a, b), based=base is not None)
    result |= merger.pointer_of_lineage(Sides.of("checkpointId", old, a, b))
    kept_conflicts = _kept_conflicts(
        merger, Sides(old.get("conflicts", []), a.get("conflicts", []), b.get("conflicts", []))
    )
    return {**result, **({"conflicts": kept_conflicts} if kept_conflicts else {})}


def _items(merger: Merger, collection: str, lists: Sides) -> list[Tree]:
    """A merged collection: the items of the base in its order, then the added ones by time."""
    base, a, b = (by_id(items) for items in lists)
    rows: list[Tree] = []
    added: list[Tree] = []
    for name in dict.fromkeys([*base, *a, *b]):
        sides = Sides(base.get(name, UNSET), a.get(name, UNSET), b.get(name, UNSET))
        items = _item(merger, collection, name, sides)
        (added if sides.base is UNSET else rows).extend(items[:1])
        added.extend(items[1:])
    return rows + sorted(added, key=lambda item: (_time(item), item["id"]))


def _item(merger: Merger, collection: str, name: str, sides: Sides) -> list[Tree]:
    """A merged item: none, one, or two if both are kept."""
    base, a, b = sides
    if same(a, b):
        return [] if a is UNSET else [a]
    if same(a, base) or same(b, base):
        taken = b if same(a, base) else a
        if taken is UNSET and collection in KEPT:
            taken = base
        if collection == "decisions" and taken is not UNSET and base is not UNSET:
            taken = keeping_variants(taken, base)
        return [] if taken is UNSET else [taken]
    if a is UNSET or b is UNSET:
        merger.conflict((collection, name), sides, "b" if a is UNSET else "a")
        return [b if a is UNSET else a]
    return ITEM_RULES[collection](merger, (collection, name), sides)


_TIMES = ("madeAt", "learnedAt", "askedAt", "createdAt", "executedAt", "establishedAt")


def _time(item: Tree) -> int:
    return next((item[name] for name in _TIMES if name in item), 0)


def _kept_conflicts(merger: Merger, sides: Sides) -> list[Tree]:
    """The unresolved conflicts: those of both sides that neither has resolved, and the new ones. The newest at a path wins."""
    base, a, b = ({item["path"]: item for item in items} for items in sides)
    kept = {path: b.get(path) or a[path] for path in {**a, **b} if path not in base or (path in a and path in b)}
    kept |= {new.path: tree_of(new) for new in merger.conflicts if new.resolution == "unresolved"}
    return [kept[path] for path in sorted(kept)]


def _twice(result: Tree, a: Tree, b: Tree) -> list[str]:
    """Warnings about effects of the two sides that have the same idempotency key."""

    def keys(record: Tree) -> Counter[str]:
        effects: Sequence[Tree] = record["toolEffects"]
        done = (effect for effect in effects if effect.get("status") != "failed")
        return Counter(effect["idempotencyKey"] for effect in done if "idempotencyKey" in effect)

    before = keys(a) | keys(b)
    return [
        f"executed twice: {count} effects have the idempotency key {key}"
        for key, count in keys(result).items()
        if count > max(1, before[key])
    ]


# --- comparing: a list of changes with paths, that can be shown, stored and applied

_OBJECTS = ("task", "executionSummary", "metadata")
"""Members that are compared member by member."""
_SETS = {"tags": "metadata", "actions": "executionSummary"}
"""Lists that are compared as (multi)sets, and the object that has each."""


def diff(a: Tree, b: Tree, *, base_hash: str = "") -> CRDiff:
    """The differences of sealed record `b` from `a`. `base_hash` is the hash of their common ancestor, if the caller knows it."""
    changes = list(changes_between(a, b))
    summary = {name: Counter[str]() for name in COLLECTIONS}
    items: set[tuple[str, str]] = set()
    for change in changes:
        parts = parts_of(change.path)
        if parts[0] in summary and tuple(parts[:2]) not in items:
            items.add((parts[0], parts[1]))
            summary[parts[0]][change.kind if len(parts) == 2 else "modified"] += 1
    return CRDiff(
        cr_id_a=a["id"],
        cr_id_b=b["id"],
        hash_a=a["contentHash"],
        hash_b=b["contentHash"],
        **({"base_hash": base_hash} if base_hash else {}),
        identical=not changes,
        changes=tuple(changes),
        summary={name: CRCounts(**counts) for name, counts in summary.items() if counts},
    )


def changes_between(a: Tree, b: Tree) -> Iterator[CRChange]:
    """The changes that turn the content of `a` into that of `b`."""
    for name in _names(without(a, *ENVELOPE), without(b, *ENVELOPE)):
        if name in COLLECTIONS:
            yield from _item_changes(name, a[name], b[name])
        elif name in _OBJECTS:
            yield from _member_changes((name,), a[name], b[name])
        else:
            yield from _value_change((name,), a, b)


def apply(record: Tree, changes: Sequence[CRChange]) -> Tree:
    """The content of `record` with changes applied. New items come last. Raises `InvalidError` for a path that does not exist."""
    result = {**record, **{name: by_id(record[name]) for name in COLLECTIONS}}
    for change in changes:
        _apply(result, parts_of(change.path), change)
    return {**result, **{name: list(result[name].values()) for name in COLLECTIONS}}


def _item_changes(collection: str, a: Sequence[Tree], b: Sequence[Tree]) -> Iterator[CRChange]:
    old, new = by_id(a), by_id(b)
    for name, item in old.items():
        if name not in new:
            yield CRChange(path=pointer(collection, name), kind="removed", before=item)
        elif not same(item, new[name]):
            yield from _member_changes((collection, name), item, new[name])
    for name, item in new.items():
        if name not in old:
            yield CRChange(path=pointer(collection, name), kind="added", after=item)


def _member_changes(path: tuple[str, ...], a: Tree, b: Tree) -> Iterator[CRChange]:
    for name in _names(a, b):
        if _SETS.get(name) == path[0]:
            yield from _set_changes((*path, name), a[name], b[name])
        else:
            yield from _value_change((*path, name), a, b)


def _value_change(path: tuple[str, ...], a: Tree, b: Tree) -> Iterator[CRChange]:
    name = path[-1]
    if name not in b:
        yield CRChange(path=pointer(*path), kind="removed", before=a[name])
    elif name not in a:
        yield CRChange(path=pointer(*path), kind="added", after=b[name])
    elif not same(a[name], b[name]):
        yield CRChange(path=pointer(*path), kind="modified", before=a[name], after=b[name])


def _set_changes(path: tuple[str, ...], a: Sequence[Any], b: Sequence[Any]) -> Iterator[CRChange]:
    if same(a, b):
        return
    old, new = Counter(map(canonical, a)), Counter(map(canonical, b))  # the lists as multisets
    for item in (old - new).elements():
        yield CRChange(path=pointer(*path), kind="removed", before=load(item))
    for item in (new - old).elements():
        yield CRChange(path=pointer(*path), kind="added", after=load(item))


def _names(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    return [*a, *(name for name in b if name not in a)]


# --- applying

_ELSEWHERE = "apply the changes to the record that they were made from"


def _apply(result: Tree, parts: list[str], change: CRChange) -> None:
    """Change `result`, whose collections are by id. Copies the deeper parts, which other trees share."""
    name, texts = parts[0], parts[1:]
    if not texts:
        _set(result, name, change)
    elif name in COLLECTIONS and len(texts) == 1:
        _set(result[name], texts[0], change)
    elif name in COLLECTIONS:
        if texts[0] not in result[name]:
            raise InvalidError(f"{change.path}: no item has this id", _ELSEWHERE)
        item = dict(result[name][texts[0]])
        _set(item, texts[1], change)
        result[name][texts[0]] = item
    elif name not in _OBJECTS:
        raise InvalidError(f"{change.path}: {name} has no members to change", _ELSEWHERE)
    else:
        inner = dict(result[name])
        if _SETS.get(texts[0]) == name:
            inner[texts[0]] = _with_element(inner[texts[0]], change)
        else:
            _set(inner, texts[0], change)
        result[name] = inner


def _set(tree: Tree, name: str, change: CRChange) -> None:
    if change.kind == "removed":
        tree.pop(name, None)
    else:
        tree[name] = change.after


def _with_element(items: Sequence[Any], change: CRChange) -> list[Any]:
    if change.kind == "added":
        return [*items, change.after]
    for position, item in enumerate(items):
        if same(item, change.before):
            return [*items[:position], *items[position + 1 :]]
    raise InvalidError(f"{change.path}: no element has this value", _ELSEWHERE)
