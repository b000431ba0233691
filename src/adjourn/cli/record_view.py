"""How a Continuation Record and its items are found, told apart and shown.

What is contested is shown as contested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from adjourn.cli.context import CommandContext, text_option, user
from adjourn.cli.output import cut, safe, say, say_facts, say_json
from adjourn.cli.terminal import width
from adjourn.errors import IntegrityError, NotFoundError, UsageError
from adjourn.knowledge.cognition.transitions import COLLECTION
from adjourn.knowledge.model.documents import Tree, parts_of
from adjourn.knowledge.model.record import COLLECTIONS, EFFECTS_THROUGH, CRAuthor, CRChange, CRConflict, CRDiff
from adjourn.knowledge.records.effect_lookup import OPERATION, omitted_count
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.version_log import verified_version
from adjourn.knowledge.records.versions import sealed
from adjourn.log.event import timestamp
from adjourn.text.times import ago

_T = TypeVar("_T")
RECORD_OPTION: Final = text_option("--record RECORD", "Record to look in, if several have that id.")

_TITLES = {
    "task": "Mission",
    "decisions": "Decisions",
    "learnings": "Learnings",
    "questionsForUser": "Questions",
    "resumePoints": "Resume points",
    "blockers": "Blockers",
    "invariants": "Invariants",
    "toolEffects": "Effects",
    "executionSummary": "Progress",
    "metadata": "Planning",
    "conflicts": "Unresolved",
}
"""The parts of a record in the order in which they are shown."""
_TEXT = {
    "decisions": "description", "learnings": "content", "questionsForUser": "question", "resumePoints": "label",
    "blockers": "description", "invariants": "description", "toolEffects": "toolName",
}  # fmt: skip
_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "modified": ("~", "yellow")}


def summary(difference: CRDiff) -> str:
    """`1 decision, 2 questions`: what differs, in a few words; `nothing` for the same."""
    counts: dict[str, int] = {}
    for name, count in difference.summary.items():
        counts[name] = count.added + count.removed + count.modified
    for change in difference.changes:
        name = parts_of(change.path)[0]
        if name != EFFECTS_THROUGH:
            counts.setdefault(name, 1)
    parts = [_counted(_TITLES.get(name, name).lower(), counts[name], name) for name in _ordered(counts)]
    return ", ".join(parts) or "nothing"


def say_diff(difference: CRDiff) -> None:
    """The changes, part by part."""
    by_part: dict[str, list[CRChange]] = {}
    for change in difference.changes:
        by_part.setdefault(parts_of(change.path)[0], []).append(change)
    by_part.pop(EFFECTS_THROUGH, None)  # which events were read for it
    for part in _ordered(by_part):
        say(f"\n{_TITLES.get(part, part)}", "bold")
        # The history says when something was done; that is left out here, unless it is all there is.
        plain = [change for change in by_part[part] if not change.path.endswith("At")]
        for change in plain or by_part[part]:
            mark, colour = _MARKS[change.kind]
            for number, line in enumerate(_change(part, change)):
                say(cut(f"  {mark if not number else ' '} {line}", width()), colour)


def say_conflicts(conflicts: Iterable[CRConflict]) -> None:
    """The changes of both sides, and how they were resolved."""
    for conflict in conflicts:
        say(
            f"\n{safe(conflict.path)}: {_OUTCOME[conflict.resolution]}",
            "red" if conflict.resolution == "unresolved" else "yellow",
        )
        sides = (("base", conflict.base), ("a", conflict.a), ("b", conflict.b))
        say_facts(*[(f"  {name}", "absent" if value is UNSET else brief(value)) for name, value in sides])


def say_record(record: Tree, now: int) -> None:
    """A record, in the order in which the next agent needs it."""
    task = record["task"]
    by = record["lastModifiedBy"]
    say(f"{safe(task['status'])}: {safe(task['goal'])}", "bold")
    summary_ = record["executionSummary"]
    say_facts(
        ("  record", f"{record['id']} version {record['sequence']}"),
        ("  hash", record["contentHash"]),
        ("  written", f"{ago(stamp(record['lastModifiedAt']), now)} by {by['id']} ({by['type']})"),
        ("  done when", "; ".join(task["successCriteria"])),
        ("  steps", f"{summary_['stepsCompleted']} done, {summary_['stepsFailed']} failed"),
    )
    for part in _ordered(COLLECTIONS):
        lines = [line for item in record[part] for line in _item(part, item)]
        if lines:
            say(f"\n{_TITLES[part]}", "bold")
            for line in lines:
                say(cut(f"  {line}", width()))
        if part == "toolEffects" and (omitted := omitted_count(record)):
            say(f"  and {omitted:,} older settled ones: adjourn log")
    for conflict in record.get("conflicts", ()):
        say(f"\nunresolved: {safe(conflict['path'])}", "red")


def brief(value: Any) -> str:
    """A value in a line."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict) and value.keys() >= {"id", "type"} and len(value) <= 5 and "status" not in value:
        return safe(str(value["id"]))  # an author
    if isinstance(value, dict) and value.keys() >= {"author", "decision", "rationale"}:
        return _variant(value)
    if isinstance(value, dict):
        for name in ("description", "content", "question", "label", "toolName", "path"):
            if isinstance(value.get(name), str):
                return safe(value[name]) + (f" ({safe(_status(value))})" if _status(value) else "")
    return safe(msgspec.json.encode(value).decode())


_OUTCOME = {
    "a": "took a's",
    "b": "took b's",
    "both": "kept both",
    "contested": "contested: all variants are kept",
    "unresolved": "UNRESOLVED",
}


def _change(part: str, change: CRChange) -> Iterator[str]:
    parts = parts_of(change.path)
    name = ".".join(safe(segment) for segment in parts[1:])
    if part in COLLECTIONS and len(parts) == 2:
        yield f"{name}  {brief(change.after if change.kind != 'removed' else change.before)}"
        return
    value = change.before if change.kind == "removed" else change.after
    if isinstance(value, list) and change.kind != "modified":
        yield from [f"{name}:", *(f"  {brief(entry)}" for entry in value)] if name else map(brief, value)
        return
    if change.kind == "modified":
        before, after = brief(change.before), brief(change.after)
        if len(name) + len(before) + len(after) + 8 <= width():
            yield f"{name}: {before} → {after}"
        else:
            yield f"{name}:"
            yield f"  was  {before}"
            yield f"  is   {after}"
        return
    yield f"{name}: {brief(value)}".removeprefix(": ")


def _item(part: str, item: Tree) -> Iterator[str]:
    status = _status(item)
    text = safe(str(item[_TEXT[part]]))
    if part == "toolEffects":
        does = safe(item["operation"])
        text = (
            f"{text} {safe(str(item['inputs'].get('redacted', '')))}".rstrip()
            if does == OPERATION
            else f"{text} {does}"
        )
    yield f"{safe(item['id'])}  {text}{f' ({safe(status)})' if status else ''}"
    if part == "decisions":
        yield from (f"    {_variant(variant)}" for variant in item.get("variants", ()) if status == "contested")
    if part == "questionsForUser" and status == "answered":
        yield f"    {safe(item['answeredBy']['id'])}: {safe(item['answer'])}"
    if part == "resumePoints":
        yield from (f"    {number}. {safe(step)}" for number, step in enumerate(item["nextSteps"], 1))


def _variant(variant: Tree) -> str:
    return f"{safe(variant['author']['id'])}: {safe(variant['decision'])} ({safe(variant['rationale'])})"


def _status(item: Tree) -> str:
    return str(item.get("approvalStatus", item.get("status", "")))


def _ordered(names: Iterable[str]) -> list[str]:
    order = list(_TITLES)
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _counted(title: str, count: int, name: str) -> str:
    if name not in COLLECTIONS:
        return title
    return f"{count} {title.removesuffix('s') if count == 1 else title}"


# --- records where a command works


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


def records_at(context: CommandContext) -> RecordTrees:
    """The records of a store that is there."""
    return RecordTrees(context.store, clock=context.clock)


def author() -> CRAuthor:
    """Who is at the terminal."""
    return CRAuthor(id=user().id, type="human")


def find_id(store: RecordTrees, name: str) -> str:
    """A record by its id, a beginning of it, or the id of its task; without a name, the only one there is."""
    ids = store.ids()
    if name in ids:
        return name
    matches = [cr_id for cr_id in ids if cr_id.startswith(name)]
    if name and not matches:
        matches = [record["id"] for record in readable(store)[0] if record["task"]["id"] == name]
    if not ids:
        raise NotFoundError("the store has no record yet", "import one: adjourn record import FILE")
    if len(matches) == 1:
        return matches[0]
    if not name:
        raise UsageError(f"choose one of {len(ids)} records", "list them: adjourn record")
    count = f"{len(matches)} records match {name!r}" if matches else f"no record has the id {name!r}"
    raise NotFoundError(count, "list them: adjourn record")


def find_version(store: RecordTrees, name: str) -> Tree:
    """A version: the newest of a record, `ID@N` for the one of sequence N, or one by its hash."""
    start, at, sequence = name.rpartition("@")
    if at and sequence.isdecimal() and len(sequence) < 16:
        cr_id = find_id(store, start)
        return _at(store, cr_id, int(sequence))
    if len(name) == 64 and (version := store.get_by_hash(name)):
        return version
    return store.resolve(find_id(store, name))


def short_names(ids: list[str]) -> list[str]:
    """Beginnings of ids that are enough to name each: 8 characters, where they are."""
    short = [cr_id[:8] for cr_id in ids]
    return [name if short.count(name) == 1 else cr_id for name, cr_id in zip(short, ids, strict=True)]


def newest(store: RecordTrees, cr_id: str, count: int) -> list[Tree]:
    """The last versions of a record, oldest first, without their roots."""
    end = store.versions.head_position(cr_id).seq + 1
    return [sealed(verified_version(entry, cr_id)) for entry in store.versions.entries(cr_id, max(0, end - count), end)]


def items(store: RecordTrees, kind: str) -> list[Item]:
    """All things of a kind, in all records that can be read: a broken record does not hide the others."""
    entries = []
    for record in readable(store)[0]:
        entries += [Item(record, item) for item in record[COLLECTION[kind]]]
    return entries


def readable(store: RecordTrees) -> tuple[list[Tree], dict[str, IntegrityError]]:
    """The newest version of every record, and why others cannot be read."""
    records: list[Tree] = []
    broken: dict[str, IntegrityError] = {}
    for name in store.ids():
        try:
            records.append(store.resolve(name))
        except IntegrityError as error:
            broken[name] = error
    return records, broken


def one_item(entries: list[Item], start: str, kind: str, remedy: str, record: str = "") -> Item:
    """The one whose id is, or starts with, `start`; in the record whose id is, or starts with, `record`."""
    named = beginning_with(start, beginning_with(record, entries, lambda item: item.cr_id), lambda item: item.id)
    if len(named) != 1:
        places = ", ".join(f"{item.id} in {item.cr_id}" for item in named[:5])
        count = f"{kind} {start!r} is ambiguous: {places}" if named else f"no {kind} is {start!r}"
        raise NotFoundError(count, f"{remedy}; name the record with --record" if named else remedy)
    return named[0]


def beginning_with(start: str, entries: Sequence[_T], id_of: Callable[[_T], str]) -> Sequence[_T]:
    """Those of the entries whose id is `start`, else those whose id starts with it."""
    return [entry for entry in entries if id_of(entry) == start] or [
        entry for entry in entries if id_of(entry).startswith(start)
    ]


def list_items(
    entries: Sequence[Item],
    name: str,
    empty: str,
    heading: str,
    described: Callable[[Tree], tuple[str, Sequence[tuple[str, str]]]],
    *,
    as_json: bool,
) -> None:
    """Print items: each with its id, a line, and facts. As JSON, a member `name` with a list of them."""
    if as_json:
        say_json({name: [entry.item | {"record": entry.cr_id} for entry in entries]})
        return
    say(f"{len(entries)} {heading}" if entries else empty)
    for entry in entries:
        line, facts = described(entry.item)
        say(f"\n{safe(entry.id)}  {line}")
        say_facts(*facts, ("  record", entry.cr_id))


def say_freed(store: RecordTrees, cr_id: str) -> None:
    """Name the resume points of a record that nothing blocks any more."""
    if freed := [point["label"] for point in store.usable_resume_points(cr_id)]:
        say(f"  can start now: {safe(', '.join(freed))}")


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


def _at(store: RecordTrees, cr_id: str, sequence: int) -> Tree:
    head = store.resolve(cr_id)
    first = next(store.versions.entries(cr_id, 0, 1))
    start = store.resolve(first.hash)["sequence"]
    if not start <= sequence <= head["sequence"]:
        raise NotFoundError(
            f"record {cr_id} has no version {sequence}", f"it has versions {start} to {head['sequence']}"
        )
    stored = next(store.versions.entries(cr_id, sequence - start, sequence - start + 1))
    return store.resolve(stored.hash)
