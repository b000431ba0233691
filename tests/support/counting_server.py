"""A small, fast MCP server over HTTP that counts its effects: `python counting_server.py PORT FILE`.

`write` appends its text to the file as a line, in one write, before it answers; `soon` does so and answers 50 ms later, `slow` two seconds
later, `held` once there is a file of that name with `.free` behind it; `read` has no effect. Any request is answered in the era of its client, without sessions.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import uvicorn

PORT, FILE = int(sys.argv[1]), sys.argv[2]
SECONDS = {"soon": 0.05, "slow": 2.0}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": name == "read"}}
    for name in ("write", "soon", "slow", "held", "read")
]
Message = MutableMapping[str, Any]
effects = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


async def call(params: dict[str, Any]) -> dict[str, Any]:
    name, text = params["name"], params["arguments"]["text"]
    if name != "read":
        os.write(effects, f"{text}\n".encode())
    if name in SECONDS:
        await asyncio.sleep(SECONDS[name])
    while name == "held" and not os.path.exists(f"{FILE}.free"):  # noqa: ASYNC110, ASYNC240  # another process makes it
        await asyncio.sleep(0.05)
    return {"content": [{"type": "text", "text": f"{name}: {text}"}], "resultType": "complete"}


async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "tools/call":
        return await call(params)
    if method == "tools/list":
        return {"tools": TOOLS, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    about = {"serverInfo": {"name": "up", "version": "1"}, "capabilities": {"tools": {}}}
    return {"protocolVersion": "2025-11-25", "supportedVersions": ["2026-07-28"], **about}


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    if scope["type"] != "http":
        return
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    status, out = 405, b""
    if scope["method"] == "POST":
        message = msgspec.json.decode(body)
        status = 202
        if "id" in message:
            result = await answer(message["method"], message.get("params") or {})
            status = 200
            out = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": result})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(out)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": out})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="error", lifespan="off")
