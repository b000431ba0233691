"""The least server and client of MCP over HTTP, so that what is measured is the gateway between them.

    python tests/sim/http_load.py PORT FOLDER      the server; FOLDER is not used

Owns: an upstream that echoes, clients that keep a number of calls in flight. Must never: measure anything but calls.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

TOOLS = [
    {
        "name": "notes.get",
        "description": "Get a note.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    },
    {"name": "notes.set", "description": "Set a note.", "inputSchema": {"type": "object"}},
]
VERSION = "2025-11-25"


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    if message["method"] == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(message["params"]["arguments"])}]}
    if message["method"] == "tools/list":
        return {"tools": TOOLS}
    info = {"name": "echo", "version": "1"}
    return {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": info}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            _, headers, body = await _read(reader)
            message = json.loads(body or b"{}")
            known = "mcp-session-id" in headers
            session = b"" if known else b"mcp-session-id: %s\r\n" % secrets.token_hex(8).encode()
            if "id" in message:
                reply = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": _answer(message)}).encode()
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n"
                writer.write(head % (session, len(reply)) + reply)
            else:
                writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """The first line, the headers and the body of a message."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return first, headers, body
    return first, headers, await reader.readexactly(int(headers.get("content-length", 0)))


class HttpClient:
    """One session of a client with the gateway, on a connection of its own."""

    def __init__(self, port: int, name: str, path: str = "/up/mcp") -> None:
        self._port, self._name, self._path = port, name, path
        self._headers = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        self._numbers = 0

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def open(self) -> None:
        await self.connect()
        hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": self._name, "version": "1"}}
        headers, body = await self.ask("initialize", hello)
        assert b'"result"' in body, body[:400]
        self._headers += f"mcp-protocol-version: {VERSION}\r\nmcp-session-id: {headers['mcp-session-id']}\r\n"
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self.ask("tools/list", {})

    async def ask(self, method: str, params: dict[str, Any]) -> tuple[dict[str, str], bytes]:
        self._numbers += 1
        return await self._post({"jsonrpc": "2.0", "id": self._numbers, "method": method, "params": params})

    async def call(self, tool: str) -> None:
        _, body = await self.ask("tools/call", {"name": tool, "arguments": {"text": "x" * 64}})
        assert b'"error"' not in body, body[:400]
        assert b'"isError":true' not in body, body[:400]

    async def _post(self, message: dict[str, Any]) -> tuple[dict[str, str], bytes]:
        body = json.dumps(message).encode()
        head = f"POST {self._path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n{self._headers}content-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        first, headers, answer = await _read(self._reader)
        assert first.split()[1] in ("200", "202"), (first, answer[:400])
        return headers, answer

    def close(self) -> None:
        self._writer.close()


class Load(NamedTuple):
    """Seconds of each call, and what `usage` grew by during them."""

    times: list[float]
    used: float


async def load(port: int, tool: str, in_flight: int, seconds: float, usage: Callable[[], float]) -> Load:
    """Call a tool by so many clients, each on a task of its own, one call after the other."""
    clients = [HttpClient(port, f"load-{number}") for number in range(in_flight)]
    for client in clients:
        await client.open()
        await client.call(tool)
    times: list[float] = []
    before = usage()
    end = time.perf_counter() + seconds

    async def run(client: HttpClient) -> None:
        await client.connect()  # the gateway closes connections that were idle
        while (began := time.perf_counter()) < end:
            await client.call(tool)
            times.append(time.perf_counter() - began)

    await asyncio.gather(*map(run, clients))
    used = usage() - before
    for client in clients:
        client.close()
    return Load(sorted(times), used)


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
