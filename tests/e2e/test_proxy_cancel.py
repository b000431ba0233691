"""What a client gives up: the upstream is told, and the history says that nobody knows what became of it."""

from __future__ import annotations

from pathlib import Path

from harness import Workspace, only


def test_a_cancelled_effect_is_in_doubt_at_once_and_settled_by_a_late_answer(tmp_path: Path) -> None:
    """Nothing waits for the end of the session: another terminal sees the doubt, and the late answer lifts it."""
    with Workspace(tmp_path, "use *") as workspace:
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
    """The protocol wants no answer to a request that was given up."""
    with Workspace(tmp_path, "use *") as workspace:
        client = workspace.client()
        call = client.begin("slow", {"seconds": 60})
        client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
        client.ask("ping")
        assert client.close() == 0
        assert not any(b'"id":%d,' % call in line.replace(b" ", b"") for line in client.received)
        assert len(workspace.ledger().doubts) == 1
