"""The budget reaches the agent: a line in an answer at 75 % and 90 %, and one last checkpoint when it is spent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.in_process import MODERN, NEW, Client, Message, ProxyWorkspace, adjourn, refused, text_of


def _notices(client: Client, calls: int, tool: str = "echo") -> list[str]:
    """What each of so many calls says of the budget."""
    found = []
    for number in range(calls):
        content = client.call(tool, {"n": number})["result"]["content"]
        lines = [block["text"] for block in content if block.get("text", "").startswith("adjourn: ")]
        found.append(lines[0] if lines else "")
    return found


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_the_agent_is_told_once_at_each_share(tmp_path: Path, era: str) -> None:
    """The answers at 75 % and at 90 % carry a line behind the server's content, all others pass byte for byte."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=10") as work:
        client = work.client(era=era)
        told = _notices(client, 10)
        assert [index for index, text in enumerate(told) if text] == [7, 8]
        assert told[7].startswith("adjourn: 8 of 10 calls (80 %)")
        assert "aex.checkpoint" in told[8]
        line = next(line for line in client.received if b"9 of 10" in line)
        assert ("dev.adjourn/budget" in json.loads(line)["result"].get("_meta", {})) == (era == MODERN)


def test_an_error_is_left_alone_and_the_next_answer_says_it(tmp_path: Path) -> None:
    """A tool's error carries no notice, and delays it; --no-budget-notice says nothing at all."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=4") as work:
        client = work.client()
        assert _notices(client, 2) == ["", ""]
        assert "adjourn:" not in json.dumps(client.call("fail"))
        assert "4 of 4" in _notices(client, 1)[0]
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=4", name="silent") as work:
        assert _notices(work.client("--no-budget-notice"), 4) == [""] * 4


def test_when_the_budget_is_spent_the_agent_can_still_save_its_plan(tmp_path: Path) -> None:
    """The refusal names aex.checkpoint, which still works, costs nothing, and writes the page with the agent's own words."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=1") as work:
        client = work.client()
        client.call("echo")
        answer: Message = client.call("echo")
        assert refused(answer)
        assert "aex.checkpoint, which is still allowed" in text_of(answer)
        client.meta("aex.checkpoint", name="last", resumptionPoint="write the report")
        assert "write the report" in (work.root / "tmp" / "checkpoint-active.md").read_text()
        (task,) = [name for name in work.tasks() if "/" not in name]
        assert work.ledger(task).calls_used == 1


def test_a_policy_that_denies_the_checkpoint_is_not_named(tmp_path: Path) -> None:
    """Where the policy denies aex.checkpoint, neither the refusal nor the notice tells the agent to call it."""
    with ProxyWorkspace(tmp_path, "allow *", "deny aex.checkpoint", "budget calls=1") as work:
        client = work.client()
        assert "aex.checkpoint" not in _notices(client, 1)[0]
        assert "aex.checkpoint" not in text_of(client.call("echo"))


def test_a_new_task_does_not_escape_the_budget_of_the_workspace(tmp_path: Path) -> None:
    """Proxies of several tasks, one after another and at the same time, and a killed one, share the calls per day."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=4 per day", "budget calls=3", version="v1") as work:
        first = work.client("--task", "one")
        first.call("echo", {"n": 1})
        first.call("write", {"n": 2})
        first.kill()
        second, third = work.client("--task", "two"), work.client("--task", "three")
        assert not refused(second.call("echo"))
        noticed = third.call("write", {"n": 3})
        assert not refused(noticed)
        assert (
            "4 of 4 calls per day (100 %) of this workspace's budget are spent"
            in noticed["result"]["content"][-1]["text"]
        )
        for client in (second, third):
            answer = client.call("echo")
            assert refused(answer)
            assert "its tasks made 4 of 4 calls per day (budget calls=4 per day (" in text_of(answer)
        explained = adjourn(work, "effective", "--explain", "echo")
        assert (explained.code, explained.first[:2]) == (3, "no")
        assert "Call budget of the workspace exhausted" in explained.out
        assert "4 of 4 calls of all tasks in the last day" in adjourn(work, "status", "two").out
