"""The workspace of a command and its store, without the command-line framework: for commands that start fast.

Owns: opening a store that exists (reading must never create one), and tasks by a beginning of their id. Must never: create a store
unless the command writes one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from adjourn import host, tasks
from adjourn.cli.shared.terminal import Spinner
from adjourn.errors import NotFoundError
from adjourn.host.clock import now

if TYPE_CHECKING:
    from adjourn.store.base import Store
    from adjourn.tasks.task import Task

_READING = "reading the history"
_NO_STORE = (
    "start a session behind `adjourn proxy` to create it, or name another store with -C DIR or --store URL"
)


class StoreContext:
    """The workspace that a command was started in, and its store. `tree` is the work tree that has the files and pages."""

    def __init__(self, url: str = "") -> None:
        self.workspace = host.workspace_of()
        self.root, self.tree = self.workspace.root, self.workspace.tree
        self.named = bool(url or os.environ.get("ADJOURN_STORE"))
        """Whether a person named the store."""
        self.url = url or os.environ.get("ADJOURN_STORE", "") or host.DEFAULT_STORE
        self.now = now()
        self.clock = now
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store, which must be there. Raises `NotFoundError`."""
        found = self.store_or_none()
        if found is None:
            missing = f"there is no store at {host.shown_store(self.url)}{self._where()}"
            raise NotFoundError(
                missing if self.named else f"no session has run here yet: {missing}", _NO_STORE
            )
        return found

    def _where(self) -> str:
        """The folder of a store that is relative to the workspace, unless it is plain."""
        here, file = self.workspace, host.store_file("", self.url)
        if not file or os.path.isabs(file) or here.root == here.start == here.last:
            return ""
        return f" in {here.root}" if here.is_found else f" {here.searched()}"

    def store_or_none(self) -> Store | None:
        """The store, if there is one."""
        return self.make_store() if self._store or host.has_store(self.root, self.url) else None

    def make_store(self) -> Store:
        """The store, made if need be: for commands that write into it."""
        if self._store is None:
            self._store = host.open_at(self.root, self.url)
        return self._store

    def close(self) -> None:
        """Close the store, if it was opened."""
        if self._store is not None:
            self._store.close()

    @property
    def changes(self) -> tuple[str, ...]:
        """The real paths of what a command here changes; a store that is no file is in no folder."""
        return os.path.realpath(self.root), os.path.realpath(path) if (
            path := host.store_file(self.root, self.url)
        ) else self.url

    def task(self, name: str) -> Task:
        """A task for reading, by its id or a beginning that only it has."""
        with Spinner(_READING):
            return tasks.existing(self.store, name, clock=self.clock, secret=host.reading_secret())

    def writable(self, task: str) -> Task:
        """A task to add facts to."""
        with Spinner(_READING):
            return tasks.existing(self.store, task, clock=self.clock, secret=host.secret())
