"""Every kind of trouble stands in every place that tells how a task is, after a kill, further reads and a later checkpoint."""

from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adjourn.checkpoints.plans import gone_results
from adjourn.code.workflow.tasks import known_troubles
from adjourn.tasks.troubles import open_troubles
from support.page_in_memory import PageInMemory
from support.proxy import run, text_of
from support.scripted_clients import CLAUDE, CODEX, ScriptedWorkspace, in_git

BUDGET = 7


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedWorkspace]:
    with ScriptedWorkspace(tmp_path, "use file.*, shell.exec", f"budget calls={BUDGET}", version="v1") as work:
        in_git(work)
        monkeypatch.setenv("ADJOURN_CONFIG", str(work.config))  # one person's keys, for clients and commands
        yield work


def failing(work: ScriptedWorkspace) -> list[str]:
    """What failed, and what nobody knows the end of; until the budget is spent."""
    work.write("outline.md")
    work.shell("pytest -q", fails=True)
    work.shell("cargo build", fails=True)
    work.shell("kubectl apply -f app.yaml", fails=True)
    work.ask_for("Bash", {"command": "kubectl apply -f db.yaml"})
    work.end_process()
    work.begin(CLAUDE)
    work.act("Read", {"file_path": "app.yaml"})
    work.act("Read", {"file_path": "db.yaml"})
    return ["failed", "in doubt", "tests failed", "build failed", "gone", "spent"]


def unfinished(work: ScriptedWorkspace) -> list[str]:
    """An edit that no test came after, and a result that is gone."""
    work.write("outline.md")
    work.shell("pytest -q")
    work.write("chapter.md")
    return ["gone", "not verified"]


@pytest.mark.parametrize("story", [failing, unfinished])
def test_every_place_tells_every_trouble(
    work: ScriptedWorkspace, story: Callable[[ScriptedWorkspace], list[str]]
) -> None:
    """Each with its next step: hand-over, aex.resume, status, inbox, the checkpoint's page, a coding session's review, the web page."""
    work.begin(CLAUDE)
    kinds = story(work)
    work.close()
    (work.root / "outline.md").unlink()
    made = run("checkpoint", "write", "pattern", cwd=work.root, env=work.environment)
    assert made.code == 0, made.err
    ledger = work.ledger()
    troubles = open_troubles(ledger, gone_results(str(work.root), ledger))
    assert [trouble.kind for trouble in troubles] == kinds

    status = run("status", "pattern", "--json", cwd=work.root, env=work.environment).json
    assert status["troubles"] == [trouble._asdict() for trouble in troubles]
    inbox = run("inbox", "--json", cwd=work.root, env=work.environment).json
    found = [
        *(each["kind"] for each in inbox["troubles"]),
        *("in doubt" for each in inbox["waiting"] if each["id"] in ledger.doubts),
    ]
    assert sorted(found) == sorted(kinds)
    with work.store() as store:
        review = "\n".join(known_troubles(store, str(work.root)))
        browser = PageInMemory(store, root=str(work.root)).enter()
        web = html.unescape(browser.get("/task?id=pattern"))
        inbox_web = html.unescape(browser.get("/"))
    told = work.begin(CODEX)
    work.end_process()
    client = work.client("--task", "pattern")
    resumed = text_of(client.call("aex.resume", {"name": "pattern"}))
    client.close()
    page = work.page.replace("\\", "")
    for trouble in troubles:
        assert trouble.text in review
        for name, place in {"hook": told, "resume": resumed, "page": page, "task": web, "inbox": inbox_web}.items():
            expected = trouble.call if trouble.kind == "in doubt" else trouble.text
            assert expected in place.replace('\\"', '"'), name


def test_troubles_are_carried_by_git(work: ScriptedWorkspace, tmp_path: Path) -> None:
    """Another machine, which has a clone and trusts the key, shows each, also what was gone: the page stays behind."""
    work.begin(CLAUDE)
    kinds = failing(work)
    work.close()
    (work.root / "outline.md").unlink()
    made = run("checkpoint", "write", "pattern", cwd=work.root, env=work.environment)
    assert made.code == 0, made.err
    ledger = work.ledger()
    troubles = open_troubles(ledger, gone_results(str(work.root), ledger))
    assert [trouble.kind for trouble in troubles] == kinds

    person = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", "add", "--all"], cwd=work.root, check=True)
    subprocess.run(["git", *person, "commit", "--quiet", "--message", "half-way"], cwd=work.root, check=True)
    there = tmp_path / "there"
    subprocess.run(["git", "clone", "--quiet", str(work.root), str(there)], check=True)
    for path in (there / ".aex").glob("adjourn.db*"):
        path.unlink()
    key = run("keys", "show", cwd=work.root, env=work.environment).out.strip()
    environment = work.environment | {"ADJOURN_CONFIG": str(work.config.with_name("other"))}
    shutil.copytree(work.config, work.config.with_name("other"), ignore=shutil.ignore_patterns("keys"))
    trusted = run("keys", "trust", "ann", key, cwd=there, env=environment)
    assert trusted.code == 0, trusted.err
    told = run("resume", "pattern", "--brief-bytes", "32768", cwd=there, env=environment)
    assert told.code == 0, told.err
    shown = " ".join(told.out.split())
    for trouble in troubles:
        assert (trouble.call if trouble.kind == "in doubt" else trouble.text) in shown, trouble.kind

    work.root, work.config = there, work.config.with_name("other")
    client = work.client("--task", "pattern")
    client.call("aex.resume", {"name": "pattern"})
    client.close()
    for has_page in (True, False):
        if not has_page:
            shutil.rmtree(there / "tmp")
        status = run("status", "pattern", "--json", cwd=there, env=environment).json
        assert [trouble["kind"] for trouble in status["troubles"]] == kinds
        inbox = run("inbox", "--json", cwd=there, env=environment).json
        assert "gone" in [trouble["kind"] for trouble in inbox["troubles"]]
    made = run("checkpoint", "write", "pattern", cwd=there, env=environment)
    assert made.code == 0, made.err
    assert "a result of the work is gone: outline.md" in (there / "tmp" / "checkpoint-active.md").read_text()


def test_a_result_that_the_agent_removes_is_not_gone(work: ScriptedWorkspace) -> None:
    """Neither here nor where git carries the task."""
    work.begin(CLAUDE)
    work.write("outline.md")
    made = run("checkpoint", "write", "pattern", cwd=work.root, env=work.environment)
    assert made.code == 0, made.err
    removal = {"command": "rm -f out*.md"}
    assert work.ask_for("Bash", removal) == "allow"
    (work.root / "outline.md").unlink()
    work.say_outcome("Bash", removal, fails=False)
    work.close()
    assert work.facts("checkpoint.created")[-1].gone == []
    assert run("status", "pattern", "--json", cwd=work.root, env=work.environment).json["troubles"] == []
