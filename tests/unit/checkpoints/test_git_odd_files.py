"""Files that git does not list as they are, or cannot read, come back all the same, or are named."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from adjourn.checkpoints import git_snapshot
from adjourn.checkpoints.git_restore import NESTED, NOT_KEPT, UNSAVED, RollbackChange
from adjourn.checkpoints.git_snapshot import keep
from adjourn.errors import StoreError
from adjourn.policy.destructive import DEFAULT
from support.checkpoints import put_back
from support.children import in_child
from support.rollbacks import git

PATIENT = msgspec.structs.replace(DEFAULT, keep_seconds=60.0)
SMALL = msgspec.structs.replace(PATIENT, max_file_bytes=100)
NOBODY = 65534


def make_repository(root: Path) -> Path:
    for name in ("z", "b/c", "b/d/e"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"good {name}")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    return root


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "r")


def avoided(changes: list[RollbackChange]) -> dict[str, str]:
    return {change.path: change.why for change in changes if change.kind == "avoid"}


@pytest.mark.parametrize("target", ["outside", "nowhere", "moved"])
def test_a_tracked_folder_that_became_a_link_comes_back(repository: Path, tmp_path: Path, target: str) -> None:
    """The link is saved and removed; what it leads to stays as it is."""
    kept = keep(str(repository), "t", 1, PATIENT)
    moved = tmp_path / target
    (repository / "b").rename(moved)
    if target == "nowhere":
        shutil.rmtree(moved)
    elif target == "outside":
        (moved / "c").write_text("theirs")
    (repository / "b").symlink_to(moved)
    found, before = put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert [change.kind for change in found] == ["make room", "bring back", "bring back"]
    assert ((repository / "b" / "c").read_text(), (repository / "b").is_symlink()) == ("good b/c", False)
    assert not moved.exists() or (moved / "c").read_text() == ("theirs" if target == "outside" else "good b/c")
    put_back(str(repository), before.commit, "t", 3, PATIENT)
    assert os.readlink(repository / "b") == str(moved)


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at_comes_back(repository: Path, flag: str) -> None:
    """As it was at the checkpoint, not as it was committed; the flag stays in the person's index."""
    git(repository, "update-index", flag, "z")
    (repository / "z").write_text("my own settings")
    kept = keep(str(repository), "t", 1, PATIENT)
    (repository / "z").write_text("spoilt")
    found, _ = put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert found == [RollbackChange("restore", "z")]
    assert (repository / "z").read_text() == "my own settings"
    assert git(repository, "status", "--porcelain") == ""


def test_files_outside_of_a_sparse_checkout_stay_away(repository: Path) -> None:
    """They are no deleted files."""
    git(repository, "sparse-checkout", "set", "--no-cone", "/z")
    kept = keep(str(repository), "t", 1, PATIENT)
    assert git(repository, "ls-tree", "-r", "--name-only", kept.commit).split() == ["b/c", "b/d/e", "z"]
    (repository / "z").write_text("spoilt")
    found, _ = put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert (found, (repository / "b").exists()) == ([RollbackChange("restore", "z")], False)


def test_a_pipe_in_the_place_of_a_file_is_named_and_keeps_no_other_file(repository: Path) -> None:
    """It is not removed: no snapshot can save it."""
    kept = keep(str(repository), "t", 1, PATIENT)
    (repository / "z").unlink()
    os.mkfifo(repository / "z")
    (repository / "b" / "c").write_text("spoilt")
    found, _ = put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert avoided(found) == {"z": UNSAVED}
    assert ((repository / "b" / "c").read_text(), (repository / "z").is_fifo()) == ("good b/c", True)


def test_a_file_that_was_too_large_at_the_checkpoint_is_not_replaced_by_an_older_one(repository: Path) -> None:
    """It is named if it changed since, or is gone; so is a nested repository that is gone."""
    for name in ("z", "same", "removed"):
        (repository / name).write_text("x" * 500)
    git(repository, "init", "-q", "nested")
    kept = keep(str(repository), "t", 1, SMALL)
    assert kept.left_out == ["nested/", "removed", "same", "z"]
    (repository / "z").write_text("small now")
    (repository / "removed").unlink()
    shutil.rmtree(repository / "nested")
    found, _ = put_back(str(repository), kept.commit, "t", 2, SMALL)
    assert avoided(found) == {"z": NOT_KEPT, "removed": NOT_KEPT, "nested/": NESTED}
    assert (repository / "z").read_text() == "small now"


def test_a_tracked_file_that_grew_too_large_since_is_named(repository: Path) -> None:
    """Its content of now is saved nowhere, so it stays."""
    kept = keep(str(repository), "t", 1, SMALL)
    (repository / "z").write_text("x" * 500)
    found, _ = put_back(str(repository), kept.commit, "t", 2, SMALL)
    assert (avoided(found), (repository / "z").stat().st_size) == ({"z": UNSAVED}, 500)


def test_too_many_changed_files_are_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot with some of them would look like a whole one."""
    monkeypatch.setattr(git_snapshot, "MAX_LISTED", 2)
    for name in ("1", "2", "3"):
        (repository / name).write_text(name)
    with pytest.raises(StoreError, match="too many changed files: 3"):
        keep(str(repository), "t", 1, PATIENT)


# --- what a person without all rights cannot read or write


def as_person(work: Callable[[Path], None]) -> None:
    """Run `work` with a new repository, in a process that file modes bind."""
    with tempfile.TemporaryDirectory() as folder:
        root = make_repository(Path(folder) / "r")

        def child() -> None:
            os.environ |= {"HOME": folder, "GIT_CONFIG_GLOBAL": os.devnull}
            if not os.getuid():
                for path in (Path(folder), *Path(folder).rglob("*")):
                    os.chown(path, NOBODY, NOBODY)
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            tempfile.tempdir = folder
            work(root)

        assert in_child(child) == 0
        os.chmod(root / "b", 0o755)


def test_a_file_that_cannot_be_read_keeps_no_other_file() -> None:
    """It is left out, and named if it was readable at the checkpoint."""

    def work(root: Path) -> None:
        kept = keep(str(root), "t", 1, PATIENT)
        for name in ("z", "b/c", "secret"):
            (root / name).write_text("spoilt")
        (root / "z").chmod(0)
        (root / "secret").chmod(0)
        found, before = put_back(str(root), kept.commit, "t", 2, PATIENT)
        assert sorted(before.left_out) == ["secret", "z"]
        assert avoided(found) == {"z": UNSAVED}
        assert (root / "b" / "c").read_text() == "good b/c"

    as_person(work)


def test_files_in_a_folder_that_cannot_be_entered_are_named() -> None:
    """The others come back."""

    def work(root: Path) -> None:
        kept = keep(str(root), "t", 1, PATIENT)
        (root / "z").write_text("spoilt")
        (root / "b").chmod(0)
        found, _ = put_back(str(root), kept.commit, "t", 2, PATIENT)
        assert avoided(found) == {"b/c": UNSAVED, "b/d/e": UNSAVED}
        assert (root / "z").read_text() == "good z"

    as_person(work)


def test_a_folder_comes_back_in_a_read_only_one() -> None:
    """The mode of the read-only folder stays."""

    def work(root: Path) -> None:
        kept = keep(str(root), "t", 1, PATIENT)
        shutil.rmtree(root / "b" / "d")
        (root / "b").chmod(0o555)
        found, _ = put_back(str(root), kept.commit, "t", 2, PATIENT)
        assert found == [RollbackChange("bring back", "b/d/e")]
        assert ((root / "b" / "d" / "e").read_text(), (root / "b").stat().st_mode & 0o777) == ("good b/d/e", 0o555)

    as_person(work)
