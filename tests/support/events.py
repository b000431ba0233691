"""Events and entries that are chained as a store would chain them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from adjourn.log import kinds
from adjourn.log.event import GENESIS, Actor, Event, encode, timestamp
from adjourn.store.base import Entry
from support.clock import NOON

TASK = "20260502-7k3f9q2m"


def chained(
    facts: Sequence[tuple[kinds.Data, str]], *, task: str = TASK, first_time: int = NOON, step: int = 1000
) -> list[tuple[Event, str, bytes]]:
    """Events of `(data, session)` pairs, one `step` of milliseconds apart, with hashes and stored bytes."""
    after, result = GENESIS, []
    for seq, (item, session) in enumerate(facts):
        event = Event(
            after=after,
            by=Actor("adjourn", "system"),
            data=msgspec.Raw(msgspec.json.encode(item)),
            event=item.KIND,
            seq=seq,
            session=session,
            task=task,
            timestamp=timestamp(first_time + seq * step),
        )
        after, stored = encode(event)
        result.append((event, after, stored))
    return result


def link(after: str, rest: bytes) -> Entry:
    """An entry that names its predecessor and is otherwise whatever `rest` is."""
    stored = b'{"after":"' + after.encode() + b'"' + rest
    return Entry(sha256(stored).hexdigest(), stored)


def linked(rests: Sequence[bytes]) -> list[Entry]:
    """A chain of such entries."""
    entries: list[Entry] = []
    for rest in rests:
        entries.append(link(entries[-1].hash if entries else GENESIS, rest))
    return entries
