"""Finishing a task: by the agent and by a person, what the next session is shown, and reopening it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.proxy import META_TOOLS, MODERN, NEW, Client, ProxyWorkspace, adjourn, refused


def _instructions(client: Client) -> str:
    return str(client.greeting["result"].get("instructions", ""))


def _worked(work: ProxyWorkspace, era: str = NEW) -> Client:
    client = work.client(era=era, foreign=True)
    client.call("echo", {"n": 1})
    client.meta(
        "aex.checkpoint",
        name="plan",
        progress=[{"text": "build", "status": "done"}, {"text": "ship"}],
        resumptionPoint="ship it",
    )
    return client


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_a_finished_task_is_offered_to_no_later_session(tmp_path: Path, era: str) -> None:
    """After aex.finish the page is archived, the next session receives nothing, and works on a task of its own."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = _worked(work, era)
        told = client.meta("aex.finish", summary="shipped to the shop")
        assert (told["state"], told["checkpoint"]) == ("finished", told["task"])
        client.close()
        assert not (work.root / "tmp" / "checkpoint-active.md").exists()
        assert list(work.root.glob("output/*/checkpoints/*.md"))
        events = work.events(told["task"])
        assert events[-1].event == "checkpoint.created"  # the folder has the whole history
        second = work.client(foreign=True, era=era)
        assert "plan" not in _instructions(second)
        assert "work" not in _instructions(second)
        second.call("echo", {"n": 2})
        assert len([name for name in work.tasks() if "/" not in name]) == 2
        assert adjourn(work, "verify", told["task"]).code == 0


def test_a_session_may_call_on_after_a_finish_and_pays_for_it(tmp_path: Path) -> None:
    """Calls after a finish pass, count in the same budget, and do not reopen the task; status says how many there were."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=3") as work:
        client = _worked(work)
        task = client.meta("aex.finish")["task"]
        assert not refused(client.call("echo", {"n": 2}))
        assert not refused(client.call("echo", {"n": 3}))
        assert refused(client.call("echo", {"n": 4}))
        assert work.ledger(task).finished
        assert "finished, 2 calls since" in adjourn(work, "status", task).first


def test_a_plan_for_the_next_session_reopens_a_finished_task(tmp_path: Path) -> None:
    """A checkpoint without a resumption point leaves the task finished; one with it makes the task active, and says so."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = _worked(work)
        client.meta("aex.finish")
        assert client.meta("aex.checkpoint", name="after")["state"] == "finished"
        assert client.meta("aex.checkpoint", name="more", resumptionPoint="mend it")["state"] == "active"
        client.close()
        assert "more" in _instructions(work.client(foreign=True))


def test_a_checklist_that_is_done_offers_the_finish(tmp_path: Path) -> None:
    """When all progress is done, the checkpoint's answer names aex.finish; `progress: done` is the finish itself."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = _worked(work)
        done = [{"text": "build", "status": "done"}, {"text": "ship", "status": "done"}]
        assert "aex.finish" in client.meta("aex.checkpoint", name="all", progress=done)["next"]
        (task,) = [name for name in work.tasks() if "/" not in name]
        assert not work.ledger(task).finished
        assert client.meta("aex.checkpoint", name="all", progress="done")["state"] == "finished"
        assert work.ledger(task).finished_by == "agent"


def test_a_person_finishes_and_reopens_a_task(tmp_path: Path) -> None:
    """`adjourn tasks finish` and `adjourn tasks reopen` change what tasks, status and the next session say; the plan comes back."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = _worked(work)
        (task,) = [name for name in work.tasks() if "/" not in name]
        client.close()
        done = adjourn(work, "tasks", "finish", task[:12], "--note", "shipped", "--json")
        assert done.json["state"] == "finished"
        assert adjourn(work, "tasks", "finish", task).first.startswith("still finished")
        (listed,) = adjourn(work, "tasks", "--json").json["tasks"]
        assert (listed["state"], listed["finishNote"]) == ("finished", "shipped")
        assert "finished" in adjourn(work, "tasks").out
        assert "shipped" in adjourn(work, "status", task).out
        assert not _instructions(work.client(foreign=True))
        assert adjourn(work, "tasks", "reopen", task).code == 0
        assert "ship it" in (work.root / "tmp" / "checkpoint-active.md").read_text()
        assert adjourn(work, "tasks", "reopen", task).code == 1
        assert "unfinished work" in _instructions(work.client(foreign=True))


def test_a_policy_can_deny_the_finish(tmp_path: Path) -> None:
    """`deny aex.finish` hides and refuses it, as any meta-tool."""
    with ProxyWorkspace(tmp_path, "allow *", "deny aex.finish") as work:
        client = work.client()
        assert [tool for tool in client.tools() if tool in META_TOOLS] == [
            tool for tool in META_TOOLS if tool != "aex.finish"
        ]
        assert refused(client.call("aex.finish"))
