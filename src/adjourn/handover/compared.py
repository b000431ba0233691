"""Compare what a session received with what the one before it received: by section, what is new, gone, changed or the same.

A hand-over of then is made again from the history as of the event with which its session began. Files, policy and other tasks are
those of now.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple

import msgspec

from adjourn.checkpoints.checkpoint import TaskCheckpoint, as_checkpoint
from adjourn.handover.inbox import RECORDS
from adjourn.handover.rendering import Handover
from adjourn.handover.resumption import Preview, hand_over, reader_of
from adjourn.log import kinds
from adjourn.log.event import decode, milliseconds
from adjourn.store.base import EMPTY, Entry, Head, Store
from adjourn.store.memory import PastStore
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task

MAX_EVENTS: Final = 20_000
"""Events of a history that is gone back in: it is read from its beginning."""
MAX_STARTS: Final = 50
MAX_VERSIONS: Final = 1_000
MAX_COMPARED: Final = 40
"""Items of one section that are compared with each other."""
ALIKE: Final = 0.6
"""The part of two texts that is the same, from which on one is a change of the other."""
NOWHERE: Final = "/nowhere"
"""In the place of the work tree: its pages are of now."""
_MARKS = tuple(
    f'"event":"{kind.KIND}"'.encode()
    for kind in (kinds.SessionOpened, kinds.CheckpointResumed, kinds.CheckpointCreated)
)

ComparedKind = Literal["new", "gone", "changed", "same"]


class SessionStart(NamedTuple):
    """A session that began with a checkpoint to resume: its `number` in the task, when, whose, and the event up to which its hand-over reaches."""

    number: int
    at: str
    client: str
    checkpoint: str
    head: Head
    saved: Entry


class ComparedItem(NamedTuple):
    """An item of a hand-over, as prose: the `text` of the later one, and what the earlier one had `before`."""

    kind: ComparedKind
    text: str
    before: str = ""


class ComparedSection(NamedTuple):
    title: str
    items: Sequence[ComparedItem]


def session_starts(store: Store, ledger: Ledger) -> list[SessionStart]:
    """The sessions of a task that began after a checkpoint, the oldest first; none for a history of more than `MAX_EVENTS`."""
    if ledger.seq >= MAX_EVENTS:
        return []
    starts: list[SessionStart] = []
    saved: dict[str, Entry] = {}
    opened: dict[str, int] = {}
    for entry in verified_entries_from(store, ledger.task, 0, Head(ledger.seq, ledger.hash)):
        if not any(mark in entry.data for mark in _MARKS):
            continue
        event = decode(entry.data)
        data = kinds.data_of(event)
        head = Head(event.seq, entry.hash)
        if isinstance(data, kinds.CheckpointCreated):
            saved[entry.hash] = entry
        elif isinstance(data, kinds.SessionOpened):
            opened[event.session] = len(opened) + 1
            if saved:
                last = list(saved.values())[-1]
                name = as_checkpoint(last).data.name
                starts.append(SessionStart(len(opened), event.timestamp, data.client, name, head, last))
        elif isinstance(data, kinds.CheckpointResumed) and starts and data.checkpoint in saved:
            is_its = starts[-1].number == opened.get(event.session)
            if is_its:
                starts[-1] = starts[-1]._replace(checkpoint=data.name, head=head, saved=saved[data.checkpoint])
    return starts[-MAX_STARTS:]


def handover_at(reader: Preview, task: str, start: SessionStart) -> Handover:
    """What a session received as it began, under the policy that the `reader` has now. Raises `AdjournError`."""
    store = reader.open_store()
    now = milliseconds(start.at)
    heads = {name: _end(store, name, now) for name in store.streams() if name.startswith(RECORDS)}
    past = PastStore(store, heads | {task: start.head})
    opened = Task(past, task, clock=lambda: now, secret=reader.secret)
    checkpoint: TaskCheckpoint = as_checkpoint(start.saved)
    return hand_over(opened, checkpoint, reader_of(reader.root, opened, "", reader.contract, NOWHERE), "trusted")


class _Version(msgspec.Struct, rename="camel"):
    last_modified_at: int = 0


def _end(store: Store, stream: str, now: int) -> Head:
    """The newest version of a record that was written until a time (milliseconds)."""
    head = store.head(stream)
    first = max(0, head.seq + 1 - MAX_VERSIONS)
    last = EMPTY
    with suppress(msgspec.DecodeError):  # whoever reads the record says so
        for seq, entry in enumerate(store.read(stream, first), first):
            if msgspec.json.decode(entry.data, type=_Version).last_modified_at > now:
                break
            last = Head(seq, entry.hash)
    return last


def compare(before: Handover | None, after: Handover) -> list[ComparedSection]:
    """The sections of two hand-overs, in the order of the later one; those that are gone come last."""
    earlier = {section.name: section for section in before.sections} if before is not None else {}
    compared = []
    for section in after.sections:
        old = earlier.pop(section.name, None)
        texts = [prose(item.text) for item in old.items] if old is not None else []
        compared.append(ComparedSection(section.title, _items(texts, [prose(item.text) for item in section.items])))
    compared += (
        ComparedSection(section.title, _items([prose(item.text) for item in section.items], []))
        for section in earlier.values()
    )
    return [section for section in compared if section.items]


def _items(before: Sequence[str], after: Sequence[str]) -> list[ComparedItem]:
    gone = [text for text in before if text not in after]
    items = []
    for text in after:
        if text in before:
            items.append(ComparedItem("same", text, text))
            continue
        old = _most_alike(text, gone[:MAX_COMPARED])
        if old:
            gone.remove(old)
        items.append(ComparedItem("changed" if old else "new", text, old))
    return [*items, *(ComparedItem("gone", "", text) for text in gone)]


def _most_alike(text: str, others: Sequence[str]) -> str:
    """The text that this one is a change of; "" for none."""
    words = text.split()[:MAX_COMPARED]
    ratios = [
        (SequenceMatcher(None, words, other.split()[:MAX_COMPARED], autojunk=False).ratio(), other) for other in others
    ]
    ratio, other = max(ratios, default=(0.0, ""))
    return other if ratio >= ALIKE else ""


def prose(text: str) -> str:
    """An item without the marks of Markdown."""
    for mark, word in (("[ ] ", "To do: "), ("[x] ", "Done: ")):
        if text.startswith(mark):
            text = word + text.removeprefix(mark)
    return text.replace("`", "")
