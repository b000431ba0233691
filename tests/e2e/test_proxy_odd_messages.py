"""Messages that are invalid, ambiguous, batched or too large: each is answered or refused, and the proxy continues."""

from __future__ import annotations

import json
from pathlib import Path

from support.proxy import ProxyWorkspace, encode, refused
from support.requirements import requirement


@requirement("D44")
def test_only_a_line_feed_ends_a_message(tmp_path: Path) -> None:
    """A carriage return or a Unicode line separator does not end a message."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        before = len(work.forwarded())
        hidden = encode(client.call_message("secrets.read")).strip()
        client.send(b'{"jsonrpc":"2.0","method":"notifications/x"}\r' + hidden + b"\n")
        assert client.find(lambda body: "error" in body)["error"]["code"] == -32700
        nested = b'{"jsonrpc":"2.0","id":901,"method":"ping","params":{"x":\r' + hidden + b"\r}}\n"
        client.send(nested)  # one message for us, three lines for a reader that splits at a carriage return
        assert client.find(lambda body: "error" in body)["error"]["code"] == -32700
        client.send(encode(client.message("ping", request_id=900)).strip() + b"\r\n")
        assert client.answer(900)["result"] == {}
        separators = client.call_message("echo", {"a": "\u2028\u2029\x85"})
        client.send(json.dumps(separators, ensure_ascii=False).encode() + b"\n")
        assert not refused(client.answer(separators["id"]))
        assert len(work.forwarded()) == before + 2


def test_a_line_longer_than_the_limit_is_refused_and_the_proxy_goes_on(tmp_path: Path) -> None:
    """A line of more than 64 MiB gets an error, and the next call passes."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        before = len(work.forwarded())
        client.send(b'{"jsonrpc":"2.0","id":5,"method":"ping","x":"')
        for _ in range(65):
            client.send(b"x" * (1 << 20))
        client.send(b'"}\n')
        assert client.find(lambda body: "error" in body)["error"]["code"] == -32700
        assert not refused(client.call("echo"))
        assert len(work.forwarded()) == before + 1
