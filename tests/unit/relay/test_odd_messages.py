"""Messages that are invalid, ambiguous, batched or too large: each is answered or refused, and the proxy continues."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.in_process import MODERN, NEW, OLD, ProxyWorkspace, refused, text_of, wait_for
from support.requirements import requirement


@requirement("D10")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"null", -32600),
        (b"5", -32600),
        (b'"tools/call"', -32600),
        (b"true", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":7}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":""}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":null}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"x"}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":[]}}', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":5}}', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}', -32602),
        (b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"echo"}}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"echo"}}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"echo"}}', -32600),
        (b'{"jsonrpc":"2.0","id":[],"method":"tools/call","params":{"name":"echo"}}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"echo"}}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"},"result":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":7', -32700),
        (b"[[[[", -32700),
        (b"hello", -32700),
    ],
)
def test_an_odd_message_is_answered_and_the_proxy_goes_on(odd: ProxyWorkspace, line: bytes, code: int) -> None:
    """A message that is no valid request gets an error with the next step as a sentence of its own, and the next call passes."""
    before = len(odd.forwarded())
    (client,) = odd.clients
    client.send(line + b"\n")
    error = client.find(lambda body: "error" in body)
    assert error["error"]["code"] == code
    assert re.fullmatch(r"[^.].*\. [A-Z].*\.", error["error"]["message"])
    assert error["id"] in (None, 7, 1.5)
    assert not refused(client.call("echo"))
    assert len(odd.forwarded()) == before + 1  # the probe alone


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """One proxy for many odd messages. A first call opened its task, so that each test can count what the task holds."""
    with ProxyWorkspace(tmp_path_factory.mktemp("odd"), "allow echo") as work:
        work.client().call("echo")
        yield work


@requirement("D10")
def test_an_odd_message_does_no_harm_to_its_neighbours_in_one_write(tmp_path: Path) -> None:
    """Odd notifications and answers do not affect the messages before and after them."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        odd = [
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ["a", {}]}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {"a": 1}}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
            {"jsonrpc": "2.0", "id": {"a": 1}, "result": {}},
            {"jsonrpc": "2.0", "id": [1], "error": {}},
            {"jsonrpc": "2.0", "id": None, "result": {}},
        ]
        for message in odd:
            before, after = client.call_message("echo", {"n": 1}), client.message("ping")
            client.post(before, client.message("tools/list", request_id=f"list-{id(message)}"), message, after)
            assert not refused(client.answer(before["id"])), message
            assert client.answer(f"list-{id(message)}")["result"]["tools"], message
            assert client.answer(after["id"])["result"] == {}, message


@requirement("D10")
def test_arguments_nested_to_any_depth_are_decided_on(tmp_path: Path) -> None:
    """Deeply nested arguments are forwarded or refused, and the proxy stays up."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        for depth in (10, 100, 300, 600, 900, 990, 1100, 5000, 100_000):
            nested = b'{"a":' * depth + b"1" + b"}" * depth
            request_id = f"n{depth}"
            client.send(
                b'{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"echo","arguments":%s}}\n'
                % (request_id.encode(), nested)
            )
            answer = client.find(lambda body: "result" in body or "error" in body)
            assert answer["id"] in (request_id, None), depth
            if answer["id"] is None:
                assert answer["error"]["code"] == -32700, depth
        assert not refused(client.call("echo"))
        assert "proxy.bug" not in client.stderr()


def test_an_id_in_use_cannot_be_used_again(tmp_path: Path) -> None:
    """A request with the id of an open request is refused, and the open one gets its answer."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        first = client.begin("slow", {"seconds": 0.5})
        client.post(client.message("tools/call", {"name": "echo", "arguments": {}}, request_id=first))
        assert client.answer(first)["error"]["code"] == -32600
        assert text_of(client.answer(first)) == "slow"
        assert work.executed() == ["slow"]


@requirement("D32")
def test_a_call_without_an_id_goes_nowhere_and_is_written_down(tmp_path: Path) -> None:
    """A tool call that is a notification is not forwarded, and is recorded as refused."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        client.post({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo", "arguments": {}}})
        assert client.silent()
        assert not refused(client.call("echo"))
        assert work.executed() == ["echo"]
        (fact,) = work.facts("message.refused")
        assert "without id" in fact.reason
        assert work.ledger().calls_used == 1


@requirement("D1")
@pytest.mark.parametrize("era", ["2024-11-05", "2025-03-26"])
def test_each_element_of_a_batch_is_gated(tmp_path: Path, era: str) -> None:
    """Each element of a batch is decided by itself, and forwarded as a message of its own."""
    with ProxyWorkspace(tmp_path, "allow echo", "deny secrets.*", "budget calls=2") as work:
        client = work.client(era=era)
        calls = [client.call_message(tool) for tool in ("echo", "secrets.read", "echo", "echo")]
        client.post([*calls, client.message("ping"), {"jsonrpc": "2.0", "method": "notifications/x"}, 5])
        answers = client.find(lambda body: "batch" in body)["batch"]
        by_id = {answer["id"]: answer for answer in answers}
        assert len(answers) == 6
        assert [refused(by_id[call["id"]]) for call in calls] == [False, True, False, True]
        assert by_id[None]["error"]["code"] == -32600
        assert work.executed() == ["echo", "echo"]
        assert not any(line.startswith(b"[") for line in work.forwarded())


@requirement("D1")
@pytest.mark.parametrize("era", [OLD, NEW, MODERN])
def test_a_revision_without_batches_refuses_them_whole(tmp_path: Path, era: str) -> None:
    """In protocol revisions without batches, a batch is refused and nothing of it is forwarded."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(era=era)
        before = len(work.forwarded())
        client.post([client.call_message("echo"), client.message("ping")])
        assert client.find(lambda body: "error" in body)["error"]["code"] == -32600
        client.send(b"[]\n")
        assert client.find(lambda body: "error" in body)["error"]["code"] == -32600
        assert len(work.forwarded()) == before


def _call(params: bytes, around: bytes = b"%s") -> bytes:
    return around % (b'{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":%s}' % params) + b"\n"


AMBIGUOUS = {
    "duplicate name": _call(b'{"name":"echo","name":"secrets.read"}'),
    "duplicate name by escape": _call(b'{"name":"secrets.read","n\\u0061me":"echo"}'),
    "name in another case": _call(b'{"name":"echo","Name":"secrets.read"}'),
    "name with a long s": b'{"jsonrpc":"2.0","id":1,"method":"ping","param\xc5\xbf":{"name":"x"}}\n',
    "duplicate params": b'{"id":1,"method":"tools/call","params":{"name":"echo"},"params":{"name":"secrets.read"}}\n',
    "duplicate method": b'{"id":1,"method":"ping","method":"tools/call","params":{"name":"secrets.read"}}\n',
    "duplicate method by escape": b'{"id":1,"method":"ping","meth\\u006fd":"tools/call","params":{"name":"x"}}\n',
    "method in another case": b'{"id":1,"method":"ping","Method":"tools/call","params":{"name":"secrets.read"}}\n',
    "duplicate id": b'{"id":1,"id":2,"method":"tools/call","params":{"name":"echo"}}\n',
    "duplicate arguments": _call(b'{"name":"echo","arguments":{"a":1},"arguments":{"a":2}}'),
    "duplicate inside the arguments": _call(b'{"name":"echo","arguments":{"path":"a","path":".aex/policy.aex"}}'),
    "duplicate deep inside": _call(b'{"name":"echo","arguments":{"x":[{"a":1,"a" :2}]}}'),
    "duplicate by escape inside": _call(b'{"name":"echo","arguments":{"a":1,"\\u0061":"::"}}'),
    "NaN": _call(b'{"name":"echo","arguments":{"a":NaN}}'),
    "Infinity": _call(b'{"name":"echo","arguments":{"a":-Infinity}}'),
    "invalid UTF-8": _call(b'{"name":"echo","arguments":{"a":"\xff"}}'),
    "overlong UTF-8": _call(b'{"name":"\xc1\xa5cho","arguments":{}}'),
    "encoded surrogate": _call(b'{"name":"echo","arguments":{"a":"\xed\xa0\x80"}}'),
    "lone surrogate escape": _call(b'{"name":"echo","arguments":{"a":"\\ud800"}}'),
    "byte order mark": _call(b'{"name":"echo"}', b"\xef\xbb\xbf%s"),
    "text behind": _call(b'{"name":"echo"}', b"%s {}"),
    "text before": _call(b'{"name":"echo"}', b"x%s"),
    "comment": _call(b'{"name":"echo"/* c */}'),
    "trailing comma": _call(b'{"name":"echo",}'),
    "single quotes": b"{'id':1,'method':'tools/call','params':{'name':'echo'}}\n",
    "leading zero": _call(b'{"name":"echo","arguments":{"a":01}}'),
    "hex number": _call(b'{"name":"echo","arguments":{"a":0x1}}'),
    "control character": _call(b'{"name":"echo","arguments":{"a":"\x01"}}'),
    "NUL behind": _call(b'{"name":"echo"}', b"%s\0"),
    "huge number": _call(b'{"name":"echo","arguments":{"a":1e999}}'),
    "long number": _call(b'{"name":"echo","arguments":{"a":%s}}' % (b"9" * 10_000)),
    "UTF-16": _call(b'{"name":"echo"}').decode().encode("utf-16")[:-1].replace(b"\n", b" ") + b"\n",
    "method in another spelling": _call(b'{"name":"secrets.read"}').replace(b"tools/call", b"Tools/Call"),
    "method with a blank": _call(b'{"name":"secrets.read"}').replace(b"tools/call", b"tools/call "),
}


@requirement("D2")
@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_what_two_parsers_could_read_differently_goes_nowhere(odd: ProxyWorkspace, kind: str) -> None:
    """A message that two JSON parsers could read differently is refused, recorded and not forwarded."""
    before = len(odd.forwarded())
    refusals = len(odd.facts("message.refused"))
    (client,) = odd.clients
    client.send(AMBIGUOUS[kind])
    assert client.find(lambda body: "error" in body)["error"]["code"] in (-32700, -32600)
    assert not refused(client.call("echo", {"probe": kind}))
    assert len(odd.forwarded()) == before + 1  # the probe alone
    assert len(odd.facts("message.refused")) == refusals + 1


@pytest.mark.parametrize("size", [1000, 1001])
def test_a_batch_has_at_most_a_thousand_elements(tmp_path: Path, size: int) -> None:
    """A longer one is refused as one message, whatever is in it."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(era="2025-03-26")
        before = len(work.forwarded())
        client.post([client.message("ping") for _ in range(size)])
        if size == 1000:
            answers = client.find(lambda body: "batch" in body)["batch"]
            assert len(answers) == size
        else:
            refusal = client.find(lambda body: "error" in body)
            assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
            assert "1,000" in refusal["error"]["message"]
            assert len(work.forwarded()) == before
            assert len(work.facts("message.refused")) == 1


def test_a_flood_of_refused_messages_is_answered_and_not_all_of_it_written_down(tmp_path: Path) -> None:
    """The store must not grow by what a client gets wrong; how much it was is shown by powers of ten."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.send(b"1\n" * 1500)
        client.call("echo")  # its answer may overtake refusals
        wait_for(lambda: sum(b"-32600" in line for line in client.received) == 1500)
        facts = work.facts("message.refused")
        assert len(facts) == 101
        assert {fact.reason for fact in facts[:-1]} == {"a message must be an object"}
        assert facts[-1].reason == "a message must be an object (number 1,000 of those refused)"
