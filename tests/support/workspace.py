"""A workspace that tests drive in process: policy, store, keys, clients and a clock."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints import folder
from adjourn.checkpoints.checkpoint import TaskCheckpoint, create
from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.handover.resumption import resume
from adjourn.host import keys
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.event import Actor, Event, decode
from adjourn.policy.contract import read_contract
from adjourn.store.base import Entry, Store
from adjourn.store.memory import MemoryStore
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task
from support.clock import Clock

POLICY = ("use file.read", "use file.write", "use tests.run", "deny network.*", "budget calls=20")
ANN = Actor("ann", "human")
READERS = frozenset(("file.read",))


class Workspace:
    """A workspace with a policy and a store, keys of its own, and a clock that is moved by hand."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch, *, store: str = "memory") -> None:
        self.root = path / "work"
        self.config = path / "config"
        (self.root / ".aex").mkdir(parents=True)
        self.patch = patch
        patch.setattr(os, "fsync", lambda handle: None)  # nobody pulls the plug here, and disks are slow
        self.clock = Clock()
        self.write_policy(*POLICY)
        self.store: Store = MemoryStore() if store == "memory" else open_at(str(self.root))
        self.use()

    def use(self) -> None:
        """From now on everything runs with this machine's keys."""
        self.patch.setenv("ADJOURN_CONFIG", str(self.config))

    def write_policy(self, *lines: str) -> None:
        text = "\n".join(["policy work v0", 'goal "do it"', *lines, ""])
        (self.root / ".aex" / "policy.aex").write_text(text)

    def context(
        self,
        group: str = "g1",
        *,
        contract: str = "",
        task: str = "",
        take_over: bool = False,
        on_event: Callable[[str, str], None] = lambda _event, _text: None,
    ) -> ClientContext:
        """A client's context in this workspace. ClientContexts of one group are proxies of one client."""
        read = read_contract(str(self.root), contract=contract)
        client_options = ClientOptions(root=str(self.root), contract=read, task=task, take_over=take_over)
        context = ClientContext(client_options, self.clock, on_event)
        context.client, context.group, context._store = "tester", group, self.store
        return context

    def task(self, task: str) -> Task:
        return Task(self.store, task, clock=self.clock, secret=keys.secret())

    def work(self, context: ClientContext, *tools: str) -> Session:
        """Calls of tools, each a second after the one before, and answered when it was forwarded."""
        for tool in tools:
            self.clock.move(seconds=1)
            call = ToolRequest(
                tool=tool, digest="1" * 64, effectful=tool not in READERS, arguments=f'{{"of":"{tool}"}}'
            )
            session, (admitted,) = context.sessions.admit([call])
            if admitted.call:
                session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok")])
        return context.sessions.open()

    def save(self, context: ClientContext, name: str = "fix-auth", description: str = "found it") -> TaskCheckpoint:
        """What `aex.checkpoint` does."""
        self.clock.move(seconds=1)
        session = context.sessions.open()
        made = create(session.task, name, description=description, session=session)
        folder.write(self.store, made, str(self.root))
        return made

    def resume(self, context: ClientContext, name: str = "fix-auth", more: str = "") -> dict[str, Any]:
        """What `aex.resume` answers."""
        return resume(context, name).to_json(more)

    def leave(self, context: ClientContext) -> None:
        """The client goes; the store stays open."""
        for session in context.sessions:
            session.close("eof")

    def folder(self, name: str = "fix-auth") -> Path:
        return self.root / ".aex" / "checkpoints" / name

    def entries(self, task: str) -> list[Entry]:
        return list(self.store.read(task))

    def events(self, task: str) -> list[Event]:
        """The history; an event of several readings as one for each fact."""
        return [fact for entry in self.entries(task) for fact in kinds.facts_of(decode(entry.data))]

    def facts(self, task: str, kind: type[kinds.Data]) -> list[Any]:
        return [kinds.data_of(event) for event in self.events(task) if event.event == kind.KIND]

    def everything(self) -> tuple[dict[str, list[Entry]], dict[str, str]]:
        """All that the store holds, but the blobs, which nobody finds without a name."""
        return {task: self.entries(task) for task in self.store.streams()}, self.store.refs()


def saved(workspace: Workspace) -> None:
    context = workspace.context()
    workspace.work(context, "file.read", "tests.run", "network.fetch")
    workspace.save(context, description="read the auth files")
