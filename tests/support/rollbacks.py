"""Workspaces that have something to roll back."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints.page import AgentReport
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint
from adjourn.tasks.decision import ToolRequest
from support.workspace import Workspace


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.quotePath=false"]
    done = subprocess.run(["git", *who, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


def make_workspace(path: Path, patch: pytest.MonkeyPatch, *, store: str = "memory") -> Workspace:
    """A workspace that keeps its files before destructive calls."""
    workspace = Workspace(path, patch, store=store)
    (workspace.root / ".aex" / "policy.aex").write_text('policy work v1\ngoal "do it"\nallow *\nbudget calls=50\n')
    (workspace.root / ".aex" / "discipline.json").write_text('{"keepFiles": true}')
    git(workspace.root, "init", "-q")
    return workspace


def deployed(workspace: Workspace) -> Any:
    """A session that was about to deploy, and spoilt a file since."""
    context = workspace.context()
    (workspace.root / "a").write_text("good")
    session = workspace.work(context, "file.read")
    _save(workspace, session, "m", "deploy")
    call = ToolRequest(tool="deploy.run", digest="1" * 64, arguments='{"to":"prod"}')
    workspace.clock.move(seconds=60)
    session, _ = context.sessions.admit([call])
    workspace.clock.move(seconds=60)
    (workspace.root / "a").write_text("spoilt")
    _save(workspace, session, "n", "go on")
    return session


def _save(workspace: Workspace, session: Any, name: str, resumption: str) -> None:
    said = AgentReport(resumption_point=resumption)
    save_checkpoint(session.task, str(workspace.root), CheckpointRequest(name, said=said), session=session)
