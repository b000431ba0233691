"""The bare relay of the gateway's benchmarks: `python http_relay.py PORT URL`. ASGI on uvicorn, and the gateway's own pool.

Owns: passing requests and answers on. Must never: look into one, so that it is the floor of all that do.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from adjourn.gateway.http_pool import HttpPool

_OWN = frozenset((b"host", b"connection", b"content-length", b"transfer-encoding", b"keep-alive"))
Message = MutableMapping[str, Any]


class BareRelay:
    def __init__(self, url: str) -> None:
        self._pool = HttpPool(url)

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = [pair for pair in scope["headers"] if pair[0] not in _OWN]
        reply = await self._pool.request(scope["method"].encode(), headers, body)
        try:
            kept = [pair for pair in reply.headers.items() if pair[0] not in _OWN]
            length = reply.headers.get(b"content-length")
            if length is not None:
                kept.append((b"content-length", length))
            await send({"type": "http.response.start", "status": reply.status, "headers": kept})
            async for part in reply.parts():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            reply.release()


def main(port: int, url: str) -> None:
    gc.freeze()
    gc.set_threshold(50_000)
    uvicorn.run(
        BareRelay(url), host="127.0.0.1", port=port, http="httptools", ws="none", lifespan="off",
        log_level="error", access_log=False, server_header=False, date_header=False, proxy_headers=False,
    )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
