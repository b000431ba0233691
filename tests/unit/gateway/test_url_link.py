"""The way to a server of a URL that speaks the transport before Streamable HTTP: which address is accepted, and what the end of a stream means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from adjourn.gateway import http_pool
from adjourn.gateway.http_link import patience
from adjourn.gateway.http_pool import HttpPool
from adjourn.gateway.links import UrlLink
from support.link_user import LINE, User
from support.loopback import serving
from support.old_server import OldServer
from support.proxy import wait_for

RESULT = b'event: message\ndata: {"jsonrpc":"2.0","id":ID,"result":{}}\n\n'
QUESTION = b'data: {"jsonrpc":"2.0","id":7,"method":"elicitation/create"}\n\n'
REPLY = b'{"jsonrpc":"2.0","id":7,"result":{"action":"accept"}}\n'
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}\n'
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def use(server: OldServer, work: Callable[[UrlLink, User], Awaitable[None]], *, seconds: float = 5) -> User:
    """Do something with a link to a server; returns its user."""
    user = User()

    async def run(url: str) -> None:
        pool = HttpPool(url)
        link = UrlLink(user, pool, patience(seconds))
        try:
            await work(link, user)
        finally:
            link.close()
            pool.close()

    serving(server.answer, run)
    return user


async def ask(link: UrlLink, user: User) -> None:
    """One request, until it is answered or has failed."""
    link.send(LINE)
    await until(lambda: not user.open_requests())


async def until(what: Callable[[], object]) -> None:
    await asyncio.to_thread(wait_for, what)


@pytest.mark.parametrize("address", ["/m?s=1", "m?s=1", "http://HOST/m?s=1"])
def test_messages_go_where_the_stream_says(address: str) -> None:
    """A path, a relative path, and an address of the server's own origin get the message."""
    server = OldServer(address, {b"tools/call": RESULT})
    assert use(server, ask).failed == []
    assert [target for target, _, _ in server.posted] == ["/m?s=1"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:9/m", "wants messages at http://127.0.0.1:9, another origin: have it name an address"),
        ("//example.com/m", "wants messages at http://example.com:80, another origin"),
        ("https://HOST/m", "another origin"),
        ("http://HOST@example.com/m", "another origin"),
        ("file:///m", "another origin"),
        ("http://[/m", "names no address for messages"),
        ("http://HOST:x/m", "names no address for messages"),
        ("/m HTTP/1.1", "names no address for messages"),
        ("/" + "m" * 9000, "names no address for messages"),
        ("", "names no address for messages"),
    ],
)
def test_no_other_origin_gets_a_message(address: str, said: str) -> None:
    """A stream that names another origin, or what is no address, is refused: nothing is sent, and no call is in doubt."""
    server = OldServer(address, {b"tools/call": RESULT})
    ((why, was_sent),) = use(server, ask).failed
    assert said in why
    assert not was_sent
    assert server.posted == []


def test_an_address_without_a_stream_is_named() -> None:
    """Where there is neither of the transports, the error says what to look at."""
    ((why, was_sent),) = use(OldServer(None, {}), ask).failed
    assert "has no event stream (HTTP status 405): check the path of its address" in why
    assert not was_sent


def test_a_lost_session_is_begun_again_as_it_was() -> None:
    """What is open when the stream ends is in doubt; the next message comes after the client's handshake, whose answer it gets once."""
    server = OldServer("/m", {b'"initialize"': RESULT})

    async def work(link: UrlLink, user: User) -> None:
        link.send(HELLO)
        await until(lambda: user.heard)
        link.send(READY + LINE)
        await until(lambda: len(server.posted) == 3)
        server.break_off()
        await until(lambda: user.failed)
        link.send(LINE)
        await until(lambda: len(server.posted) == 6)

    user = use(server, work)
    assert [stream for _, stream, _ in server.posted] == [1, 1, 1, 2, 2, 2]
    methods = [json.loads(body)["method"] for _, _, body in server.posted]
    assert methods == ["initialize", "notifications/initialized", "tools/call"] * 2
    assert len(user.heard) == 1
    ((why, was_sent),) = user.failed
    assert why == "the server has ended its event stream; whether the call had an effect is not known"
    assert was_sent


def test_an_answer_reaches_its_own_session_only() -> None:
    """A question of a session that is over is taken back; an answer that still comes is not sent to the next session, which may ask too."""
    server = OldServer("/m", {b'"initialize"': RESULT, b"tools/call": QUESTION})

    async def work(link: UrlLink, user: User) -> None:
        link.send(HELLO)
        await until(lambda: user.heard)
        link.send(LINE)
        await until(lambda: len(user.heard) == 2)
        server.break_off()
        await until(lambda: user.failed)
        link.send(REPLY)
        link.send(LINE)
        await until(lambda: len(user.heard) == 4)
        link.send(REPLY)
        await until(lambda: len(server.posted) == 5)

    user = use(server, work)
    assert b"notifications/cancelled" in user.heard[2]
    assert json.loads(user.heard[2])["params"]["requestId"] == 7
    assert [body + b"\n" == REPLY for _, _, body in server.posted] == [False, False, False, False, True]


def test_a_silent_server_has_so_many_seconds() -> None:
    """A stream that says nothing while an answer is missing ends the session; the call is in doubt."""
    ((why, was_sent),) = use(OldServer("/m", {}), ask, seconds=0.3).failed
    assert "said nothing for 0.3 seconds" in why
    assert was_sent


@pytest.mark.parametrize(
    ("said", "why"), [(b"data: " + b"x" * 300, "too long"), (b"data: {\ndata: x\n\n", "cannot be read")]
)
def test_a_stream_that_cannot_be_read_ends(said: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event without end, and one that is no message, end the session; the call is in doubt."""
    monkeypatch.setattr(http_pool, "MAX_EVENT", 200)
    ((found, was_sent),) = use(OldServer("/m", {b"tools/call": said}), ask).failed
    assert why in found
    assert was_sent
