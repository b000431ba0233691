"""Chats of Cursor's command line and Goose's earlier files: read whole, never written, and whatever they hold is no error."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import AdjournError
from adjourn.sessions import catalog, cursor
from adjourn.sessions.story import SessionStory
from support.cases import for_each
from support.described_transcripts import CursorChat, CursorTranscript, GooseLines, GooseTranscript
from support.transcripts import ASKED, ASKED_LATER, bakery

WRITERS = (CursorChat, GooseLines)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CURSOR_CONFIG_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    cursor._folder.cache_clear()
    return tmp_path


def made(writer: Any, home: Path) -> Any:
    folder = home / "bakery"
    folder.mkdir(exist_ok=True)
    return bakery(writer(folder=str(folder)))


def read(transcript: Any) -> SessionStory:
    file = catalog.named(transcript.id)
    assert (file.client, file.folder, file.title) == (transcript.client, transcript.folder, " ".join(ASKED.split()))
    return catalog.reader_of(file).read(file)


@for_each("writer", WRITERS)
def test_the_story_is_that_of_other_clients(writer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts, exit codes, edits, the plan and the call that never returned are known."""
    monkeypatch.setenv("HOME", str(tmp_path))
    transcript = made(writer, tmp_path)
    transcript.save(tmp_path)
    story = read(transcript)
    assert [prompt.text for prompt in story.prompts] == [ASKED, ASKED_LATER]
    runs = [(call.outcome, call.code) for call in story.calls if call.kind == "run"]
    assert runs == [("ok", 0), ("failed", 1), ("unknown", None)]
    (change,) = story.changes.values()
    assert (change.edits, change.failed) == (1, 1)
    assert [(item.text, item.state) for item in story.plan] == [("Write the steps", "done"), ("Run the tests", "done")]
    assert story.folder == transcript.folder
    assert (story.unknown, story.unreadable, story.unread) == ({}, 0, 0)
    assert [file.id for file in catalog.sessions([transcript.folder])] == [transcript.id]
    assert catalog.sessions([str(tmp_path / "elsewhere")]) == []


def test_a_chat_is_read_from_its_log_and_nothing_is_written(home: Path) -> None:
    """Messages that are in the write-ahead log alone are read; database, log and index stay bit by bit."""
    transcript = made(CursorChat, home)
    path = transcript.save(home)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute("UPDATE meta SET value = value || ' '")
        database.commit()
        beside = sorted(path.parent.iterdir())
        before = [(file.name, file.read_bytes(), file.stat().st_mtime_ns) for file in beside]
        assert len(before) == 3
        assert len(read(transcript).prompts) == 2
        assert [
            (file.name, file.read_bytes(), file.stat().st_mtime_ns) for file in sorted(path.parent.iterdir())
        ] == before


def test_a_chat_stands_for_its_transcript(home: Path) -> None:
    """Of a session that has both, the chat is read: it has the results."""
    transcript = made(CursorChat, home)
    beside = bakery(CursorTranscript(id_=transcript.id, folder=transcript.folder))
    beside.save(home)
    transcript.save(home)
    [file] = catalog.sessions([])
    assert file.path.endswith("store.db")


def test_a_goose_file_that_the_database_took_over_is_one_session(home: Path) -> None:
    """The row stands for the file of the same id."""
    lines = made(GooseLines, home)
    lines.save(home)
    bakery(GooseTranscript(id_=lines.id, folder=lines.folder)).save(home)
    [file] = catalog.sessions([])
    assert file.path.endswith("sessions.db")


def test_a_damaged_database_hides_no_goose_file(home: Path) -> None:
    """The files of lines are listed where the database cannot be read."""
    made(GooseLines, home).save(home).with_name("sessions.db").write_bytes(b"no database")
    assert len(catalog.sessions([])) == 1


@for_each("writer", WRITERS)
def test_a_damaged_store_is_told_or_refused(writer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes changed anywhere: each session that is found is read, or refused in words."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = made(writer, tmp_path).save(tmp_path)
    good = path.read_bytes()
    for seed in range(60):
        chance, data = random.Random(seed), bytearray(good)
        for _ in range(chance.randrange(1, 40)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(bytes(data[: chance.choice([len(data), chance.randrange(len(data))])]))
        for file in catalog.sessions([]):
            with suppress(AdjournError):
                assert len(catalog.reader_of(file).read(file).prompts) <= 2


@for_each(
    "root",
    [
        b"",
        b"\x0a",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x0a\x20short",
        b"\x0b\x0c",
        b"\x0a\x20" + b"a" * 32,
    ],
)
def test_a_root_that_is_no_list_of_messages_is_no_chat(root: bytes, home: Path) -> None:
    """A root without messages is not listed, and reading goes to its end."""
    path = made(CursorChat, home).save(home)
    id_ = hashlib.sha256(root).hexdigest()
    about = {"latestRootBlobId": id_, "createdAt": "soon"}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO blobs VALUES (?, ?)", (id_, root))
        database.execute("UPDATE meta SET value = ?", (json.dumps(about).encode().hex(),))
    assert catalog.sessions([]) == []
    path.unlink()
