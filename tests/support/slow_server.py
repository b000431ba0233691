"""An MCP server that keeps whoever reads, prompts or completes waiting: `python slow_server.py PORT FOLDER` (PORT 0: stdio).

Each request is a line in the folder's file `calls`. What names `slow` is answered once the folder has a file `go`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import Completion

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
server = MCPServer("slow")


async def asked(method: str, name: str) -> str:
    with (FOLDER / "calls").open("a", encoding="utf-8") as file:
        file.write(f"{method} {name}\n")
    while name == "slow" and not (FOLDER / "go").exists():  # noqa: ASYNC110  # another process makes it
        await anyio.sleep(0.05)
    return f"{method} {name}"


@server.tool()
async def write(text: str) -> str:
    """Has an effect."""
    return await asked("tools/call", text)


@server.resource("notes://{name}")
async def note(name: str) -> str:
    """A resource."""
    return await asked("resources/read", name)


@server.prompt()
async def greet(name: str) -> str:
    """A prompt."""
    return await asked("prompts/get", name)


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # the SDK says no types
async def complete(_ref: Any, argument: Any, _context: Any) -> Completion:
    return Completion(values=[await asked("completion/complete", argument.value)])


if __name__ == "__main__":
    if PORT:
        server.run(transport="streamable-http", host="127.0.0.1", port=PORT)
    else:
        server.run(transport="stdio")
