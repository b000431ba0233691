"""A trivial MCP server over Streamable HTTP: the fast upstream of the gateway's benchmarks. `python http_echo.py PORT`.

It is the server of `echo_upstream.py` behind asyncio and httptools, so that what is in front of it sets the pace.
"""

from __future__ import annotations

import asyncio
import json
import sys

import httptools
from echo_upstream import answer

SESSION = b"mcp-session-id: bench\r\n"


class EchoProtocol(asyncio.Protocol):
    """One connection. Requests are answered in the order in which they come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        method = self._parser.get_method()
        if method != b"POST":
            status = b"200 OK" if method == b"DELETE" else b"405 Method Not Allowed"
            self._transport.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % status)
            return
        message = json.loads(body)
        if "id" not in message:
            self._transport.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}
        text = json.dumps(reply, separators=(",", ":")).encode()
        session = SESSION if message["method"] == "initialize" else b""
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
            % (session, len(text), text)
        )


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(EchoProtocol, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
