"""Time-outs of one length, with one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from adjourn.gateway.limits import Alarms

LONG = 3600.0


def rung(seconds: float, use: Callable[[Alarms[str], list[str]], Awaitable[None]]) -> list[str]:
    """Who rang, in this order."""
    found: list[str] = []
    asyncio.run(use(Alarms(seconds, found.append), found))  # type: ignore[arg-type]  # it is a coroutine
    return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # nothing else says it
            await asyncio.sleep(0.01)


def test_each_rings_once_in_the_order_in_which_they_began() -> None:
    """Also one that begins after others have rung."""

    async def use(alarms: Alarms[str], found: list[str]) -> None:
        alarms.begin("a")
        alarms.begin("b")
        await until(lambda: len(found) == 2)
        alarms.begin("c")
        await until(lambda: len(found) == 3)
        assert not any(map(alarms.end, "abc"))

    assert rung(0.05, use) == ["a", "b", "c"]


def test_what_has_ended_does_not_ring() -> None:
    """Whoever ends it learns that it had not rung; a second time there is nothing to end."""

    async def use(alarms: Alarms[str], found: list[str]) -> None:
        alarms.begin("a")
        alarms.begin("b")
        assert alarms.end("a")
        assert not alarms.end("a")
        await until(lambda: bool(found))

    assert rung(0.05, use) == ["b"]


def test_one_that_is_extended_rings_after_those_that_began_meanwhile() -> None:
    """One that has ended is not begun by that."""

    async def use(alarms: Alarms[str], found: list[str]) -> None:
        alarms.begin("a")
        alarms.begin("b")
        alarms.extend("a")
        alarms.extend("c")
        await until(lambda: len(found) == 2)

    assert rung(0.05, use) == ["b", "a"]


def test_one_timer_is_set_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it has not rung, no other is set."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        set_for: list[float] = []
        real = loop.call_later

        def call_later(seconds: float, *rest: object) -> object:
            set_for.append(seconds)
            return real(seconds, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_later", call_later)
        alarms = Alarms[int](LONG, print)
        for number in range(1000):
            alarms.begin(number)
            alarms.end(number)
        assert set_for == [LONG]

    asyncio.run(run())
