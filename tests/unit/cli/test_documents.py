"""Which files a command line means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adjourn.cli import lookup
from adjourn.errors import UsageError


def test_files_are_taken_as_they_are_named() -> None:
    """A file is not looked for, has any ending, and counts once."""
    assert lookup.named(["missing", "-", "x.txt", "missing"]) == ["missing", "-", "x.txt"]


def test_a_folder_with_too_many_documents_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on what one folder stands for, and the message names the folder."""
    monkeypatch.setattr(lookup, "MAX_FILES", 2)
    for name in ("a", "b"):
        (tmp_path / f"{name}.aex").touch()
    assert len(lookup.named([str(tmp_path)])) == 2
    (tmp_path / "c.aex").touch()
    with pytest.raises(UsageError, match=str(tmp_path)):
        lookup.named([str(tmp_path)])


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be examined stops the command: it might hold a document that is wrong."""
    (tmp_path / "a.aex").touch()
    (tmp_path / "inner").mkdir()
    listed = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("inner"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        lookup.named([str(tmp_path)])
