"""What people answered, with what was asked; and what a person put off for some time.

The answers are those of the last events of each task, and of the newest version of each record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from adjourn.errors import AdjournError, InvalidError
from adjourn.handover.inbox import RECORDS, URGENCIES, Urgency, WaitingItem, WaitingKind
from adjourn.knowledge.model.documents import Tree
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Event, decode, timestamp
from adjourn.store.base import Head, Store
from adjourn.tasks.approvals import LOOKED_BACK
from adjourn.tasks.heads import verified_entries_from
from adjourn.text.redact import without_secrets

READ_SECONDS = 0.25
"""How long one look reads; what is left is read by the next."""
MAX_TEXT = 2_000
SNOOZED = "snoozed/"
MAX_SNOOZED = 500
_KINDS = (kinds.ConfirmRequired, kinds.ConfirmApproved, kinds.ConfirmDenied, kinds.EffectSettled, kinds.ToolAllowed)
_MARKS = tuple(f'"event":"{kind.KIND}"'.encode() for kind in _KINDS)
_NOBODY = frozenset(("repeated", "elsewhere"))
"""Ways in which the person's answer to another question closed this one."""


class AnsweredItem(NamedTuple):
    """An answer of a person: what was `asked` (with `context`), what was `said`, why, by whom and when.

    `via` is the way of answering, as events name it; "" for a record. `seq` is the event of the answer; -1 for a record.
    """

    kind: WaitingKind
    at: str
    asked: str
    context: str
    said: str
    reason: str
    by: str
    via: str
    task: str
    seq: int = -1

    def has(self, words: str) -> bool:
        """Whether its text contains a text, which is in lower case."""
        texts = (self.kind, self.asked, self.context, self.said, self.reason, self.by, self.task)
        return any(words in text.casefold() for text in texts)


AnsweredCache = MutableMapping[str, tuple[Head, Sequence[AnsweredItem]]]


def answered_items(store: Store, heads: Mapping[str, Head], known: AnsweredCache) -> tuple[list[AnsweredItem], int]:
    """What people answered in the streams with these `heads`, the newest first, and how many streams are left to be read.

    `known` is kept by the caller: a stream that has not changed is not read again.
    """
    ends_at = monotonic() + READ_SECONDS
    left = 0
    names = [name for name in heads if "/" not in name or name.startswith(RECORDS)]
    for name in known.keys() - names:
        del known[name]
    for name in reversed(names):
        if name in known and known[name][0] == heads[name]:
            continue
        if monotonic() > ends_at:
            left += 1
            continue
        items: list[AnsweredItem] = []
        with suppress(AdjournError):  # the inbox names what cannot be read
            items += _of_record(store, name) if name.startswith(RECORDS) else _of_task(store, name, heads[name])
        known[name] = heads[name], items
    answers = dict.fromkeys(
        item for _, items in known.values() for item in items
    )  # a fork has those of its origin, too
    return sorted(answers, key=lambda item: item.at, reverse=True), left


def _of_task(store: Store, task: str, head: Head) -> Iterator[AnsweredItem]:
    questions: dict[str, kinds.ConfirmRequired] = {}
    calls: dict[str, kinds.ToolAllowed] = {}
    for entry in verified_entries_from(store, task, max(0, head.seq + 1 - LOOKED_BACK), head):
        if not any(mark in entry.data for mark in _MARKS):
            continue
        event = decode(entry.data)
        data = kinds.data_of(event)
        if isinstance(data, kinds.ConfirmRequired):
            questions[data.approval] = data
        elif isinstance(data, kinds.ToolAllowed):
            calls[data.call] = data
        elif event.by.type == "human":
            yield from _of_event(task, event, data, questions, calls)


def _of_event(
    task: str,
    event: Event,
    data: kinds.Data | None,
    questions: Mapping[str, kinds.ConfirmRequired],
    calls: Mapping[str, kinds.ToolAllowed],
) -> Iterator[AnsweredItem]:
    at, by = event.timestamp, event.by.id
    if isinstance(data, kinds.EffectSettled):
        call = calls.get(data.call)
        asked, context = (kinds.tool_name(call), call.arguments) if call else (data.call, "")
        said = "it happened" if data.outcome == "done" else "it did not happen"
        yield _shown(AnsweredItem("in-doubt", at, asked, context, said, data.note, by, "", task, event.seq))
    elif isinstance(data, kinds.ConfirmApproved | kinds.ConfirmDenied) and data.via not in _NOBODY:
        question = questions.get(data.approval)
        context = question.arguments if question else ""
        said = "approved" if isinstance(data, kinds.ConfirmApproved) else "denied"
        asked = kinds.tool_name(question or data)
        yield _shown(AnsweredItem("approval", at, asked, context, said, data.reason, by, data.via, task, event.seq))


def _of_record(store: Store, name: str) -> Iterator[AnsweredItem]:
    from adjourn.knowledge.records.store import RecordTrees

    record = RecordTrees(store).get(name.removeprefix(RECORDS))
    if record is None:
        return
    for kind, collection, by, at in _SOURCES:
        for row in record[collection]:
            author = row.get(by)
            if author is None or at not in row or not _is_settled(kind, row):
                continue
            asked, context, said, reason = _words(kind, row)
            task = record["task"]["id"]
            yield _shown(AnsweredItem(kind, _time(row[at]), asked, context, said, reason, author["id"], "", task))


_SOURCES: tuple[tuple[WaitingKind, str, str, str], ...] = (
    ("question", "questionsForUser", "answeredBy", "answeredAt"),
    ("resume-point", "resumePoints", "approvedBy", "approvedAt"),
    ("resume-point", "resumePoints", "deniedBy", "deniedAt"),
    ("decision", "decisions", "madeBy", "madeAt"),
    ("blocker", "blockers", "resolvedBy", "resolvedAt"),
)
"""The collections of a record in which people answer, and the members that have who answered, and when."""


def _is_settled(kind: WaitingKind, row: Tree) -> bool:
    """Whether an item was answered. Of a decision that means: it was contested, and a person settled it."""
    if kind != "decision":
        return True
    return row["status"] != "contested" and bool(row.get("variants")) and row["madeBy"]["type"] == "human"


def _words(kind: WaitingKind, row: Tree) -> tuple[str, str, str, str]:
    """What was asked, its context, the answer, and its reason."""
    if kind == "question":
        return row["question"], row["context"], row.get("answer") or row["status"], row.get("skippedReason", "")
    if kind == "resume-point":
        return row["label"], row["description"], row["approvalStatus"], row.get("deniedReason", "")
    if kind == "decision":
        asked = "; or ".join(variant["decision"] for variant in row["variants"])
        return asked, "", f"{row['description']} ({row['status']})", row["rationale"]
    return row["description"], "", row.get("resolution") or "resolved", ""


def _shown(item: AnsweredItem) -> AnsweredItem:
    asked, context, said, reason = (
        without_secrets(text[:MAX_TEXT]) for text in (item.asked, item.context, item.said, item.reason)
    )
    return item._replace(asked=asked, context=context, said=said, reason=reason)


def _time(milliseconds: int) -> str:
    try:
        return timestamp(milliseconds)
    except InvalidError:
        return ""


# --- what a person put off


class Snoozed(NamedTuple):
    """Until when an item was put off, and how urgent it was then."""

    until: str
    urgency: Urgency = "later"

    def hides(self, item: WaitingItem) -> bool:
        """Whether the item stays put off: what has become more urgent since then shows again."""
        order = list(URGENCIES)
        return item.urgency != "soon" and order.index(item.urgency) >= order.index(self.urgency)


def snoozed_items(store: Store, person: str, stamp: str) -> dict[str, Snoozed]:
    """What a person put off, by the items' keys (`WaitingItem.key`), where that lasts longer than `stamp`."""
    try:
        kept = json.loads(store.ref(_ref(person)) or "{}")
    except (ValueError, RecursionError):
        return {}
    items = {}
    for key, value in kept.items() if isinstance(kept, dict) else ():
        until, name = value if isinstance(value, list) and len(value) == 2 else (value, "later")
        urgency = next((urgency for urgency in URGENCIES if urgency == name), None)
        if urgency and isinstance(until, str) and until > stamp:
            items[key] = Snoozed(until, urgency)
    return items


def snooze(store: Store, person: str, item: WaitingItem, until: str, stamp: str) -> None:
    """Put an item off for a person until a time; "" ends it. Raises `ConflictError` if another process does so at the same time."""
    name = _ref(person)
    before = store.ref(name)
    items = snoozed_items(store, person, stamp)
    items.pop(item.key, None)
    if until:
        items[item.key] = Snoozed(until, item.urgency)
    kept = dict(list(items.items())[-MAX_SNOOZED:])
    store.swap(name, json.dumps(kept) if kept else None, expect=before)


def _ref(person: str) -> str:
    """The ref that has what a person put off: a name may have characters that the name of a ref cannot."""
    return f"{SNOOZED}{digest(person.encode(errors='replace'))[:16]}"
