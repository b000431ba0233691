"""Checkpoints in a workspace for tests of kills and races."""

from __future__ import annotations

import os
from typing import Any

from adjourn.checkpoints.save import save_checkpoint
from adjourn.host.process import Process
from support.workspace import Workspace

HERE = Process("here", os.getpid(), 1)


def mark(workspace: Workspace, name: str = "m", group: str = "g1") -> Any:
    workspace.clock.move(seconds=60)
    session = workspace.work(workspace.context(group), "file.read")
    return save_checkpoint(session.task, str(workspace.root), name, budget=20, sitting=session)
