"""Pages that were cut off, edited, torn or written by others: there is a newest complete one at every moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints.page import AgentReport, ReportedStep
from adjourn.checkpoints.page_files import ACTIVE, find_active, page_summary, search
from adjourn.checkpoints.parser import parse
from support.kills import Killed
from support.pages import AT, mark, names, page
from support.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, monkeypatch)


# --- cut off at each step


STEPS = ("open", "fsync", "link", "rename", "unlink")


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_step_leaves_a_newest_page(workspace: Workspace, *, after: bool) -> None:
    """A kill before or after any system call leaves the newest page whole and loses no page."""
    root = str(workspace.root)
    mark(workspace, "g2")
    workspace.clock.move(seconds=120)
    mark(workspace, "g1", said=AgentReport(resumption_point="first"))
    seen = {one.id for one in search(root).pages}
    kills = 0
    for step in range(200):
        with pytest.MonkeyPatch.context() as patch:
            counter = _kill_at(patch, step, root, after=after)
            try:
                made = mark(workspace, "g1", name=f"n{step}")
            except Killed:
                kills += 1
            else:
                seen.add(made.checkpoint.hash)
                if counter() <= step:
                    break
        found = search(root)
        assert found.broken == []
        assert seen <= {one.id for one in found.pages}
        newest = find_active(root, workspace.context("g1").task.current())
        assert newest is not None
        assert newest.page.resumption_point == "first"
        seen = {one.id for one in found.pages}
        workspace.clock.move(seconds=61)
    assert kills > 4
    last = find_active(root)
    assert last is not None
    assert last.path == f"tmp/{ACTIVE}"


def _kill_at(patch: pytest.MonkeyPatch, step: int, root: str, *, after: bool) -> Callable[[], int]:
    """End at the `step`th call that changes something in tmp/."""
    count = 0
    dead = False
    for name in STEPS:
        real = getattr(os, name)

        def call(*arguments: Any, _real: Any = real, _name: str = name, **options: Any) -> Any:
            nonlocal count, dead
            ours = _name == "fsync" or f"{root}/tmp" in str(arguments[0])
            if not ours:
                return _real(*arguments, **options)
            if dead:
                raise OSError("dead")
            count += 1
            if count - 1 == step:
                if after:
                    _real(*arguments, **options)
                dead = True
                raise Killed
            return _real(*arguments, **options)

        patch.setattr(os, name, call)
    return lambda: count


# --- edited, torn, foreign


def test_what_a_person_changed_counts_and_is_reported(workspace: Workspace) -> None:
    """The next session receives the changed text, and the next page takes it over, even derived lines."""
    mark(
        workspace,
        said=AgentReport(resumption_point="left", progress=(ReportedStep(text="one"), ReportedStep(text="two"))),
    )
    path = workspace.root / "tmp" / ACTIVE
    text = (
        page(workspace).replace("left", "right").replace("- [ ] one", "- [x] one (by hand)").replace("do it", "do that")
    )
    path.write_text(text)
    found = find_active(str(workspace.root))
    assert found is not None
    assert found.reading.edited
    telling = page_summary(str(workspace.root), found.task, found.at)
    assert telling is not None
    assert telling.page == found.page
    assert "right" in found.text
    assert "was edited" in telling.notes[0]
    workspace.clock.move(seconds=60)
    made = mark(workspace)
    assert "was edited" in made.notes[0]
    read = parse(page(workspace)).page
    assert read is not None
    assert (read.mission, read.resumption_point) == ("do that", "right")
    assert (read.progress[0].status, read.progress[0].note) == ("done", "by hand")
    assert page(workspace, f"checkpoint-{AT}.md") == text


def test_a_torn_page_is_put_aside_and_the_next_older_one_offered(workspace: Workspace) -> None:
    """It is said which page cannot be read and why; nothing of it is lost."""
    mark(workspace)
    workspace.clock.move(seconds=60)
    mark(workspace)
    (workspace.root / "tmp" / ACTIVE).write_text(page(workspace)[:70])
    found = search(str(workspace.root))
    assert found.newest is not None
    assert found.newest.path == f"tmp/checkpoint-{AT}.md"
    assert [path for path, _ in found.broken] == [f"tmp/{ACTIVE}"]
    telling = page_summary(str(workspace.root), found.newest.task, found.newest.at)
    assert telling is not None
    assert "cannot be read" in telling.notes[0]
    assert "the newest readable page is" in telling.notes[1]
    made = mark(workspace)
    assert "it was moved to" in made.notes[0]
    assert "checkpoint-unreadable.md" in names(workspace)


SEED_FORM = """\
# Checkpoint: 2026-05-02 15:29 UTC
## Mission
Review it
## Progress
- [x] Codebase mapped
- [ ] Report (in progress, 3 of 8)
## Current State
- Working on #4
## Resumption Point
Continue at #4.
## Iteration Stats
- Iterations used: 38
- Budget remaining: 12
- Session duration: 47 minutes
"""


@pytest.mark.parametrize("name", [ACTIVE, "checkpoint.md", "checkpoint-pre-deploy.md"])
def test_a_page_that_an_agent_wrote_itself_is_found(workspace: Workspace, name: str) -> None:
    """A page without the machine's comment counts under any of the names, by the time in its title."""
    (workspace.root / "tmp").mkdir()
    (workspace.root / "tmp" / name).write_text(SEED_FORM)
    found = find_active(str(workspace.root), "any")
    assert found is not None
    assert (found.path, found.page.mission, found.task) == (f"tmp/{name}", "Review it", "")


def test_a_page_that_an_agent_wrote_itself_is_gone_on_from(workspace: Workspace) -> None:
    """Under the plain name it is taken for the page before."""
    (workspace.root / "tmp").mkdir()
    (workspace.root / "tmp" / ACTIVE).write_text(SEED_FORM)
    mark(workspace)
    read = parse(page(workspace)).page
    assert read is not None
    assert (read.mission, read.resumption_point, len(read.progress)) == ("Review it", "Continue at #4.", 2)
    assert page(workspace, "checkpoint-2026-05-02-1529.md") == SEED_FORM


@pytest.mark.parametrize("kind", ["link", "folder", "large", "binary"])
def test_what_is_no_page_does_no_harm(workspace: Workspace, kind: str, tmp_path: Path) -> None:
    """Links are not followed, large and odd files not read; the checkpoint is made all the same."""
    (workspace.root / "tmp").mkdir()
    path = workspace.root / "tmp" / ACTIVE
    victim = tmp_path / "victim"
    victim.write_text("secret")
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"x" * 2_000_000 if kind == "large" else b"\xff\x00")
    made = mark(workspace)
    assert made.checkpoint.data.name == "m"
    assert victim.read_text() == "secret"
    assert made.notes
    assert "it was moved to" in made.notes[0]
    assert not path.is_symlink()
    assert find_active(str(workspace.root)) is not None
    assert "checkpoint-unreadable.md" in names(workspace)


@pytest.mark.parametrize("place", ["file", "link"])
def test_a_folder_that_cannot_be_written_keeps_no_checkpoint(workspace: Workspace, place: str, tmp_path: Path) -> None:
    """The checkpoint is in the store, and what is wrong with the page is said."""
    if place == "file":
        (workspace.root / "tmp").write_text("")
    else:
        (workspace.root / "tmp").symlink_to(tmp_path)
    made = mark(workspace)
    assert made.page == ""
    assert "the checkpoint has no page" in made.notes[0]


def test_a_full_disk_leaves_the_page_before(workspace: Workspace) -> None:
    """What could not be written whole is not there at all."""
    mark(workspace)
    before = page(workspace)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adjourn.checkpoints.page_writer.os.fsync", full)
        patch.setattr("adjourn.checkpoints.folder.write", lambda *_: "")
        made = mark(workspace)
    assert "No space left" in made.notes[0]
    assert page(workspace) == before
    assert names(workspace) == [ACTIVE]


def test_a_page_that_would_be_too_long_is_refused(workspace: Workspace) -> None:
    """The one before stays; what is wrong is said."""
    long = tuple("\N{GRINNING FACE}" * 3900 + str(n) for n in range(100))
    made = mark(workspace, said=AgentReport(current_state=long))
    assert "shorten" in made.notes[0]
