"""What passes, passes byte for byte, in order, and without being collected in memory."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from support.processes import resident
from support.proxy import ERAS, MODERN, ProxyWorkspace, text_of, wait_for
from support.requirements import requirement

# --- from the client


@requirement("D9")
@pytest.mark.parametrize("era", ERAS)
def test_a_clients_bytes_reach_the_upstream_unchanged(tmp_path: Path, era: str) -> None:
    """Messages of a client reach the server byte for byte, with their spaces, numbers and escapes."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(era=era)
        before = len(work.forwarded())
        meta = b'"_meta" : {"io.modelcontextprotocol/protocolVersion":"2026-07-28"}, ' if era == MODERN else b""
        lines = [
            b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{%s"name":"echo","arguments":{"f":1.0,"e":1e2,'
            b'"l":12345678901234567890123,"u":"\\u00e9\\/","n":-0}},"more":[1.50]}\n' % meta,
            b'  {"method" : "x/unknown" , "id": 77 ,\t"params":{%s"deep":{"id":1,"name":2}}, "jsonrpc": "2.0"}  \r\n'
            % meta,
            '{"jsonrpc":"2.0","method":"notifications/x","params":{"ü":"\u00a0"}}\n'.encode(),
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never"}}\n',
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.0,"progress":0.10}}\n',
            b'{"jsonrpc":"2.0","id":"unknown","result":{"a":1.0}}\n',
            b'{"jsonrpc":"2.0","id":"unknown","error":{"code":-1,"message":"x"}}\n',
            b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"ping"}\n',
        ]
        client.send(b"\n", b"  \r\n", *lines)
        wait_for(lambda: len(work.forwarded()) == before + len(lines))
        assert work.forwarded()[before:] == lines
        assert client.answer("a")
        assert client.answer(77)["result"]["method"] == "x/unknown"
        assert client.answer(12345678901234567890123)["result"] is not None


def test_messages_of_any_size_pass_both_ways(tmp_path: Path) -> None:
    """Arguments and results of up to 5 MB pass unchanged, also at the sizes of buffers."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        for size in (1, 1000, 65_535, 65_536, 65_537, 1_000_000, 5_000_000):
            text = "x" * size
            assert json.loads(text_of(client.call("echo", {"t": text}))) == {"t": text}


# --- from the server


@requirement("D9")
def test_an_upstreams_bytes_reach_the_client_unchanged(tmp_path: Path) -> None:
    """Messages of a server reach the client byte for byte, and a line that is no JSON is logged."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        lines = [
            '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}',
            ' {"method" : "notifications/tools/list_changed", "jsonrpc":"2.0"} \r',
            '{"jsonrpc":"2.0","id":"srv-a","method":"sampling/createMessage","params":{"maxTokens":1e2}}',
            '{"jsonrpc":"2.0","id":4711,"method":"roots/list"}',
            "this is no JSON at all",
            '{"jsonrpc":"2.0","result":{"text":"a\\u00e9","x":1.0,"y":12345678901234567890123}, "id":$ID}',
        ]
        request = client.begin("send", {"lines": lines})
        end = time.monotonic() + 10
        while sum(line.count(b"12345678901234567890123") for line in client.received) == 0:
            assert time.monotonic() < end
            time.sleep(0.01)
        lines.remove("this is no JSON at all")
        expected = [line.replace("$ID", str(request)).encode() + b"\n" for line in lines]
        assert client.received[-len(lines) :] == expected
        assert "upstream.non_jsonrpc" in client.stderr()
        assert [fact.line for fact in work.facts("upstream.non_jsonrpc")] == ["this is no JSON at all\n"]


# --- memory


@requirement("D43")
def test_a_client_that_reads_slowly_holds_the_upstream_back(tmp_path: Path) -> None:
    """While the client does not read, the proxy does not collect the server's output in memory."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        client.paused.set()
        for _ in range(60):
            client.begin("big", {"size": 10 << 20})
        peak, end = 0, time.monotonic() + 1.0
        while time.monotonic() < end:
            peak = max(peak, resident(client.process.pid))
            time.sleep(0.05)
        assert peak < 200 << 20


@requirement("D43")
def test_memory_does_not_grow_with_the_calls(tmp_path: Path) -> None:
    """The proxy's memory stays level over thousands of calls."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        after: list[int] = []
        for _ in range(4):
            for start in range(0, 1000, 50):
                client.post(*(client.call_message("echo", {"n": start + n}) for n in range(50)))
                last = client.begin("file.read")
                client.answer(last)
                client.forget()
            after.append(resident(client.process.pid))
        assert after[-1] - after[0] < 3 << 20, after
