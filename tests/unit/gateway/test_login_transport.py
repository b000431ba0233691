"""Where a login may lead, and what it reads."""

from __future__ import annotations

import asyncio

import pytest

from adjourn.errors import RefusedError
from adjourn.gateway.login_flow import MAX_BYTES, check_address, client
from support.loopback import serving

SERVER = "https://tracker.example/mcp"


@pytest.mark.parametrize(
    "address",
    [
        "http://login.example/token",
        "http://127.0.0.1:9/token",
        "https://localhost/token",
        "https://[::1]/token",
        "file:///etc/passwd",
        "https://ann:pw@login.example/token",
    ],
)
def test_a_remote_server_leads_nowhere_else_than_to_https(address: str) -> None:
    """No plain http, no address of this machine, no other scheme, no password; the error shows none."""
    with pytest.raises(RefusedError) as caught:
        check_address(address, SERVER)
    assert "pw" not in str(caught.value)


def test_what_is_safe_passes() -> None:
    """https anywhere; this machine for a server on this machine."""
    check_address("https://login.example/token", SERVER)
    check_address("http://127.0.0.1:9/token", "http://127.0.0.1:8/mcp")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n", "compresses"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_BYTES + 1), "longer than"),
    ],
)
def test_an_answer_is_bounded(answer: bytes, said: str) -> None:
    """One that would grow, and one that is too long, are refused."""

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async def use(url: str) -> None:
        async with client(url) as asking:
            with pytest.raises(RefusedError, match=said):
                await asking.get(url)

    serving(answers, use)


def test_no_redirect_is_followed_by_itself() -> None:
    """The answer is the redirect: the SDK follows those within an origin, and no others."""

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n")

    async def use(url: str) -> None:
        async with client(url) as asking:
            assert (await asking.get(url)).status_code == 302

    assert serving(answers, use) == 1
