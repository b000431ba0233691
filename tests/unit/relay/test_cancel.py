"""Calls that a client cancels: the server is notified, and the history says that their outcome is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.in_process import Message, ProxyWorkspace, only, text_of, wait_for

BATCHED = "2025-03-26"


def _cancel(message: Message) -> Message:
    params = {"requestId": message["id"]}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def test_a_cancelled_effect_is_in_doubt_at_once_and_settled_by_a_late_answer(tmp_path: Path) -> None:
    """Nothing waits for the end of the session: another terminal sees the doubt, and the late answer lifts it."""
    with ProxyWorkspace(tmp_path, "use *") as workspace:
        client = workspace.client()
        call = client.begin("slow", {"seconds": 1})
        client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
        client.ask("ping")
        assert only(workspace.ledger().doubts.values()).tool == "slow"  # type: ignore[attr-defined]  # a Call
        assert any(b"notifications/cancelled" in line for line in workspace.forwarded())
        client.answer(call)
        assert workspace.ledger().doubts == {}
        assert [fact.outcome for fact in workspace.facts("tool.settled")] == ["no-answer", "ok"]


def test_a_cancelled_call_gets_no_error_when_the_session_ends(tmp_path: Path) -> None:
    """The protocol wants no answer to a cancelled request."""
    with ProxyWorkspace(tmp_path, "use *") as workspace:
        client = workspace.client()
        call = client.begin("slow", {"seconds": 60})
        client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
        client.ask("ping")
        assert client.close() == 0
        assert not any(b'"id":%d,' % call in line.replace(b" ", b"") for line in client.received)
        assert len(workspace.ledger().doubts) == 1


@pytest.mark.parametrize("tool", ["slow", "file.write"])
def test_a_batch_is_answered_without_the_element_that_was_cancelled(tmp_path: Path, tool: str) -> None:
    """Whether it was with the upstream (slow) or waited for a person (file.write): the others do not wait for it."""
    with ProxyWorkspace(tmp_path, "use *", "confirm before file.write") as workspace:
        client = workspace.client(era=BATCHED)
        given_up, kept = client.call_message(tool, {"seconds": 1}), client.call_message("echo", {"n": 1})
        client.post([given_up, kept])
        wait_for(lambda: "echo" in workspace.executed())
        wait_for(lambda: not any(call.tool == "echo" for call in workspace.ledger().open_calls.values()))
        client.post(_cancel(given_up))
        (answer,) = client.find(lambda body: "batch" in body)["batch"]
        assert (answer["id"], text_of(answer)) == (kept["id"], '{"n": 1}')
        if tool == "slow":  # its late answer comes by itself, and lifts the doubt
            assert text_of(client.answer(given_up["id"])) == "slow"
            assert workspace.ledger().doubts == {}


def test_a_batch_that_was_cancelled_whole_gets_no_answer(tmp_path: Path) -> None:
    """JSON-RPC knows no empty batch of answers."""
    with ProxyWorkspace(tmp_path, "use *", "confirm before file.write") as workspace:
        client = workspace.client(era=BATCHED)
        calls = [client.call_message("file.write"), client.call_message("silent")]
        client.post(calls)
        client.post(*(_cancel(call) for call in calls))
        client.ask("ping")
        assert client.silent()
        assert client.close() == 0
        assert not any(line.startswith(b"[") for line in client.received)
