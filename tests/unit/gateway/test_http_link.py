"""The way to a server over HTTP: the outcome of a request without an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adjourn.gateway.event_stream import StreamEvent
from adjourn.gateway.http_link import HttpLink
from adjourn.gateway.http_pool import Headers, HttpPool
from adjourn.gateway.replies import Heard, ReplyStream
from support.loopback import Answer, serving

LINE = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}\n'
SECONDS = 0.2


class User:
    """Whoever speaks to the server: it has one request open, and keeps what is said of it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.failed: list[tuple[str, bool]] = []

    def headers_for(self, _request_id: Any, /) -> Headers:
        return ()

    def hear(self, heard: Heard, /) -> None:
        self.heard.append(heard.line)

    def answered_with(self, _request_id: Any, _status: int, /) -> None:
        pass

    def pass_event(self, _about: Any, _event: StreamEvent, /) -> None:
        pass

    def is_open(self, request_id: Any, /) -> bool:
        return request_id == 1 and not any(b"result" in line for line in self.heard)

    def break_stream(self, _request_id: Any, /) -> None:
        pass

    def stream_ended(self, _stream: ReplyStream, /) -> None:
        pass

    def fail(self, _request_id: Any, why: str, /, *, was_sent: bool) -> None:
        self.failed.append((why, was_sent))


def asked(answer: Answer, *, seconds: float = SECONDS) -> User:
    """The outcome of one request to a server that answers so."""
    user = User()

    async def use(url: str) -> None:
        pool = HttpPool(url)
        link = HttpLink(user, pool, seconds)
        link.send(LINE)
        await link.answered(10)
        pool.close()

    serving(answer, use)
    return user


def says(data: bytes, *, then: float = 0) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"tools/call")
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(then)

    return answer


def status(number: int, body: bytes = b"", kind: bytes = b"text/plain") -> bytes:
    return b"HTTP/1.1 %d Is\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        number,
        kind,
        len(body),
        body,
    )


@pytest.mark.parametrize(
    "begun",
    [b"", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"],
    ids=["no head", "half a body"],
)
def test_a_silent_server_has_so_many_seconds(begun: bytes) -> None:
    """A request that is not answered in time fails, and may have had an effect."""
    ((why, was_sent),) = asked(says(begun, then=5)).failed
    assert "said nothing for 0.2 seconds" in why
    assert was_sent


def test_each_part_of_a_stream_gives_more_time() -> None:
    """A stream that says something may take longer than a silent server may."""
    part = b": still here\n\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"tools/call")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for _ in range(6):
            writer.write(part)
            await asyncio.sleep(SECONDS / 2)
        writer.write(b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n')
        await writer.drain()

    user = asked(answer)
    assert user.failed == []
    assert user.heard == [b'{"jsonrpc":"2.0","id":1,"result":{}}\n']


@pytest.mark.parametrize(
    ("data", "number", "is_doubtful"),
    [
        (status(401), 401, False),
        (status(404, b"{}", b"application/json"), 404, False),
        (status(307), 307, False),
        (status(500), 500, True),
        (status(502, b'{"message":"bad gateway"}', b"application/json"), 502, True),
        (status(200, b"welcome"), 200, True),
    ],
)
def test_an_answer_without_a_message_names_its_status(data: bytes, number: int, is_doubtful: bool) -> None:
    """A refusal did nothing; after an error of the server, or an answer of something else, the call is in doubt."""
    ((why, was_sent),) = asked(says(data)).failed
    assert f"HTTP status {number}" in why
    assert was_sent is is_doubtful
    assert ("is not known" in why) is is_doubtful
