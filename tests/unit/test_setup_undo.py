"""Taking a set-up back after it was cut off: the runs before it can still be taken back."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from adjourn.errors import NotFoundError, StoreError
from adjourn.setup import undo
from adjourn.setup.places import home
from adjourn.setup.plan import Change

HELD, WANTED = '{"held": 0}', '{"a": 1}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def undone(root: Path) -> None:
    files, left = undo.undoable(str(root), home({"HOME": str(root.parent / "home")}))
    assert left == []
    undo.take_back(files, str(root), keep=False)


def change(root: Path, text: str) -> Change:
    path = root / ".mcp.json"
    return Change(str(path), path.read_text() if path.exists() else None, text, ["a test"])


@pytest.mark.parametrize("unwritten", [HELD, WANTED])
def test_a_disk_that_fails_is_told_and_leaves_everything_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch, unwritten: str
) -> None:
    """Whether the copy or the client's file cannot be written: the error says what to do, and half a file is left nowhere."""
    path = root / ".mcp.json"
    path.write_text(HELD)
    sync = os.fsync

    def fsync(handle: int) -> None:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_size == len(unwritten):
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(StoreError, match=r"cannot write .*No space left on device \(free space"):
        undo.make([change(root, WANTED)], str(root))
    assert path.read_text() == HELD
    assert {file.name for file in root.rglob("*") if file.is_file()} == {".mcp.json", ".gitignore"}


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_file_keeps_its_permissions_and_its_copy_is_for_its_owner(root: Path, mode: int) -> None:
    """A client's file may hold secrets: no copy of it is more open, and itself is as open as it was, before and after."""
    path = root / ".mcp.json"
    path.write_text(HELD)
    path.chmod(mode)
    undo.make([change(root, WANTED)], str(root))
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert {stat.S_IMODE(file.stat().st_mode) for file in (root / undo.FOLDER / "1").iterdir()} == {0o600}
    undone(root)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (HELD, mode)


@pytest.mark.parametrize("step", range(8))
def test_a_kill_while_setting_up_leaves_everything_to_be_taken_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Whatever step is the last one: the file is as it was, or as it was to be, and goes back to what it was at first."""

    class Killed(BaseException):
        """Nothing catches it."""

    path = root / ".mcp.json"
    path.write_text("{}")
    undo.make([change(root, '{"a": 1}')], str(root))
    left = step
    sync = os.fsync

    def fsync(handle: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fsync)
        with suppress(Killed):
            undo.make([change(root, '{"b": 2}')], str(root))
    assert path.read_text() in ('{"a": 1}', '{"b": 2}')
    undo.make([change(root, '{"c": 3}')], str(root))
    undone(root)
    assert path.read_text() == "{}"
    with pytest.raises(NotFoundError):
        undo.undoable(str(root), home({"HOME": str(root.parent / "home")}))
