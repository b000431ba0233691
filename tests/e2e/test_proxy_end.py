"""The proxy ends with its server or its client: each request is answered, and the session is closed in order."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from adjourn.checkpoints.checkpoint import find
from support.processes import children
from support.proxy import ERAS, MODERN, NEW, ProxyWorkspace, refused, wait_for
from support.requirements import requirement

# --- the server ends


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
            assert "the MCP server exited with code 3 (stderr: crashing)" in error["message"]
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
        started = children(client.process.pid)
        os.kill(started[0], signal.SIGKILL)
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


# --- the client ends


@requirement("D8")
@pytest.mark.parametrize("era", ERAS)
def test_the_end_of_input_makes_a_last_checkpoint_and_ends_everything(tmp_path: Path, era: str) -> None:
    """When the client closes its end, the proxy writes a checkpoint, closes the session and ends the server."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(era=era)
        client.call("echo")
        started = children(client.process.pid)
        assert client.close() == 0
        assert not Path(f"/proc/{started[0]}").exists()
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
        started = children(client.process.pid)
        assert client.close() == 0
        assert not Path(f"/proc/{started[0]}").exists()
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
        (child,) = children(client.process.pid)
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
        (child,) = children(client.process.pid)
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
