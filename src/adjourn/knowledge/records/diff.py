"""Compare two records: a list of changes with paths, that can be shown, stored and applied.

Items of collections are compared by id, tags as a set, actions as a multiset, other members as values. The envelope
(`versions.ENVELOPE`) is not compared.

Owns: `diff` and `apply`. Must never: report a different order of items; order has no meaning in a record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adjourn.errors import InvalidError
from adjourn.knowledge.model import (
    COLLECTIONS,
    CRChange,
    CRCounts,
    CRDiff,
    Tree,
    by_id,
    load,
    parts_of,
    pointer,
    same,
    without,
)
from adjourn.knowledge.records.versions import ENVELOPE
from adjourn.log import canonical

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
    old, new = counted(a), counted(b)
    for item in (old - new).elements():
        yield CRChange(path=pointer(*path), kind="removed", before=value_of(item))
    for item in (new - old).elements():
        yield CRChange(path=pointer(*path), kind="added", after=value_of(item))


def counted(items: Sequence[Any]) -> Counter[bytes]:
    """A list as a multiset of canonical texts."""
    return Counter(canonical(item) for item in items)


def value_of(item: bytes) -> Any:
    """The value of a canonical text of `counted`."""
    return load(item)


def _names(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    return [*a, *(name for name in b if name not in a)]


# --- applying

_ELSEWHERE = "apply the changes to the record that they were made from"


def _apply(result: Tree, parts: list[str], change: CRChange) -> None:
    """Change `result`, whose collections are by id. Copies the deeper parts, which other trees share."""
    name, rest = parts[0], parts[1:]
    if not rest:
        _set(result, name, change)
    elif name in COLLECTIONS and len(rest) == 1:
        _set(result[name], rest[0], change)
    elif name in COLLECTIONS:
        if rest[0] not in result[name]:
            raise InvalidError(f"{change.path}: no item has this id", _ELSEWHERE)
        item = dict(result[name][rest[0]])
        _set(item, rest[1], change)
        result[name][rest[0]] = item
    elif name not in _OBJECTS:
        raise InvalidError(f"{change.path}: {name} has no members to change", _ELSEWHERE)
    else:
        inner = dict(result[name])
        if _SETS.get(rest[0]) == name:
            inner[rest[0]] = _with_element(inner[rest[0]], change)
        else:
            _set(inner, rest[0], change)
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
