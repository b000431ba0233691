"""Histories to measure on: real events of a long task, and versions of a record, made without a ledger, so a million take
seconds.

Owns: what is in them. Must never: measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from adjourn.knowledge.model.documents import Tree, without
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.version_log import VersionStore
from adjourn.knowledge.records.versions import SEAL, Stored, store_form
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor, Event, encode, timestamp
from adjourn.log.merkle import Frontier
from adjourn.store.base import EMPTY, Entry, Head, Store

TASK = "20260101-bench"
SECRET = b"bench" * 8
BATCH = 4_000
TOOLS = 250
"""Names of tools in a history; they make a checkpoint's document about 10 KB."""
PER_SESSION = 1_000
AUTHOR = CRAuthor(id="agent-1", type="agent")
NOW = 1_777_735_812_345
Fact = tuple[kinds.Data, Actor, str]
"""Data, actor, session."""
_BEGAN = 1_767_225_600_000
_AGENT, _SYSTEM = Actor("bench 1", "agent"), Actor("adjourn", "system")
_ARGUMENTS = digest(b"{}")
_POLICY = b'policy bench v0\n\ngoal "Measure."\n\nuse *\n'


def clock() -> int:
    return _BEGAN + 10**9


def facts() -> Iterator[Fact]:
    """Without end: a task of sessions, each of calls that are allowed and settled."""
    sitting = 0
    yield kinds.TaskOpened(goal="Measure how long a long task takes."), _SYSTEM, "s0"
    while True:
        session = f"s{sitting}"
        opened = kinds.SessionOpened(
            client="bench 1", era="legacy", group="h/1/1", host="h", pid=1, policy=digest(_POLICY), started=1
        )
        yield opened, _SYSTEM, session
        for number in range(PER_SESSION):
            call, tool = f"{session}.{number + 1}", f"toolbox-{number % TOOLS:03}.operate-on-something"
            effectful = number % 3 == 0
            arguments = '{"path":"notes/plan.md","text":"one thing"}' if effectful else ""
            allowed = kinds.ToolAllowed(
                arguments=arguments, call=call, digest=_ARGUMENTS, effectful=effectful, tool=tool
            )
            yield allowed, _AGENT, session
            settled = kinds.ToolSettled(answer=_ARGUMENTS, call=call, milliseconds=12, outcome="ok")
            yield settled, _SYSTEM, session
        yield kinds.SessionClosed(reason="client-eof"), _SYSTEM, session
        sitting += 1


def entries(source: Iterator[Fact], head: Head) -> Iterator[Entry]:
    """The stored entries of facts that follow `head`."""
    seq, after = head
    for data, actor, session in source:
        seq += 1
        event = Event(
            after=after,
            by=actor,
            data=msgspec.Raw(msgspec.json.encode(data)),
            event=data.KIND,
            seq=seq,
            session=session,
            task=TASK,
            timestamp=timestamp(_BEGAN + seq * 10),
        )
        after, stored = encode(event)
        yield Entry(after, stored)


def extend(store: Store, source: Iterator[Fact], until: int) -> None:
    """Append facts of `source` to the task until it has `until` events."""
    head = store.head(TASK)
    while head.seq + 1 < until:
        batch = list(islice(entries(source, head), min(BATCH, until - head.seq - 1)))
        blobs = [_POLICY] if head == EMPTY else []
        head = store.append(TASK, batch, expect=head, blobs=blobs, durable=False)


def learning(number: int, text: str = "") -> Tree:
    """An item of a record, of about 330 bytes. `text`: what it says, in place of what tells its number."""
    return {
        "id": f"l{number}",
        "type": "insight",
        "source": "observation",
        "content": (text or f"what was seen at place {number}; ") * 4,
        "confidence": 0.9,
        "learnedBy": {"id": "agent-1", "type": "agent", "model": "some-model"},
        "learnedAt": NOW + number,
        "affects": ["n1", "n2"],
    }


def add_versions(store: Store, record_id: str, count: int) -> None:
    """A record of so many small versions, written in chunks, as an import does."""
    record = RecordTrees(store).create({"task": {"id": "t1", "goal": "measure"}}, author=AUTHOR, cr_id="seed")
    record = {**without(record, *SEAL), "id": record_id}
    versions, at, tree = VersionStore(store), EMPTY, Frontier()
    while at.seq + 1 < count:
        chunk: list[Stored] = []
        for number in range(at.seq + 1, min(at.seq + 5001, count)):
            record = {**record, "sequence": number, "lastModifiedAt": NOW + number}
            stored = Stored(*store_form(record))
            record["parentCRHash"] = stored.hash
            chunk.append(stored)
        at = versions.copy(record_id, chunk, at, tree)
