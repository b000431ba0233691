"""What passes, passes byte for byte; and how a proxy's life begins and ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from adjourn.checkpoints.checkpoint import find
from support.proxy import ERAS, MODERN, NEW, Client, ProxyWorkspace, encode, refused, text_of, wait_for
from support.requirements import requirement

# --- from the client


@requirement("D9")
@pytest.mark.parametrize("era", ERAS)
def test_a_clients_bytes_reach_the_upstream_unchanged(tmp_path: Path, era: str) -> None:
    """Messages of a client reach the server byte for byte, with their spaces, numbers and escapes."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(era=era)
        before = len(work.forwarded())
        meta = (
            b'"_meta" : {"io.modelcontextprotocol/protocolVersion":"2026-07-28"}, ' if era == MODERN else b""
        )
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


def test_messages_of_any_size_pass_both_ways(tmp_path: Path) -> None:
    """Arguments and results of up to 5 MB pass unchanged, also at the sizes of buffers."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        for size in (1, 1000, 65_535, 65_536, 65_537, 1_000_000, 5_000_000):
            text = "x" * size
            assert json.loads(text_of(client.call("echo", {"t": text}))) == {"t": text}


def test_a_character_at_which_some_servers_end_a_line_reaches_them_escaped(tmp_path: Path) -> None:
    """Or a text could hold a second message, which the policy never saw."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        hidden = '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"deploy.run"}}'
        sent = client.call_message("echo", {"text": f"\u2028{hidden}\u2028\u2029\x85"})
        client.send(json.dumps(sent, ensure_ascii=False).encode() + b"\n")
        assert json.loads(text_of(client.answer(sent["id"]))) == sent["params"]["arguments"]
        assert len(work.forwarded()[-1].decode().splitlines()) == 1


# --- from the upstream


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


UNREADABLE = {
    "NaN": '{"jsonrpc":"2.0","id":$ID,"result":{"x":NaN}}',
    "-Infinity": '{"jsonrpc":"2.0","id":$ID,"result":{"x":-Infinity}}',
    "half a surrogate": '{"jsonrpc":"2.0","id":$ID,"result":{"x":"\\ud800"}}',
    "invalid UTF-8": '{"jsonrpc":"2.0","id":$ID,"result":{"content":"\xff","n":1}}',
    "nested deeply": '{"jsonrpc":"2.0","id":$ID,"result":' + "[" * 5000 + "]" * 5000 + "}",
    "nested deeply, the id behind": '{"result":' + "[" * 50_000 + "]" * 50_000 + ',"id":$ID}',
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
        request = client.begin(
            "send", {"lines": [*lines, '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}']}
        )
        assert client.answer(request)["result"] == {"content": []}
        assert not any(b"Loading" in line for line in client.received)
        wait_for(lambda: len(work.facts("upstream.non_jsonrpc")) == 101)


# --- the end: the upstream's


@requirement("D33")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_when_the_upstream_dies_every_open_request_gets_an_error_and_effects_are_in_doubt(
    tmp_path: Path, era: str
) -> None:
    """When the server exits, each open request gets an error, its effects are in doubt, and a checkpoint is written."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before file.write") as work:
        client = work.client(era=era)
        held = client.begin("file.write", {"path": "a"})
        silent = [client.begin("silent", {"n": n}) for n in range(3)]
        crash = client.begin("crash", {"code": 3})
        for request in [*silent, crash]:
            error = client.answer(request)["error"]
            assert error["code"] == -31001
            assert "the upstream server ended" in error["message"]
        assert refused(client.answer(held))
        assert client.ended() == 1
        assert sorted(doubt.tool for doubt in work.ledger().doubts.values()) == ["crash", *["silent"] * 3]
        assert [(fact.code, fact.signal) for fact in work.facts("upstream.crashed")] == [(3, 0)]
        assert "upstream.crashed" in client.stderr()
        assert not work.ledger().sessions
        with work.store() as store:
            assert find(store, work.tasks()[0]).data.trigger == "upstream-exit"


@requirement("D33")
def test_an_upstream_killed_by_a_signal_is_reported_with_it(tmp_path: Path) -> None:
    """When a signal ends the server, the event names the signal."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        call = client.begin("silent")
        wait_for(lambda: work.executed() == ["silent"])
        children = _children(client.process.pid)
        os.kill(int(children[0]), signal.SIGKILL)
        assert client.answer(call)["error"]["code"] == -31001
        assert client.ended() == 1
        assert [(fact.code, fact.signal) for fact in work.facts("upstream.crashed")] == [(0, 9)]


@requirement("D7")
@pytest.mark.parametrize("command", ["/nowhere/at-all", "no-such-command-anywhere", "/etc/passwd"])
def test_an_upstream_that_cannot_start_is_an_error_within_a_second(tmp_path: Path, command: str) -> None:
    """A server command that cannot be started is an error to each request, and the proxy exits with 1."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        started = time.monotonic()
        client = work.client(upstream=[command], greet=False)
        first, second = client.message("initialize"), client.message("tools/list")
        client.post(first, {"jsonrpc": "2.0", "method": "notifications/initialized"}, second)
        for message in (first, second):
            error = client.answer(message["id"])["error"]
            assert error["code"] == -31001
            assert command in error["message"]
        assert time.monotonic() - started < 2  # with the start of the proxy itself
        assert client.ended() == 1
        assert command in client.stderr()


@requirement("D7")
def test_an_upstream_that_ends_at_once_leaves_no_request_without_an_answer(tmp_path: Path) -> None:
    """When the server exits before the greeting, the request gets an error or the proxy has exited."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(upstream=["false"], greet=False)
        message = client.message("initialize")
        try:
            client.post(message)
            assert client.answer(message["id"])["error"]["code"] == -31001
        except (BrokenPipeError, AssertionError):
            assert not client.received  # it had ended before we asked
        assert client.ended() == 1


@pytest.mark.parametrize("size", [1, 300_000])
def test_an_upstream_that_lives_but_reads_no_more_leaves_no_request_without_an_answer(
    tmp_path: Path, size: int
) -> None:
    """What it cannot have read has had no effect, however long it is."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before file.write") as work:
        client = work.client(upstream=[sys.executable, "-c", _DEAF, "shut"])
        effect, reading, other = (
            client.call_message("echo", {"text": "x" * size}),
            client.call_message("file.read"),
            client.message("x/other"),
        )
        client.post(effect, reading, other)
        held = client.call_message("file.write", {"text": "x" * size})
        for message in (effect, reading, other):
            error = client.answer(message["id"])["error"]
            assert error["code"] == -31001
            assert "no longer reads" in error["message"]
        client.post(held)
        wait_for(lambda: work.facts("confirm.required"))
        work.decide(yes=True)
        assert client.answer(held["id"])["error"]["code"] == -31001
        ledger = work.ledger()
        assert ledger.open_calls == {}
        assert [call.tool for call in ledger.doubts.values()] == ([])
        assert client.close() == 0


# --- the end: the client's


@requirement("D8")
@pytest.mark.parametrize("era", ERAS)
def test_the_end_of_input_makes_a_last_checkpoint_and_ends_everything(tmp_path: Path, era: str) -> None:
    """When the client closes its end, the proxy writes a checkpoint, closes the session and ends the server."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(era=era)
        client.call("echo")
        children = _children(client.process.pid)
        assert client.close() == 0
        assert not Path(f"/proc/{children[0]}").exists()
        (task,) = work.tasks()
        with work.store() as store:
            assert find(store, task).data.trigger == "client-eof"
        assert (work.root / f".aex/checkpoints/{task}/checkpoint.json").exists()
        ledger = work.ledger()
        assert not ledger.sessions
        assert not ledger.open_calls
        assert [fact.reason for fact in work.facts("session.closed")] == ["client-eof"]


@requirement("D8")
def test_calls_sent_right_before_the_end_of_input_are_answered(tmp_path: Path) -> None:
    """Calls that were sent before the client closed its end are still answered."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        calls = [client.call_message("big", {"size": 300_000, "n": n}) for n in range(20)]
        client.post(*calls)
        assert client.close() == 0
        answered = [json.loads(line).get("id") for line in client.received]
        assert {call["id"] for call in calls} <= set(answered)
        assert not work.ledger().doubts


@requirement("D8")
def test_an_upstream_that_ignores_the_end_is_killed(tmp_path: Path) -> None:
    """A server that does not exit when its input ends is killed, and its open calls are in doubt."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=["--ignore-end"])
        call = client.begin("silent")
        wait_for(lambda: work.executed() == ["silent"])
        children = _children(client.process.pid)
        assert client.close() == 0
        assert not Path(f"/proc/{children[0]}").exists()
        assert client.answer(call)["error"]["code"] == -31001
        assert [doubt.tool for doubt in work.ledger().doubts.values()] == ["silent"]


@requirement("D8")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_session_in_order(tmp_path: Path, signum: signal.Signals) -> None:
    """SIGTERM, SIGINT and SIGHUP close the session, answer open calls and exit with 0."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before file.write") as work:
        client = work.client()
        client.call("echo")
        silent, held = client.begin("silent"), client.begin("file.write")
        wait_for(lambda: work.facts("confirm.required"))
        client.process.send_signal(signum)
        assert client.answer(silent)["error"]["code"] == -31001
        assert refused(client.answer(held))
        assert client.ended() == 0
        assert [fact.reason for fact in work.facts("session.closed")] == [f"signal-{signum.name}"]
        assert [doubt.tool for doubt in work.ledger().doubts.values()] == ["silent"]
        assert "Traceback" not in client.stderr()


def test_a_client_that_died_leaves_no_proxy_behind(tmp_path: Path) -> None:
    """The proxy exits when both pipes of its client are closed."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        client.begin("silent")
        client.stdout.close()
        client.stdin.close()
        assert client.process.wait(10) == 0


def test_a_session_in_which_nothing_happened_leaves_no_checkpoint(tmp_path: Path) -> None:
    """A session without a call writes no checkpoint."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        client.tools()
        assert client.close() == 0
        assert not (work.root / ".aex/checkpoints").exists()


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
            peak = max(peak, _resident(client.process.pid))
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
            after.append(_resident(client.process.pid))
        assert after[-1] - after[0] < 3 << 20, after


def test_a_client_that_stops_reading_cannot_keep_the_proxy_alive(tmp_path: Path) -> None:
    """The proxy exits although its client has closed its input and reads no answers."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(python=("-c", _IMPATIENT))
        client.paused.set()
        for _ in range(4):
            client.begin("big", {"size": 1 << 20})
        time.sleep(0.3)
        client.stdin.close()
        client.process.wait(10)
        assert work.executed()
        assert work.ledger().calls_used == 4


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_an_upstream_that_stops_reading_cannot_keep_the_proxy_alive(tmp_path: Path, how: str) -> None:
    """Not even while bytes wait for it to read; the session is closed in order all the same."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before echo") as work:
        client = work.client(python=("-c", _IMPATIENT), upstream=[sys.executable, "-c", _DEAF, "deaf"])
        client.begin("echo", {"text": "x" * 300_000})
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        work.decide(yes=True)
        wait_for(lambda: "confirm.approved" in client.stderr())
        (child,) = _children(client.process.pid)
        if how == "SIGTERM":
            client.process.send_signal(signal.SIGTERM)
        else:
            client.stdin.close()
        assert client.process.wait(10) == 0
        assert not Path(f"/proc/{child}").exists()
        assert not work.ledger().sessions
        assert [doubt.tool for doubt in work.ledger().doubts.values()] == ["echo"]


def test_a_client_that_left_while_its_last_lines_hang_leaves_no_proxy_behind(tmp_path: Path) -> None:
    """What waits for an upstream that reads no more does not keep the proxy from seeing the end of input."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(python=("-c", _IMPATIENT), upstream=[sys.executable, "-c", _DEAF, "deaf"])
        call = client.begin("echo", {"text": "x" * 300_000})
        wait_for(lambda: work.tasks() and work.ledger().open_calls)
        client.stdin.close()
        assert client.process.wait(10) == 0
        assert client.answer(call)["error"]["code"] == -31001
        assert [doubt.tool for doubt in work.ledger().doubts.values()] == ["echo"]


def test_a_client_that_stops_reading_refusals_cannot_keep_the_proxy_alive(tmp_path: Path) -> None:
    """Refusals that nobody reads wait; every call that was taken in is in the store."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before echo") as work:
        client = work.client("--confirm-timeout", "1", python=("-c", _IMPATIENT))
        client.paused.set()
        client.post(*(client.call_message("echo", {"n": n, "text": "x" * 300}) for n in range(400)))
        wait_for(lambda: work.tasks() and work.facts("confirm.denied"))
        (child,) = _children(client.process.pid)
        client.stdin.close()
        client.process.wait(10)
        wait_for(lambda: not Path(f"/proc/{child}").exists())
        assert len(work.facts("confirm.required")) == 400


_DEAF = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in os.fdopen(0, "rb", closefd=False):
    message = json.loads(line)
    version = message.get("params", {}).get("protocolVersion")
    info = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "deaf", "version": "1"}}
    if message["method"] == "ping" and sys.argv[1] == "shut":
        os.close(0)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": info if version else {}}), flush=True)
    if message["method"] == "ping":
        time.sleep(60)
        break
"""

_IMPATIENT = """
import sys
from adjourn.proxy import main, upstream
main.SHUT_DOWN_SECONDS = 6.0
main.LAST_LINES_SECONDS = 1.0
upstream.GRACE_SECONDS = 0.2
from adjourn.__main__ import main
sys.argv = sys.argv[sys.argv.index("adjourn"):]
main()
"""


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- the start


@requirement("D6")
@pytest.mark.parametrize("where", ["policy", "contract"])
def test_a_text_with_errors_stops_the_start_with_every_diagnostic(tmp_path: Path, where: str) -> None:
    """An invalid policy or contract stops the start, and each error is printed with its line."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        if where == "policy":
            work.write_policy("allow echo", "alow file.*", "deny [", "budget calls=many")
            client, source = work.client(greet=False), ".aex/policy.aex"
        else:
            (work.root / "c.aex").write_text(
                'task c v0\ngoal "g"\nuse echo\nuze x\n\nbudget calls=many\nreturn 1\n'
            )
            client, source = work.client("--contract", "c.aex", greet=False), "c.aex"
        assert client.ended() == 1
        assert client.received == []
        errors = client.stderr()
        for line in (4, 6):
            assert f"{source}:{line}" in errors
        assert not work.tasks_exist()
        assert work.executed() == []


@requirement("D6")
def test_without_a_policy_nothing_starts(tmp_path: Path) -> None:
    """Without a policy the proxy exits with 1 and answers nothing."""
    with ProxyWorkspace(tmp_path) as work:
        client = work.client(greet=False)
        assert client.ended() == 1
        assert "no policy" in client.stderr()
        assert client.received == []


@requirement("D6")
@pytest.mark.parametrize("named", ["--policy", "--contract"])
def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path, named: str) -> None:
    """A policy or contract file that does not exist stops the start."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(named, "absent.aex", greet=False)
        assert client.ended() == 1
        assert "absent.aex" in client.stderr()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--polcy", "x"], "unknown option --polcy"),
        (["--errors", "loud"], "--errors is tool or jsonrpc"),
        (["--tool-names", "x"], "--tool-names is"),
        (["--confirm-timeout", "soon"], "--confirm-timeout"),
        (["--confirm-timeout", "²"], "--confirm-timeout"),
        (["--auto-confirm=yes"], "takes no value"),
        (["--store", "memory:"], ""),
    ],
)
def test_a_command_line_that_is_not_well_formed_is_refused(
    tmp_path: Path, options: list[str], says: str
) -> None:
    """An unknown option or an invalid value exits with 2 and names it."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(*options, greet=False)
        if says:
            assert client.ended() == 2
            assert says in client.stderr()
            assert work.forwarded() == []
        else:
            client.greet()
            assert refused(client.call("echo"))


def test_the_upstream_may_be_given_as_one_text_or_without_dashes(tmp_path: Path) -> None:
    """The server command may be words after `--`, words alone, or the value of --upstream."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        command = work.command()
        behind = command[command.index("--") + 1 :]
        for words in (["--upstream", " ".join(behind)], behind, [f"--upstream={' '.join(behind)}"]):
            client = Client(
                [*command[: command.index("--")], *words], work.root, work.environment, NEW, "tester", {}
            )
            work.clients.append(client)
            client.greet()
            assert not refused(client.call("echo"))
            assert client.close() == 0


# --- the log


def test_the_log_is_lines_for_people(tmp_path: Path) -> None:
    """The log on stderr has one line for each event and each rule, all with the program's name."""
    with ProxyWorkspace(
        tmp_path, "allow echo", "deny secrets.*", "budget calls=5", "confirm before file.write"
    ) as work:
        client = work.client()
        client.call("echo")
        client.call("secrets.read")
        client.close()
        lines = client.stderr().splitlines()
        assert all(line.startswith("adjourn: ") for line in lines)
        shown = {line.split()[1] for line in lines}
        assert {
            "policy",
            "allow",
            "deny",
            "confirm",
            "budget",
            "task",
            "tool.allowed",
            "tool.denied",
            "ending",
        } <= shown


def test_the_log_is_json_on_request(tmp_path: Path) -> None:
    """With --log-json, each line of the log is a JSON object with event, data and timestamp."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=5") as work:
        client = work.client("--log-json")
        client.call("echo")
        client.call("secrets.read")
        client.send(b"garbage \xff\n")
        client.call("echo", {"é": "\ud800".encode("utf-8", "replace").decode()})
        client.close()
        bodies = [json.loads(line) for line in client.stderr().splitlines()]
        assert all(list(body) == ["event", "data", "timestamp"] for body in bodies)
        assert {"tool.allowed", "tool.denied", "message.refused", "ending"} <= {
            body["event"] for body in bodies
        }
        assert encode(bodies)


def test_a_log_that_nobody_reads_does_not_stop_the_work(tmp_path: Path) -> None:
    """A client may take our stderr through a pipe and never look at it."""
    pipe = tmp_path / "stderr"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR)
    with ProxyWorkspace(tmp_path, "allow *") as work:
        quiet = ["sh", "-c", 'exec "$@" 2>"$0"', str(pipe), *work.command()]
        client = Client(quiet, work.root, work.environment, NEW, "tester", {})
        work.clients.append(client)
        client.greet()
        for _ in range(40):
            calls = [client.call_message("echo" if n % 2 else "aex.nothing") for n in range(50)]
            client.post(*calls)
            client.answer(calls[-1]["id"])
            client.forget()
        assert client.close() == 0
    os.close(held)
