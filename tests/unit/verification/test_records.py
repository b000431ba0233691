"""`adjourn verify` examines all of history: the chains of tasks and the lines of records; any changed byte is found where it is.

Short here; ADJOURN_CAMPAIGN=1 tries 100,000 mutations.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from adjourn.checkpoints import checkpoint
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store.base import Entry
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import NewEvent, Task
from adjourn.verification.verify import verify_store, verify_task

NOON = 1_777_735_812_345
AGENT, AUTHOR = Actor("claude-code", "agent"), CRAuthor(id="agent-1", type="agent")
CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
MUTATIONS = 100_000 if CAMPAIGN else 1_000
DEEP_EVERY = 100
"""Every so many mutations are looked for with all that verifying does, the others in the chains only."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A task with calls, a checkpoint and a record with effects; a fork of that; another task's record."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    store = MemoryStore()
    records = RecordTrees(store, clock=lambda: NOON)
    first = records.create({"task": {"id": "t", "goal": "größer"}}, author=AUTHOR, cr_id="t")
    task = Task(store, "t", clock=lambda: NOON, secret=b"s" * 32)
    task.commit(lambda _: [NewEvent(kinds.TaskOpened(goal="g"))])
    for number in range(6):
        call = kinds.ToolAllowed(call=f"s.{number}", digest="0" * 64, effectful=True, tool="echo")
        task.commit(lambda _, call=call: [NewEvent(call, AGENT, "s")])  # type: ignore[misc]
        checkpoint.create(task, "one", by=AGENT)
    records.fork(first["contentHash"], {"metadata": {"tags": [], "priority": "low"}}, AUTHOR, cr_id="fork")
    records.create({"task": {"id": "other", "goal": "g"}}, author=AUTHOR, cr_id="other")
    return store


def test_records_are_counted_and_those_of_a_task_by_themselves(store: MemoryStore) -> None:
    """The whole store has all records, a task its own; all of them hold."""
    whole, own = verify_store(store), verify_task(store, "t")
    assert whole.valid
    assert own.valid
    assert [one.record for one in whole.records] == ["fork", "other", "t"]
    assert [one.record for one in own.records] == ["fork", "t"]
    assert {one.record: one.versions for one in own.records} == {"fork": 2, "t": 7}
    assert own.versions == 9
    assert own.records[1].head == store.head("record/t").hash


def test_a_broken_record_is_named_with_its_version(store: MemoryStore) -> None:
    """The finding says which record, where it breaks and why; a fork of it breaks, too, another record does not."""
    entries = store._streams["record/t"]
    kept = entries[0]
    entries[0] = Entry(kept.hash, kept.data.replace(b"agent-1", b"agent-2", 1))
    report = verify_task(store, "t")
    assert not report.valid
    found = [one for one in report.findings if one.finding.severity == "error"]
    assert {one.finding.code for one in found} == {"record-broken"}
    assert [one.hash for one in found] == [kept.hash, kept.hash]
    assert f"record t fails verification after 0 versions, at {kept.hash}: hash-mismatch" in found[1].finding.message
    assert [one.record for one in verify_store(store).records if one.broken is None] == ["other"]


def test_a_fork_whose_parent_is_no_hash_any_more_is_found(store: MemoryStore) -> None:
    """A changed byte may be one that no name can have: the version is named all the same."""
    entries = store._streams["record/fork"]
    kept = entries[0]
    for byte in (b"\x7f", b"\xc2\x80", b"/"):
        entries[0] = Entry(kept.hash, kept.data.replace(b'"parentCRHash":"', b'"parentCRHash":"' + byte, 1))
        (found,) = [one for one in verify_store(store).records if one.record == "fork"]
        assert found.broken is not None
        assert (found.broken.hash, found.versions) == (kept.hash, 0)


def test_any_changed_byte_of_stored_history_is_found_where_it_is(store: MemoryStore) -> None:
    """One byte of any event or version, or of its stored hash, is made another: the first finding there is at that place."""
    random = Random(11)
    streams = ["t", "record/t", "record/fork", "record/other"]
    for number in range(MUTATIONS):
        name = random.choice(streams)
        entries = store._streams[name]
        at = random.randrange(len(entries))
        kept = entries[at]
        if random.random() < 0.2:
            entries[at] = Entry(_changed(kept.hash.encode(), random).decode("latin-1"), kept.data)
        else:
            entries[at] = Entry(kept.hash, _changed(kept.data, random))
        report = verify_store(store, deep=number % DEEP_EVERY == 0)
        errors = [one for one in report.findings if one.finding.severity == "error"]
        if name == "t":
            assert (errors[0].finding.code, errors[0].seq, errors[0].hash) == (
                "hash-mismatch", at, entries[at].hash,
            ), entries[at]  # fmt: skip
        else:
            record = name.removeprefix("record/")
            (found,) = [one for one in report.records if one.record == record]
            assert found.broken is not None, entries[at]
            assert found.broken.hash == entries[at].hash
            assert found.broken.finding.message.endswith("hash-mismatch")
        entries[at] = kept
    assert verify_store(store).valid


def _changed(data: bytes, random: Random) -> bytes:
    """The same with one byte another."""
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ random.randrange(1, 256)]) + data[at + 1 :]
