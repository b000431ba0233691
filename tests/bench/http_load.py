"""The load client of the gateway's benchmarks: `python http_load.py URL TOOL SESSIONS [TOKENS]`. `{n}` in the URL is the session's number.

It opens the sessions, each on a connection of its own, and prints a line. Then it takes one command a line on stdin, and answers
with one line of JSON: `calls COUNT`, so many calls, each session waiting for its answer before its next call; `close`, which ends the
sessions; `idle COUNT`, which opens so many more; `listen COUNT`, the same, each with its stream; `churn COUNT`, which opens so many, each
for one call, and ends them; `abandon COUNT`, which only leaves them; `start COUNT SECONDS`, which opens so many within that time, each
with the token of a line of the file TOKENS, and lists their tools; `pace COUNT SECONDS`, which makes so many calls in that time.

Owns: sessions, and times of calls. Must never: count an answer that is not the right one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httptools
from peer import ARGUMENTS

REVISION = "2025-11-25"
IDLE_SECONDS = 4.0
_KINDS = b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"


class Session(asyncio.Protocol):
    """A connection, one request at a time, and the MCP session on it."""

    def __init__(self, url: str, token: str = "") -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._target = parts.path.encode()
        self._headers = b"host: %b\r\n" % parts.netloc.encode()
        if token:
            self._headers += b"authorization: Bearer %b\r\n" % token.encode()
        self._session = b""
        self.opening = 0.0
        self._transport: asyncio.Transport | None = None
        self._used = 0.0
        self._answer: asyncio.Future[bytes] | None = None
        self._calls = 0
        self._call = b""
        self.is_streaming = False

    async def open(self) -> Session:
        await self.connect()
        greeting = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
        began = time.perf_counter()
        await self.request({"method": "initialize", "params": greeting, "id": 0})
        self.opening = time.perf_counter() - began
        self._headers += b"mcp-protocol-version: %b\r\n" % REVISION.encode()
        if self._session:
            self._headers += b"mcp-session-id: %b\r\n" % self._session
        await self.request({"method": "notifications/initialized"})
        return self

    async def connect(self) -> None:
        """Connect, where the server has closed the connection or is about to, since it was idle."""
        if self._transport is None or self._transport.is_closing() or time.monotonic() - self._used > IDLE_SECONDS:
            if self._transport is not None:
                self._answer = None
                self._transport.abort()
            await asyncio.get_running_loop().create_connection(lambda: self, self._host, self._port)
        self._used = time.monotonic()

    def prepare(self, tool: str) -> None:
        params = {"name": tool, "arguments": ARGUMENTS}
        text = json.dumps({"jsonrpc": "2.0", "method": "tools/call", "params": params}, separators=(",", ":"))
        self._call = text[:-1].encode() + b',"id":%d}'

    async def call(self) -> float:
        """Make a call; returns its seconds."""
        self._calls += 1
        body = self._call % self._calls
        began = time.perf_counter()
        found = await self._post(b"POST", body)
        took = time.perf_counter() - began
        if b"failing test" not in found or b'"isError":true' in found:
            raise SystemExit(f"not the answer: {found[:500]!r}")
        return took

    async def request(self, message: dict[str, Any]) -> bytes:
        return await self._post(b"POST", json.dumps({"jsonrpc": "2.0"} | message).encode())

    async def list_tools(self) -> None:
        if b"notes.get" not in (found := await self.request({"method": "tools/list", "id": "list"})):
            raise SystemExit(f"not the tools: {found[:500]!r}")

    async def end(self) -> None:
        await self._post(b"DELETE", b"")

    def leave(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def listen(self) -> None:
        """Open the session's stream; the connection is used for nothing else from now on."""
        self.is_streaming = True
        self._write(b"GET", b"")

    async def _post(self, method: bytes, body: bytes) -> bytes:
        self._answer = asyncio.get_running_loop().create_future()
        self._write(method, body)
        return await self._answer

    def _write(self, method: bytes, body: bytes) -> None:
        self._body = b""
        self._parser = httptools.HttpResponseParser(self)
        assert self._transport is not None
        self._transport.write(
            b"%b %b HTTP/1.1\r\n%b%bcontent-length: %d\r\n\r\n%b"
            % (method, self._target, self._headers, _KINDS, len(body), body)
        )

    # --- what asyncio and the parser call

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"mcp-session-id":
            self._session = value

    def on_body(self, part: bytes) -> None:
        if not self.is_streaming:
            self._body += part

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._body)


class Load:
    def __init__(self, url: str, tool: str, tokens: Sequence[str]) -> None:
        self._url, self._tool, self._tokens = url, tool, tokens
        self.sessions: list[Session] = []
        self._idle: list[Session] = []

    async def open(self, count: int) -> None:
        for number in range(count):
            session = await self._session(number).open()
            await session.list_tools()
            session.prepare(self._tool)
            await session.call()
            self.sessions.append(session)

    async def calls(self, count: int) -> dict[str, Any]:
        left = count
        times: list[float] = []

        async def work(session: Session) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                times.append(await session.call())

        for session in self.sessions:
            await session.connect()
        began = time.perf_counter()
        await asyncio.gather(*map(work, self.sessions))
        return {"seconds": time.perf_counter() - began, "times": times}

    async def idle(self, count: int) -> dict[str, Any]:
        """Open so many sessions that do nothing further, each on a connection that is closed then."""
        for number in range(count):
            self._idle.append(session := await self._session(number).open())
            session.leave()
        return {"idle": len(self._idle)}

    async def churn(self, count: int) -> dict[str, Any]:
        """Open so many sessions, one after the other; each makes a call and is ended."""
        for number in range(count):
            session = await self._called(number)
            await session.end()
            session.leave()
        return {"churned": count}

    async def abandon(self, count: int) -> dict[str, Any]:
        """The same, but nobody ends them."""
        for number in range(count):
            (await self._called(number)).leave()
        return {"abandoned": count}

    async def _called(self, number: int) -> Session:
        session = await self._session(number).open()
        session.prepare(self._tool)
        await session.call()
        return session

    def _session(self, number: int) -> Session:
        return Session(self._url.replace("{n}", str(number)), self._tokens[number] if self._tokens else "")

    async def start(self, count: int, seconds: int) -> dict[str, Any]:
        """Open so many sessions within that time, and list their tools; `times` are those of `initialize`."""
        began = time.perf_counter()

        async def begin(number: int) -> float:
            await asyncio.sleep(number * seconds / count)
            session = await self._session(number).open()
            await session.list_tools()
            self.sessions.append(session)
            return session.opening

        times = await asyncio.gather(*map(begin, range(count)))
        return {"seconds": time.perf_counter() - began, "times": times}

    async def pace(self, count: int, seconds: int) -> dict[str, Any]:
        """Make so many calls within that time, whether or not those before have their answer; each waits for a session that is free."""
        free: asyncio.Queue[Session] = asyncio.Queue()
        for session in self.sessions:
            await session.connect()
            free.put_nowait(session)
        began = time.perf_counter()

        async def call(number: int) -> float:
            await asyncio.sleep(number * seconds / count)
            due = time.perf_counter()
            session = await free.get()
            await session.call()
            free.put_nowait(session)
            return time.perf_counter() - due

        times = await asyncio.gather(*map(call, range(count)))
        return {"seconds": time.perf_counter() - began, "times": times}

    async def listen(self, count: int) -> dict[str, Any]:
        """Open so many sessions, each with its stream open."""
        for number in range(count):
            self._idle.append(session := await self._session(number).open())
            session.listen()
        await asyncio.sleep(0.5)
        return {"listening": count}

    async def close(self, _count: int = 0) -> dict[str, Any]:
        for session in self.sessions:
            await session.connect()
            await session.end()
        self.sessions.clear()
        return {"closed": True}


async def main(url: str, tool: str, sessions: int, tokens: Sequence[str]) -> None:
    load = Load(url, tool, tokens)
    await load.open(sessions)
    print("{}", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, *count = line.split()
        print(json.dumps(await getattr(load, name)(*map(int, count))), flush=True)


if __name__ == "__main__":
    given = Path(sys.argv[4]).read_text(encoding="ascii").split() if sys.argv[4:] else []
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), given))
