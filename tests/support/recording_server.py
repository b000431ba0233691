"""A trivial MCP server over HTTP that keeps each request that it gets: headers and message.

Owns: `RecordingServer`. Must never: need an SDK.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SCHEMA = {"type": "object"}
TOOLS = [
    {"name": "echo", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "write", "inputSchema": SCHEMA},
]


class RecordingServer(ThreadingHTTPServer):
    """Answers each call with its arguments, in either era."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def of(self, method: str) -> list[tuple[dict[str, str], dict[str, Any]]]:
        """The requests of a method."""
        return [one for one in self.requests if one[1].get("method") == method]


class _Handler(BaseHTTPRequestHandler):
    server: RecordingServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((headers, message))
        if "id" not in message:
            self._say(202, b"")
            return
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": _result(message)}
        self._say(200, json.dumps(answer).encode())

    def do_GET(self) -> None:
        self._say(405, b"")

    def do_DELETE(self) -> None:
        self._say(200, b"")

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _result(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params") or {}
    if message["method"] == "tools/call":
        text = json.dumps(params.get("arguments"))
        return {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    if message["method"] == "tools/list":
        return {"resultType": "complete", "tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
    info = {"name": "recording", "version": "1"}
    if message["method"] == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if message["method"] == "server/discover":
        return {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "serverInfo": info,
            "ttlMs": 0,
            "cacheScope": "private",
        }
    return {"resultType": "complete"}
