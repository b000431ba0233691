"""A server with what the official conformance suite looks for, made with the SDK: `python conformance_server.py PORT`.

The suite names the tools, resources and prompts. What this server lacks it fails, with the gateway before it or not.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types import (
    AudioContent,
    Completion,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    JSONRPCMessage,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
SOUND = base64.b64encode(b"RIFF").decode()
server = MCPServer("conformance", version="1")


class Kept(EventStore):
    """Events of all streams, so that a broken stream can be continued."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self._events):
            return None
        wanted = self._events[int(last_event_id) - 1][0]
        for number, (stream, message) in enumerate(self._events, 1):
            if stream == wanted and number > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return wanted


class Said(BaseModel):
    response: str


class Defaults(BaseModel):
    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True)


def image() -> ImageContent:
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def resource() -> EmbeddedResource:
    contents = TextResourceContents(uri="test://embedded", mime_type="text/plain", text="embedded")
    return EmbeddedResource(type="resource", resource=contents)


@server.tool()
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@server.tool()
def test_image_content() -> list[ImageContent]:
    return [image()]


@server.tool()
def test_audio_content() -> list[AudioContent]:
    return [AudioContent(type="audio", data=SOUND, mime_type="audio/wav")]


@server.tool()
def test_embedded_resource() -> list[EmbeddedResource]:
    return [resource()]


@server.tool()
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    return [TextContent(type="text", text="several"), image(), resource()]


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    for step in ("started", "working", "done"):
        await ctx.info(step)
        await asyncio.sleep(0.05)
    return "logged"


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    for step in (0, 50, 100):
        await ctx.report_progress(step, 100)
        await asyncio.sleep(0.05)
    return "done"


@server.tool()
def test_error_handling() -> str:
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    result = await ctx.session.create_message(messages=[message], max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {result.content}"


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    return f"User response: {await ctx.elicit(message=message, schema=Said)}"


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    return f"Elicitation completed: {await ctx.elicit(message='Please provide', schema=Defaults)}"


@server.tool()
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    answers: Any = ctx.input_responses
    if answers and "user_name" in answers:
        return f"Hello, {(answers['user_name'].content or {}).get('name')}!"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    asked = ElicitRequest(params=ElicitRequestFormParams(message="What is your name?", requested_schema=schema))
    return InputRequiredResult(input_requests={"user_name": asked})


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Close the stream in the middle: the client continues it by GET."""
    await ctx.info("before")
    await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    await ctx.info("after")
    return "Reconnection test completed"


@server.resource("test://static-text")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary")
def static_binary() -> bytes:
    return base64.b64decode(PIXEL)


@server.resource("test://template/{id}/data")
def template(id: str) -> str:  # noqa: A002  # the suite's name
    return f'{{"id": "{id}", "templateTest": true}}'


@server.prompt()
def test_simple_prompt() -> list[UserMessage]:
    return [UserMessage("This is a simple prompt for testing.")]


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # the SDK says no types
async def complete(ref: object, argument: object, context: object) -> Completion:
    del ref, argument, context
    return Completion(values=[], total=0, has_more=False)


if __name__ == "__main__":
    server.run(
        transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]), event_store=Kept(), retry_interval=100
    )
