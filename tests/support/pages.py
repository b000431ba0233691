"""Pages in a workspace: making one, their names, and their texts."""

from __future__ import annotations

import os
from typing import Any

from adjourn.checkpoints.page import NO_REPORT, AgentReport
from adjourn.checkpoints.page_files import ACTIVE
from adjourn.checkpoints.save import CheckpointRequest, SavedCheckpoint, save_checkpoint
from support.workspace import Workspace

AT = "2026-05-02-1530"


def mark(workspace: Workspace, group: str = "g1", said: AgentReport = NO_REPORT, **more: Any) -> SavedCheckpoint:
    """A client's checkpoint after a call, with a page."""
    context = workspace.context(group)
    session = workspace.work(context, "file.read")
    wanted = CheckpointRequest(more.pop("name", "m"), said=said, **more)
    return save_checkpoint(session.task, str(workspace.root), wanted, session=session)


def names(workspace: Workspace) -> list[str]:
    """The files in the folder of pages."""
    return sorted(name for name in os.listdir(workspace.root / "tmp") if name != ".gitignore")


def page(workspace: Workspace, name: str = ACTIVE) -> str:
    """The text of a page."""
    return (workspace.root / "tmp" / name).read_text()
