"""Taking a set-up back after it was cut off: the runs before it can still be taken back."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from adjourn.errors import NotFoundError
from adjourn.setup import undo
from adjourn.setup.places import home
from adjourn.setup.plan import Change


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
