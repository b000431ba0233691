"""A record: what an agent knows, decided, asks and plans; its versions, what changed between two of them, and its conflicts.

It writes no other change.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from adjourn.errors import AdjournError, InvalidError, NotFoundError, UsageError
from adjourn.knowledge.model.documents import Tree, parts_of
from adjourn.knowledge.model.record import COLLECTIONS, CRDiff
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.event import timestamp
from adjourn.store.base import EMPTY, Store
from adjourn.text.times import local
from adjourn.ui.site import Form, Notice, Site, WebPage

MAX_ITEMS = 100
"""Items of one part, versions and changes that are shown."""
MAX_RECORDS = 200
SIDES = ("a", "b", "base")
_TITLES = {
    "decisions": ("Decisions", "description"),
    "learnings": ("Learnings", "content"),
    "questionsForUser": ("Questions", "question"),
    "resumePoints": ("Resume points", "label"),
    "blockers": ("Blockers", "description"),
    "invariants": ("Invariants", "description"),
    "toolEffects": ("Effects", "toolName"),
}
_KNOWN = frozenset(("id", "status", "approvalStatus", "type"))
"""Members that have a place of their own."""


class RecordFact(NamedTuple):
    """Something that an item says, in words, and when; "" for no time."""

    name: str
    text: str
    stamp: str = ""


class RecordItem(NamedTuple):
    """An item of a record: its text, its state, what else it says, and all of it as JSON."""

    id: str
    text: str
    status: str
    facts: Sequence[RecordFact]
    json: str


class RecordPart(NamedTuple):
    title: str
    items: Sequence[RecordItem]
    left: int


class RecordVersion(NamedTuple):
    """A version in the history; `sequence` is its number."""

    sequence: int
    written: str
    by: str
    hash: str


class ShownChange(NamedTuple):
    """A difference between two versions. `kind` is added, removed or modified."""

    part: str
    name: str
    kind: str
    before: str
    after: str


class OpenConflict(NamedTuple):
    """What both sides changed differently; of each side its value, as text."""

    path: str
    sides: Sequence[tuple[str, str]]


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The record that is named, compared as the address says; without a name, the list of records."""
    store = site.find_store()
    name = fields.get("id", "")
    if not name:
        records_found = [] if store is None else _records(site, store)
        return {"record": None, "records": records_found, "sessions": [] if store is None else _sessions(store)}
    if store is None:
        raise NotFoundError("there is no store yet", "choose a record from the list")
    records = site.records(store)
    record = records.get(name)
    if record is None:
        raise NotFoundError(f"no record has the id {name!r}", "choose one from the list")
    history = records.get_history(name)
    older, newer = _compared(history, fields)
    return {
        "record": record,
        "records": [],
        "has_mind": store.head(f"cognition/{record['task']['id']}") != EMPTY,
        "written": timestamp(record["lastModifiedAt"]),
        "parts": [part for part in map(_part(record), COLLECTIONS) if part.items],
        "versions": [_version(version) for version in reversed(history[-MAX_ITEMS:])],
        "older": older["sequence"] if older else None,
        "newer": newer["sequence"],
        "changes": _changes(records, older, newer) if older else [],
        "conflicts": [
            OpenConflict(conflict["path"], [(side, _text(conflict.get(side))) for side in SIDES])
            for conflict in record.get("conflicts", ())[:MAX_ITEMS]
        ],
    }


def resolve(site: Site, form: Form) -> Notice:
    """Take one side of a conflict."""
    store, side = site.find_store(), form.get("side", "")
    if store is None or side not in SIDES:
        raise UsageError("no side is chosen", "reload the page, and choose one")
    back = {"id": form.get("id", "")}
    try:
        site.records(store).resolve_conflict(form.get("id", ""), form.get("path", ""), site.author, take=side)  # type: ignore[arg-type]  # one of SIDES
    except (AdjournError, KeyError) as error:
        notice = site.words(error.message) if isinstance(error, AdjournError) else "the record is gone"
        return Notice(f"Not resolved: {notice}", "bad", "reload the page: somebody may have resolved it before", back)
    return Notice("Resolved.", fields=back)


def _records(site: Site, store: Store) -> list[tuple[str, str, str, str]]:
    """Id, goal, status and time of the records that were written last."""
    records = site.records(store)
    records_found = [record for name in records.ids() if (record := records.get(name)) is not None]
    records_found.sort(key=lambda each: each["lastModifiedAt"], reverse=True)
    return [
        (each["id"], each["task"]["goal"], each["task"]["status"], timestamp(each["lastModifiedAt"]))
        for each in records_found[:MAX_RECORDS]
    ]


def _sessions(store: Store) -> list[str]:
    """The sessions that programs keep; those of tasks are on the tasks' pages."""
    streams = set(store.streams())
    names = [name.removeprefix("cognition/") for name in streams if name.startswith("cognition/")]
    return sorted(set(names) - streams)[:MAX_RECORDS]


def _part(record: Tree) -> Any:
    def part(name: str) -> RecordPart:
        title, text = _TITLES[name]
        items = record[name]
        rows = [
            RecordItem(
                item["id"],
                str(item[text]),
                str(item.get("approvalStatus", item.get("status", ""))),
                list(_facts(item, {*_KNOWN, text})),
                _json(item),
            )
            for item in items[:MAX_ITEMS]
        ]
        return RecordPart(title, rows, max(0, len(items) - MAX_ITEMS))

    return part


def _version(version: Tree) -> RecordVersion:
    by = version["lastModifiedBy"]
    return RecordVersion(version["sequence"], timestamp(version["lastModifiedAt"]), by["id"], version["contentHash"])


def _compared(history: Sequence[Tree], fields: Form) -> tuple[Tree | None, Tree]:
    """The two versions of the address; by default the last two."""
    by_sequence = {str(version["sequence"]): version for version in history}
    newer = by_sequence.get(fields.get("to", ""), history[-1])
    before = by_sequence.get(str(newer["sequence"] - 1))
    return by_sequence.get(fields.get("from", ""), before), newer


def _changes(records: RecordTrees, older: Tree, newer: Tree) -> list[ShownChange]:
    difference: CRDiff = records.diff(older["contentHash"], newer["contentHash"])
    return list(_shown(difference))[:MAX_ITEMS]


def _shown(difference: CRDiff) -> Iterator[ShownChange]:
    for change in difference.changes:
        part, *below = parts_of(change.path)
        if change.path.endswith("At"):
            continue  # the history says when
        before, after = (None if value is UNSET else value for value in (change.before, change.after))
        title = _TITLES[part][0] if part in _TITLES else part
        name = " ".join((*below[:-1], _words(below[-1]).lower() if len(below) > 1 else below[0])) if below else ""
        yield ShownChange(_words(title), name, change.kind, _text(before), _text(after))


# --- what an item says, in words

_WORDS = {
    "affects": "Affects", "alternativePaths": "Otherwise", "blocksResumePoints": "Holds up", "context": "Context", "nextSteps": "Then",
    "onTimeout": "Without an answer", "overridableBy": "Can be changed by", "preconditions": "After", "rationale": "Because",
    "requiredAuthority": "Who may approve", "safeToAutoExecute": "Safe without asking", "skippedReason": "Skipped because",
    "deniedReason": "Denied because", "source": "Learnt from",
}  # fmt: skip
_FIRST = frozenset(("answer", "context", "options", "rationale", "variants"))
"""Members that are shown before the others."""
MAX_DEPTH = 4


def _facts(item: Tree, without: Container[str]) -> Iterator[RecordFact]:
    """What an item says: who did something stands with when, the rest follows."""
    for key, value in item.items():
        if key.endswith("By") and _is_author(value):
            yield RecordFact(_words(key[:-2]), f"by {value['id']}", _stamp(item.get(f"{key[:-2]}At")))
        elif key.endswith("At") and f"{key[:-2]}By" not in item and _stamp(value):
            yield RecordFact(_words(key[:-2]), "", _stamp(value))
    for key, value in sorted(item.items(), key=lambda member: member[0] not in _FIRST):
        is_signed = key.endswith("At") or (key.endswith("By") and _is_author(value))
        if key not in without and not is_signed and value not in (None, "", [], {}):
            yield RecordFact(_WORDS.get(key, _words(key)), _text(value))


def _is_author(value: Any) -> bool:
    return isinstance(value, dict) and "id" in value and "type" in value and len(value) <= 3


def _stamp(value: Any) -> str:
    """A time of a record as events write it; "" for what is none."""
    try:
        return timestamp(value) if type(value) is int else ""
    except InvalidError:
        return ""


def _minute(value: Any) -> str:
    """A time of a record on the reader's clock."""
    return local(_stamp(value))[:16].replace("T", " ")


def _words(key: str) -> str:
    """The name of a member in words: `askedAt` is `Asked at`."""
    spaced = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f" {found[1].lower()}", key)
    return spaced[:1].upper() + spaced[1:]


def _text(value: Any, depth: int = 0) -> str:
    """A value in words; views of a decision as `author: decision (reason)`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if _is_author(value):
        return str(value["id"])
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, list):
        between = "\n" if any(isinstance(item, dict) for item in value) else "; "
        return between.join(_text(item, depth + 1) for item in value)
    if isinstance(value, dict):
        if "author" in value and "decision" in value:
            why = f" ({value['rationale']})" if value.get("rationale") else ""
            return f"{_text(value['author'])}: {value['decision']}{why}"
        parts = [
            f"{_WORDS.get(key, _words(key))}: {_minute(item) if key.endswith('At') and _stamp(item) else _text(item, depth + 1)}"
            for key, item in value.items()
            if item not in (None, "", [], {}) and (depth or key != "id")
        ]
        return ("; " if depth else "\n").join(parts)
    return str(value)


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


PAGE = WebPage("/record", "Records", "record.html", query, {"resolve": resolve})
