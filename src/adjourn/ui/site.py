"""What every page is made of: the workspace, its store, and the person who looks.

Owns: `Site`. Must never: make a store.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from adjourn import host, tasks
from adjourn.errors import NotFoundError
from adjourn.knowledge.model import CRAuthor
from adjourn.knowledge.records import CRStore
from adjourn.log import Actor
from adjourn.policy import Contract
from adjourn.store import Store
from adjourn.tasks import Task
from adjourn.ui.overview import Overview


class Site(msgspec.Struct, frozen=True):
    """A workspace as it is served: `root` has its policy, `tree` its files. `find_store` gives the store once there is one.

    A look at the store may be `within` so many seconds old: a page that follows it gets an event for what is newer. For a person of
    another machine, `home` has its checkpoints and pages, `contract` returns what its sessions work under (or raises `AdjournError`), and
    `root` and `tree` are an empty place; `words` puts the text of an error into those for the person.
    """

    root: str
    tree: str
    find_store: Callable[[], Store | None]
    person: Actor
    clock: Callable[[], int]
    within: float = 0
    home: str = ""
    contract: Callable[[], Contract] | None = None
    words: Callable[[str], str] = str
    seen_by: Overview | None = None

    def __post_init__(self) -> None:
        if self.seen_by is None:
            msgspec.structs.force_setattr(self, "seen_by", Overview(self.clock))

    @property
    def overview(self) -> Overview:
        """What is known of all tasks, by all requests."""
        assert self.seen_by is not None  # made above
        return self.seen_by

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
