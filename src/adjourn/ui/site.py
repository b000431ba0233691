"""What every page is made of: the workspace, its store, and the person who looks.

Owns: `Site`. Must never: make a store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from adjourn import host, tasks
from adjourn.errors import NotFoundError
from adjourn.handover import QuietStream
from adjourn.knowledge.model import CRAuthor
from adjourn.knowledge.records import CRStore
from adjourn.log import Actor
from adjourn.store import Store
from adjourn.tasks import Task


class Site(msgspec.Struct, frozen=True):
    """A workspace as it is served: `root` has its policy, `tree` its files. `find_store` gives the store once there is one.

    `quiet` is what the inbox need not read again, `rows` what the list of tasks knows of each.
    """

    root: str
    tree: str
    find_store: Callable[[], Store | None]
    person: Actor
    clock: Callable[[], int]
    quiet: dict[str, QuietStream] = {}
    rows: dict[str, Any] = {}

    @property
    def author(self) -> CRAuthor:
        """The person, as records name authors."""
        return CRAuthor(id=self.person.id, type="human")

    def task(self, store: Store, name: str, *, writable: bool = False) -> Task:
        """A task by its whole id. Raises `NotFoundError`."""
        secret = host.secret() if writable else host.reading_secret()
        found = tasks.existing(store, name, clock=self.clock, secret=secret)
        if found.id != name:
            raise NotFoundError(f"no task has the id {name!r}", "reload the page")
        return found

    def records(self, store: Store) -> CRStore:
        """The records of a store."""
        return CRStore(store, clock=self.clock)
