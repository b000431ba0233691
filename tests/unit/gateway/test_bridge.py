"""What `adjourn connect` makes of a message's own words in the headers of its request."""

from __future__ import annotations

import asyncio
import json

import pytest

from adjourn.gateway.bridge import Bridge
from adjourn.gateway.http_pool import FixedCredentials
from adjourn.mcp import frames
from support.loopback import serving

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)
ODD = "2026-07-28\r\nx-b: 2\r\n\r\nPOST /other HTTP/1.1"


def heads_of(message: object) -> list[bytes]:
    """The heads of the requests that a server gets for one message."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head)
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(HEAD + ANSWER)
            await writer.drain()

    async def use(url: str) -> None:
        bridge = Bridge(url, FixedCredentials(), 5)
        bridge.take(json.dumps(message).encode() + b"\n")
        await bridge.end()

    serving(answer, use)
    return heads


def call(version: str, name: str) -> object:
    params = {"name": name, "arguments": {}, "_meta": {frames.META_VERSION: version}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize(("version", "name"), [(ODD, "echo"), ("2026-07-28", ODD)])
def test_a_message_is_one_request(version: str, name: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Ends of lines in a message's words end no header: the server gets one request, without a header of theirs."""
    (head,) = heads_of(call(version, name))
    assert b"x-b:" not in head.lower()
    assert b"=?base64?" in head
    assert json.loads(capsysbinary.readouterr().out) == json.loads(ANSWER)


def test_plain_words_stand_as_they_are() -> None:
    """A version and a name stand in their headers as the protocol writes them."""
    (head,) = heads_of(call("2026-07-28", "echo"))
    assert b"\r\nmcp-protocol-version: 2026-07-28\r\n" in head
    assert b"\r\nmcp-name: echo\r\n" in head
