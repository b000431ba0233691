"""Checkpoints in a workspace, and the refs that name them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adjourn.checkpoints.git_restore import RollbackChange, restore
from adjourn.checkpoints.git_snapshot import GitSnapshot, keep
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint
from adjourn.host.process import Process
from adjourn.policy.destructive import Settings
from adjourn.store.base import Store
from support.workspace import Workspace

HERE = Process("here", os.getpid(), 1)


def mark(workspace: Workspace, name: str = "m", group: str = "g1") -> Any:
    workspace.clock.move(seconds=60)
    session = workspace.work(workspace.context(group), "file.read")
    return save_checkpoint(session.task, str(workspace.root), CheckpointRequest(name), session=session)


def named(store: Store) -> list[str]:
    """The names of checkpoints in a store, sorted."""
    return [name.removeprefix("checkpoint/") for name in store.refs("checkpoint/")]


def snapshots(root: str | Path, task: str) -> dict[str, str]:
    """The refs of the snapshots of a task's files, and their commits."""
    refs = f"refs/adjourn/checkpoints/{task}/"
    listed = ["git", "for-each-ref", "--format=%(refname) %(objectname)", refs]
    done = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def put_back(
    root: str, commit: str, task: str, number: int, settings: Settings
) -> tuple[list[RollbackChange], GitSnapshot]:
    """Restore a snapshot as a rollback does: the present files are kept first. Returns the changes, and the snapshot from before."""
    before = keep(root, task, number, settings)
    with TemporaryDirectory(dir=os.path.dirname(os.path.realpath(root))) as staging:
        return restore(root, commit, before.commit, staging, settings), before
