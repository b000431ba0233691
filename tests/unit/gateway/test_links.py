"""The way to a server over HTTP: the outcome of a request without an answer."""

from __future__ import annotations

import asyncio

import pytest

from adjourn.gateway.http_pool import HttpPool
from adjourn.gateway.links import HttpLink, patience
from support.link_user import LINE, User
from support.loopback import Answer, serving

SECONDS = 0.2


def asked(answer: Answer, *, seconds: float = SECONDS) -> User:
    """The outcome of one request to a server that answers so."""
    user = User()

    async def use(url: str) -> None:
        pool = HttpPool(url)
        link = HttpLink(user, pool, patience(seconds))
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
    return b"HTTP/1.1 %d Is\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (number, kind, len(body), body)


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


def test_a_request_that_is_given_up_at_once_leaves_nothing_behind() -> None:
    """Before any of it was sent: its bytes do not count as waiting for ever, which would stop the client in the end."""

    async def use() -> int:
        pool = HttpPool("http://127.0.0.1:9/mcp")
        link = HttpLink(User(), pool, patience(SECONDS))
        link.send(LINE)
        link.abandon(1)
        await link.left(10)
        await asyncio.sleep(0)
        pool.close()
        return link.size

    assert asyncio.run(use()) == 0


EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize("value", [b'"cut \\ud83d"', b"NaN", b'"\xff"', b"[" * 3000 + b"]" * 3000])
@pytest.mark.parametrize(
    "shape", [b'{"jsonrpc":"2.0","id":1,"result":{"a":$}}', b'{\n  "jsonrpc":"2.0",\n  "id":1,\n  "result":{"a":$}\n}']
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_that_strict_readers_refuse_is_heard(value: bytes, shape: bytes, *, is_stream: bool) -> None:
    """As JSON and as an event, on one line and on several, half a character loses no answer."""
    body = shape.replace(b"$", value)
    event = EVENTS + b"".join(b"data: %b\n" % line for line in body.split(b"\n")) + b"\n"
    user = asked(says(event if is_stream else status(200, body, b"application/json")), seconds=5)
    assert user.failed == []
    assert [b"".join(line.split()) for line in user.heard] == [b"".join(body.split())]
