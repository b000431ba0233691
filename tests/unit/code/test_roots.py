"""The folders that a client has opened, as `adjourn code` asks for them over stdio."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.code_stdio import CAPABILITIES, ENVELOPE, HELLO, Client, FakeTools


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with FakeTools(str(tmp_path)) as server:
        client = Client(server)
        yield client
        client.close()


ROOTS: dict[str, Any] = {
    "roots": [{"uri": "file:///srv/a%20b"}, {"uri": "https://elsewhere/x"}, {"uri": "file:///srv/../c"}]
}


def _text(answer: dict[str, Any]) -> Any:
    return json.loads(answer["result"]["content"][0]["text"])


@pytest.mark.parametrize(
    ("answer", "folders"),
    [
        ({"result": ROOTS}, ["/srv/a b", "/c"]),
        ({"result": {"roots": []}}, []),
        ({"result": {"roots": [{"name": "no uri"}]}}, []),
        ({"error": {"code": -32601, "message": "Method not found"}}, []),
    ],
)
def test_a_client_with_roots_is_asked_for_them(client: Client, answer: dict[str, Any], folders: list[str]) -> None:
    """With the handshake the server sends a request of its own, and the call waits for the answer; what is no folder does not count."""
    client.ask(0, "initialize", {**HELLO, "capabilities": {"roots": {}}})
    client.answer()
    client.call(1, "roots")
    question = client.answer()
    assert question["method"] == "roots/list"
    client.send(json.dumps({"jsonrpc": "2.0", "id": "another", "result": ROOTS}))
    client.send(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}))
    assert _text(client.answer()) == folders


def test_a_client_without_roots_is_not_asked(client: Client) -> None:
    """Of a client that declares no roots nothing is known."""
    client.greet()
    client.call(1, "roots")
    assert _text(client.answer()) is None


def test_a_stateless_client_repeats_its_call_with_its_roots(client: Client) -> None:
    """Without a handshake the result asks for the roots; the same call with them is answered."""
    envelope = {**ENVELOPE, CAPABILITIES: {"roots": {}}}
    client.call(1, "roots", _meta=envelope)
    result = client.answer()["result"]
    assert result == {"resultType": "input_required", "inputRequests": {"roots": {"method": "roots/list"}}}
    client.call(2, "roots", _meta=envelope, inputResponses={"roots": ROOTS})
    assert _text(client.answer()) == ["/srv/a b", "/c"]
    client.call(3, "roots", _meta=envelope, inputResponses={})
    assert _text(client.answer()) == []
    client.call(4, "roots", _meta=ENVELOPE)
    assert _text(client.answer()) is None
