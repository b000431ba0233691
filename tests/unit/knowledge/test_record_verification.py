"""Verifying records: every changed byte is found, at the version it is in; what cannot be found is said."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.version_log import FOLD_VERSIONS
from adjourn.log.canonical_json import canonical, digest
from adjourn.store.base import Entry
from adjourn.store.memory import MemoryStore
from adjourn.store.sqlite import SqliteStore

AGENT = CRAuthor(id="agent-1", type="agent")
CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
MUTATIONS = 100_000 if CAMPAIGN else 1_500


def line(store: RecordTrees, name: str = "line", count: int = FOLD_VERSIONS + 6) -> list[Tree]:
    """A record with a fold before its end; small, so that most mutations hit something that means something."""
    store.create({"task": {"id": "t1", "goal": "größer"}}, author=AGENT, cr_id=name)
    for number in range(count - 1):
        store.update(name, {"metadata": {"tags": [str(number)], "priority": "low"}}, AGENT)
    return store.get_history(name)


@pytest.fixture
def backend() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def history(backend: MemoryStore) -> list[Tree]:
    return line(RecordTrees(backend))


def flipped(data: bytes, random: Random) -> bytes:
    """The same with one byte another."""
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ random.randrange(1, 256)]) + data[at + 1 :]


def test_any_changed_byte_of_any_version_is_found_there(backend: MemoryStore, history: list[Tree]) -> None:
    """One byte of the content or of the stored hash is changed, at random: `brokenAt` is that version's stored hash."""
    random = Random(4)
    entries = backend._streams["record/line"]
    for _ in range(MUTATIONS):
        at = random.randrange(len(entries))
        kept = entries[at]
        if random.random() < 0.2:
            digits = flipped(kept.hash.encode(), random).decode("latin-1")
            entries[at] = Entry(digits, kept.data)
        else:
            entries[at] = Entry(kept.hash, flipped(kept.data, random))
        found = RecordTrees(backend).verify_chain("line")
        assert (found.broken_at, found.reason, found.checked) == (entries[at].hash, "hash-mismatch", at), entries[at]
        entries[at] = kept
    assert RecordTrees(backend).verify_chain("line").valid


def test_any_changed_byte_of_the_fold_is_found(backend: MemoryStore, history: list[Tree]) -> None:
    """The kept frontier is of a version of this line, or verifying says which one it is not of."""
    random = Random(5)
    kept = backend._refs["record/line"]
    for _ in range(MUTATIONS // 5):
        backend._refs["record/line"] = flipped(kept.encode(), random).decode("latin-1")
        found = RecordTrees(backend).verify_chain("line")
        assert found.reason in {"merkle-mismatch", "head-mismatch"}, backend._refs["record/line"]
    backend._refs["record/line"] = kept
    assert RecordTrees(backend).verify_chain("line").valid


@pytest.mark.parametrize("kind", ["dropped", "twice", "swapped", "first", "from another line"])
def test_versions_in_the_wrong_place_are_found(backend: MemoryStore, history: list[Tree], kind: str) -> None:
    """A version that is missing, stands twice, changed places or belongs elsewhere breaks the line where it is."""
    line(RecordTrees(backend), "other", 4)
    entries, other = backend._streams["record/line"], backend._streams["record/other"]
    expected = 5
    if kind == "dropped":
        del entries[5]
    elif kind == "twice":
        entries.insert(5, entries[4])
    elif kind == "swapped":
        entries[5], entries[6] = entries[6], entries[5]
    elif kind == "first":
        del entries[0]
        expected = 0
    else:
        entries[5] = other[2]
    found = RecordTrees(backend).verify_chain("line")
    assert (found.broken_at, found.checked) == (entries[expected].hash, expected)
    assert found.reason in {"parent-mismatch", "missing-parent"}


def test_the_end_is_only_found_missing_from_outside(backend: MemoryStore, history: list[Tree]) -> None:
    """A missing tail verifies, unless a head, a root, or the fold says that there was more."""
    store, head = RecordTrees(backend), history[-1]
    assert store.verify_chain("line", expected_head=head["contentHash"], expected_root=head["merkleRoot"]).valid
    entries = backend._streams["record/line"]
    del entries[-2:]
    again = RecordTrees(backend)
    assert again.verify_chain("line").valid
    for anchor in ({"expected_head": head["contentHash"]}, {"expected_root": head["merkleRoot"]}):
        found = again.verify_chain("line", **anchor)
        assert (found.reason, found.broken_at) == ("head-mismatch", entries[-1].hash)
    del entries[FOLD_VERSIONS - 2 :]
    assert RecordTrees(backend).verify_chain("line").reason == "head-mismatch"


def test_a_fork_is_verified_with_the_line_it_came_from(backend: MemoryStore, history: list[Tree]) -> None:
    """A changed ancestor breaks the fork too; a vanished one is a missing parent."""
    RecordTrees(backend).fork(history[3]["contentHash"], {"checkpointId": "c1"}, AGENT, cr_id="fork")
    entries = backend._streams["record/line"]
    kept = entries[2]
    entries[2] = Entry(kept.hash, kept.data.replace(b"agent-1", b"agent-2"))
    found = RecordTrees(backend).verify_chain("fork")
    assert (found.broken_at, found.reason) == (kept.hash, "hash-mismatch")
    del backend._streams["record/line"]
    assert RecordTrees(backend).verify_chain("fork").reason == "missing-parent"


def test_a_newer_major_version_is_said_not_guessed(backend: MemoryStore, history: list[Tree]) -> None:
    """What a later adjourn wrote is not broken history: it has a reason of its own."""
    data = canonical({"id": "line", "version": "2.0", "sequence": 0})
    backend._streams["record/line"][0] = Entry(digest(data), data)
    found = RecordTrees(backend).verify_chain("line")
    assert (found.checked, found.reason) == (0, "version-unsupported")


# --- in a real file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


@pytest.fixture
def file(path: Path) -> Iterator[sqlite3.Connection]:
    """The file of a store with one line, as somebody else opens it."""
    store = SqliteStore(path)
    line(RecordTrees(store))
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def verified(path: Path) -> tuple[str | None, str | None, int]:
    store = SqliteStore(path)
    try:
        found = RecordTrees(store).verify_chain("line")
        return found.broken_at, found.reason, found.checked
    finally:
        store.close()


def test_a_changed_file_is_found_too(path: Path, file: sqlite3.Connection) -> None:
    """Bytes in the file, an entry that is gone, one of another type, another position."""
    rows = file.execute("SELECT position, hash, data FROM event ORDER BY position").fetchall()
    hashes = [row[1] for row in rows]
    random = Random(6)
    for at in random.sample(range(len(rows)), 8):
        position, _, data = rows[at]
        file.execute("UPDATE event SET data = ? WHERE position = ?", (flipped(data, random), position))
        assert verified(path) == (hashes[at], "hash-mismatch", at)
        file.execute("UPDATE event SET data = CAST(? AS TEXT) WHERE position = ?", (data.decode(), position))
        assert verified(path) == (hashes[at], "hash-mismatch", at)
        file.execute("UPDATE event SET data = ? WHERE position = ?", (data, position))
    file.execute("DELETE FROM event WHERE position = ?", (rows[7][0],))
    assert verified(path) == (hashes[8], "parent-mismatch", 7)
    file.execute("INSERT INTO event VALUES (?, ?, ?)", rows[7])
    file.execute("UPDATE event SET position = position + 1000 WHERE position = ?", (rows[-1][0],))
    assert verified(path) == (hashes[-1], "sequence-gap", len(rows))
