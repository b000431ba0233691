"""A client for the official conformance suite: `adjourn connect`, and `adjourn serve login` when an error says so.

`python conformance_client.py URL`, as the suite starts it; the person allows everything. Exit code 0 when a tool could be called.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
from contextlib import suppress
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult, Tool
from pydantic import ValidationError

from adjourn.errors import AdjournError
from adjourn.gateway.login_flow import LoginOptions, log_in
from adjourn.gateway.login_store import alone, keep

CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
ATTEMPTS = 3
"""Logins at most: a person does not try again for ever."""
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client-id metadata document that the suite knows."""


async def work(url: str) -> None:
    """One session of a client that starts the bridge."""
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "adjourn", "connect", url], env=dict(os.environ)
    )
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    mode = "legacy" if revision < "2026" else revision
    async with Client(started, mode=mode, elicitation_callback=accept) as client:
        tools = (await client.list_tools()).tools
        made: list[dict[str, Any]] = [{"name": tool.name, "arguments": given(tool.name, tools)} for tool in tools]
        for call in CONTEXT.get("toolCalls") or made:
            with suppress(ValidationError):  # the SDK reads an answer without `resultType` more strictly than the suite
                await client.call_tool(call["name"], call["arguments"])


def given(tool: str, tools: list[Tool]) -> dict[str, Any]:
    """The arguments that the suite expects of a client for a tool."""
    if tool == "json_schema_echo":
        return {"schema": tools[0].input_schema}
    return {"a": 5, "b": 3} if tool == "add_numbers" else {}


async def accept(context: Any, params: Any) -> ElicitResult:
    """Answer each question with the defaults of its form."""
    del context
    members = (getattr(params, "requested_schema", None) or {}).get("properties", {})
    answer = {name: member.get("default", "x") for name, member in members.items()}
    return ElicitResult(action="accept", content=answer)


def refusal(error: BaseException) -> str:
    """The message of the server's error in what a session raised."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(refusal, error.exceptions)), "")
    return error.message if isinstance(error, MCPError) else ""


def main(url: str) -> int:
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))
    from support.login import visit, without_keyring  # found by the line above

    without_keyring()
    client_id, secret = CONTEXT.get("client_id") or DOCUMENT, CONTEXT.get("client_secret") or ""
    for _ in range(ATTEMPTS):
        try:
            asyncio.run(work(url))
        except* MCPError as group:
            said = refusal(group)
        else:
            return 0
        print(said, file=sys.stderr)
        words = shlex.split(said.partition("run: ")[2])
        if not words:
            return 1
        scope = words[words.index("--scope") + 1] if "--scope" in words else ""
        try:
            with alone(url):
                keep(log_in(url, LoginOptions(scope, client_id, secret, browser=False), visit))
        except AdjournError as error:
            print(error, file=sys.stderr)
            return 1
    return 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ADJOURN_CONFIG"] = folder
        sys.exit(main(sys.argv[-1]))
