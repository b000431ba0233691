"""An agent goes back to a checkpoint by `aex.rollback`: it looks without asking, and a person decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.confirming import ACCEPT, DECLINE
from support.in_process import Client, Message, ProxyWorkspace, refused, text_of
from support.rollbacks import git

DEPLOY = {"command": "kubectl apply -f deployment.yaml"}


def failed_deployment(work: ProxyWorkspace, *, elicits: bool = True) -> Client:
    """A client whose deployment spoilt a file, after which it said to deploy."""
    git(work.root, "init", "-q")
    (work.root / ".aex" / "discipline.json").write_text('{"keepSeconds": 60}')
    (work.root / "a").write_text("good")
    client = work.client(elicits=elicits)
    client.call("aex.checkpoint", {"name": "prepared", "resumptionPoint": "Deploy now"})
    client.call("shell.exec", DEPLOY)
    (work.root / "a").write_text("spoilt")
    return client


def rolled_back(client: Client, reply: Message | None) -> Message:
    message = client.call_message("aex.rollback", {"apply": True})
    client.send(json.dumps(message).encode() + b"\n")
    if reply is not None:
        question = client.asked()
        assert "aex.rollback" in question["params"]["message"]
        client.post({"jsonrpc": "2.0", "id": question["id"], "result": reply})
    return client.answer(message["id"])


def test_a_preview_needs_nobody_and_changes_nothing(tmp_path: Path) -> None:
    """It names the page, each file, and the effects that stay."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = failed_deployment(work)
        answer: dict[str, Any] = json.loads(text_of(client.call("aex.rollback", {})))
        assert (answer["applied"], answer["files"]) == (False, [{"kind": "restore", "path": "a"}])
        assert [effect["tool"].rpartition(".")[2] for effect in answer["notUndone"]] == ["exec"]
        assert (work.root / "a").read_text() == "spoilt"
        assert work.facts("confirm.required") == []


@pytest.mark.parametrize("policy", [("allow *",), ("allow *, aex.*",)])
def test_a_rollback_is_carried_out_once_a_person_accepts(tmp_path: Path, policy: tuple[str, ...]) -> None:
    """A denial changes nothing. An approval restores files and page, as the command does, and is in the history."""
    with ProxyWorkspace(tmp_path, *policy) as work:
        client = failed_deployment(work)
        assert refused(rolled_back(client, DECLINE))
        assert (work.root / "a").read_text() == "spoilt"
        answer = json.loads(text_of(rolled_back(client, ACCEPT)))
        assert (answer["applied"], answer["files"]) == (True, [{"kind": "restore", "path": "a"}])
        assert (work.root / "a").read_text() == "good"
        page = (work.root / "tmp" / "checkpoint-active.md").read_text()
        assert "## Resumption Point\nDeploy now" in page
        assert [fact.trigger.startswith("rollback to ") for fact in work.facts("checkpoint.created")][-1]
        assert [fact.tool for fact in work.facts("confirm.approved")] == ["aex.rollback"]


def test_a_policy_may_allow_it_by_name(tmp_path: Path) -> None:
    """Then nobody is asked."""
    with ProxyWorkspace(tmp_path, "allow *, aex.rollback") as work:
        client = failed_deployment(work, elicits=False)
        assert json.loads(text_of(rolled_back(client, None)))["applied"]
        assert (work.root / "a").read_text() == "good"


def test_a_checkpoint_of_another_task_is_none_of_this_one(tmp_path: Path) -> None:
    """An agent rolls back its own task only."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        failed_deployment(work).close()
        other = work.client("--task", "other")
        answer = other.call("aex.rollback", {})
        assert "no page of a checkpoint before a destructive call" in text_of(answer)


def test_the_command_of_a_person_names_the_tool(tmp_path: Path) -> None:
    """An agent that would run `adjourn rollback --yes` learns what it may call instead."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        answer = work.client().call("shell.exec", {"command": "adjourn rollback --yes"})
        assert "aex.rollback, which asks a person" in text_of(answer)
