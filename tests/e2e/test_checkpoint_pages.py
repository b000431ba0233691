"""The checkpoint discipline through a real proxy and real commands: due checkpoints, pages that survive kills, and what people do
with them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints.page_files import search
from adjourn.log.chain import verify_chain
from support.command_line import CommandLine
from support.proxy import ERAS, ProxyWorkspace
from support.terminal import at_terminal

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
KILLS = 1000 if CAMPAIGN else 12
SAID: dict[str, Any] = {
    "progress": [{"text": "Map the code", "status": "done"}, {"text": "Write the report", "status": "in_progress"}],
    "openQuestions": ["7 or 30 days?"],
    "resumptionPoint": "Write section 4 of the report",
}


def context(work: ProxyWorkspace) -> CommandLine:
    return CommandLine(work.root, work.config)


def test_a_budget_of_50_is_checkpointed_and_the_next_session_is_told(tmp_path: Path) -> None:
    """At 38 and 45 calls, once each; the session is killed, and the next one receives the newest page."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=50") as work:
        client = work.client("--task", "t")
        client.meta("aex.checkpoint", name="plan", **SAID)
        for number in range(46):
            client.call("echo", {"n": number})
        made = [fact.trigger for fact in work.facts("checkpoint.created")]
        assert made == ["agent", "at 75% of calls=50", "at 90% of calls=50"]
        pages = {page.machine["trigger"]: page for page in search(str(work.root)).pages}
        assert [pages[trigger].page.iterations_used for trigger in made] == [0, 38, 45]
        client.kill()
        told = work.client("--task", "t", foreign=True).meta("aex.resume", name="plan")
        assert "[ ] Write the report (in progress)" in told["progress"]
        assert told["budgetRemaining"] == 4
        assert "Write section 4 of the report" in told["nextStep"][0]


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_that_says_it_is_destructive_has_a_checkpoint_before_it(tmp_path: Path, era: str) -> None:
    """Its hint counts once the tools were listed; one that fails brings the page before back."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t", era=era)
        client.meta("aex.checkpoint", name="plan", **SAID)
        client.call("shell.exec", {"command": "kubectl apply -f x.yaml"})
        made = [fact.trigger for fact in work.facts("checkpoint.created")]
        assert made == ["agent", "before echo.shell.exec: kubectl", "after echo.shell.exec: kubectl"]
        order = [event.event for event in work.events() if event.event in ("checkpoint.created", "tool.allowed")]
        assert order == ["checkpoint.created", "checkpoint.created", "tool.allowed", "checkpoint.created"]
        assert (work.root / "tmp" / "checkpoint-pre-kubectl.md").exists()


@pytest.mark.campaign
def test_a_page_that_can_be_read_after_every_kill(tmp_path: Path) -> None:
    """Killed at any moment while checkpoints are made: the newest page is whole, and no earlier one is lost."""
    chooser = random.Random(20261122)
    with ProxyWorkspace(tmp_path, "allow *") as work:
        seen: set[str] = set()
        newest = -1
        for kill in range(KILLS):
            client = work.client("--task", "kill", era=ERAS[kill % 3])
            until = time.monotonic() + chooser.uniform(0.02, 0.25)
            number = 0
            while time.monotonic() < until:
                number += 1
                client.begin("shell.exec", {"command": f"rm -rf {kill}-{number}"})
                if number % 4 == 0:
                    client.begin("aex.checkpoint", {"name": "m", **SAID})
                time.sleep(0.005)
            client.kill()
            found = search(str(work.root))
            assert found.broken == []
            if found.newest is not None:
                assert found.newest.seq >= newest
                newest = found.newest.seq
                assert seen - {page.id for page in found.pages} <= forgotten(seen)
                seen = {page.id for page in found.pages}
            with work.store() as store:
                assert verify_chain(list(store.read("kill"))).valid if store.streams() else True
        assert newest > 0


def forgotten(seen: set[str]) -> set[str]:
    """Automatic pages beyond the bound may go."""
    from adjourn.checkpoints.page_writer import MAX_AUTOMATIC  # beside its only use

    return seen if len(seen) > MAX_AUTOMATIC else set()


# --- what people do


@pytest.fixture
def work(tmp_path: Path) -> Any:
    """A workspace with a session that ended: a milestone, a destructive call, an end."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=20") as work:
        client = work.client("--task", "t")
        client.call("echo")
        client.meta("aex.checkpoint", name="plan", **SAID)
        client.call("shell.exec", {"command": "rm -rf build"})
        client.close()
        yield work


def test_show_lint_and_edit(work: ProxyWorkspace) -> None:
    """The newest page is shown with how far it is; what is wrong with one is said with its line; an edit is checked."""
    run = context(work).run
    shown = run("page", "show")
    assert shown.out.startswith("tmp/checkpoint-active.md: 1 of 2 done, next: Write the report; ")
    assert run("page", "show", "--json").json["page"]["openQuestions"] == ["7 or 30 days?"]
    assert len(run("page", "--json").json["pages"]) == 4
    assert run("page", "lint").code == 0
    editor = work.root.parent / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/7 or 30 days?/14 days?/' \"$1\"\n")
    editor.chmod(0o755)
    environment = context(work).environment | {"EDITOR": str(editor)}
    assert "changed" in run("page", "edit", env=environment).out
    edited = run("page", "show")
    assert "14 days?" in edited.out
    assert "was edited since it was written" in edited.err
    assert run("page", "edit", env=environment).out.endswith(": unchanged\n")
    editor.write_text("#!/bin/sh\nsed -i 's/^- Iterations used.*/- many/' \"$1\"\n")
    broken = run("page", "edit", env=environment)
    assert (broken.code, "AEX306" in broken.out, "was not changed" in broken.err) == (1, True, True)
    assert "14 days?" in run("page", "show").out
    page = work.root / "tmp" / "checkpoint-active.md"
    page.write_text(page.read_text().replace("## Mission", "## Missing"))
    linted = run("page", "lint", "--json")
    assert (linted.code, linted.json["valid"]) == (1, False)
    offered = run("page", "show")
    assert "is the newest that can be" in offered.err
    assert "checkpoint-active" not in offered.out.splitlines()[0]
    del environment["EDITOR"]
    environment.pop("VISUAL", None)
    assert run("page", "edit", env=environment).code == 2


def test_a_page_is_written_by_hand(work: ProxyWorkspace) -> None:
    """From a message, a page, or JSON; the checkpoint is a person's."""
    run = context(work).run
    assert run("checkpoint", "write", "-m", "Begin with the tests").out.startswith("written: tmp/checkpoint-active.md")
    assert "Begin with the tests" in run("page", "show").out
    said = work.root / "said.json"
    said.write_text(json.dumps({"resumptionPoint": "from JSON"}))
    assert run("checkpoint", "write", "t", "--from", "said.json", "--json").json["page"] == "tmp/checkpoint-active.md"
    assert "from JSON" in run("page", "show").out
    said.write_text('{"progress": 7}')
    assert run("checkpoint", "write", "--from", "said.json").code == 1
    copy = work.root / "copy.md"
    copy.write_text((work.root / "tmp" / "checkpoint-active.md").read_text().replace("from JSON", "from a page"))
    assert run("checkpoint", "write", "--from", "copy.md", "--name", "by-hand").code == 0
    assert "from a page" in run("page", "show", "by-hand").out
    assert [fact.trigger for fact in work.facts("checkpoint.created")][-1] == "person"
    assert run("verify").code == 0


def test_archive_restore_reflect_prune_and_gc(work: ProxyWorkspace) -> None:
    """Each says in its first line what it did, and the history verifies after all of them."""
    run = context(work).run
    assert run("store", "prune", "--keep-last", "2").out.startswith("would prune 2 checkpoints")
    assert run("store", "prune", "--keep-last", "2", "--yes").out.startswith("pruned 2 checkpoints")
    assert run("page", "archive", "--project", "review").out.startswith(
        "archived: 2 pages of task t to output/review/checkpoints/"
    )
    assert run("page", "show").code == 1
    assert run("reflect", "--svg", "plots").out.startswith("0 heuristics from 1 archived task, 2 checkpoints")
    assert sorted(os.listdir(work.root / "plots")) == [
        "age-at-resume.svg",
        "budget-at-checkpoint.svg",
        "calls-lost.svg",
    ]
    index = (work.root / "output/review/checkpoints/index.jsonl").read_text().splitlines()
    assert all(json.loads(line)["status"] == "reflected" for line in index)
    assert run("page", "restore").out.startswith("restored: tmp/checkpoint-active.md is active again")
    assert "1 of 2 done" in run("page", "show").out
    assert run("store", "gc").out.startswith("freed ")
    assert len(run("store", "gc", "--json").json["freed"]) == 6
    assert run("verify").code == 0
    assert run("store", "prune", "--max-size", "nonsense").code == 2
    assert run("page", "restore", "nothing").code == 1


def spoil(work: ProxyWorkspace) -> None:
    """A session that makes a destructive call in a workspace that keeps its files, and spoils one of them."""
    subprocess.run(["git", "init", "-q"], cwd=work.root, check=True)
    (work.root / ".aex" / "discipline.json").write_text('{"keepFiles": true}')
    (work.root / "notes.md").write_text("good")
    client = work.client("--task", "t")
    client.meta("aex.checkpoint", name="plan", **SAID)
    client.call("shell.exec", {"command": "rm -rf build"})
    (work.root / "notes.md").write_text("spoilt")
    client.close()


def test_rolling_back_shows_first(tmp_path: Path) -> None:
    """Files and page as they were before the destructive call; nothing happens without --yes."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        spoil(work)
        run = context(work).run
        planned = run("rollback")
        assert planned.out.startswith("would roll back to t-before (tmp/checkpoint-pre-rm.md); add --yes to do it")
        assert "restored: notes.md" in planned.out
        assert (work.root / "notes.md").read_text() == "spoilt"
        assert run("rollback", "--yes", "--json").json["files"] == [{"kind": "restore", "path": "notes.md"}]
        assert (work.root / "notes.md").read_text() == "good"
        assert run("verify").code == 0


KILLED = """
import os, signal, sys
from adjourn.cli.app import main
real = os.rename
def rename(source, target, **named):
    if "rollback/files" in str(source):
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, target, **named)
os.rename = rename
sys.exit(main(sys.argv[1:]))
"""


def test_a_rollback_that_was_killed_is_finished(tmp_path: Path) -> None:
    """The next `adjourn rollback` names it, begins no other, and finishes it with --yes; doctor names it too."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        spoil(work)
        run = context(work).run
        killed = [sys.executable, "-P", "-c", KILLED, "rollback", "--yes"]
        ended = at_terminal(killed, cwd=work.root, env=context(work).environment)
        assert ended.returncode == 128 + signal.SIGKILL
        assert (work.root / "notes.md").read_text() == "spoilt"
        assert run("rollback").out == "a rollback was interrupted; `adjourn rollback --yes` finishes it\n"
        refused = run("rollback", "t-before", "--yes")
        assert (refused.code, "an earlier rollback was interrupted" in refused.err) == (1, True)
        assert "a rollback was interrupted" in run("doctor").out
        done = run("rollback", "--yes")
        assert done.out.startswith("finished the rollback that was interrupted; tmp/checkpoint-active.md is active")
        assert "restored: notes.md" in done.out
        assert (work.root / "notes.md").read_text() == "good"
        assert not (work.root / ".aex" / "rollback").exists()
        assert run("verify").code == 0


def test_the_rules_are_listed(work: ProxyWorkspace) -> None:
    """Those that are off, too."""
    run = context(work).run
    (work.root / ".aex" / "discipline.json").write_text('{"off": ["rm"]}')
    told = run("checkpoint", "rules", "--json").json
    assert [one["label"] for one in told["commands"] if not one["on"]] == ["rm"]
    (work.root / ".aex" / "discipline.json").write_text('{"off": ["odd"]}')
    refused = run("checkpoint", "rules")
    assert (refused.code, "no rule is named 'odd'" in refused.err) == (1, True)
