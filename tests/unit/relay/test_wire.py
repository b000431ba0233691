"""What passes, passes byte for byte, in order, and without being collected in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.in_process import ProxyWorkspace, refused, text_of, wait_for

# --- from the client


def test_order_is_kept_between_calls_and_what_passes(tmp_path: Path) -> None:
    """Calls and notifications reach the server in the order in which the client sent them."""
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*") as work:
        client = work.client()
        before = len(work.forwarded())
        messages = []
        for n in range(30):
            messages.append(client.call_message("echo" if n % 4 else "secrets.read", {"n": n}))
            messages.append({"jsonrpc": "2.0", "method": "notifications/x", "params": {"n": n}})
        client.post(*messages)
        client.ask("ping")
        kept = [json.loads(line) for line in work.forwarded()[before:-1]]
        assert kept == [m for m in messages if m.get("params", {}).get("name") != "secrets.read"]


def test_a_character_at_which_some_servers_end_a_line_reaches_them_escaped(tmp_path: Path) -> None:
    """Or a text could hold a second message, which the policy never saw."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        hidden = '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"deploy.run"}}'
        sent = client.call_message("echo", {"text": f"\u2028{hidden}\u2028\u2029\x85"})
        client.send(json.dumps(sent, ensure_ascii=False).encode() + b"\n")
        assert json.loads(text_of(client.answer(sent["id"]))) == sent["params"]["arguments"]
        assert len(work.forwarded()[-1].decode().splitlines()) == 1


# --- from the server


def test_a_request_of_the_upstream_and_its_answer_pass_unchanged(tmp_path: Path) -> None:
    """A request of the server reaches the client, and the client's answer the server, byte for byte."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(elicits=True)
        for method in ("sampling/createMessage", "roots/list", "elicitation/create", "x/odd"):
            call = client.begin("ask", {"method": method})
            asked = client.asked(method)["id"].encode()
            answer = b'{"jsonrpc":"2.0", "id":"%s", "result":{"action":"accept","n":1.0}}\n' % asked
            client.send(answer)
            assert text_of(client.answer(call)) == answer.decode().strip()
            assert work.forwarded()[-1] == answer


def test_progress_reaches_the_client_before_the_answer(tmp_path: Path) -> None:
    """Progress notifications of a call reach the client in order, before the result."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        call = client.begin("progress", _meta={"progressToken": "p1"})
        steps = [client.asked("notifications/progress")["params"] for _ in range(2)]
        assert steps == [{"progressToken": "p1", "progress": 1}, {"progressToken": "p1", "progress": 2}]
        assert text_of(client.answer(call)) == "done"


UNASKED = {
    "an id never used": '{"jsonrpc":"2.0","id":999,"result":{}}',
    "an id never used, an error": '{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"x"}}',
    "not strict, never used": '{"jsonrpc":"2.0","id":998,"result":NaN}',
    "not UTF-8, never used": '{"jsonrpc":"2.0","id":997,"result":"\xff"}',
    "another type of the same id": '{"jsonrpc":"2.0","id":"$ID","result":{}}',
    "the same id as a float": '{"jsonrpc":"2.0","id":$ID.0,"result":{}}',
    "true": '{"jsonrpc":"2.0","id":true,"result":{}}',
    "null": '{"jsonrpc":"2.0","id":null,"result":{}}',
    "a list": '{"jsonrpc":"2.0","id":[$ID],"result":{}}',
    "in a batch": '[{"jsonrpc":"2.0","id":996,"result":{}},[[{"jsonrpc":"2.0","id":995,"result":{}}]]]',
    "nested deeply": "[" * 500 + '{"jsonrpc":"2.0","id":994,"result":{}}' + "]" * 500,
}  # fmt: skip


def test_an_answer_that_nobody_asked_for_is_dropped(tmp_path: Path) -> None:
    """An answer of the server with an unknown or used id is logged and not passed on."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        good = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}'
        for kind, line in UNASKED.items():
            before = client.stderr().count("answer.unasked")
            request = client.begin("send", {"lines": [line, good, good]})
            assert client.answer(request)["result"] == {"content": []}, kind
            client.ask("ping")
            assert client.silent(0.05), (kind, client.received[-3:])
            assert client.stderr().count("answer.unasked") > before, kind
        assert not work.ledger().open_calls


LENIENT = {
    "NaN": '{"jsonrpc":"2.0","id":$ID,"result":{"x":NaN}}',
    "-Infinity": '{"jsonrpc":"2.0","id":$ID,"result":{"x":-Infinity}}',
    "half a surrogate": '{"jsonrpc":"2.0","id":$ID,"result":{"x":"\\ud800"}}',
    "invalid UTF-8": '{"jsonrpc":"2.0","id":$ID,"result":{"content":"\xff","n":1}}',
    "nested deeply": '{"jsonrpc":"2.0","id":$ID,"result":' + "[" * 5000 + "]" * 5000 + "}",
    "nested deeply, the id behind": '{"result":' + "[" * 50_000 + "]" * 50_000 + ',"id":$ID}',
    "a key twice": '{"jsonrpc":"2.0","id":$ID,"result":{"x":NaN,"x":1,"X":2}}',
}  # fmt: skip


@pytest.mark.parametrize("kind", LENIENT)
def test_an_answer_that_only_strict_readers_refuse_passes_and_settles_its_call(tmp_path: Path, kind: str) -> None:
    """The client gets the server's bytes, and the effect is done rather than in doubt."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        request = client.begin("send", {"lines": [LENIENT[kind]]})
        sent = LENIENT[kind].replace("$ID", str(request)).encode("latin-1")
        line = client.line()
        assert line is not None
        assert line.strip() == sent
        assert client.ask("ping")["result"] == {}
        client.close()
        assert [fact.outcome for fact in work.facts("tool.settled")] == ["ok"]
        assert not work.ledger().doubts


UNREADABLE = {
    "two joined by a CR": '{"jsonrpc":"2.0","id":$ID,"result":{}}\r{"jsonrpc":"2.0","id":$ID,"result":{}}',
    "a request, too": '{"jsonrpc":"2.0","id":$ID,"result":{}}{"id":$ID,"method":"sampling/createMessage"}',
    "cut off": '{"jsonrpc":"2.0","id":$ID,"result":{"content":[',
    "another case": '{"jsonrpc":"2.0","id":$ID,"Result":{},"result":{}}',
    "a result and an error": '{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":"x"}}',
    "nothing": '{"jsonrpc":"2.0","id":$ID}',
}  # fmt: skip


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_answer_that_cannot_be_read_is_an_error_and_its_effect_in_doubt(tmp_path: Path, kind: str) -> None:
    """The client gets an error and nothing of the line; a call without effects is settled by it."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        request = client.begin("send", {"lines": [UNREADABLE[kind]]})
        assert client.answer(request)["error"]["code"] == -32603
        assert client.ask("ping")["result"] == {}
        assert client.silent(0.05), client.received[-3:]
        assert not refused(client.call("echo"))
        client.close()
        assert [fact.outcome for fact in work.facts("tool.settled")] == ["no-answer", "ok"]
        assert [doubt.tool for doubt in work.ledger().doubts.values()] == ["send"]


def test_two_answers_to_one_request_are_one(tmp_path: Path) -> None:
    """The first counts, for the client and for the history, and a later request is not answered by the second."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        line = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"n":%d}}'
        request = client.begin("send", {"lines": [line % 1, line % 2]})
        assert client.answer(request)["result"]["n"] == 1
        assert client.ask("ping")["result"] == {}
        assert client.silent(0.05)
        assert [fact.outcome for fact in work.facts("tool.settled")] == ["ok"]


def test_lines_that_are_no_json_are_dropped_and_not_all_are_written_down(tmp_path: Path) -> None:
    """A server that prints what it does must neither confuse its client nor fill the store with it."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        lines = ["Loading ..."] * 1100
        request = client.begin("send", {"lines": [*lines, '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}']})
        assert client.answer(request)["result"] == {"content": []}
        assert not any(b"Loading" in line for line in client.received)
        wait_for(lambda: len(work.facts("upstream.non_jsonrpc")) == 101)
