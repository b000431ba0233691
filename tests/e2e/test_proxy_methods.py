"""Methods outside the protocol follow the policy, and so does what the server asks of the client, in both eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.proxy import Client, ProxyWorkspace, refused, text_of


def _says(client: Client, *messages: Any, tool: str = "send") -> Any:
    """Have the server write these messages, and then answer the call, whose id is returned."""
    lines = [message if isinstance(message, str) else json.dumps(message) for message in messages]
    end = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"said"}]}}'
    return client.begin(tool, {"lines": [*lines, end]})


# --- from the server, in the handshake era


def test_a_server_that_reads_no_answers_does_not_hold_up_the_proxy(tmp_path: Path) -> None:
    """Tens of thousands of refused requests are answered as far as the server reads, and few of them are written down."""
    with ProxyWorkspace(tmp_path, "allow *", "deny mcp.roots.list") as work:
        client = work.client()
        line = json.dumps({"jsonrpc": "2.0", "id": "flood", "method": "roots/list"})
        assert text_of(client.answer(_says(client, *[line] * 20_000), 60)) == "said"
        assert not refused(client.call("echo"))
        assert len(work.facts("upstream.refused")) < 110
