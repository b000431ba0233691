"""A client for the OAuth scenarios of the official conformance suite: `adjourn connect`, and `adjourn login` when an error says so.

`python conformance_client.py URL`, as the suite starts it; the person allows everything. Exit code 0 when a tool could be called.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
from typing import Any

from mcp import Client, MCPError, StdioServerParameters

from adjourn.errors import AdjournError
from adjourn.gateway.login import Wish, alone, keep, log_in

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
    async with Client(started, mode="legacy" if revision < "2026" else revision) as client:
        for tool in (await client.list_tools()).tools:
            await client.call_tool(tool.name, {})


def refusal(error: BaseException) -> str:
    """The message of the server's error in what a session raised."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(refusal, error.exceptions)), "")
    return error.message if isinstance(error, MCPError) else ""


def main(url: str) -> int:
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))
    from support.login import visit, without_keyring  # noqa: PLC0415  # found by the line above

    without_keyring()
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    client_id, secret = context.get("client_id") or DOCUMENT, context.get("client_secret") or ""
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
                keep(log_in(url, Wish(scope, client_id, secret, browser=False), visit))
        except AdjournError as error:
            print(error, file=sys.stderr)
            return 1
    return 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ADJOURN_CONFIG"] = folder
        sys.exit(main(sys.argv[-1]))
