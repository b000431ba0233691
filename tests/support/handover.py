"""Work that is saved on one machine, and carried to another one."""

from __future__ import annotations

import shutil

from adjourn.clients.client import ClientContext
from adjourn.host import keys
from adjourn.host.process import Process
from adjourn.log.canonical_json import digest
from support.workspace import Workspace

FAR = Process("elsewhere:1b4e28ba:4026531836", 4711, 90210)
"""A process on a machine that cannot be examined."""


def saved(workspace: Workspace, *tools: str, name: str = "fix-auth") -> str:
    """A client works, saves and goes; returns the task."""
    context = workspace.context("first")
    context.process = FAR
    workspace.work(context, *(tools or ("file.read", "tests.run", "network.fetch")))
    made = workspace.save(context, name)
    workspace.leave(context)
    return made.event.task


def far_work(workspace: Workspace) -> ClientContext:
    """A client on a machine that cannot be seen has made one call in this workspace, and its session is open."""
    workspace.use()
    context = workspace.context()
    context.process = FAR
    workspace.work(context, "file.read")
    return context


def carried(here: Workspace, there: Workspace, name: str = "fix-auth") -> None:
    """What git does: the folder, and nothing else."""
    shutil.copytree(here.folder(name), there.folder(name), dirs_exist_ok=True)


def trusting(there: Workspace, here: Workspace) -> None:
    here.use()
    public = keys.own_public_key()
    there.use()
    keys.trust(f"key-{digest(public)[:6]}", public)
