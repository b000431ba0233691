"""Clients that make calls with effects through several replicas, and repeat what was not answered with its idempotency key.

Owns: `LoadClient` and `Load`: who was acknowledged what, and when. Must never: take anything but the answer itself for an acknowledgement.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Self

import httpx

from support.replicas import HEADERS, Replicas, text_of

PATIENCE = 5.0
"""How long, in seconds, a client waits for an answer before it asks another replica."""
PAUSE = 0.1
REPEAT_SECONDS = 1.0
TOOL = "soon"
_CALL = re.compile(r"call \S+")


class LoadClient:
    """A client on one task. It makes one call after the other. A call of which it does not know the end it repeats beside its next calls.

    `acknowledged` has the time (`time.monotonic`) of each text's answer.
    """

    def __init__(self, name: str, task: str, replicas: Replicas, http: httpx.AsyncClient, chance: Random) -> None:
        self.name, self.task = name, task
        self._replicas, self._http, self._chance = replicas, http, chance
        self.acknowledged: dict[str, float] = {}
        self.unclear: dict[str, asyncio.Task[None]] = {}
        """What repeats the calls whose end this client does not know, by their texts."""
        self.refusals: Counter[str] = Counter()
        """What it got in place of an answer."""

    async def run(self, ended: Callable[[], bool]) -> None:
        count, replica, replicas = 0, 0, len(self._replicas.ports)
        while not ended():
            count += 1
            text = f"{self.task}.{self.name}.{count}"
            while not ended() and not await self._is_over(text, replica):
                replica = (replica + 1) % replicas
                await asyncio.sleep(PAUSE)
            if text in self.acknowledged:
                replica = self._chance.randrange(replicas)
            else:  # not the same replica again
                replica = (replica + 1) % replicas
                self.unclear[text] = asyncio.create_task(self._repeat(text, replica, ended))
            await asyncio.sleep(PAUSE * self._chance.uniform(0.5, 1.5))
        await asyncio.gather(*self.unclear.values())

    async def _is_over(self, text: str, replica: int) -> bool:
        """Make a call. Whether it was answered, or its end is not known."""
        answer = await self.attempt(text, replica)
        if answer == f"{TOOL}: {text}":
            self.acknowledged[text] = time.monotonic()
            return True
        self.refusals[_CALL.sub("call", answer.partition(":")[0])[:90]] += 1
        return answer.startswith("lost") or "under way" in answer

    async def _repeat(self, text: str, replica: int, ended: Callable[[], bool]) -> None:
        while text not in self.acknowledged and not ended():
            await asyncio.sleep(REPEAT_SECONDS)
            await self._is_over(text, replica)
            replica = (replica + 1) % len(self._replicas.ports)
        if text in self.acknowledged:
            del self.unclear[text]

    async def attempt(self, text: str, replica: int) -> str:
        """What a call is answered; `lost` where no answer came, `not sent` where no connection was made."""
        message = self._replicas.message(TOOL, text, self.task, key=text)
        try:
            answer = await self._http.post(self._replicas.url(replica, self.task), json=message)
            found: dict[str, Any] = answer.json()
            return text_of(found)
        except httpx.ConnectError:
            return "not sent"
        except httpx.TransportError as error:
            return f"lost ({type(error).__name__})"
        except (ValueError, KeyError):
            return f"HTTP status {answer.status_code}"


class Load:
    """All clients of a run. A context: they call while it is open."""

    def __init__(self, replicas: Replicas, tasks: list[str], each: int, seed: int) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=4)
        self._http = httpx.AsyncClient(headers=HEADERS, timeout=PATIENCE, limits=limits)
        self.clients = [
            LoadClient(f"c{number}", task, replicas, self._http, Random(f"{seed} {task} {number}"))
            for task in tasks
            for number in range(each)
        ]
        self._ends = False
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._running = [asyncio.create_task(one.run(lambda: self._ends)) for one in self.clients]
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._ends = True
        await asyncio.gather(*self._running)

    async def close(self) -> None:
        await self._http.aclose()

    def counts(self) -> list[int]:
        """How many calls of each client were acknowledged."""
        return [len(one.acknowledged) for one in self.clients]

    async def all_continue(self, calls: int = 3, seconds: float = 120) -> None:
        """Wait until each client has so many more calls acknowledged."""
        before, end = self.counts(), time.monotonic() + seconds
        while any(now < then + calls for now, then in zip(self.counts(), before, strict=True)):
            for one in self._running:
                if one.done():
                    one.result()
            if time.monotonic() > end:
                raise TimeoutError(f"a client had no call acknowledged for {seconds:g} s: {before} {self.counts()}")
            await asyncio.sleep(0.05)

    def silence(self, since: float) -> float:
        """The longest time in which a client had no call acknowledged, from a moment until now."""
        return max(_silence(sorted(one.acknowledged.values()), since) for one in self.clients)


def _silence(times: list[float], since: float) -> float:
    points = [since, *(one for one in times if one > since)]
    return max((after - before for before, after in itertools.pairwise(points)), default=time.monotonic() - since)
