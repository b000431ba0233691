"""The events that keep a page up to date: none is lost, and they say nothing of what has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio

from adjourn.ui.app import MAX_PAGES, Live
from adjourn.ui.site import Site
from support.page_in_memory import ANN
from support.task_sessions import SharedTask
from support.waiting import opened

SECONDS = 20.0


def live_of(shared: SharedTask) -> Live:
    return Live(Site("/srv/shop", "/srv/shop", lambda: shared.store, ANN, shared.clock))


async def upcoming(events: AsyncIterator[Any]) -> str:
    with anyio.fail_after(SECONDS):
        return str((await anext(events)).event)


def test_a_change_is_announced() -> None:
    """An open page gets an event at once, and one when a task appears in the store."""
    shared = SharedTask()

    async def scenario() -> None:
        live = live_of(shared)
        async with anyio.create_task_group() as group:
            group.start_soon(live.watch)
            events = live.events()
            assert await upcoming(events) == "changed"
            opened(shared)
            assert await upcoming(events) == "changed"
            group.cancel_scope.cancel()

    anyio.run(scenario)


def test_a_change_while_an_event_is_on_its_way_is_not_lost() -> None:
    """A page that is being sent an event gets another one for what changes meanwhile."""

    async def scenario() -> None:
        live = live_of(SharedTask())
        events = live.events()
        await upcoming(events)
        live.announce()  # before the page waits again
        assert await upcoming(events) == "changed"

    anyio.run(scenario)


def test_more_pages_than_there_may_be_are_not_kept_up_to_date() -> None:
    """The number of open pages is bounded, and a page that closes makes room."""

    async def scenario() -> None:
        live = live_of(SharedTask())
        pages = [live.events() for _ in range(MAX_PAGES)]
        for page in pages:
            await upcoming(page)
        assert [event async for event in live.events()] == []
        await pages.pop().aclose()  # type: ignore[attr-defined]  # it is a generator
        assert await upcoming(live.events()) == "changed"

    anyio.run(scenario)
