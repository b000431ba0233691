"""The connections to a server: kept, bounded, and never used for a request twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from adjourn.gateway import http_pool
from adjourn.gateway.http_pool import HttpPool, HttpReply, UnreachableError
from support.loopback import Answer, serving

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def against(answer: Answer, use: Callable[[HttpPool], Awaitable[None]]) -> int:
    """Use a pool against a server that treats each connection so. Returns how many connections it got."""

    async def used(url: str) -> None:
        pool = HttpPool(url)
        try:
            await use(pool)
        finally:
            pool.close()

    return serving(answer, used)


async def ask(pool: HttpPool) -> bytes:
    reply = await pool.request(b"POST", [(b"x-a", b"1")], b"body")
    try:
        return await reply.body(1000)
    finally:
        reply.release()


def always(data: bytes, *, closes: bool = False) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"POST /mcp?x=1 HTTP/1.1\r\nhost: 127.0.0.1:")
            assert await reader.readexactly(4) == b"body"
            writer.write(data)
            await writer.drain()
            if closes:
                return

    return answer


def test_one_connection_serves_requests_in_turn() -> None:
    """A connection is used again once its answer was read to the end; at the same time there are as many as requests."""

    async def use(pool: HttpPool) -> None:
        for _ in range(5):
            assert await ask(pool) == b"ok"
        assert await asyncio.gather(*(ask(pool) for _ in range(3))) == [b"ok"] * 3

    assert against(always(OK), use) == 3


def test_chunks_come_as_they_are_sent() -> None:
    """A body of unknown length is read in parts, to its end."""
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"

    async def use(pool: HttpPool) -> None:
        assert await ask(pool) == b"abcde"
        assert await ask(pool) == b"abcde"

    assert against(always(chunked), use) == 1


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    """It is whole then, and the connection is not used again."""

    async def use(pool: HttpPool) -> None:
        assert await ask(pool) == b"all"
        assert await ask(pool) == b"all"

    assert against(always(b"HTTP/1.1 200 OK\r\n\r\nall", closes=True), use) == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "closed the connection"),
        (b"no HTTP at all\r\n\r\n", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "not whole"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5000, "longer than 1,000"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 30_000, "closed the connection"),
    ],
)
def test_an_answer_that_is_none_is_an_error(data: bytes, said: str) -> None:
    """The server may have acted on the request: the error says so, and nothing is sent again."""

    async def use(pool: HttpPool) -> None:
        with pytest.raises(UnreachableError, match=said) as caught:
            await ask(pool)
        assert caught.value.was_sent

    assert against(always(data, closes=True), use) == 1


def test_a_server_that_does_not_listen_was_sent_nothing() -> None:
    """The error names the address."""

    async def use() -> None:
        with pytest.raises(UnreachableError, match=r"cannot connect to 127\.0\.0\.1:9") as caught:
            await ask(HttpPool("http://127.0.0.1:9/"))
        assert not caught.value.was_sent

    asyncio.run(use())


def test_a_connection_that_idled_too_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be closing it just then."""
    monkeypatch.setattr(http_pool, "IDLE_SECONDS", 0.0)

    async def use(pool: HttpPool) -> None:
        assert await ask(pool) == b"ok"
        assert await ask(pool) == b"ok"

    assert against(always(OK), use) == 2


@pytest.mark.parametrize("value", [b"1\r\nx-b: 2", b"1\n\nPOST / HTTP/1.1", b"1\0"])
def test_a_header_cannot_begin_another_header_or_request(value: bytes) -> None:
    """A header with an end of a line in its name or value is refused before a connection is made."""

    async def use(pool: HttpPool) -> None:
        for pair in ((b"x-a", value), (value, b"1")):
            with pytest.raises(UnreachableError, match="end of a line") as caught:
                await pool.request(b"POST", [pair], b"body")
            assert not caught.value.was_sent

    assert against(always(OK), use) == 0


def test_a_transport_may_be_of_another_class_than_asyncio_s() -> None:
    """As uvloop's are, which uvicorn takes where it is installed."""

    class Foreign:
        written = b""

        def write(self, data: bytes) -> None:
            self.written += data

    async def run() -> None:
        transport = Foreign()
        reply = HttpReply(HttpPool("http://127.0.0.1:1/"))
        reply.connection_made(cast("asyncio.BaseTransport", transport))
        sending = asyncio.create_task(reply.send(b"request"))
        await asyncio.sleep(0)
        assert transport.written == b"request"
        reply.data_received(OK)
        await sending
        assert await reply.body(10) == b"ok"

    asyncio.run(run())
