"""Fixtures that unit tests of several packages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.runs import Bench
from support.task_sessions import SharedTask
from support.workspace import Workspace


@pytest.fixture(params=["memory", "sqlite"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """A workspace over each of the local stores."""
    workspace = Workspace(tmp_path, monkeypatch, store=request.param)
    yield workspace
    workspace.store.close()


@pytest.fixture
def memory_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace over a store in memory."""
    return Workspace(tmp_path, monkeypatch)


@pytest.fixture
def shared_task() -> SharedTask:
    return SharedTask()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A workspace in which contracts are run."""
    return Bench(tmp_path, monkeypatch)
