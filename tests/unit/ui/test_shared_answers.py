"""Open pages that show the same get one answer for each event, and never one of before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from starlette.responses import Response

from adjourn.ui.app import SharedAnswers


class Event:
    """The number of the last event, and how many answers were made."""

    def __init__(self) -> None:
        self.number = 0
        self.made = 0
        self.shared = SharedAnswers()

    def making(self, *, fails: bool = False) -> Callable[[], Awaitable[Response]]:
        async def make() -> Response:
            self.made += 1
            number = self.number
            await anyio.sleep(0.01)
            if fails:
                raise ValueError("cannot be drawn")
            return Response(str(number))

        return make

    async def ask(self, got: list[bytes], address: str = "/?") -> None:
        got.append(bytes((await self.shared.of(address, self.number, self.making())).body))


def test_pages_that_show_the_same_share_an_answer() -> None:
    """Of twenty pages at two addresses two answers are made; after the next event, two others."""

    async def scenario() -> None:
        event = Event()
        for number in (1, 2):
            event.number = number
            got: list[bytes] = []
            async with anyio.create_task_group() as group:
                for page in range(20):
                    group.start_soon(event.ask, got, "/?" if page % 2 else "/tasks?q=a")
            assert got == [str(number).encode()] * 20
            assert event.made == 2 * number

    anyio.run(scenario)


def test_who_asks_after_an_event_gets_what_was_made_after_it() -> None:
    """An answer that is still being made when the next event comes is not for those who ask then."""

    async def scenario() -> None:
        event = Event()
        early: list[bytes] = []
        late: list[bytes] = []
        async with anyio.create_task_group() as group:
            group.start_soon(event.ask, early)
            await anyio.sleep(0.005)
            event.number = 1
            group.start_soon(event.ask, late)
        assert (early, late) == ([b"0"], [b"1"])

    anyio.run(scenario)


def test_a_failure_is_kept_from_nobody_else() -> None:
    """Who asks after a failure has the answer made again."""

    async def scenario() -> None:
        event = Event()
        with pytest.raises(ValueError, match="cannot be drawn"):
            await event.shared.of("/?", event.number, event.making(fails=True))
        assert (await event.shared.of("/?", event.number, event.making())).body == b"0"

    anyio.run(scenario)
