"""What an agent is told of its task's record: section by section, or as the brief of who goes on.

Owns: the sections, the bounds of what is told. Must never: write, or cut a thing without saying so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adjourn.checkpoints import TaskCheckpoint, shown_size
from adjourn.errors import AdjournError, InvalidError
from adjourn.knowledge.brief import brief
from adjourn.knowledge.cognition import SessionRepository
from adjourn.knowledge.model import COLLECTIONS, Tree
from adjourn.knowledge.records import CRStore, expire_due, record_of
from adjourn.store import Store
from adjourn.text import fit_text, one_line, preview

ANSWER_BYTES = 8 * 1024
"""What one answer is kept under; `more` pages through the rest."""
MAX_CURSOR = 12
ITEM_CHARACTERS = 2_000
"""What is shown of an item that is too large for an answer."""
_OF_THE_MIND = ("facts", "assumptions", "openQuestions", "beliefs")
SECTIONS = (*COLLECTIONS, "actions", "conflicts", *_OF_THE_MIND, "goals", "nodes")
"""What can be asked for by itself, under the names of the record's format."""
HASH_CHARACTERS = 64
_MISSING = (
    "The record of this work, version {}, is not in this store. A person can bring it: `adjourn record export` where it is, `adjourn "
    "record import` here."
)
_CUT = "\n… cut here: adjourn.record has the rest\n"


class SectionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of a record is asked for: the input of `adjourn.record`."""

    section: str = ""
    more: str = ""


def read_section_request(arguments: Mapping[str, Any]) -> SectionRequest:
    """What is asked for from outside. Raises `InvalidError` for what there is not."""
    try:
        request = msgspec.convert(arguments, SectionRequest)
    except msgspec.ValidationError as error:
        raise InvalidError(str(error), "see the tool's input schema") from error
    section, more = request.section, request.more
    if section and section not in SECTIONS:
        raise InvalidError(f"no section is called {section[:40]!r}", "there are: " + ", ".join(SECTIONS))
    if more and not (section and more.isascii() and more.isdecimal() and len(more) < MAX_CURSOR):
        raise InvalidError(
            f"not a `more` of an answer of adjourn.record: {more[:40]!r}", "give it with its section"
        )
    return request


def describe_record(store: Store, task: str, request: SectionRequest) -> dict[str, Any]:
    """The current record of a task: what it is and how much each section has; or the newest items of a section, oldest first.

    `more` is the cursor of an earlier answer, for older ones.
    """
    record = record_of(store, task)
    if record is None:
        return {"task": task, "message": "This task has no record yet; adjourn.note begins one."}
    answer = {"record": record["id"], "version": record["sequence"], "contentHash": record["contentHash"]}
    found = _sections(record, _mind(store, record))
    if request.section:
        return answer | _page(request.section, found[request.section], request.more)
    about = {name: _shortened(value) for name, value in record["task"].items()}
    return answer | {"task": about, "sections": {name: len(items) for name, items in found.items() if items}}


def record_brief(store: Store, checkpoint: TaskCheckpoint, now: int, room: int) -> str:
    """The brief of the task's record and state of mind at `now` (milliseconds), in at most `room` bytes as shown; "" without a record."""
    named = one_line(checkpoint.data.record, HASH_CHARACTERS)
    record = record_of(store, checkpoint.event.task)
    if record is None:
        return _fitting(_MISSING.format(named), room) if named else ""
    records, warnings = CRStore(store), list[str]()
    if named and records.versions.find(named) is None:
        warnings.append(f"the version that the checkpoint names, {named}, is not in this store")
    try:
        mind = _mind(store, record)
    except AdjournError as error:
        mind = None
        warnings.append(f"what was noted of facts, questions and goals cannot be read: {error.message}")
    due = expire_due(record, now)  # written when somebody resumes or decides; it is so now
    text = brief(
        due.record if due else record,
        mind,
        now=now,
        verified=records.verify_chain(record["id"]),
        consumed=records.consumed,
        budget_bytes=room * 9 // 10,  # line breaks take two bytes where it is shown
        warnings=warnings,
    )
    return _fitting(text, room)


def _fitting(text: str, room: int) -> str:
    """As much of a text as takes `room` bytes in an answer."""
    return fit_text(text, room, measure=shown_size, mark=_CUT)


def _mind(store: Store, record: Tree) -> Tree | None:
    """The state of mind that a record goes with."""
    name = record.get("checkpointId", "")
    return SessionRepository(store).checkpoint(name) if name else None


def _sections(record: Tree, mind: Tree | None) -> dict[str, list[Tree]]:
    known = mind["epistemicState"] if mind else {}
    return {
        **{name: record[name] for name in COLLECTIONS},
        "actions": record["executionSummary"]["actions"],
        "conflicts": record.get("conflicts", []),
        **{name: known.get(name, []) for name in _OF_THE_MIND},
        "goals": mind["intentGraph"]["goals"] if mind else [],
        "nodes": mind["nodes"] if mind else [],
    }


def _page(section: str, items: list[Tree], more: str) -> dict[str, Any]:
    stop = min(int(more), len(items)) if more else len(items)
    shown: list[Tree] = []
    room = ANSWER_BYTES - 500  # for what stands beside the items
    while stop > 0:
        item = items[stop - 1]
        if shown_size(item) > room and not shown:
            item = _shortened_item(item)
        room -= shown_size(item)
        if room < 0:
            break
        shown.append(item)
        stop -= 1
    page: dict[str, Any] = {"section": section, "count": len(items), "items": shown[::-1]}
    return page | ({"more": str(stop)} if stop else {})


def _shortened_item(item: Tree) -> Tree:
    """An item that is too large for an answer: its id, and the beginning of the rest."""
    named = {"id": item["id"]} if "id" in item else {}
    return {**named, "cut": preview(item, ITEM_CHARACTERS)}


def _shortened(value: object) -> object:
    """A member of the task, which may be as long as a record allows."""
    return value if shown_size(value) <= ITEM_CHARACTERS else preview(value, ITEM_CHARACTERS // 3)
