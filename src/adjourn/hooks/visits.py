"""Whose hook this is: the visitor that the options and the environment make of the client.

Owns: that. Must never: look at a call.
"""

from __future__ import annotations

import os

from adjourn.clients import ClientCapabilities, ClientOptions, Visitor
from adjourn.hooks.claude_code import CODEX
from adjourn.host import process
from adjourn.policy import Contract


def visitor_of(options: dict[str, str], contract: Contract, root: str) -> Visitor:
    """The client as a visitor of this workspace."""
    client = options["--client"]
    client_options = ClientOptions(
        root=root, contract=contract, store=options["--store"], task=options["--task"]
    )
    capabilities = ClientCapabilities(settles=bool(options["--settle"]), asks=client != CODEX)
    return Visitor(client_options, client, _process_of_client(client), capabilities)


def _process_of_client(client: str) -> int:
    """The client's process, 0 where nothing tells. Claude Code says it; Codex is known by its program's name."""
    if client == CODEX:
        return next((one.pid for one in process.ancestors() if process.program(one.pid) == CODEX), 0)
    named = os.environ.get("CLAUDE_PID", "")
    return int(named) if named.isdecimal() and named.isascii() else 0
