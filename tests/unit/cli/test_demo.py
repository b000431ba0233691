"""`adjourn demo` where it cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from adjourn.cli.demo import demo
from adjourn.errors import AdjournError


def test_without_git_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is downloaded: the demonstration makes a commit, and needs git for it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    failed = CliRunner().invoke(demo).exception
    assert isinstance(failed, AdjournError)
    assert failed.remedy.startswith("install git")
    assert not (tmp_path / "cache").exists()
