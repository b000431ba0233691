"""Restoring files leaves no hole: a kill at any step is finished by the next rollback, and what no snapshot has is not replaced."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from adjourn.checkpoints import git_snapshot
from adjourn.checkpoints import rollback as rollback_journal
from adjourn.checkpoints.git_restore import EDITED, NESTED, POLICY, SUBMODULE, UNSAVED, RollbackChange, changes, restore
from adjourn.checkpoints.git_snapshot import KeptFiles, for_page, keep, kept_files
from adjourn.checkpoints.page_files import find_active
from adjourn.checkpoints.rollback import carry_out, finish, interrupted, plan, target_of
from adjourn.errors import InvalidError, RefusedError, StoreError
from adjourn.host import keys
from adjourn.host.workspace_store import open_at
from adjourn.policy.destructive import DEFAULT
from adjourn.tasks.task import Task
from support.checkpoints import put_back
from support.children import in_child
from support.clock import Clock
from support.kills import Kill
from support.rollbacks import deployed, git, make_workspace
from support.workspace import ANN

PATIENT = msgspec.structs.replace(DEFAULT, keep_seconds=60.0)
FILES = ("z", "b/c", "b/d/e", "run.sh")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "r"
    root.mkdir()
    git(root, "init", "-q")
    write_all(root, "good")
    return root


def write_all(root: Path, text: str) -> None:
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text} {name}")


def content(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text() if (root / name).exists() else "" for name in FILES}


# --- kills


def later() -> Clock:
    clock = Clock()
    clock.move(seconds=100_000)
    return clock


def roll_back(root: Path) -> None:
    with closing(open_at(str(root))) as store:
        target = target_of(str(root), "n")
        task = Task(store, target.task, clock=later(), secret=keys.secret())
        carry_out(task, str(root), plan(task, str(root), target_of(str(root))), state=True, by=ANN)


def finish_rollback(root: Path, task: str) -> None:
    with closing(open_at(str(root))) as store:
        finish(Task(store, task, clock=later(), secret=keys.secret()), str(root), by=ANN)


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_step_is_finished_by_the_next_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    """At each kill every file is whole, as before or as restored; afterwards all are restored, and one page is active."""
    template = tmp_path / "template"
    template.mkdir()

    def prepare() -> None:
        workspace = make_workspace(template, monkeypatch, store="sqlite")
        write_all(workspace.root, "good")
        deployed(workspace)
        workspace.store.close()

    assert in_child(prepare) == 0
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    good, kills, finished = {name: f"good {name}" for name in FILES}, 0, 0
    while True:
        root = tmp_path / "work"
        for name in ("work", "config"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
            shutil.copytree(template / name, tmp_path / name)
        write_all(root, "spoilt")
        (root / "b" / "c").unlink()
        before = content(root)

        def killed(root: Path = root, step: int = kills) -> None:
            Kill(monkeypatch, step, by_signal=True)
            roll_back(root)

        end = in_child(killed)
        now = content(root)
        assert all(now[name] in (before[name], good[name]) for name in FILES), now
        if end == 0:
            break
        assert end == -signal.SIGKILL
        kills += stride
        task = interrupted(str(root))
        if task:
            assert in_child(lambda root=root, task=task: finish_rollback(root, task)) == 0  # type: ignore[misc]
            finished += 1
        else:
            assert now in (before, good)
        assert not interrupted(str(root))
        active = find_active(str(root))
        assert active is not None
        assert active.machine["trigger"].startswith("rollback to ") == (content(root) == good)
    assert now == good
    assert finished > 10 // stride


# --- concurrent edits, and what is left alone


def test_a_file_that_is_edited_meanwhile_stays(repository: Path, tmp_path: Path) -> None:
    """What was written after the present files were kept is in no snapshot, so it is not replaced."""
    root = str(repository)
    kept = keep(root, "t", 1, PATIENT)
    write_all(repository, "spoilt")
    before = keep(root, "t", 2, PATIENT)
    (repository / "z").write_text("edited since")
    found = restore(root, kept.commit, before.commit, str(tmp_path), PATIENT)
    assert RollbackChange("avoid", "z", EDITED) in found
    assert content(repository) == {name: f"good {name}" for name in FILES} | {"z": "edited since"}


def test_a_file_that_is_edited_while_files_are_staged_stays(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look at a file is directly before it is replaced."""
    root = str(repository)
    kept = keep(root, "t", 1, PATIENT)
    write_all(repository, "spoilt")
    before = keep(root, "t", 2, PATIENT)
    real = os.fsync

    def edit(handle: int) -> None:
        (repository / "z").write_text("edited since")
        real(handle)

    monkeypatch.setattr(os, "fsync", edit)
    found = restore(root, kept.commit, before.commit, str(tmp_path), PATIENT)
    assert RollbackChange("avoid", "z", EDITED) in found
    assert (repository / "z").read_text() == "edited since"
    assert (repository / "b" / "c").read_text() == "good b/c"


def swap(root: Path) -> None:
    """Make a file of a folder and a folder of a file, and change the rest."""
    write_all(root, "spoilt")
    shutil.rmtree(root / "b")
    (root / "b").write_text("now a file")
    (root / "z").unlink()
    (root / "z" / "deep").mkdir(parents=True)
    (root / "z" / "deep" / "inside").write_text("x")


@pytest.mark.parametrize("tracked", [False, True])
def test_a_folder_that_became_a_file_and_the_reverse_come_back(repository: Path, *, tracked: bool) -> None:
    """What stands in the way is saved and removed, and named; undoing brings it back."""
    root = str(repository)
    if tracked:
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", "all")
    kept = keep(root, "t", 1, PATIENT)
    swap(repository)
    planned = changes(root, kept.commit, PATIENT)
    found, before = put_back(root, kept.commit, "t", 2, PATIENT)
    assert found == planned
    kinds = {change.path: change.kind for change in found}
    assert [kinds[name] for name in FILES] == ["bring back", "bring back", "bring back", "restore"]
    assert (kinds["b"], kinds["z/deep/inside"]) == ("make room", "make room")
    assert content(repository) == {name: f"good {name}" for name in FILES}
    put_back(root, before.commit, "t", 3, PATIENT)
    assert (repository / "b").read_text() == "now a file"
    assert (repository / "z" / "deep" / "inside").read_text() == "x"


def test_a_folder_that_became_a_link_comes_back(repository: Path, tmp_path: Path) -> None:
    """The link is saved and replaced by the folder; nothing is written or removed behind it."""
    kept = keep(str(repository), "t", 1, PATIENT)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c").write_text("theirs")
    shutil.rmtree(repository / "b")
    (repository / "b").symlink_to(outside)
    put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("c", "theirs")]
    assert content(repository) == {name: f"good {name}" for name in FILES}


def test_a_file_that_was_renamed_in_case_only_comes_back(repository: Path) -> None:
    """It has its name and its content of before again; where case tells names apart, the new name stays beside it."""
    kept = keep(str(repository), "t", 1, PATIENT)
    (repository / "z").rename(repository / "Z")
    (repository / "Z").write_text("edited")
    (repository / "b").rename(repository / "B")
    put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert content(repository) == {name: f"good {name}" for name in FILES}
    assert {"b", "z"} <= set(os.listdir(repository))
    if not (repository / "Z").samefile(repository / "z"):
        assert (repository / "Z").read_text() == "edited"
        assert (repository / "B" / "c").read_text() == "good b/c"


def test_a_file_that_a_process_has_open_comes_back(repository: Path) -> None:
    """The path has its content of before; the process keeps the file that it opened."""
    kept = keep(str(repository), "t", 1, PATIENT)
    with (repository / "z").open("r+") as opened:
        opened.write("edited")
        opened.flush()
        put_back(str(repository), kept.commit, "t", 2, PATIENT)
        opened.write(" on")
    assert content(repository) == {name: f"good {name}" for name in FILES}


def test_what_no_snapshot_has_stays_in_the_way_and_is_named(repository: Path) -> None:
    """An ignored file in a folder that was a file keeps the folder; a nested repository is named."""
    (repository / ".gitignore").write_text("*.log\n")
    kept = keep(str(repository), "t", 1, PATIENT)
    swap(repository)
    (repository / "z" / "deep" / "a.log").write_text("mine")
    (repository / "other").mkdir()
    git(repository / "other", "init", "-q")
    (repository / "other" / "f").write_text("theirs")
    found, _ = put_back(str(repository), kept.commit, "t", 2, PATIENT)
    why = {change.path: change.why for change in found if change.kind == "avoid"}
    assert why == {"z": UNSAVED, "other/": NESTED}
    assert (repository / "z" / "deep" / "a.log").read_text() == "mine"
    assert (repository / "b" / "c").read_text() == "good b/c"


def test_a_swap_that_is_killed_at_any_removal_or_rename_is_finished(repository: Path, tmp_path: Path) -> None:
    """Called again with the same snapshots, it restores the rest."""
    root = str(repository)
    kept = keep(root, "t", 1, PATIENT)

    def killed_after(steps: int, before: str, staging: Path) -> int:
        def work() -> None:
            left = steps

            def counted(real: Callable[..., None]) -> Callable[..., None]:
                def step(*given: object, **named: object) -> None:
                    nonlocal left
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    real(*given, **named)

                return step

            for name in ("unlink", "rmdir", "rename"):
                setattr(os, name, counted(getattr(os, name)))
            restore(root, kept.commit, before, str(staging), PATIENT)

        return in_child(work)

    for steps in range(20):
        for name in FILES:
            path = repository / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        shutil.rmtree(repository / "b", ignore_errors=True)
        swap_from_nothing(repository)
        before = keep(root, "t", 10 + steps, PATIENT)
        staging = tmp_path / f"s{steps}"
        staging.mkdir()
        code = killed_after(steps, before.commit, staging)
        again = tmp_path / f"a{steps}"
        again.mkdir()
        restore(root, kept.commit, before.commit, str(again), PATIENT)
        assert content(repository) == {name: f"good {name}" for name in FILES}, steps
        if code == 0:
            break
    assert (code, steps > 5) == (0, True)


def swap_from_nothing(root: Path) -> None:
    (root / "b").write_text("now a file")
    (root / "z" / "deep").mkdir(parents=True)
    (root / "z" / "deep" / "inside").write_text("x")
    (root / "run.sh").write_text("spoilt")


def test_a_read_only_file_in_a_read_only_folder_is_restored(repository: Path) -> None:
    """Its mode, and that of the folder, stay."""
    kept = keep(str(repository), "t", 1, PATIENT)
    (repository / "b" / "c").write_text("spoilt")
    (repository / "b" / "c").chmod(0o444)
    (repository / "b").chmod(0o555)
    found, _ = put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert found == [RollbackChange("restore", "b/c")]
    assert (repository / "b" / "c").read_text() == "good b/c"
    assert ((repository / "b" / "c").stat().st_mode & 0o777, (repository / "b").stat().st_mode & 0o777) == (
        0o444,
        0o555,
    )


def test_policies_of_any_place_stay(repository: Path) -> None:
    """A rollback brings back no earlier policy: it may permit more."""
    names = ("sub/.aex/policy.aex", "tasks/one.aex", "tasks/one.aex.signature.json", "sub/.AEX/x", "aex.policy.json")
    for name in names:
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("wide")
    kept = keep(str(repository), "t", 1, PATIENT)
    for name in names:
        (repository / name).write_text("narrow")
    found, _ = put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert sorted(found) == sorted(RollbackChange("avoid", name, POLICY) for name in names)
    assert {(repository / name).read_text() for name in names} == {"narrow"}


def test_a_submodule_stays(repository: Path, tmp_path: Path) -> None:
    """Its files belong to another repository."""
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    for text in ("one", "two"):
        (inner / "f").write_text(text)
        git(inner, "add", "f")
        git(inner, "commit", "-qm", text)
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "mod")
    git(repository, "commit", "-qm", "with a submodule")
    kept = keep(str(repository), "t", 1, PATIENT)
    git(repository / "mod", "checkout", "-q", "HEAD~1")
    git(repository, "add", "mod")
    found, _ = put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert found == [RollbackChange("avoid", "mod", SUBMODULE)]
    assert (repository / "mod" / "f").read_text() == "one"


def test_a_place_on_another_file_system_is_replaced_at_once_too(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content is copied beside the file first where a rename cannot reach it."""
    kept = keep(str(repository), "t", 1, PATIENT)
    write_all(repository, "spoilt")
    (repository / "run.sh").unlink()
    (repository / "run.sh").symlink_to("z")
    real = os.rename

    def rename(source: str, target: str, **named: int) -> None:
        if "src_dir_fd" not in named:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        real(source, target, **named)

    monkeypatch.setattr(os, "rename", rename)
    put_back(str(repository), kept.commit, "t", 2, PATIENT)
    assert content(repository) == {name: f"good {name}" for name in FILES}
    assert not (repository / "run.sh").is_symlink()
    assert sorted(os.listdir(repository)) == [".git", "b", "run.sh", "z"]


def test_content_that_cannot_be_staged_changes_no_file(repository: Path) -> None:
    """All content is written before the first file is replaced: a full disk leaves everything as it was."""
    (repository / "large").write_text("x" * 500_000)
    kept = keep(str(repository), "t", 1, PATIENT)
    write_all(repository, "spoilt")
    (repository / "large").unlink()

    def with_little_space() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with pytest.raises(StoreError):
            put_back(str(repository), kept.commit, "t", 2, PATIENT)

    assert in_child(with_little_space) == 0
    assert content(repository) == {name: f"spoilt {name}" for name in FILES}


# --- the journal


def test_a_journal_of_somebody_else_is_not_believed(repository: Path) -> None:
    """A cloned repository cannot bring a rollback of its own."""
    folder = repository / ".aex" / "rollback"
    folder.mkdir(parents=True)
    (folder / "journal.json").write_text('{"task":"t","page":"p","seq":1,"state":true,"seal":"00"}')
    with pytest.raises(RefusedError, match="not written by you"):
        interrupted(str(repository))
    (folder / "journal.json").write_text("{")
    with pytest.raises(InvalidError, match="not the journal of a rollback"):
        interrupted(str(repository))


def test_only_one_rollback_at_a_time(repository: Path) -> None:
    """The second one is refused while the first one runs, and no folder is left behind."""
    with (
        rollback_journal.lock_rollback(str(repository)),
        pytest.raises(StoreError, match="locked"),
        rollback_journal.lock_rollback(str(repository)),
    ):
        pass
    assert not (repository / ".aex").exists()


# --- what is kept


def test_files_are_kept_by_default_and_nothing_is_said_outside_of_a_repository(
    repository: Path, tmp_path: Path
) -> None:
    """Without settings a page has the files; one setting turns it off; a folder without git is no fault."""
    kept, notes = for_page(str(repository), "t", 1, PATIENT)
    assert (set(kept["files"]), notes) == ({"commit", "ref", "leftOut"}, [])
    off = msgspec.structs.replace(PATIENT, keep_files=False)
    plain = tmp_path / "plain"
    plain.mkdir()
    assert for_page(str(repository), "t", 2, off) == for_page(str(plain), "t", 3, PATIENT) == ({}, [])
    assert git(repository, "status", "--porcelain", "--ignored=no").splitlines()[0].startswith("??")


def test_a_snapshot_and_their_number_are_bounded(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exceeds the bytes of one is left out and said; the oldest of too many are forgotten."""
    monkeypatch.setattr(git_snapshot, "MAX_NEW_BYTES", 20)
    kept, notes = for_page(str(repository), "t", 1, PATIENT)
    assert len(kept["files"]["leftOut"]) == 2
    assert notes[0].startswith("not saved, too large or not readable: ")
    monkeypatch.setattr(git_snapshot, "MAX_KEPT", 2)
    for number in range(2, 6):
        keep(str(repository), "t", number, PATIENT)
    refs = git(repository, "for-each-ref", "--format=%(refname)", "refs/adjourn").split()
    assert len(refs) <= 2 + git_snapshot.LOOK_EVERY
    assert "refs/adjourn/checkpoints/t/5" in refs


def test_the_disk_that_kept_files_take_is_what_they_added(repository: Path, tmp_path: Path) -> None:
    """A snapshot without a change takes next to nothing, since the commit that it follows has the files."""
    assert kept_files(str(repository)) == kept_files(str(tmp_path)) == KeptFiles()
    keep(str(repository), "t", 1, DEFAULT)
    few = kept_files(str(repository))
    assert (few.snapshots, few.size < 2_000) == (1, True)
    (repository / "new.bin").write_bytes(os.urandom(100_000))
    keep(str(repository), "t", 2, DEFAULT)
    many = kept_files(str(repository))
    assert (many.snapshots, 100_000 < many.size < 110_000) == (2, True)
