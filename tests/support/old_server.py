"""A server of the transport HTTP+SSE on loopback, as odd as a test wants it.

Owns: `OldServer`. Must never: know MCP.
"""

from __future__ import annotations

import asyncio
import json

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


class OldServer:
    """`address` is what the first event of its streams says, with its own for `HOST`; None: it has no streams. `says` are events that
    answer messages with a text in them, with the message's id for `ID`. `posted` are the messages it got, each with the target of its request and the number of streams
    so far.
    """

    def __init__(self, address: str | None, says: dict[bytes, bytes]) -> None:
        self._address = address
        self._says = says
        self._streams: list[asyncio.StreamWriter] = []
        self.posted: list[tuple[str, int, bytes]] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """See `loopback.Answer`."""
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b" ", 2)
            if method == b"GET" and self._address is not None:
                self._streams.append(writer)
                host = head.lower().partition(b"host: ")[2].partition(b"\r\n")[0].decode()
                address = self._address.replace("HOST", host).encode()
                writer.write(HEAD + b"event: endpoint\ndata: %b\n\n" % address)
                await reader.read()
                return
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            body = await reader.readexactly(int(length or 0))
            is_message = method == b"POST" and target != b"/mcp?x=1"
            if is_message:
                self.posted.append((target.decode(), len(self._streams), body))
            status = b"202 Accepted" if is_message else b"405 Method Not Allowed"
            writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % status)
            for text, said in self._says.items():
                if is_message and text in body:
                    number = json.dumps(json.loads(body).get("id")).encode()
                    self._streams[-1].write(said.replace(b"ID", number))

    def break_off(self) -> None:
        """End the stream."""
        self._streams[-1].close()
