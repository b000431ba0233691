"""The server of `http_server.py`, in one protocol era only: `python one_era.py ERA PORT FOLDER [NAME]` (PORT 0: stdio; ERA legacy or modern)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("http_server.py")
MODERN = "io.modelcontextprotocol/protocolVersion"


def is_of_other_era(body: Any, era: str) -> bool:
    """Whether a message is of the era that a server of this one does not have."""
    params = body.get("params") or {}
    is_modern = body.get("method") == "server/discover" or MODERN in (params.get("_meta") or {})
    return "id" in body and "method" in body and is_modern != (era == "modern")


def refusal(body: Any) -> bytes:
    error = {"code": -32601, "message": "Method not found"}
    return json.dumps({"jsonrpc": "2.0", "id": body["id"], "error": error}).encode()


def over_pipes(era: str, rest: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, str(SERVER), "0", *rest], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def back(stream: Any = child.stdout) -> None:
            for line in stream:
                say(line)

        threading.Thread(target=back).start()
        for line in sys.stdin.buffer:
            body = json.loads(line)
            if is_of_other_era(body, era):
                say(refusal(body) + b"\n")
            else:
                child.stdin.write(line)
                child.stdin.flush()
        child.stdin.close()


def say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def over_http(era: str, port: str, rest: list[str]) -> None:
    import uvicorn  # only here

    sys.argv = [str(SERVER), port, *rest]
    sys.path.insert(0, str(SERVER.parent))
    from http_server import server  # type: ignore[import-not-found]  # it reads the arguments

    uvicorn.run(only(era, server.streamable_http_app()), host="127.0.0.1", port=int(port), log_level="error")


def only(era: str, inner: Any) -> Any:
    """An ASGI application that passes on the messages of one era, and answers the others as a server that does not know them."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        message = await receive()
        body = json.loads(message["body"])
        if not is_of_other_era(body, era):
            given = [message]

            async def again() -> Any:
                return given.pop() if given else await receive()

            await inner(scope, again, send)
            return
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": refusal(body)})

    return app


if __name__ == "__main__":
    if sys.argv[2] == "0":
        over_pipes(sys.argv[1], sys.argv[3:])
    else:
        over_http(sys.argv[1], sys.argv[2], sys.argv[3:])
