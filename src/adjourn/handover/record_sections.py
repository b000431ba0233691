"""The answer of `adjourn.record`: the Continuation Record of a task, section by section, each in pages of 8 KiB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adjourn.checkpoints.attachments import shown_size
from adjourn.errors import InvalidError
from adjourn.knowledge.cognition.repository import SessionRepository
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import COLLECTIONS
from adjourn.knowledge.records.dependencies import NO_SURROUNDINGS, Surroundings, shown_fact, stale_facts
from adjourn.knowledge.records.task_record import record_of
from adjourn.store.base import Store
from adjourn.text.redact import preview
from adjourn.text.strict_json import in_words

ANSWER_BYTES = 8 * 1024
"""The limit of one answer; `more` pages through the rest."""
_MAX_SECTION_CURSOR = 12
ITEM_CHARACTERS = 2_000
"""How much is shown of an item that is too large for an answer."""
_OF_THE_MIND = ("facts", "assumptions", "openQuestions", "beliefs")
SECTIONS = (*COLLECTIONS, "actions", "conflicts", *_OF_THE_MIND, "goals", "nodes")
"""The sections that a request can name, under the names of the record's format."""


class SectionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The input of `adjourn.record`."""

    section: str = ""
    more: str = ""


def read_section_request(arguments: Mapping[str, Any]) -> SectionRequest:
    """Read a request from outside. Raises `InvalidError` for an unknown section or cursor."""
    try:
        request = msgspec.convert(arguments, SectionRequest)
    except msgspec.ValidationError as error:
        raise InvalidError(in_words(error), "see the tool's description") from error
    section, more = request.section, request.more
    if section and section not in SECTIONS:
        raise InvalidError(f"unknown section: {section[:40]!r}", "use one of: " + ", ".join(SECTIONS))
    if more and not (section and more.isascii() and more.isdecimal() and len(more) < _MAX_SECTION_CURSOR):
        raise InvalidError(
            f"unknown cursor: {more[:40]!r}",
            "give the `more` of an earlier answer together with its section, or leave it out",
        )
    return request


def describe_record(
    store: Store, task: str, request: SectionRequest, around: Surroundings = NO_SURROUNDINGS
) -> dict[str, Any]:
    """Describe the record of a task: its task, and the number of items of each section. For a section: its newest items, oldest first.

    With `more`, the cursor of an earlier answer: older items. Facts that are stale `around` the reader say so.
    """
    record = record_of(store, task)
    if record is None:
        return {"task": task, "message": "This task has no record yet; adjourn.note creates it."}
    answer = {"record": record["id"], "version": record["sequence"], "contentHash": record["contentHash"]}
    found = _sections(record, mind_of(store, record))
    if request.section == "facts":
        stale = stale_facts(found["facts"], around)
        found["facts"] = [shown_fact(fact, stale) for fact in found["facts"]]
    if request.section:
        return answer | _page(request.section, found[request.section], request.more)
    about = {name: _shortened(value) for name, value in record["task"].items()}
    return answer | {"task": about, "sections": {name: len(items) for name, items in found.items() if items}}


def mind_of(store: Store, record: Tree) -> Tree | None:
    """The state of mind that belongs to a record; None without one."""
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
    rows: list[Tree] = []
    room = ANSWER_BYTES - 500  # for the members beside the items
    while stop > 0:
        item = items[stop - 1]
        if shown_size(item) > room and not rows:
            item = _shortened_item(item)
        room -= shown_size(item)
        if room < 0:
            break
        rows.append(item)
        stop -= 1
    page: dict[str, Any] = {"section": section, "count": len(items), "items": rows[::-1]}
    return page | ({"more": str(stop)} if stop else {})


def _shortened_item(item: Tree) -> Tree:
    """The id and the beginning of an item that is too large for an answer."""
    named = {"id": item["id"]} if "id" in item else {}
    return {**named, "cut": preview(item, ITEM_CHARACTERS)}


def _shortened(value: object) -> object:
    """A member of the task, cut if it is too long for an answer."""
    return value if shown_size(value) <= ITEM_CHARACTERS else preview(value, ITEM_CHARACTERS // 3)
