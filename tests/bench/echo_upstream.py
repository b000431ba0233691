"""A trivial MCP server, standard library only: the upstream of the proxy benchmarks. It echoes a call's arguments.

`notes.get` is listed as reading only; `notes.set` is not. Each answer is one write, as most servers do it.
"""

from __future__ import annotations

import json
import os
from typing import Any

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}
TOOLS = [
    {"name": "notes.get", "description": "Get a note.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "notes.set", "description": "Set a note.", "inputSchema": SCHEMA},
]


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    if message["method"] == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(message["params"]["arguments"])}]}
    if message["method"] == "tools/list":
        return {"tools": TOOLS}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "echo", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    return {}


def main() -> None:
    partial = b""
    while chunk := os.read(0, 1 << 16):
        *lines, partial = (partial + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "id" in message:
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}
                os.write(1, json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main()
