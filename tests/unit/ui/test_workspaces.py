"""The other workspaces of an account on the page of one: those that were used, who works there, and how much waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.host.clock import now
from adjourn.host.workspace_store import known_workspaces, open_at, remember
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.tasks.task import NewEvent, Task
from adjourn.ui.workspaces import OtherWorkspaces
from support.page_in_memory import ANN, PageInMemory
from support.task_sessions import SECRET, SharedTask
from support.waiting import asked, opened

AGENT = Actor("agent", "agent")


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    monkeypatch.setattr("adjourn.host.keys.secret", lambda: SECRET)
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)


def workspace(folder: Path, goal: str) -> Path:
    """A workspace with a task in which an approval waits."""
    folder.mkdir()
    store = open_at(str(folder))
    task = Task(store, "t9", clock=now, secret=SECRET)
    task.commit([NewEvent(kinds.TaskOpened(goal=goal), AGENT)])
    asked(task)
    store.close()
    remember(str(folder))
    return folder


def test_other_workspaces_are_listed_with_what_waits(tmp_path: Path) -> None:
    """By their folders; not the own one, and none whose store is gone."""
    other, gone = workspace(tmp_path / "other", "Ship <b>"), workspace(tmp_path / "gone", "x")
    own = workspace(tmp_path / "own", "mine")
    (gone / ".aex" / "adjourn.db").unlink()
    assert sorted(known_workspaces()) == [str(other), str(own)]
    shared = SharedTask()
    opened(shared)
    others = OtherWorkspaces(str(own), ANN, now)
    page = PageInMemory(shared.store, shared.clock, str(own), others=others).enter()
    shown = page.get("/tasks")
    section = shown[shown.index("Your other workspaces") :]
    assert str(other) in section
    assert str(own) not in section
    assert "1 waiting" in section
    assert "1 task" in section
    assert "Your other workspaces" not in page.get("/tasks?q=Release")
    others.close()


def test_a_folder_of_another_name_is_not_trusted(tmp_path: Path) -> None:
    """What lies in the register and is no path of a workspace is left out; a workspace is noted once."""
    register = tmp_path / "config" / "workspaces"
    register.mkdir(parents=True)
    for number, text in enumerate((b"relative", b"/nowhere/at/all", b"\xff\x00/x", b"/" * 10_000)):
        (register / str(number)).write_bytes(text)
    (register / "link").symlink_to(tmp_path / "missing")
    first = workspace(tmp_path / "first", "x")
    remember(str(first))
    assert known_workspaces() == [str(first)]
    assert len(list(register.iterdir())) == 6
    assert (
        register.stat().st_mode & 0o777,
        [f.stat().st_mode & 0o777 for f in register.iterdir() if len(f.name) == 32],
    ) == (0o755, [0o600])
