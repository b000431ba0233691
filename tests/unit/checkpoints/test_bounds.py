"""What comes from outside is read line by line and within bounds: a hostile file costs little memory, and the first bad line ends it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints import attachments
from adjourn.checkpoints.attachments import _record, follow
from adjourn.checkpoints.folder import MAX_JSON_BYTES, read_published
from adjourn.checkpoints.folder_verification import verify
from adjourn.checkpoints.page_archive import INDEX, folder_of, read_index
from adjourn.code.workflow import active_session as sessions
from adjourn.errors import AdjournError, IntegrityError, InvalidError, NotFoundError
from adjourn.handover.importing import import_folder, locate
from adjourn.host.workspace import read_lines
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.transfer import import_record
from adjourn.log.event import GENESIS, MAX_EVENT_BYTES
from adjourn.store.memory import MemoryStore
from support.workspace import Workspace, saved

MEBIBYTE = 1024 * 1024
LINES = 9 * MEBIBYTE // 3
ROOM = 24 * MEBIBYTE
"""What a refusal may take at the most; holding those lines took thirty times as much."""


@pytest.fixture
def memory_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    workspace = Workspace(tmp_path, monkeypatch)
    saved(workspace)
    return workspace


@contextmanager
def within(room: int) -> Iterator[None]:
    """Fails where the memory that was taken meanwhile had a peak beyond `room` bytes."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < room, f"{peak / MEBIBYTE:.0f} MiB"


def hollow(count: int) -> bytes:
    """Lines that are chained, and are no events."""
    lines, after = [], GENESIS
    for _ in range(count):
        line = b'{"after":"%b"}' % after.encode()
        lines.append(line)
        after = sha256(line).hexdigest()
    return b"\n".join(lines) + b"\n"


# --- the audit log


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda _: b"{}\n" * LINES, "fails verification at line 1: .*parent-mismatch"),
        (lambda good: good + b"{}\n" * LINES, "fails verification at line 9: .*parent-mismatch"),
        (lambda _: b"\n" * LINES * 3, "fails verification at line 1: .*parent-mismatch"),
        (lambda _: b"x" * LINES * 3, "line 1 of .* has more than 65536 bytes"),
        (lambda _: hollow(LINES // 25), r"adjourn\.hash does not match event 7"),
    ],
    ids=["no events", "more", "blank", "one line", "hollow"],
)
def test_a_hostile_audit_log_costs_little(
    memory_workspace: Workspace, content: Callable[[bytes], bytes], reason: str
) -> None:
    """The first line that breaks the chain, or is too long, ends the reading: resume and import keep none of it."""
    path = memory_workspace.folder() / "audit.jsonl"
    path.write_bytes(content(path.read_bytes()))
    (memory_workspace.folder() / "checkpoint.json").write_text(
        (memory_workspace.folder() / "checkpoint.json").read_text() + "\n"
    )
    with within(ROOM), pytest.raises(AdjournError, match=reason):
        locate(MemoryStore(), str(memory_workspace.root), "fix-auth")


def test_nothing_after_the_first_bad_line_is_read(memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops at the first bad line, so its time is bounded by the valid lines."""
    path = memory_workspace.folder() / "audit.jsonl"
    path.write_bytes(path.read_bytes() + b"{}\n" * 1000)
    seen = 0

    def counted(*arguments: Any) -> Iterator[bytes]:
        nonlocal seen
        for line in read_lines(*arguments):
            seen += 1
            yield line

    monkeypatch.setattr(attachments, "read_lines", counted)
    with pytest.raises(IntegrityError):
        verify(str(memory_workspace.folder()))
    assert seen == 9


def test_a_long_history_is_verified_in_little_memory(tmp_path: Path) -> None:
    """Of a chain that holds 32 bytes an event are kept, whatever its events are."""
    path = tmp_path / "audit.jsonl"
    lines, after = [], GENESIS
    for _ in range(3000):
        line = b'{"after":"%b","by":"%b"}' % (after.encode(), b"x" * 4000)
        lines.append(line)
        after = sha256(line).hexdigest()
    path.write_bytes(b"\n".join(lines) + b"\n")
    del lines
    with within(2 * MEBIBYTE):
        found, last = follow(str(path), 2999)
        assert (found.total, last.hash) == (3000, after)
        assert sum(1 for _ in found.entries()) == 3000


def test_more_events_than_any_history_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of events is bounded beside their bytes."""
    monkeypatch.setattr(attachments, "MAX_EVENTS", 5)
    path = tmp_path / "audit.jsonl"
    path.write_bytes(hollow(6))
    with pytest.raises(IntegrityError, match="more than 5 events"):
        follow(str(path), 5)
    path.write_bytes(hollow(5))
    assert follow(str(path), 4)[0].total == 5


def test_a_longest_event_is_read(tmp_path: Path) -> None:
    """A line of exactly the bound holds, one byte more does not."""
    for size, holds in ((MAX_EVENT_BYTES, True), (MAX_EVENT_BYTES + 1, False)):
        path = tmp_path / "audit.jsonl"
        path.write_bytes((b'{"after":"%b",' % GENESIS.encode()).ljust(size, b" ") + b"\n")
        if holds:
            assert follow(str(path), 0)[0].total == 1
        else:
            with pytest.raises(InvalidError, match=r"line 1 of .* has more than"):
                follow(str(path), 0)


@pytest.mark.parametrize("change", ["edited", "shorter"])
def test_a_file_that_changes_after_it_was_verified_is_not_taken_in(memory_workspace: Workspace, change: str) -> None:
    """What is imported is what was verified, though the file is read again for it."""
    verified = verify(str(memory_workspace.folder()))
    path = memory_workspace.folder() / "audit.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"file.read", b"file.rite") if change == "edited" else data[: len(data) // 2])
    store = MemoryStore()
    with pytest.raises(IntegrityError, match="while it was read"):
        import_folder(store, verified)
    assert store.streams() == {}


# --- the files beside it


@pytest.mark.parametrize(
    "history",
    ["[" + "{}," * 5_000_000 + "{}]", "[" * 8_000_000, '["' + '","' * 4_000_000 + '"]'],
    ids=["objects", "deep", "texts"],
)
def test_a_hostile_checkpoint_json_costs_little(memory_workspace: Workspace, history: str) -> None:
    """Values are counted before they are decoded."""
    path = memory_workspace.folder() / "checkpoint.json"
    value = json.loads(path.read_text())
    value["toolHistory"] = "HERE"
    path.write_text(json.dumps(value).replace('"HERE"', history))
    assert path.stat().st_size < MAX_JSON_BYTES
    with within(MAX_JSON_BYTES * 3), pytest.raises(InvalidError, match=r"checkpoint\.json holds up to"):
        read_published(str(memory_workspace.folder()))


def test_a_hostile_record_costs_little(tmp_path: Path) -> None:
    """A carried record is read line by line, and the first that is no version ends it."""
    path = tmp_path / "record-0123456789ab.jsonl"
    path.write_bytes(b"{}\n" * LINES)
    with within(ROOM), pytest.raises(InvalidError):
        _record(str(path), "0" * 64)
    path.write_bytes(b"[" + b"{}," * LINES + b"{}]\n")
    with within(2 * ROOM), pytest.raises(InvalidError):
        import_record(RecordTrees(MemoryStore()), read_lines(str(path), 64 * MEBIBYTE, 32 * MEBIBYTE), ())


def test_a_hostile_session_file_costs_little(tmp_path: Path) -> None:
    """A checkpoint of a coding session is bounded by what it holds, and a broken one is passed by."""
    folder = tmp_path / ".code-intel" / "sessions"
    folder.mkdir(parents=True)
    (folder / "s1.json").write_bytes(b'{"session_id":"s1","x":[' + b"{}," * LINES + b"{}]}")
    with within(2 * ROOM):
        with pytest.raises(InvalidError, match="values"):
            sessions.load_checkpoint(str(tmp_path), "s1")
        assert sessions.list_all(str(tmp_path)) == []


def test_of_very_many_session_files_the_newest_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing sessions reads a bounded number of files."""
    folder = tmp_path / ".code-intel" / "sessions"
    folder.mkdir(parents=True)
    for number in range(sessions.MAX_SESSIONS + 50):
        (folder / f"s{number}.json").write_text("{}")
    seen: list[str] = []

    def load(root: str, name: str) -> None:
        seen.append(name)
        raise NotFoundError(root)

    monkeypatch.setattr(sessions, "load_checkpoint", load)
    assert sessions.list_all(str(tmp_path)) == []
    assert len(seen) == sessions.MAX_SESSIONS


@pytest.mark.parametrize("line", [b"{}\n", b"\n", b"x" * 2000 + b"\n"])
def test_a_hostile_index_costs_little(tmp_path: Path, line: bytes) -> None:
    """`adjourn reflect` and `archive` stop at the first line of an index that is none."""
    folder = tmp_path / folder_of("work")
    folder.mkdir(parents=True)
    (folder / INDEX).write_bytes(line * (9 * MEBIBYTE // len(line)))
    with within(ROOM), pytest.raises(InvalidError, match="to recreate it"):
        read_index(str(tmp_path), "work")
