"""A session of a coding client that no task has: listed by aex.list_tasks, and made a task by aex.resume."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.checkpoints.transcript_facts import read_facts
from adjourn.host.workspace import locked, make_folder
from adjourn.log import kinds
from adjourn.log.event import decode
from support.in_process import ProxyWorkspace, refused
from support.transcripts import ASKED, KEY, WRITERS, bakery


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("adjourn.host.own_settings.home", lambda: str(home))
    return home


def left(home: Path, root: Path, kind: Any = WRITERS[1]) -> tuple[str, Path]:
    transcript = bakery(kind(folder=os.path.realpath(root)))
    return transcript.id, transcript.save(home)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_session_is_listed_until_it_is_resumed_and_is_a_task_then(home: Path, tmp_path: Path, kind: Any) -> None:
    """Its mission, its open item and what is contradicted reach the agent, and no secret does."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        name, _ = left(home, work.root, kind)
        client = work.client()
        [row] = client.meta("aex.list_tasks")["tasks"]
        assert (row["name"], row["type"]) == (name, "session")
        assert row["goal"].startswith(ASKED[:40])
        assert row["describedBy"].startswith("the transcript of ")
        answer = client.meta("aex.resume", name=name)
        text = msgspec.json.encode(answer).decode()
        assert "Let the oven preheat" in text
        assert "rename heat to preheat" in text
        assert answer["imported"]["verified"] is False
        assert KEY not in text
        assert "rye-and-salt" not in text
        rows = client.meta("aex.list_tasks")["tasks"]
        assert [(row["type"], row["name"]) for row in rows] == [("checkpoint", answer["name"])]
        assert client.meta("aex.resume", name=name)["name"] == answer["name"]


def test_the_session_that_asks_is_not_listed(home: Path, tmp_path: Path) -> None:
    """One of the same client that is written while it asks; one of another client is listed, for that client may have been killed."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(name="codex-mcp-client")
        asking, _ = left(home, work.root, WRITERS[1])
        other, _ = left(home, work.root, WRITERS[0])
        assert [row["name"] for row in client.meta("aex.list_tasks")["tasks"]] == [other]
        assert asking != other


def test_a_session_becomes_a_task_under_a_lock(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients that resume it at once make one task: the second looks for it again once it has the lock."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        name, _ = left(home, work.root)
        first, second = work.client(), work.client()
        folder, names = make_folder(str(work.root), ".aex"), []

        @contextmanager
        def late(path: str) -> Iterator[None]:
            """The lock as the second client gets it: when the first has made the task."""
            assert path == folder
            monkeypatch.setattr("adjourn.handover.client_sessions.locked", locked)
            names.append(first.meta("aex.resume", name=name)["name"])
            with locked(path):
                yield

        monkeypatch.setattr("adjourn.handover.client_sessions.locked", late)
        names.append(second.meta("aex.resume", name=name)["name"])
        assert names[0] == names[1]
        rows = first.meta("aex.list_tasks")["tasks"]
        assert [row["type"] for row in rows] == ["checkpoint"]


def test_the_chain_names_the_file_the_range_and_its_digest(home: Path, tmp_path: Path) -> None:
    """By the address of a document that has them, and the facts."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        name, path = left(home, work.root)
        client = work.client()
        client.meta("aex.resume", name=name)
        with work.store() as store:
            [task] = [stream for stream in store.streams() if read_facts(store, stream).session == name]
            events = [decode(entry.data) for entry in store.read(task)]
            [imported] = [data for event in events if isinstance(data := kinds.data_of(event), kinds.TaskImported)]
            document = msgspec.json.decode(store.get_blob(imported.document) or b"")
        assert imported.source == "transcript of codex"
        content = path.read_bytes()
        assert document["file"] == str(path)
        assert document["read"] == {"begin": 0, "end": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        assert document["report"]["mission"].startswith(ASKED)


def test_a_session_elsewhere_or_ignored_is_no_task(home: Path, tmp_path: Path) -> None:
    """Another folder's session is neither listed nor resumed; nor one of a folder that the settings ignore."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        name, _ = left(home, tmp_path / "elsewhere")
        client = work.client()
        assert client.meta("aex.list_tasks") == {"tasks": []}
        assert refused(client.call("aex.resume", {"name": name}))
        name, _ = left(home, work.root)
        settings = home / ".config/adjourn/settings.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text("ignore-transcripts = true\n")
        settings.chmod(0o600)
        assert client.meta("aex.list_tasks") == {"tasks": []}
        assert refused(client.call("aex.resume", {"name": name}))
