"""The commit that a workspace is at, read without git, and reported when it moved."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints import page_files
from adjourn.checkpoints.environment import commit_change, current_commit
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint
from support.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, monkeypatch)


def git(root: Path, *words: str) -> str:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(root), *named, *words], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.strip()


def test_it_is_the_commit_that_git_tells(tmp_path: Path) -> None:
    """On a branch whose ref is a file or packed, and without a branch; nothing before the first commit."""
    assert current_commit(str(tmp_path)) == ""
    git(tmp_path, "init", "-q", "-b", "topic/größe-1")
    assert current_commit(str(tmp_path)) == ""
    for change in (
        (), ("pack-refs", "--all"), ("checkout", "-q", "--detach"), ("checkout", "-q", "-b", "other"), ("gc", "-q"),
    ):  # fmt: skip
        git(tmp_path, *(change or ("status",)))
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
        assert current_commit(str(tmp_path)) == git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "pack-refs", "--all")
    assert current_commit(str(tmp_path)) == git(tmp_path, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "head",
    ["", "x" * 40, "ref: refs/heads/../../../secret", "ref: ../secret", "ref: refs/heads/gone", "\xff", "a" * 5000],
)
def test_what_is_no_repository_of_git_has_no_commit(tmp_path: Path, head: str) -> None:
    """A `.git` that somebody made up leads nowhere; nor does one that is a link or a file."""
    (tmp_path / "secret").write_text("0" * 40)
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text(head, encoding="latin-1")
    assert current_commit(str(root)) == ""
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").symlink_to(tmp_path)
    (tmp_path / "HEAD").write_text("0" * 40)
    assert current_commit(str(other)) == ""
    (other / ".git").unlink()
    (other / ".git").write_text("gitdir: ..")
    assert current_commit(str(other)) == ""


@pytest.mark.parametrize("written", [None, 5, "", "x", {"a": 1}, ["0" * 40]])
def test_a_comment_that_is_not_ours_says_nothing(tmp_path: Path, written: Any) -> None:
    """A comment in a page that adjourn did not write is ignored, because an agent can write one."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    assert commit_change(str(tmp_path), written) == []


def test_the_next_session_is_told_that_git_moved(workspace: Workspace) -> None:
    """The page has the commit; at that commit nothing is said, at another both are named."""
    git(workspace.root, "init", "-q")
    git(workspace.root, "commit", "-q", "--allow-empty", "-m", "one")
    first = git(workspace.root, "rev-parse", "HEAD")
    root = str(workspace.root)
    context = workspace.context()
    session = workspace.work(context, "file.read")
    made = save_checkpoint(session.task, root, CheckpointRequest("m"), session=session)
    found = page_files.read(root, made.page)
    assert found.machine["commit"] == first
    assert notes_at(root, found) == []
    git(workspace.root, "commit", "-q", "--allow-empty", "-m", "two")
    second = git(workspace.root, "rev-parse", "HEAD")
    [note] = notes_at(root, found)
    assert first[:12] in note
    assert second[:12] in note


def notes_at(root: str, found: page_files.FoundPage) -> list[str]:
    telling = page_files.page_summary(root, found.task, found.at)
    assert telling is not None
    return telling.notes
