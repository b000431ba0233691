"""An MCP server that goes wrong in the way that its first argument names. Standard library only: `python -I -S odd.py WAY`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

WAY = sys.argv[1]
TOOL = {"name": "look", "inputSchema": {"type": "object"}}


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def result(message: dict[str, Any], value: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": value}))


def start() -> None:
    if WAY == "exits":
        sys.stderr.write("loading\nno such database\npassword=hunter2hunter2 \x1b[31mred\n")
        sys.exit(3)
    elif WAY == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif WAY == "hangs":
        time.sleep(600)
    elif WAY == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
        with open(sys.argv[2], "w", encoding="ascii") as file:
            file.write(f"{os.getpid()} {child.pid}")
    elif WAY == "floods":
        while True:
            sys.stdout.write('{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n' * 1000)
    elif WAY == "endless":
        while True:
            sys.stdout.write("x" * 65536)
    elif WAY == "junk":
        write("Server ready!\n\n{not json")


capable: list[str] = []
"""What the client says that it can do."""


def page(message: dict[str, Any]) -> dict[str, Any]:
    cursor = message["params"].get("cursor", "0")
    match WAY:
        case "many":
            return {"tools": [TOOL | {"name": f"tool_{number}"} for number in range(int(sys.argv[2]))]}
        case "pages":
            return {"tools": [TOOL | {"name": f"t{cursor}"}], "nextCursor": str(int(cursor) + 1)}
        case "capable" | "grows":
            return {"tools": [TOOL, *(TOOL | {"name": name.rpartition("/")[2]} for name in capable)]}
        case "address":
            schema = {"type": "object", "properties": {"siteUrl": {"type": "string"}}}
            hints = [{"readOnlyHint": True}, {"readOnlyHint": True, "openWorldHint": False}]
            more = [
                {"name": f"read_{number}", "inputSchema": schema, "annotations": one}
                for number, one in enumerate(hints)
            ]
            return {"tools": [TOOL, *more, TOOL | {"name": "web_search"}]}
        case "circles":
            return {"tools": [TOOL], "nextCursor": "again"}
        case "wrong":
            return {"tools": "none"}
        case "twice":
            hints = [{"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": True}]
            return {"tools": [TOOL | {"annotations": one} for one in hints] + [{"name": 7}, {"name": ""}]}
    return {"tools": [TOOL]}


def grow(message: dict[str, Any]) -> None:
    """List what there is, ask for the roots, and say that there is more now."""
    result(message, {"tools": [TOOL]})
    write('{"jsonrpc":"2.0","id":"r","method":"roots/list"}')
    capable.append(json.loads(sys.stdin.readline())["result"]["roots"][0]["uri"])
    write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')


def greeting(message: dict[str, Any]) -> dict[str, Any]:
    if WAY in ("capable", "grows"):
        capable.extend(sorted(message["params"]["capabilities"]))
    changes = {"capabilities": {"tools": {"listChanged": True}}} if WAY == "grows" else {}
    return {"protocolVersion": "2025-06-18", "serverInfo": {"name": "odd one"}, **changes}


def main() -> None:
    start()
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize" and WAY == "stateless":
            error = {"code": -32022, "message": "unsupported protocol version"}
            write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))
        elif message.get("method") == "initialize":
            if WAY == "asks":
                write('{"jsonrpc":"2.0","id":1,"method":"roots/list"}\n{"jsonrpc":"2.0","id":"p","method":"ping"}')
                got = {json.loads(sys.stdin.readline())["id"] for _ in range(2)}
                assert got == {1, "p"}
            result(message, greeting(message))
        elif message.get("method") == "tools/list":
            if WAY == "later":
                sys.stderr.write("lost the connection\n")
                sys.exit(1)
            if WAY == "refuses":
                error = {"code": -32603, "message": "log in first"}
                write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))
            elif WAY == "grows" and not capable[-1].startswith("file:"):
                grow(message)
            else:
                meta = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new one"}}}
                result(message, {**page(message), **(meta if WAY == "stateless" else {})})
    if WAY == "stays":
        time.sleep(600)


if __name__ == "__main__":
    main()
