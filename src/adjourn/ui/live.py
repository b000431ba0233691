"""What keeps open pages up to date: events when the store has changed, and answers that several pages get alike."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from adjourn.errors import AdjournError
from adjourn.store.base import Head
from adjourn.ui.pages.inbox import count_waiting
from adjourn.ui.site import Site

LOOK_SECONDS = 0.2
"""How often the store is looked at while a page is open."""
REST = 4
"""How many times as long as a look computed there is none."""
READ_PAUSE = 0.01
"""Seconds between two looks while tasks are left to be read: requests go first."""
REFRESH_SECONDS = 15.0
"""How often a page is told to refresh without a change: questions expire, sessions die."""
MAX_PAGES = 64


class _Seen(NamedTuple):
    """What the last event was about: where the streams end, how many tasks were left to be read, and the last change of kept answers."""

    heads: Mapping[str, Head]
    left: int
    answers: int = 0


class Live:
    """The events of one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.version = 0
        """The number of the last event."""
        self.renewed = 0
        """How often pages were told to refresh whether or not something changed."""
        self._seen: _Seen = _Seen({}, 1)
        self._changed = anyio.Event()
        self._open = 0

    async def watch(self) -> None:
        """Look at the store until this is cancelled; at rest while no page is open, once all tasks are read."""
        refreshed = renewed = anyio.current_time()
        pause = 0.0
        while True:
            await anyio.sleep(pause)
            if not self._open and not self._seen.left:
                pause = LOOK_SECONDS
                continue
            seen, took = await anyio.to_thread.run_sync(self._timed_look, abandon_on_cancel=True)
            pause = READ_PAUSE if seen.left else max(LOOK_SECONDS, REST * took)
            ended = anyio.current_time()
            if seen != self._seen or ended - refreshed >= REFRESH_SECONDS:
                if ended - renewed >= REFRESH_SECONDS:
                    renewed = ended
                    self.renewed += 1
                refreshed = ended
                self._seen = seen
                self.announce()

    async def watch_others(self) -> None:
        """Look at the person's other workspaces until this is cancelled, while a page is open: apart, so that none delays this one."""
        seen: Sequence[_Seen] = ()
        pause = LOOK_SECONDS
        while True:
            await anyio.sleep(pause)
            if not self._open:
                pause = LOOK_SECONDS
                continue
            last, took = await anyio.to_thread.run_sync(self._timed_look_at_others, abandon_on_cancel=True)
            pause = READ_PAUSE if any(each.left for each in last) else max(LOOK_SECONDS, REST * took)
            if last != seen:
                seen = last
                self.announce()

    def _timed_look_at_others(self) -> tuple[Sequence[_Seen], float]:
        began = time.thread_time()
        return [_look_elsewhere(other) for other in self._site.others()], time.thread_time() - began

    def announce(self) -> None:
        """Send every open page an event."""
        self.version += 1
        self._changed.set()
        self._changed = anyio.Event()

    def _timed_look(self) -> tuple[_Seen, float]:
        """A look, and the seconds that it computed."""
        began = time.thread_time()
        return _look(self._site), time.thread_time() - began

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
                sent = self.version
                yield ServerSentEvent(data=str(sent), event="changed")
                if self.version == sent:  # else it changed while the event was on its way
                    await self._changed.wait()
        finally:
            self._open -= 1


def _look(site: Site) -> _Seen:
    with suppress(AdjournError):  # the page says what is wrong with the store
        store = site.find_store()
        if store is not None:
            left = site.overview.look(store).left
            return _Seen(site.overview.heads, left, site.held.version)
    return _Seen({}, 0)


def _look_elsewhere(site: Site) -> _Seen:
    """A look at another workspace, with how much waits there: the inbox of this one says so."""
    seen = _look(site)
    with suppress(AdjournError):
        store = site.find_store()
        if store is not None:
            count_waiting(site, store, within=2 * LOOK_SECONDS)
    return seen


# --- answers that several open pages get alike

MAX_SHARED = 64
"""Answers that are kept; the ones asked for longest ago go first."""


class _SharedAnswer:
    """The answer for one address, for as long as what it shows is in this `state`."""

    def __init__(self, state: object) -> None:
        self.state = state
        self.lock = anyio.Lock()
        self.response: Response | None = None


class SharedAnswers:
    """The last answers, by address."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _SharedAnswer] = OrderedDict()

    async def of(self, address: str, state: object, make: Callable[[], Awaitable[Response]]) -> Response:
        """The answer for an address, made since what it shows is in this `state`."""
        shared = self._answers.get(address)
        if shared is None or shared.state != state:
            shared = self._answers[address] = _SharedAnswer(state)
        self._answers.move_to_end(address)
        if len(self._answers) > MAX_SHARED:
            self._answers.popitem(last=False)
        async with shared.lock:
            if shared.response is None:
                shared.response = await make()
            return shared.response
