"""The server of `http_server.py`, in one protocol era only: `python one_era.py ERA PORT FOLDER [NAME]` (PORT 0: stdio; ERA legacy or modern)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ERA, PORT, *REST = sys.argv[1:]
SERVER = Path(__file__).with_name("http_server.py")
MODERN = "io.modelcontextprotocol/protocolVersion"


def is_of_other_era(body: Any) -> bool:
    """Whether a message is of the era that this server does not have."""
    params = body.get("params") or {}
    is_modern = body.get("method") == "server/discover" or MODERN in (params.get("_meta") or {})
    return "id" in body and "method" in body and is_modern != (ERA == "modern")


def refusal(body: Any) -> bytes:
    error = {"code": -32601, "message": "Method not found"}
    return json.dumps({"jsonrpc": "2.0", "id": body["id"], "error": error}).encode()


def over_pipes() -> None:
    with subprocess.Popen(
        [sys.executable, str(SERVER), "0", *REST], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def back(stream: Any = child.stdout) -> None:
            for line in stream:
                say(line)

        threading.Thread(target=back).start()
        for line in sys.stdin.buffer:
            body = json.loads(line)
            if is_of_other_era(body):
                say(refusal(body) + b"\n")
            else:
                child.stdin.write(line)
                child.stdin.flush()
        child.stdin.close()


def say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def over_http() -> None:
    import uvicorn  # only here

    sys.argv = [str(SERVER), PORT, *REST]
    sys.path.insert(0, str(SERVER.parent))
    from http_server import server  # type: ignore[import-not-found]  # it reads the arguments

    inner = server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        message = await receive()
        body = json.loads(message["body"])
        if not is_of_other_era(body):
            given = [message]

            async def again() -> Any:
                return given.pop() if given else await receive()

            await inner(scope, again, send)
            return
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": refusal(body)})

    uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="error")


if __name__ == "__main__":
    if PORT == "0":
        over_pipes()
    else:
        over_http()
