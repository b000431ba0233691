"""Fixtures that the tests of resuming share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.workspace import Workspace


@pytest.fixture(params=["memory", "sqlite"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """A workspace over each of the local stores, with room for `two` beside it."""
    workspace = Workspace(tmp_path / "a", monkeypatch, store=request.param)
    yield workspace
    workspace.store.close()


@pytest.fixture
def memory_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace over a store in memory, with room for `two` beside it."""
    return Workspace(tmp_path / "a", monkeypatch)


@pytest.fixture
def two(memory_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Another machine, in use, with another user's keys. The first one's keys are trusted when `trusting` was called."""
    return Workspace(tmp_path / "b", monkeypatch)
