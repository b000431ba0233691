"""Records where a command works: by id, by task, by hash, `ID@N`; and things in them, by a beginning of their id.

Owns: that naming. Must never: print, or make a store unless the command writes one.
"""

from __future__ import annotations

from typing import NamedTuple

from adjourn.cli.shared.context import CommandContext, user
from adjourn.errors import IntegrityError, NotFoundError, UsageError
from adjourn.knowledge.cognition import COLLECTION
from adjourn.knowledge.model import CRAuthor, Tree
from adjourn.knowledge.records import CRStore, sealed, verified_version
from adjourn.log import timestamp


class Item(NamedTuple):
    """A question, resume point or decision, and the newest version of the record it is in."""

    record: Tree
    item: Tree

    @property
    def cr_id(self) -> str:
        """The id of the record that the item is in."""
        return str(self.record["id"])

    @property
    def id(self) -> str:
        """The item's id in its record."""
        return str(self.item["id"])


def records_at(context: CommandContext) -> CRStore:
    """The records of a store that is there."""
    return CRStore(context.store, clock=context.clock)


def author() -> CRAuthor:
    """Who is at the terminal."""
    return CRAuthor(id=user().id, type="human")


def find_id(store: CRStore, name: str) -> str:
    """A record by its id, a beginning of it, or the id of its task; without a name, the only one there is."""
    ids = store.ids()
    if name in ids:
        return name
    found = [one for one in ids if one.startswith(name)]
    if name and not found:
        found = [record["id"] for record in readable(store)[0] if record["task"]["id"] == name]
    if not ids:
        raise NotFoundError("the store has no record yet", "import one: adjourn record import FILE")
    if len(found) == 1:
        return found[0]
    if not name:
        raise UsageError(f"the store has {len(ids)} records, and none is named", "list them: adjourn record")
    count = f"{len(found)} records match {name!r}" if found else f"no record has the id {name!r}"
    raise NotFoundError(count, "list them: adjourn record")


def find_version(store: CRStore, name: str) -> Tree:
    """A version: the newest of a record, `ID@N` for the one of sequence N, or one by its hash."""
    start, at, sequence = name.rpartition("@")
    if at and sequence.isdecimal() and len(sequence) < 16:
        cr_id = find_id(store, start)
        return _at(store, cr_id, int(sequence))
    if len(name) == 64 and (found := store.get_by_hash(name)):
        return found
    return store.resolve(find_id(store, name))


def short_names(ids: list[str]) -> list[str]:
    """Beginnings of ids that are enough to name each: 8 characters, where they are."""
    short = [one[:8] for one in ids]
    return [name if short.count(name) == 1 else one for name, one in zip(short, ids, strict=True)]


def newest(store: CRStore, cr_id: str, count: int) -> list[Tree]:
    """The last versions of a record, oldest first, without their roots."""
    end = store.versions.head_position(cr_id).seq + 1
    return [
        sealed(verified_version(entry, cr_id))
        for entry in store.versions.entries(cr_id, max(0, end - count), end)
    ]


def items(store: CRStore, kind: str) -> list[Item]:
    """All things of a kind, in all records that can be read: a broken record does not hide the others."""
    found = []
    for record in readable(store)[0]:
        found += [Item(record, item) for item in record[COLLECTION[kind]]]
    return found


def readable(store: CRStore) -> tuple[list[Tree], dict[str, IntegrityError]]:
    """The newest version of every record, and why others cannot be read."""
    found: list[Tree] = []
    broken: dict[str, IntegrityError] = {}
    for name in store.ids():
        try:
            found.append(store.resolve(name))
        except IntegrityError as error:
            broken[name] = error
    return found, broken


def one_item(found: list[Item], start: str, what: str, remedy: str, record: str = "") -> Item:
    """The one whose id is, or begins with, `start`; in the record whose id is, or begins with, `record`."""
    found = [one for one in found if one.cr_id == record] or [
        one for one in found if one.cr_id.startswith(record)
    ]
    named = [one for one in found if one.id == start] or [one for one in found if one.id.startswith(start)]
    if len(named) != 1:
        places = ", ".join(f"{one.id} in {one.cr_id}" for one in named[:5])
        count = f"{what} {start!r} is ambiguous: {places}" if named else f"no {what} is {start!r}"
        raise NotFoundError(count, f"{remedy}; name the record with --record" if named else remedy)
    return named[0]


def stamp(milliseconds: int) -> str:
    """A time of a record, in the form of the command line."""
    return timestamp(milliseconds)


def written(record: Tree, **more: object) -> dict[str, object]:
    """A version that was just made, for machines."""
    return {
        "record": record["id"],
        "sequence": record["sequence"],
        "contentHash": record["contentHash"],
        "merkleRoot": record["merkleRoot"],
        **more,
    }


def _at(store: CRStore, cr_id: str, sequence: int) -> Tree:
    head = store.resolve(cr_id)
    first = next(store.versions.entries(cr_id, 0, 1))
    start = store.resolve(first.hash)["sequence"]
    if not start <= sequence <= head["sequence"]:
        raise NotFoundError(
            f"record {cr_id} has no version {sequence}", f"it has versions {start} to {head['sequence']}"
        )
    stored = next(store.versions.entries(cr_id, sequence - start, sequence - start + 1))
    return store.resolve(stored.hash)
