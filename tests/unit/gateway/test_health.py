"""Whether the gateway can work: looks are few, bounded, and say nothing of why."""

from __future__ import annotations

import asyncio
import threading

import pytest

from adjourn.gateway import monitoring as monitor
from adjourn.gateway.monitoring import Health
from support.proxy import wait_for


def test_many_who_ask_share_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a second there is one; what fails is named, and its reason goes to the log only."""
    monkeypatch.setattr(monitor, "KEPT_SECONDS", 0.2)
    looks: list[int] = []
    told: list[tuple[str, str]] = []

    def broken() -> None:
        raise OSError("postgres://me:secret@db")

    checked = Health(
        {"store": lambda: looks.append(1), "policy": broken},
        frozenset(("store",)),
        lambda name, why: told.append((name, why)),
    )

    async def ask() -> list[dict[str, str]]:
        found = list(await asyncio.gather(*(checked.look() for _ in range(20))))
        found.append(await checked.look())
        return found

    async def run() -> None:
        found = await ask()
        assert found == [{"store": "ok", "policy": "failed"}] * 21
        assert looks == [1]
        assert checked.is_ready(found[0])
        await asyncio.sleep(0.25)
        await ask()

    asyncio.run(run())
    assert looks == [1, 1]
    assert told == [("policy", "OSError: postgres://me:secret@db")] * 2


def test_a_look_that_hangs_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes soon, no second look begins beside it, and its end makes the gateway ready."""
    monkeypatch.setattr(monitor, "LOOK_SECONDS", 0.1)
    going_on, looks = threading.Event(), []

    def hangs() -> None:
        looks.append(1)
        going_on.wait(10)

    async def run() -> None:
        checked = Health({"store": hangs}, frozenset(("store",)), lambda _name, _why: None)
        for _ in range(3):
            found = await checked.look()
            assert found == {"store": "no answer"}
            assert not checked.is_ready(found)
        going_on.set()
        await asyncio.to_thread(wait_for, lambda: checked.last == {"store": "ok"})
        checked.close()

    asyncio.run(run())
    assert looks == [1]
