"""What keeps an open page up to date: server-sent events that say that the store has changed. The page then asks for itself again.

One look at the heads of all streams serves every open page.

Owns: that look, the events. Must never: send content; a page that missed an event has missed nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request

from adjourn.errors import AdjournError
from adjourn.store import Head
from adjourn.ui.site import Site

LOOK_SECONDS = 0.25
"""How often the store is looked at while a page is open."""
REFRESH_SECONDS = 15.0
"""How often a page is told to refresh without a change: questions expire, sessions die."""
MAX_PAGES = 64


class Live:
    """The events of one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._version = 0
        self._heads: dict[str, Head] = {}
        self._changed = anyio.Event()
        self._open = 0

    async def watch(self) -> None:
        """Look at the store until this is cancelled; at rest while no page is open."""
        refreshed = anyio.current_time()
        while True:
            await anyio.sleep(LOOK_SECONDS)
            if not self._open:
                continue
            heads = await anyio.to_thread.run_sync(self._look)
            is_due = anyio.current_time() - refreshed >= REFRESH_SECONDS
            if heads != self._heads or is_due:
                refreshed = anyio.current_time()
                self._heads = heads
                self.announce()

    def announce(self) -> None:
        """Send every open page an event."""
        self._version += 1
        self._changed.set()
        self._changed = anyio.Event()

    def _look(self) -> dict[str, Head]:
        with suppress(AdjournError):  # the page says what is wrong with the store
            store = self._site.find_store()
            if store is not None:
                return store.streams()
        return {}

    async def follow(self, request: Request) -> EventSourceResponse:
        """The events of one open page."""
        del request
        return EventSourceResponse(self.events(), ping=30)

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """One at once, and one for each change, or for several."""
        if self._open >= MAX_PAGES:
            return
        self._open += 1
        try:
            while True:
                sent = self._version
                yield ServerSentEvent(data=str(sent), event="changed")
                if self._version == sent:  # else it changed while the event was on its way
                    await self._changed.wait()
        finally:
            self._open -= 1
