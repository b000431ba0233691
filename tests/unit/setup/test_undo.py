"""Taking a set-up back after it was cut off: the runs before it can still be taken back."""

from __future__ import annotations

import json
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from adjourn.errors import InvalidError, NotFoundError, RefusedError, StoreError
from adjourn.setup import undo
from adjourn.setup.places import home
from adjourn.setup.planning import SettingsChange

HELD, WANTED = '{"held": 0}', '{"a": 1}'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def undone(root: Path) -> None:
    files, left = undo.undoable(str(root), home({"HOME": str(root.parent / "home")}))
    assert left == []
    undo.take_back(files, str(root), keep=False)


def change(root: Path, text: str) -> SettingsChange:
    path = root / ".mcp.json"
    return SettingsChange(str(path), path.read_text() if path.exists() else None, text, ["a test"])


@pytest.mark.parametrize(("unwritten", "nth"), [(HELD, 1), (WANTED, 1), (WANTED, 2)])
def test_a_disk_that_fails_is_told_and_leaves_everything_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch, unwritten: str, nth: int
) -> None:
    """Whether a copy or the client's file cannot be written: the error says what to do, and half a file is left nowhere."""
    path = root / ".mcp.json"
    path.write_text(HELD)
    sync = os.fsync
    tried: list[int] = []

    def fsync(handle: int) -> None:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_size == len(unwritten):
            tried.append(handle)
            if len(tried) == nth:
                raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(StoreError, match=r"cannot write .*No space left on device \(check free space"):
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
    """A kill at any step of the setup leaves each file old or new, and undo restores the old one."""

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


def test_a_folder_whose_name_is_not_utf_8_is_set_up_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest names its files, its seal covers them, and undo restores them."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    root.mkdir()
    (root / ".mcp.json").write_text(HELD)
    undo.make([change(root, WANTED)], str(root))
    assert (root / ".mcp.json").read_text() == WANTED
    undone(root)
    assert (root / ".mcp.json").read_text() == HELD


# --- an agent can write in .aex/undo


def _set_up(root: Path) -> Path:
    (root / ".mcp.json").write_text(HELD)
    undo.make([change(root, WANTED)], str(root))
    return root / ".aex" / "undo" / "1"


def test_a_copy_that_was_changed_is_not_restored(root: Path) -> None:
    """A backup that was changed is not restored, because the seal covers its content."""
    (_set_up(root) / "0").write_text('{"evil": 1}')
    with pytest.raises(InvalidError, match="the saved copy was changed"):
        undone(root)
    assert (root / ".mcp.json").read_text() == WANTED


@pytest.mark.parametrize("member", ["now", "held", "was", "made", "path", "seal", ""])
def test_a_manifest_that_was_changed_or_made_by_another_is_not_followed(root: Path, member: str) -> None:
    """Every member is under the user's seal."""
    run = _set_up(root)
    (run / "1").write_text('{"evil": 1}')
    manifest = json.loads((run / "manifest.json").read_text())
    changed = {"now": "0" * 64, "held": "1", "was": "0" * 64, "made": 1, "path": str(root / ".aex/policy.aex")}
    if member == "":
        del manifest["seal"]
    elif member == "seal":
        manifest["seal"] = "0" * 64
    else:
        manifest["files"][0][member] = changed[member]
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InvalidError, match="fails verification"):
        undone(root)
    assert (root / ".mcp.json").read_text() == WANTED


def test_a_run_counts_under_its_number_and_in_its_workspace_alone(root: Path) -> None:
    """One that is copied to another place is not followed there."""
    shutil.copytree(_set_up(root), root / ".aex" / "undo" / "2")
    with pytest.raises(InvalidError, match=r"undo/2.*fails verification"):
        undone(root)
    shutil.rmtree(root / ".aex" / "undo" / "2")
    other = root.parent / "other"
    shutil.copytree(root, other)
    with pytest.raises(InvalidError, match="fails verification"):
        undone(other)
    undone(root)
    assert (root / ".mcp.json").read_text() == HELD


def test_nothing_is_set_up_with_keys_in_the_workspace(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting up and undoing are refused while the keys are inside the workspace, and change nothing."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(root / "config"))
    with pytest.raises(RefusedError, match="keys are inside"):
        _set_up(root)
    assert (root / ".mcp.json").read_text() == HELD
    with pytest.raises(RefusedError, match="keys are inside"):
        undone(root)
