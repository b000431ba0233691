"""Three-way merge of two records, member by member (spec/record.md, section 9).

A change of one side is taken, and so is the same change of both sides. `merge_rules` has the rules for different changes of both sides.
A conflict is a value: the result lists it, and the record keeps it under `conflicts` until it is resolved.

Owns: the order of items, and resolving conflicts. Must never: lose a tool effect, a learning, an invariant or a variant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from msgspec import UNSET

from adjourn.errors import InvalidError, NotFoundError, RefusedError
from adjourn.knowledge.cognition.transitions import RecordChange, Transition, set_task
from adjourn.knowledge.model import (
    COLLECTIONS,
    CRAuthor,
    CRChange,
    CRConflict,
    CRMergeResult,
    Strategy,
    Tree,
    by_id,
    parts_of,
    require_one_of,
    same,
    tree_of,
    without,
)
from adjourn.knowledge.records.diff import apply
from adjourn.knowledge.records.effects_model import THROUGH
from adjourn.knowledge.records.merge_rules import ITEM_RULES, KEPT, Merger, Sides, keeping_variants
from adjourn.knowledge.records.versions import ENVELOPE, empty_record

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
            merged=version,
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
        said = without(base, *ENVELOPE)
        if same(said_a, said_b) or same(said_b, said):
            return Merged(a, (), (), fast_forward=True)
        if same(said_a, said):
            return Merged({**_envelope(a), **said_b}, (), (), fast_forward=True)
    elif same(said_a, said_b):
        return Merged(a, (), (), fast_forward=True)
    merger = Merger(strategy)
    result = _merged(merger, a, b, base)
    warnings = [*merger.warnings, *_twice(result, a, b)]
    if base is None:
        warnings.insert(0, "the records have no common ancestor: everything in them counts as added")
    return Merged({**_envelope(a), **result}, tuple(merger.conflicts), tuple(warnings), fast_forward=False)


def resolve_conflict(
    record: Tree,
    path: str,
    take: Literal["a", "b", "base"] | None,
    author: CRAuthor,
    now: int,
    *,
    value: Any = UNSET,
) -> Transition:
    """Resolve a conflict that a record keeps: take the value of one side, or set another `value`."""
    if take is not None:
        require_one_of(take, ("a", "b", "base"), "side")
    conflicts = record.get("conflicts", [])
    found = next((conflict for conflict in conflicts if conflict["path"] == path), None)
    if found is None:
        known = ", ".join(conflict["path"] for conflict in conflicts[:10])
        raise NotFoundError(
            f"record {record.get('id', '')} has no conflict at {path}",
            f"use one of: {known}" if known else "nothing is left to resolve",
        )
    parts = parts_of(path)
    if parts[0] in _OF_PEOPLE and author.type != "human":
        raise RefusedError(f"only a person can resolve the conflict at {path}", "ask a person to resolve it")
    if (take is None) == (value is UNSET):
        raise InvalidError(f"{path}: expected either a side or a value", "take a, b or base, or give a value")
    chosen = value if take is None else found.get(take, UNSET)
    rest = [conflict for conflict in conflicts if conflict is not found]
    after = without(record, "conflicts")
    if parts == ["task", "status"]:
        after = set_task(after, chosen, now)
    elif chosen is UNSET:
        after = apply(after, [CRChange(path=path, kind="removed")])
    else:
        after = apply(after, [CRChange(path=path, kind="modified", after=chosen)])
    if rest:
        after["conflicts"] = rest
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
        Sides(
            old.get("executionSummary", blank["executionSummary"]),
            a["executionSummary"],
            b["executionSummary"],
        )
    )
    result["metadata"] = merger.metadata(Sides(old.get("metadata", UNSET), a["metadata"], b["metadata"]))
    if THROUGH in a:  # of the record that gets the merge; the chain has what B knows beyond it
        result[THROUGH] = a[THROUGH]
    done = {*result, *ENVELOPE, "conflicts", "checkpointId", THROUGH}
    for name in dict.fromkeys([*old, *a, *b]):
        if name not in done:
            result |= merger.member((name,), Sides.of(name, old, a, b), based=base is not None)
    result |= merger.pointer_of_lineage(Sides.of("checkpointId", old, a, b))
    kept = _kept_conflicts(
        merger, Sides(old.get("conflicts", []), a.get("conflicts", []), b.get("conflicts", []))
    )
    return {**result, **({"conflicts": kept} if kept else {})}


def _items(merger: Merger, collection: str, lists: Sides) -> list[Tree]:
    """A merged collection: the items of the base in its order, then the added ones by time."""
    base, a, b = (by_id(items) for items in lists)
    kept: list[Tree] = []
    added: list[Tree] = []
    for name in dict.fromkeys([*base, *a, *b]):
        sides = Sides(base.get(name, UNSET), a.get(name, UNSET), b.get(name, UNSET))
        items = _item(merger, collection, name, sides)
        (added if sides.base is UNSET else kept).extend(items[:1])
        added.extend(items[1:])
    return kept + sorted(added, key=lambda item: (_time(item), item["id"]))


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
    kept = {
        path: b.get(path) or a[path] for path in {**a, **b} if path not in base or (path in a and path in b)
    }
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
