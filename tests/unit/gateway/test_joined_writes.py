"""The head of an answer is sent with its body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from adjourn.gateway.server import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Recorder:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.writes.append(data)

    def close(self) -> None:
        self.is_closed = True

    def get_extra_info(self, name: str) -> str:
        return name


def written_by(use: Callable[[JoinedWrites], Awaitable[Any]]) -> list[bytes]:
    recorder = Recorder()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        await use(JoinedWrites(cast("asyncio.Transport", recorder), loop))

    asyncio.run(run())
    return recorder.writes


def test_a_head_and_what_follows_at_once_are_one_write() -> None:
    """Each further part is a write of its own, and so is the next answer."""

    async def use(transport: JoinedWrites) -> None:
        for _ in range(2):
            transport.write(HEAD)
            transport.write(b"body")
            transport.write(b"more")
        await asyncio.sleep(0)

    assert written_by(use) == [HEAD + b"body", b"more"] * 2


def test_a_head_alone_is_sent_in_the_next_turn_of_the_loop() -> None:
    """What follows later is a write of its own."""

    async def use(transport: JoinedWrites) -> None:
        transport.write(HEAD)
        await asyncio.sleep(0)
        transport.write(b"body")

    assert written_by(use) == [HEAD, b"body"]


def test_a_head_is_sent_before_the_transport_closes() -> None:
    """Nothing is lost, and nothing is written to a closed transport."""

    async def use(transport: JoinedWrites) -> None:
        transport.write(HEAD)
        transport.close()
        await asyncio.sleep(0)

    assert written_by(use) == [HEAD]


def test_all_else_is_the_transport_s() -> None:
    """Whoever asks for more gets it."""

    async def use(transport: JoinedWrites) -> None:
        assert transport.get_extra_info("peername") == "peername"

    assert written_by(use) == []
