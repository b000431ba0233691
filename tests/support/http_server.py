"""An MCP server over Streamable HTTP or stdio, made with the official SDK: `python http_server.py PORT FOLDER [NAME]` (PORT 0: stdio).

What its tools did is in the folder: one line a call in `calls`. The template of its pages has its name.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmptyResult,
    InputRequiredResult,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
NAME = sys.argv[3] if len(sys.argv) > 3 else "up"
STATELESS = "2026-07-28"
LEVELS = ("debug", "info", "notice", "warning", "error")
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
    """Has an effect, and takes its time, or until the folder has a file `go`."""
    note(text)
    try:
        with anyio.move_on_after(seconds):
            while not (FOLDER / "go").exists():  # noqa: ASYNC110  # another process makes it
                await anyio.sleep(0.05)
    except anyio.get_cancelled_exc_class():
        note(f"{text} cancelled")
        raise
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


@server.tool(annotations=READS)
async def think(ctx: Context) -> str | InputRequiredResult:
    """Ask the client's model, in whichever way the revision has."""
    content = TextContent(text=f"Who is {NAME}?")
    asked = CreateMessageRequestParams(messages=[SamplingMessage(role="user", content=content)], max_tokens=10)
    if ctx.protocol_version != STATELESS:
        said = await ctx.session.create_message(
            asked.messages, max_tokens=asked.max_tokens, related_request_id=ctx.request_id
        )
    else:
        given = (ctx.input_responses or {}).get("thought")
        if not isinstance(given, CreateMessageResult):
            return InputRequiredResult(input_requests={"thought": CreateMessageRequest(params=asked)})
        said = given
    assert isinstance(said.content, TextContent)
    return said.content.text


@server.tool(annotations=READS)
async def log(ctx: Context) -> str:
    """Log a line of each of two levels."""
    level: Literal["info", "error"]
    for level in ("info", "error"):
        if ctx.protocol_version == STATELESS or LEVELS.index(level) >= LEVELS.index(known.level):
            await ctx.log(level, f"{NAME} {level}")
    return "logged"


class Known:
    """What clients of the handshake revisions have asked for."""

    level = "debug"
    watchers: list[tuple[str, Any]] = []  # noqa: RUF012  # there is one


known = Known()


async def set_level(_context: Any, params: SetLevelRequestParams) -> EmptyResult:
    known.level = params.level
    return EmptyResult()


async def watch(context: Any, params: SubscribeRequestParams) -> EmptyResult:
    known.watchers.append((params.uri, context.session))
    return EmptyResult()


for method, kind, handler in (
    ("logging/setLevel", SetLevelRequestParams, set_level),
    ("resources/subscribe", SubscribeRequestParams, watch),
):  # the SDK has no other way
    server._lowlevel_server.add_request_handler(method, kind, handler)  # type: ignore[arg-type]


@server.tool(annotations=READS)
async def touch(uri: str, ctx: Context) -> str:
    """Say that a resource has changed, to whoever wants to know."""
    for watched, session in known.watchers:
        if watched == uri:
            await session.send_resource_updated(uri)
    await ctx.notify_resource_updated(uri)
    return "touched"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(ref: Any, argument: Any, _context: Any) -> Completion:
    """What its server is called, and what was asked for."""
    return Completion(values=[f"{NAME} {getattr(ref, 'uri', '') or ref.name} {argument.value}"])


@server.resource(f"{NAME}://pages/{{page}}")
def page_of(page: str) -> str:
    """A page of this server."""
    return f"{page} of {NAME}"


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
