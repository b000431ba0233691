"""The other workspaces of this account: each has its own pages, at an address of its own, on the page of one workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock

from adjourn.errors import AdjournError
from adjourn.handover.held import UNDO_SECONDS, HeldAnswers
from adjourn.host.finding import DEFAULT_STORE
from adjourn.host.workspace_store import known_workspaces, open_at
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor
from adjourn.store.base import Store
from adjourn.ui.site import Site

MAX_OTHERS = 12
"""Workspaces that are opened, the ones used last."""


class OtherWorkspaces:
    """Opens each other workspace once, and keeps what was seen of it. `root` is the workspace of the page."""

    def __init__(self, root: str, person: Actor, clock: Callable[[], int]) -> None:
        self._own = os.path.realpath(root)
        self._person = person
        self._clock = clock
        self._lock = Lock()
        self._sites: dict[str, Site] = {}
        self._stores: list[Store] = []
        self.own: Site | None = None
        """The workspace of the page, once it is known."""

    def __call__(self) -> Sequence[Site]:
        """The workspaces that can be opened, the ones used last first."""
        with self._lock:
            roots = [root for root in known_workspaces() if root != self._own][:MAX_OTHERS]
            for root in roots:
                if root not in self._sites:
                    self._open(root)
            return [self._sites[root] for root in roots if root in self._sites]

    def _around(self, root: str) -> Sequence[Site]:
        """All workspaces but this one, the one of the page first."""
        own = [self.own] if self.own is not None else []
        return [*own, *(site for site in self() if site.root != root)]

    def close(self) -> None:
        """Close the stores."""
        with self._lock:
            for store in self._stores:
                store.close()
            self._sites.clear()

    def _open(self, root: str) -> None:
        try:
            store = open_at(root, DEFAULT_STORE)
        except (AdjournError, OSError):
            return  # `adjourn doctor` there says why
        self._stores.append(store)
        self._sites[root] = Site(
            root,
            root,
            lambda: store,
            self._person,
            self._clock,
            answers=HeldAnswers(self._clock, UNDO_SECONDS),
            others=partial(self._around, root),
            base=f"/at/{digest(os.fsencode(root))[:16]}",
        )
