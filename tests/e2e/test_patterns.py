"""The three patterns of work over several sessions, by agents that never make a checkpoint, in two kinds of clients.

A long project whose sessions end by their budget; a deployment that fails, is killed, succeeds; a project of several days. And kills at
random points of a deployment: no trouble is forgotten, and no settled one is named.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.log import kinds
from adjourn.log.kinds import data_of
from adjourn.tasks.troubles import open_troubles
from support.campaign import IS_CAMPAIGN
from support.proxy import run
from support.scripted_clients import CLAUDE, CODEX, ScriptedWorkspace, in_git

BOTH = pytest.mark.parametrize(("first", "second"), [(CLAUDE, CODEX), (CODEX, CLAUDE)])
ASKED = "Compare the three queues, and write a report"
BUDGET = 50 if IS_CAMPAIGN else 4
KILLS = 300 if IS_CAMPAIGN else 10
DEPLOY = "kubectl apply -f app.yaml"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ScriptedWorkspace]:
    rules = f"budget calls=5000, calls={BUDGET} per session"
    with ScriptedWorkspace(tmp_path, "use file.*, shell.exec", rules, version="v1") as work:
        in_git(work)
        yield work


def triggers(work: ScriptedWorkspace) -> list[str]:
    return [fact.trigger for fact in work.facts("checkpoint.created")]


def kept_files(work: ScriptedWorkspace) -> int:
    listed = ["git", "for-each-ref", "refs/adjourn/checkpoints/"]
    return len(subprocess.run(listed, cwd=work.root, capture_output=True, check=True).stdout.splitlines())


@BOTH
def test_a_long_project_goes_on_where_the_budget_of_a_session_ended(
    work: ScriptedWorkspace, first: str, second: str
) -> None:
    """Three sessions, the last one of half the length: nothing is lost between them, and no person is needed."""
    work.begin(first)
    work.tell("UserPromptSubmit", prompt=ASKED)
    written = 0
    for kind, calls in ((first, BUDGET), (second, BUDGET), (first, BUDGET // 2)):
        if written:
            told = work.begin(kind)
            assert ASKED in told
            assert f"part-{written - 1}.md" in told
        decisions = [work.write(f"report/part-{written + number}.md") for number in range(calls)]
        assert decisions == ["allow"] * calls
        if calls == BUDGET:
            assert work.write("one-too-many.md") == "deny"
        written += calls
        assert f"report/part-{written - 1}.md" in work.page or calls < BUDGET
        work.close()
    assert work.ledger().calls_used == written
    assert triggers(work).count(f"at 75% of calls per session={BUDGET}") == 2
    assert triggers(work).count(f"at 100% of calls per session={BUDGET}") == 2
    assert f"## Mission\n{ASKED}\n" in work.page
    assert open_troubles(work.ledger()) == []


@BOTH
def test_a_deployment_that_fails_is_killed_and_succeeds(work: ScriptedWorkspace, first: str, second: str) -> None:
    """The next agent learns first that it failed, or that nobody knows; with the checkpoint before it; until it succeeded."""
    work.begin(first)
    work.tell("UserPromptSubmit", prompt="Deploy release 7")
    work.write("app.yaml")
    work.shell(DEPLOY, fails=True)
    work.close()
    told = work.begin(second)
    next_step = told.split("## Next step\n")[1].splitlines()[0]
    assert next_step.startswith(f"| - shell.exec {DEPLOY} failed: check which of its effects happened")
    assert "aex.rollback returns to pattern-before" in next_step
    assert f"shell.exec {DEPLOY}" in told
    assert kept_files(work) >= 1

    assert work.ask_for("Bash", {"command": f"{DEPLOY} --force"}) == "allow"
    work.end_process()
    told = work.begin(first)
    assert "In doubt, 1" in told
    assert next_step in told, "it is still told that the first one failed"
    work.act("Read", {"file_path": "app.yaml"})
    work.settle(happened=False)

    assert work.shell(DEPLOY) == "allow"
    assert open_troubles(work.ledger()) == []
    assert triggers(work)[-2:] == ["before shell.exec: kubectl", "after shell.exec: kubectl"]
    work.close()
    assert "failed" not in work.begin(second).split("## What was done")[0]


@BOTH
def test_a_project_of_several_days_keeps_what_each_day_left_open(
    work: ScriptedWorkspace, first: str, second: str
) -> None:
    """Day one: an outline, and a test that fails. Day two: it passes, which is a milestone; an edit after it is not verified. Day three."""
    work.begin(first)
    work.tell("UserPromptSubmit", prompt="Write the guide in three days")
    work.write("outline.md")
    work.shell("make check-links", fails=True)
    work.close()
    (work.root / "outline.md").unlink()
    status = run("status", "--json", cwd=work.root, env=work.environment).json
    assert [trouble["kind"] for trouble in status["troubles"]] == ["tests failed", "gone"]
    shown = run("status", cwd=work.root, env=work.environment).out
    assert "a result of the work is gone: outline.md" in " ".join(shown.split())
    assert "make check-links failed" in work.begin(second).split("## Next step\n")[1].splitlines()[0]
    work.write("outline.md", "fixed")
    before = kept_files(work)
    work.shell("make check-links")
    assert triggers(work)[-1] == "milestone: tests pass again: make check-links"
    assert kept_files(work) == before + 1
    work.write("chapter-1.md")
    work.close()
    told = work.begin(first)
    assert told.split("## Next step\n")[1].splitlines()[0] == (
        "| - make check-links was not run after the last edit: run it before you call the work done"
    )
    work.shell("make check-links")
    assert open_troubles(work.ledger()) == []
    assert "Write the guide in three days" in work.page


def expected(work: ScriptedWorkspace) -> list[tuple[str, str]]:
    """The troubles that follow from the events, by a model of its own: the last outcome of each command, and what has none."""
    commands: dict[str, str] = {}
    outcome: dict[str, str] = {}
    settled: set[str] = set()
    failed: dict[str, str] = {}
    for event in work.events():
        data = data_of(event)
        if isinstance(data, kinds.ToolAllowed) and data.effectful:
            commands[data.call] = json.loads(data.arguments)["command"]
        elif isinstance(data, kinds.ToolSettled) and data.call in commands and data.outcome != "no-answer":
            outcome[data.call] = data.outcome
            failed.pop(commands[data.call], None)
            if data.outcome != "ok":
                failed[commands[data.call]] = data.call
        elif isinstance(data, kinds.EffectSettled):
            settled.add(data.call)
    doubts = [call for call in commands if call not in outcome and call not in settled]
    return sorted([("failed", call) for call in failed.values()] + [("in doubt", call) for call in doubts])


@pytest.mark.timeout(7200 if IS_CAMPAIGN else 300)
def test_kills_at_random_points_of_a_deployment(tmp_path: Path) -> None:
    """Ten clients (with ADJOURN_CAMPAIGN=1: 300), each killed before, in or after a deployment or its report: the list is what the events say."""
    chance = random.Random(7)
    with ScriptedWorkspace(tmp_path, "use file.*, shell.exec", "budget calls=100000", version="v1") as work:
        in_git(work)
        for _ in range(KILLS):
            work.begin(chance.choice([CLAUDE, CODEX]))
            for _ in range(chance.randint(1, 2)):
                arguments = {"command": f"kubectl apply -f {chance.randint(1, 4)}.yaml"}
                if work.ask_for("Bash", arguments) != "allow" or chance.random() < 0.4:
                    continue
                work.say_outcome("Bash", arguments, fails=chance.random() < 0.5)
            work.end_process()
            told = work.begin(CLAUDE)
            work.act("Read", {"file_path": "app.yaml"})  # with it the session opens, and the one before is over
            ledger = work.ledger()
            troubles = open_troubles(ledger)
            assert sorted((trouble.kind, trouble.call) for trouble in troubles) == expected(work)
            assert all(trouble.text in told for trouble in troubles if trouble.kind == "failed")
            assert all(call in told for call in ledger.doubts)
            if ledger.doubts and chance.random() < 0.7:
                work.end_process()
                work.settle(call=chance.choice(sorted(ledger.doubts)), happened=chance.random() < 0.5)
