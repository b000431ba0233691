"""`adjourn policy explain --replay`, and what `adjourn status` tells of budgets and rates: over a store, for people and machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adjourn.cli import main as cli
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.task import NewEvent
from support.workspace import Workspace

OBSERVE = ("mode observe", "allow read, write", "deny rm", "limit read 2 per day", "budget minutes=90, tokens=2000")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    workspace = Workspace(tmp_path, monkeypatch, store="sqlite")
    monkeypatch.chdir(workspace.root)
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    monkeypatch.delenv("ADJOURN_TASK", raising=False)
    write(workspace, *OBSERVE)
    return workspace


def write(workspace: Workspace, *lines: str) -> None:
    text = "\n".join(["policy work v1", 'goal "do it"', *lines, ""])
    (workspace.root / ".aex" / "policy.aex").write_text(text)


def call(tool: str, **given: Any) -> ToolRequest:
    text = canonical(given)
    return ToolRequest(tool=tool, digest=digest(text), arguments=text.decode(), given=given)


@pytest.fixture
def worked(workspace: Workspace) -> Workspace:
    """A task with five calls that nothing blocked, and a report of tokens."""
    context = workspace.context(task="t")
    for each in (
        call("read"),
        call("read"),
        call("rm", path="a"),
        call("write", path="src/a"),
        call("write", path="b"),
    ):
        workspace.clock.move(seconds=60)
        session, (admitted,) = context.sessions.admit([each])
        session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok")])
    session.task.commit(lambda _: [NewEvent(kinds.UsageReported(tokens=1500))])
    workspace.leave(context)
    return workspace


def said(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert cli(list(words)) == code
    return capfd.readouterr().out


def test_the_first_line_answers_and_the_table_names_the_rules(
    worked: Workspace, capfd: pytest.CaptureFixture[str]
) -> None:
    """What would be refused, how often, which tools, by which rule; and what was observed at the time."""
    write(worked, "allow read", "allow write:src/**", "deny rm", "confirm before read")
    lines = said(capfd, "effective", "--replay").splitlines()
    assert lines[0] == "of 5 recorded calls this policy would refuse 2, and ask about 2"
    assert lines[1].split() == ["calls", "last", "tools", "rule"]
    assert lines[2].startswith("ask         2")
    assert lines[2].endswith("read (2)  confirm read (.aex/policy.aex:6)")
    assert any(line.endswith("rm        deny rm (.aex/policy.aex:5)") for line in lines)
    assert any(line.endswith("write     not_allowed") for line in lines)
    assert "Recorded by a policy in mode observe:" in lines
    assert lines[-1].endswith("deny rm (.aex/policy.aex:5)")


def test_it_is_told_to_machines(worked: Workspace, capfd: pytest.CaptureFixture[str]) -> None:
    """The JSON output says the same, with stable names."""
    write(worked, "allow read", "allow write:src/**")
    told = json.loads(said(capfd, "effective", "--replay", "--json"))
    assert (told["judged"], told["untold"]) == (5, {})
    assert {(row["decision"], row["rule"], row["recorded"], row["calls"]) for row in told["rules"]} == {
        ("block", "not_allowed", False, 2),
        ("block", "deny rm (.aex/policy.aex:5)", True, 1),
    }
    assert told["rules"][0]["tools"] == {"rm": 1, "write": 1}


def test_only_tasks_are_judged(worked: Workspace, capfd: pytest.CaptureFixture[str]) -> None:
    """A store also holds records and cognitive sessions, which have no calls."""
    RecordTrees(worked.store).create({"task": {"id": "t", "goal": "g"}}, author=CRAuthor(id="ann", type="human"))
    CognitiveStore(worked.store, "job", goal="g").update_from_response("FACT: it is small")
    assert said(capfd, "effective", "--replay").startswith("of 5 recorded calls ")


def test_a_policy_with_an_error_judges_nothing(worked: Workspace, capfd: pytest.CaptureFixture[str]) -> None:
    """A policy with an error gives exit code 1 and its findings, and judges no call."""
    (worked.root / ".aex" / "policy.aex").write_text("policy x v1\nnonsense\n")
    assert said(capfd, "effective", "--replay", code=1) == ""


def test_without_a_store_there_is_nothing_to_judge(workspace: Workspace, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a store the command reports that there is none, and creates none."""
    workspace.store.close()
    for file in (workspace.root / ".aex").glob("adjourn.db*"):
        file.unlink()
    assert cli(["effective", "--replay"]) == 1
    assert "there is no store" in capfd.readouterr().err
    assert not (workspace.root / ".aex" / "adjourn.db").exists()


def test_status_tells_budgets_and_rates(
    worked: Workspace, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each budget beside calls with what is spent of it, and each rate that has counted in its last period."""
    monkeypatch.setattr("adjourn.host.clock.now", worked.clock)
    lines = said(capfd, "status", "t").splitlines()
    assert "spent       4 of 90 minutes" in lines
    assert "spent       1,500 of 2,000 tokens" in lines
    assert "rate        read: 2 of 2 calls in the last day" in lines
    told = json.loads(said(capfd, "status", "t", "--json"))
    assert told["budgets"] == [
        {"what": "minutes", "used": 4.0, "limit": 90.0},
        {"what": "tokens", "used": 1500.0, "limit": 2000.0},
    ]
    assert told["rates"] == [{"what": "read", "used": 2, "limit": 2, "seconds": 86_400}]
    assert (told["tokens"], told["microUsd"], told["workedMilliseconds"]) == (1500, 0, 240_000)


def test_status_of_a_task_without_them_has_none(workspace: Workspace, capfd: pytest.CaptureFixture[str]) -> None:
    """No empty lines for what no rule counts; tokens that were reported are shown."""
    write(workspace, "allow read")
    context = workspace.context(task="t")
    workspace.work(context, "read")
    assert "spent" not in said(capfd, "status", "t")
    assert "rate" not in said(capfd, "status", "t")
    context.sessions.open().task.commit(lambda _: [NewEvent(kinds.UsageReported(tokens=1500))])
    assert "spent       1,500 tokens" in said(capfd, "status", "t")
