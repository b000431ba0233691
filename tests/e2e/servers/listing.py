"""An MCP server with the tools that its arguments name: `listing.py FILE TOOL…`. Each call adds the tool's name to FILE."""

from __future__ import annotations

import json
import sys
from typing import Any

FILE, *TOOLS = sys.argv[1:]


def result(message: dict[str, Any]) -> dict[str, Any] | None:
    params = message.get("params", {})
    match message.get("method"):
        case "initialize":
            info = {"name": "listing", "version": "1"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [{"name": tool, "inputSchema": {"type": "object"}} for tool in TOOLS]}
        case "tools/call":
            with open(FILE, "a", encoding="utf-8") as file:
                file.write(params["name"] + "\n")
            return {"content": [{"type": "text", "text": f"done: {params['name']}"}]}
    return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if (answer := result(message)) is not None:
            body = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
            sys.stdout.write(json.dumps(body) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
