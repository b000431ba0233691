"""Fixtures that the tests of checkpoints share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.workspace import Workspace, saved


@pytest.fixture
def saved_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A machine for what is alike over every store, with a checkpoint."""
    workspace = Workspace(tmp_path, monkeypatch)
    saved(workspace)
    return workspace
