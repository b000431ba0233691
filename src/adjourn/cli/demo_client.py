"""An MCP client for the demonstration, on the official SDK. Run by the Python of the demonstration's environment.

Takes one JSON object as its argument (`command`, `cwd`, `mode`, `name`, `steps`), calls the steps' tools in order, and
prints one JSON object a line: `{"step": n, "error": bool, "text": …}`. A confirmation is answered with yes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult, Implementation


async def play(script: dict[str, Any]) -> None:
    async def person(context: Any, params: Any) -> Any:
        del context
        tell(step="asked", error=False, text=params.message)
        return ElicitResult(action="accept", content={"approve": True})

    command = script["command"]
    server = StdioServerParameters(command=command[0], args=command[1:], cwd=script["cwd"], env=script["env"])
    name = Implementation(name=script["name"], version="1.0")
    client = Client(stdio_client(server), mode=script["mode"], client_info=name, elicitation_callback=person)
    async with client:
        tell(step="connected", error=False, text=client.protocol_version)
        for number, step in enumerate(script["steps"]):
            tell(step="calling", error=False, text=str(number))
            result = await client.call_tool(step["tool"], step.get("arguments", {}))
            text = "\n".join(getattr(part, "text", "") for part in result.content)
            tell(step=number, error=bool(result.is_error), text=text)


def tell(**line: Any) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    asyncio.run(play(json.loads(sys.argv[1])))
