"""An MCP server over Streamable HTTP or stdio, made with the official SDK: `python http_server.py PORT FOLDER` (PORT 0: stdio).

What its tools did is in the folder: one line a call in `calls`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ToolAnnotations,
)
from pydantic import BaseModel

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
server = MCPServer("up")
READS = ToolAnnotations(read_only_hint=True)


class Answer(BaseModel):
    colour: str


def note(text: str) -> None:
    with (FOLDER / "calls").open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


@server.tool(annotations=READS)
async def echo(text: str, ctx: Context) -> str:
    """Say it again, with progress on the way."""
    await ctx.report_progress(1, 2, "half")
    return text


@server.tool()
def write(text: str) -> str:
    """Has an effect."""
    note(text)
    return "written"


@server.tool()
def slow(text: str) -> str:
    """Has an effect, and takes ten seconds."""
    note(text)
    time.sleep(10)
    return "done"


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the person at the client."""
    found = await ctx.elicit("Which colour?", Answer)
    return str(found)


@server.tool()
async def pause(text: str, seconds: float) -> str:
    """Has an effect, and takes its time."""
    note(text)
    await anyio.sleep(seconds)
    return "paused"


@server.tool()
async def ask_again(ctx: Context) -> str | InputRequiredResult:
    """Ask the person at the client, as the stateless revision does."""
    given = (ctx.input_responses or {}).get("colour")
    if isinstance(given, ElicitResult):
        note("asked")
        return str(given.content)
    form = ElicitRequestFormParams(message="Which colour?", requested_schema=Answer.model_json_schema())
    return InputRequiredResult(input_requests={"colour": ElicitRequest(params=form)})


@server.resource("notes://one")
def one() -> str:
    """A resource."""
    return "a note"


@server.prompt()
def greet(name: str) -> str:
    """A prompt."""
    return f"Say hello to {name}."


if __name__ == "__main__":
    if PORT:
        server.run(transport="streamable-http", host="127.0.0.1", port=PORT)
    else:
        server.run(transport="stdio")
