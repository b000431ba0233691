"""Going back after a failed step: files from git objects that touch nothing else, the page, or both; shown before it is done."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.checkpoints import git_snapshot
from adjourn.checkpoints.git_restore import RollbackChange, changes
from adjourn.checkpoints.git_snapshot import forget, keep
from adjourn.checkpoints.page_files import find_active
from adjourn.checkpoints.rollback import carry_out, plan, target_of
from adjourn.errors import NotFoundError, RefusedError, StoreError
from adjourn.policy.destructive import DEFAULT
from adjourn.tasks.decision import ToolRequest
from support.checkpoints import put_back, snapshots
from support.rollbacks import deployed, git, make_workspace
from support.workspace import ANN, Workspace

SMALL = msgspec.structs.replace(DEFAULT, max_file_bytes=1000, keep_seconds=30.0)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One with a commit, something staged, something stashed, a change, a new file, one ignored and one too large."""
    root = tmp_path / "r"
    (root / "sub").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text("ignored\n")
    (root / "a").write_text("committed")
    (root / "gone").write_text("committed")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "a").write_text("stashed")
    git(root, "stash", "-q")
    (root / "a").write_text("staged")
    git(root, "add", "a")
    (root / "a").write_text("worked on")
    (root / "gone").unlink()
    (root / "sub" / "ünï code").write_text("new")
    (root / "ignored").write_text("secret")
    (root / "large").write_text("x" * 2000)
    (root / "tool").write_text("#!/bin/sh\n")
    (root / "tool").chmod(0o755)
    os.symlink("/etc/passwd", root / "link")
    return root


def everything(root: Path) -> dict[str, Any]:
    """All of a repository that a person can see, and its files."""
    files = {
        str(path.relative_to(root)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if ".git" not in path.parts and (path.is_symlink() or path.is_file())
    }
    told = [
        git(root, *words)
        for words in (
            ["status", "--porcelain"],
            ["stash", "list"],
            ["log", "--all", "--format=%H", "--branches"],
            ["branch", "-a"],
        )
    ]
    return {
        "files": files,
        "told": told,
        "index": (root / ".git" / "index").read_bytes(),
        "head": (root / ".git" / "HEAD").read_text(),
    }


def without_refs(seen: dict[str, Any]) -> dict[str, Any]:
    return seen | {"told": seen["told"][:2] + seen["told"][3:]}


def test_keeping_files_touches_nothing_else(repository: Path) -> None:
    """Index, branch, stash and files are the same; the commit has what was there, without what is ignored or too large."""
    before = everything(repository)
    kept = keep(str(repository), "t.1", 7, SMALL)
    assert without_refs(everything(repository)) == without_refs(before)
    assert kept.ref == "refs/adjourn/checkpoints/t-1/7"
    assert kept.left_out == ["large"]
    assert git(repository, "rev-parse", kept.ref).strip() == kept.commit
    names = git(repository, "ls-tree", "-r", "--name-only", kept.commit).splitlines()
    assert sorted(names) == sorted([".gitignore", "a", "link", "sub/ünï code", "tool"])
    assert git(repository, "show", f"{kept.commit}:a") == "worked on"
    assert git(repository, "rev-parse", f"{kept.commit}^").strip() == git(repository, "rev-parse", "HEAD").strip()


def test_files_are_put_back_and_that_can_be_undone(repository: Path) -> None:
    """Changed and removed ones have their content again; new ones stay; what was there before is kept."""
    root = str(repository)
    kept = keep(root, "t", 1, SMALL)
    (repository / "a").write_text("spoilt")
    (repository / "sub" / "ünï code").unlink()
    (repository / "tool").chmod(0o644)
    (repository / "made since").write_text("m")
    index = (repository / ".git" / "index").read_bytes()
    expected = [
        RollbackChange("restore", "a"), RollbackChange("leave", "made since"), RollbackChange("bring back", "sub/ünï code"), RollbackChange("restore", "tool"),
    ]  # fmt: skip
    assert sorted(changes(root, kept.commit, SMALL)) == sorted(expected)
    assert (repository / "a").read_text() == "spoilt"
    found, undo = put_back(root, kept.commit, "t", 2, SMALL)
    assert sorted(found) == sorted(expected)
    assert (repository / "a").read_text() == "worked on"
    assert (repository / "sub" / "ünï code").read_text() == "new"
    assert os.access(repository / "tool", os.X_OK)
    assert (repository / "made since").read_text() == "m"
    assert (repository / ".git" / "index").read_bytes() == index
    put_back(root, undo.commit, "t", 3, SMALL)
    assert (repository / "a").read_text() == "spoilt"


def test_a_workspace_in_a_part_of_a_repository(repository: Path) -> None:
    """Only what lies in the workspace is examined and put back."""
    root = str(repository / "sub")
    kept = keep(root, "t", 1, SMALL)
    (repository / "sub" / "ünï code").write_text("spoilt")
    (repository / "a").write_text("outside")
    assert changes(root, kept.commit, SMALL) == [RollbackChange("restore", "ünï code")]
    put_back(root, kept.commit, "t", 2, SMALL)
    assert (repository / "sub" / "ünï code").read_text() == "new"
    assert (repository / "a").read_text() == "outside"


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    """A snapshot in a repository without a commit has no parent."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("a")
    kept = keep(str(tmp_path), "t", 1, SMALL)
    assert git(tmp_path, "ls-tree", "--name-only", kept.commit) == "a\n"


def test_no_program_of_the_repository_is_run(repository: Path, tmp_path: Path) -> None:
    """Hooks, filters and monitors that an agent may have set up are not."""
    trap = tmp_path / "trap"
    script = tmp_path / "run"
    script.write_text(f"#!/bin/sh\ntouch {trap}\ncat\n")
    script.chmod(0o755)
    for key in ("filter.x.clean", "filter.x.smudge", "filter.x.process", "core.fsmonitor"):
        git(repository, "config", key, str(script))
    git(repository, "config", "filter.x.required", "true")
    (repository / ".gitattributes").write_text("* filter=x\n")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        (hooks / hook).symlink_to(script)
    kept = keep(str(repository), "t", 1, SMALL)
    (repository / "a").write_text("spoilt")
    put_back(str(repository), kept.commit, "t", 2, SMALL)
    assert (repository / "a").read_text() == "worked on"
    assert not trap.exists()


def test_what_takes_too_long_is_given_up(repository: Path) -> None:
    """The bound holds for all commands together, and nothing is left behind."""
    before = everything(repository)
    hurried = msgspec.structs.replace(SMALL, keep_seconds=0.001)
    began = time.monotonic()
    with pytest.raises(StoreError, match="timed out"):
        keep(str(repository), "t", 1, hurried)
    assert time.monotonic() - began < 4  # of the 5 s that are given otherwise
    assert everything(repository) == before


def test_outside_of_a_repository_nothing_is_kept(tmp_path: Path) -> None:
    """Outside a repository no snapshot is taken, and the reason is given."""
    with pytest.raises(NotFoundError, match="not in a git repository"):
        keep(str(tmp_path), "t", 1, SMALL)


@pytest.mark.parametrize(
    ("commit", "error"), [("0" * 40, NotFoundError), ("--help", RefusedError), ("main", RefusedError)]
)
def test_only_a_commit_is_put_back(repository: Path, commit: str, error: type[Exception]) -> None:
    """Only a commit is restored, because anyone may have written the page that names it."""
    with pytest.raises(error):
        changes(str(repository), commit, SMALL)


def test_snapshots_are_let_go_of(repository: Path) -> None:
    """Deleting snapshots deletes only refs of adjourn."""
    root = str(repository)
    first, second = keep(root, "t", 1, SMALL), keep(root, "t", 2, SMALL)
    keep(root, "other", 1, SMALL)
    assert set(snapshots(root, "t")) == {first.ref, second.ref}
    forget(root, [first.ref, "refs/heads/main"])
    assert set(snapshots(root, "t")) == {second.ref}
    assert git(repository, "branch", "--list", "main")


# --- with a task


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return make_workspace(tmp_path, monkeypatch)


def test_files_are_kept_before_a_destructive_call(workspace: Workspace) -> None:
    """The page names the commit; the index is not there, and still is not."""
    deployed(workspace)
    page = target_of(str(workspace.root))
    commit = page.machine["files"]["commit"]
    assert git(workspace.root, "show", f"{commit}:a") == "good"
    assert not (workspace.root / ".git" / "index").exists()
    names = git(workspace.root, "ls-tree", "-r", "--name-only", commit).split()
    assert names == ["a"]


def test_planning_changes_nothing(workspace: Workspace) -> None:
    """The preview lists what would be done: files, and the effects that stay."""
    session = deployed(workspace)
    session.admit([ToolRequest(tool="file.read", digest="7" * 64, effectful=False, arguments='{"path":"a"}')])
    root = str(workspace.root)
    before = workspace.everything()
    made = plan(session.task, root, target_of(root))
    assert made.files == [RollbackChange("restore", "a")]
    assert [effect.tool for effect in made.effects] == ["deploy.run"]
    assert workspace.everything() == before
    assert (workspace.root / "a").read_text() == "spoilt"


@pytest.mark.parametrize(("files", "state"), [(True, True), (True, False), (False, True)])
def test_going_back(workspace: Workspace, *, files: bool, state: bool) -> None:
    """Files, state or both; what was spent stays spent."""
    session = deployed(workspace)
    root, task = str(workspace.root), session.task
    used = task.ledger.calls_used
    done = carry_out(task, root, plan(task, root, target_of(root), files=files), state=state, by=ANN)
    assert (workspace.root / "a").read_text() == ("good" if files else "spoilt")
    assert bool(done.undo) is files
    found = find_active(root)
    assert found is not None
    assert found.page.resumption_point == ("deploy" if state else "go on")
    assert task.ledger.calls_used == used
    if state:
        assert found.machine["trigger"].startswith("rollback to ")


def test_a_target_by_name(workspace: Workspace) -> None:
    """Any checkpoint with a page will do; one that is not there is named."""
    deployed(workspace)
    assert target_of(str(workspace.root), "m").page.resumption_point == "deploy"
    with pytest.raises(NotFoundError, match="no page of 'x'"):
        target_of(str(workspace.root), "x")


def test_a_snapshot_that_fails_keeps_no_call(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call continues, and what is wrong is reported."""
    monkeypatch.setattr(git_snapshot, "keep", _broken)
    notes: list[str] = []
    context = workspace.context(on_event=lambda _event, text: notes.append(text))
    _, (admitted,) = context.sessions.admit([ToolRequest(tool="deploy.run", digest="1" * 64)])
    assert admitted.call
    assert "were not saved: git is ill" in notes[0]


def _broken(*_: object) -> None:
    raise StoreError("git is ill")


# --- what an agent may have prepared


def test_what_is_kept_nowhere_is_not_overwritten(repository: Path) -> None:
    """A file that is ignored or too large by now, and a folder at a file's place, stay: no snapshot holds them."""
    small, plain, moved = repository / "small", repository / "plain", repository / "moved"
    for path in (small, plain, moved):
        path.write_text("as it was")
    (repository / "sub" / "deep").write_text("as it was")
    kept = keep(str(repository), "t", 1, SMALL)
    small.write_text("y" * 2000)
    (repository / ".gitignore").write_text("ignored\nplain\nprecious\nsub\n")
    plain.write_text("worked on, and ignored now")
    moved.unlink()
    moved.mkdir()
    (moved / "precious").write_text("ignored")
    (repository / "sub" / "deep").unlink()
    (repository / "sub" / "ünï code").unlink()
    (repository / "sub").rmdir()
    (repository / "sub").write_text("ignored now")
    found, _ = put_back(str(repository), kept.commit, "t", 2, SMALL)
    kinds = {change.path: change.kind for change in found}
    for name in ("small", "plain", "moved", "sub/deep", "sub/ünï code"):
        assert kinds[name] == "avoid", name
    assert small.read_text() == "y" * 2000
    assert plain.read_text() == "worked on, and ignored now"
    assert (moved / "precious").read_text() == "ignored"
    assert (repository / "sub").read_text() == "ignored now"
    assert (repository / ".gitignore").read_text() == "ignored\n"


def test_a_filter_of_the_working_tree_is_not_run(repository: Path, tmp_path: Path) -> None:
    """Git reads `.git/config.worktree`, too, where the repository says so."""
    ran = tmp_path / "ran"
    git(repository, "config", "extensions.worktreeConfig", "true")
    git(repository, "config", "--worktree", "filter.bad.clean", f"touch {ran}; cat")
    git(repository, "config", "--worktree", "filter.bad.smudge", f"touch {ran}; cat")
    (repository / ".gitattributes").write_text("* filter=bad\n")
    kept = keep(str(repository), "t", 1, SMALL)
    (repository / "a").write_text("else")
    put_back(str(repository), kept.commit, "t", 2, SMALL)
    assert not ran.exists()


def test_only_snapshots_are_let_go_of(repository: Path) -> None:
    """The names come from pages, which an agent can write in: none leads to another ref."""
    kept = keep(str(repository), "t", 1, SMALL)
    hostile = [f"{kept.ref}\ndelete refs/heads/main", "refs/adjourn/checkpoints/../../heads/main", "refs/heads/main"]
    forget(str(repository), hostile)
    assert git(repository, "rev-parse", "--verify", "refs/heads/main")
    assert snapshots(repository, "t") == {kept.ref: kept.commit}


def test_names_that_are_no_text_are_told_all_the_same(repository: Path) -> None:
    """A page can hold what is said of the files that are left out, whatever their names, and however many."""
    for number in range(30):
        (repository / os.fsdecode(b"large-\xff-%d" % number)).write_text("x" * 2000)
    told = keep(str(repository), "t", 1, SMALL).to_json()
    assert len(told["leftOut"]) == 20
    assert b"large" in msgspec.json.encode(told)


def test_a_change_right_after_it_was_staged_is_seen(repository: Path) -> None:
    """Git tells by the index's time which files it has to look into: our copy of the index has the time of the original."""
    time.sleep(1 - time.time() % 1)  # all of it in one second, so that no file's time tells
    (repository / "a").write_text("staged")
    git(repository, "add", "a")
    (repository / "a").write_text("spoilt")
    time.sleep(1.1)
    kept = keep(str(repository), "t", 1, SMALL)
    assert git(repository, "show", f"{kept.commit}:a") == "spoilt"
