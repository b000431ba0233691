"""Files of the user (settings, indexes, texts) whose writing is cut off before each step, or done by two processes at once: nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import suppress
from datetime import UTC, datetime
from inspect import unwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.checkpoints import git_snapshot
from adjourn.cli import checkpoint as checkpoint_commands
from adjourn.code.index.index import CodeIndex
from adjourn.code.repository import CodeRepository
from adjourn.code.search import context
from adjourn.errors import AdjournError, ConflictError, NotFoundError
from adjourn.host.workspace import create_file, make_folder
from adjourn.policy.destructive import DEFAULT
from adjourn.setup import undo
from adjourn.setup.places import home
from adjourn.setup.planning import SettingsChange
from support.checkpoints import mark, snapshots
from support.kills import each_step
from support.workspace import Workspace

# --- files that are kept


def test_what_two_rollbacks_kept_is_both_there(tmp_path: Path) -> None:
    """Going back to files alone adds no event, so that the next time has the same number: each has a ref of its own."""
    root = tmp_path / "r"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    patient = msgspec.structs.replace(DEFAULT, keep_seconds=60.0)
    (root / "a").write_text("first")
    first = git_snapshot.keep(str(root), "t", 5, patient)
    (root / "a").write_text("second")
    second = git_snapshot.keep(str(root), "t", 5, patient)
    assert snapshots(root, "t") == {first.ref: first.commit, second.ref: second.commit}


# --- setting up


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


PLACES = (".mcp.json", ".cursor/mcp.json")


def set_up(root: Path, text: str) -> list[SettingsChange]:
    paths = [root / place for place in PLACES]
    return [SettingsChange(str(path), path.read_text() if path.exists() else None, text, ["a test"]) for path in paths]


def undone(root: Path) -> None:
    files, left = undo.undoable(str(root), home({"HOME": str(root.parent / "home")}))
    assert left == []
    undo.take_back(files, str(root), keep=False)


def held(root: Path) -> list[str | None]:
    return [(root / place).read_text() if (root / place).exists() else None for place in PLACES]


def begun(root: Path, *texts: str) -> None:
    """A workspace with one file of a client, in which these set-ups were made."""
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (root / PLACES[0]).write_text("{}")
    for text in texts:
        undo.make(set_up(root, text), str(root))


def test_a_kill_while_a_set_up_is_taken_back_is_made_good_by_the_next(root: Path) -> None:
    """After two runs, killed before any step: taking back again brings every file to what it was at first, and so does a later run."""

    def check() -> None:
        with suppress(NotFoundError):
            undone(root)
        assert held(root) == ["{}", None]
        undo.make(set_up(root, '{"c": 3}'), str(root))
        undone(root)
        assert held(root) == ["{}", None]

    two = ('{"a": 1}', '{"b": 2}')
    assert each_step(lambda: begun(root, *two), lambda: undone(root), check) > 5


def test_a_kill_while_a_later_set_up_follows_is_made_good(root: Path) -> None:
    """What a killed taking back left behind does not keep a set-up that is made after it from being taken back."""

    def check() -> None:
        undo.make(set_up(root, '{"c": 3}'), str(root))
        undone(root)
        assert held(root) == ["{}", None]

    two = ('{"a": 1}', '{"b": 2}')
    assert each_step(lambda: begun(root, *two), lambda: undone(root), check) > 5


def test_a_kill_while_a_failed_set_up_is_forgotten_leaves_the_earlier_ones(root: Path) -> None:
    """A run that could not be made is abandoned; what was set up before it can be taken back, whichever step was the last."""

    def act() -> None:
        wanted = set_up(root, '{"b": 2}')
        wanted[1] = wanted[1]._replace(before='{"z": 0}')
        with pytest.raises(ConflictError):
            undo.make(wanted, str(root))

    def check() -> None:
        undone(root)
        assert held(root) == ["{}", None]

    assert each_step(lambda: begun(root, '{"a": 1}'), act, check) > 5


def test_of_two_set_ups_at_once_one_is_made_and_can_be_taken_back(root: Path) -> None:
    """The other one learns that the files were changed, and takes nothing of the first one's copies with it."""
    (root / PLACES[0]).write_text("{}")
    first, second = set_up(root, '{"a": 1}'), set_up(root, '{"b": 2}')
    real = create_file
    between, go_on = threading.Event(), threading.Event()
    told: list[BaseException] = []

    def slow(folder: str, name: str, *args: Any) -> bool:
        if name == "0" and not between.is_set():
            between.set()
            assert go_on.wait(10)
        return real(folder, name, *args)

    def run(changes: list[SettingsChange]) -> None:
        try:
            undo.make(changes, str(root))
        except ConflictError as error:
            told.append(error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undo, "create_file", slow)
        one = threading.Thread(target=run, args=(first,))
        one.start()
        assert between.wait(10)
        other = threading.Thread(target=run, args=(second,))
        other.start()
        other.join(0.3)
        go_on.set()
        one.join()
        other.join()
    assert len(told) == 1
    assert held(root) == ['{"a": 1}'] * 2
    undone(root)
    assert held(root) == ["{}", None]


# --- the index of code


@pytest.mark.extra("code")
def test_an_index_made_anew_keeps_work_trees_apart(tmp_path: Path) -> None:
    """A process that forgets the index makes no other one take its files for its own."""
    main, linked = tmp_path / "main", tmp_path / "linked"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q", str(main)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=main, check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(linked)], cwd=main, check=True)
    (main / "one.py").write_text("def first(): ...\n")
    (linked / "two.py").write_text("def second(): ...\n")
    here, there = CodeIndex(CodeRepository(str(main))), CodeIndex(CodeRepository(str(linked)))
    try:
        here.sync()
        there.sync()
        there.sync(force=True)
        assert here.synced() is None
        assert not here.contains("two.py")
        assert here.sync().added == 1
        assert [here.contains("one.py"), here.contains("two.py")] == [True, False]
        assert [there.contains("one.py"), there.contains("two.py")] == [False, True]
    finally:
        here.close()
        there.close()


# --- what people and models write


def test_what_a_failed_editor_left_is_not_written_over(
    memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Editing again takes another file, so that the text which the first message names is still there."""
    mark(memory_workspace)
    edit = checkpoint_commands.edit.callback
    assert edit is not None
    monkeypatch.chdir(memory_workspace.root)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "$TEXT" > "$1"\nexit 1\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    for text in ("an hour of work", "a second try"):
        monkeypatch.setenv("TEXT", text)
        with pytest.raises(AdjournError, match=r"your text is in tmp/\.checkpoint-active\.edit"):
            unwrap(edit)(page="")
    left = sorted((memory_workspace.root / "tmp").glob(".*edit*"))
    assert sorted(path.read_text() for path in left) == ["a second try\n", "an hour of work\n"]


def test_summaries_of_two_processes_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one keeps while another one is about to is in the file with it."""
    (tmp_path / ".git").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(name)
    repository = CodeRepository(str(tmp_path))
    real, threads = context._save, list[threading.Thread]()

    def keep(name: str) -> None:
        context.update_context(repository, [{"path": name, "summary": name}], now=datetime.now(UTC))

    def meanwhile(*args: Any) -> None:
        monkeypatch.setattr(context, "_save", real)
        threads.append(threading.Thread(target=keep, args=("b.md",)))
        threads[0].start()
        threads[0].join(0.5)
        real(*args)

    context.initialise(repository)
    monkeypatch.setattr(context, "_save", meanwhile)
    keep("a.md")
    threads[0].join()
    assert {found["path"] for found in context.load(repository)["essential_docs"]["summaries"]} == {"a.md", "b.md"}


def test_a_folder_is_made_durably(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder that is made is synced into the one that it is in: without that, a loss of power takes its files along."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    (tmp_path / "a").mkdir()
    make_folder(str(tmp_path), "a/b/c")
    assert synced == [(tmp_path / "a").stat().st_ino, (tmp_path / "a" / "b").stat().st_ino]
