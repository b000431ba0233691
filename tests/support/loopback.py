"""A server on loopback that treats each connection as a test says.

Owns: that server. Must never: know HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def serving(answer: Answer, use: Callable[[str], Awaitable[None]]) -> int:
    """Use a server's address within ten seconds. Returns how many connections it got."""
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            await asyncio.wait_for(use(f"http://{host}:{port}/mcp?x=1"), 10)
        finally:
            server.close()

    asyncio.run(run())
    return len(connections)
