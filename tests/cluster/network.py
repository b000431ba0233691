"""Connections between machines that can be cut: forwarders on loopback.

Owns: `Network` and `Link`. Must never: read what it forwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Self


class Link:
    """A port on loopback that leads to another one, until it is cut. A cut link takes connections, and forwards nothing: as a network
    does that drops packets, it says nothing to either side.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.port = 0

    async def listen(self) -> Self:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def cut(self) -> None:
        self._flows.clear()

    def mend(self) -> None:
        """Forward new connections again. Those that were open are closed: both sides have given them up."""
        self.reset()
        self._flows.set()

    def reset(self) -> None:
        """Close what is open."""
        for writer in list(self._open):
            writer.transport.abort()

    def close(self) -> None:
        self.reset()
        if self._server is not None:
            self._server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        far: asyncio.StreamWriter | None = None
        try:
            await self._flows.wait()
            answers, far = await asyncio.open_connection("127.0.0.1", self._to)
            self._open.add(far)
            await asyncio.gather(self._copy(reader, far), self._copy(answers, writer))
        except OSError:
            return
        finally:
            for one in (writer, far):
                if one is not None:
                    self._open.discard(one)
                    one.transport.abort()

    async def _copy(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await self._flows.wait()
                to.write(data)
                await to.drain()
        await self._flows.wait()  # nobody hears of an end behind a cut
        raise ConnectionResetError  # one side ended: so does the other


class Network:
    """The links of several clients, each to all of some servers."""

    def __init__(self) -> None:
        self._links: list[list[Link]] = []

    async def connect(self, clients: int, ports: Sequence[int]) -> None:
        self._links = [[await Link(port).listen() for port in ports] for _ in range(clients)]

    def ports(self, client: int) -> list[int]:
        """Where a client reaches the servers."""
        return [link.port for link in self._links[client]]

    def cut(self, clients: Sequence[int]) -> None:
        for client in clients:
            for link in self._links[client]:
                link.cut()

    def mend(self, clients: Sequence[int]) -> None:
        for client in clients:
            for link in self._links[client]:
                link.mend()

    def cut_off(self, server: int) -> None:
        """Nothing that any client sends reaches this server."""
        for links in self._links:
            links[server].cut()

    def mend_of(self, server: int) -> None:
        for links in self._links:
            links[server].mend()

    def close(self) -> None:
        for links in self._links:
            for link in links:
                link.close()
