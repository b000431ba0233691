"""A first day, as README.md tells it: five commands after the installation, with two real coding agents and a kill.

The models are scripts on loopback. The agents are large; `make test-all` installs them, and so does `python tests/support/tools.py --clients`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adjourn.host.clock import now
from adjourn.host.process import Process, lives
from adjourn.host.workspace_store import open_at
from adjourn.tasks.task import Task, tasks_of
from support.missing import is_missing
from support.real.clients import CLAUDE, CODEX, Agent
from support.real.model import Model, Use, running
from support.screen import Screen
from support.terminal import at_terminal

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "clients.md"
SECONDS = 60.0
ADJOURN = str(Path(sys.executable).parent / "adjourn")


@pytest.fixture(autouse=True)
def agents() -> None:
    missing = [agent.name for agent in (CLAUDE, CODEX) if agent.program() is None]
    if missing:
        is_missing(f"not installed: {', '.join(missing)}: python tests/support/tools.py --clients")


@pytest.mark.parametrize("answer", ["approve", "inbox"])
def test_six_commands_from_the_installation_to_the_undo(answer: str, tmp_path: Path) -> None:
    """Install, set up, work and be killed, answer, continue in the other client, undo: the call that a person approved happened once.

    Neither client needs a permission for the tool that only reads: `init` wrote it into the settings of both.
    """
    home, project = tmp_path / "home", tmp_path / "shop"
    environment = _make(home, project)
    before = _files(project)
    _run([ADJOURN, "init", "--yes"], project, environment)  # 2, after the installation

    words = ["-p", "Add washers.", "--allowedTools", "mcp__inv__add_item"]  # 3
    begin = [Use("list_items", {}), Use("add_item", {"name": "washers"}), *[Use("list_items", {})] * 500]
    with running(begin, "inv") as model:
        agent = subprocess.Popen(
            [*(CLAUDE.program() or ()), *words], cwd=project, stdin=subprocess.DEVNULL,
            env=environment | CLAUDE.environment(home, model.address) | {"CLAUDE_CONFIG_DIR": str(home / ".claude")},
        )  # fmt: skip
        try:
            _until(lambda: len(model.results) > 2, "the first calls")
        finally:
            _kill_with_proxies(agent, project)
    assert model.results[0] == '{"result":"none"}'
    approval = re.search(r"adjourn approve (\w+)", model.results[1])
    assert approval, model.results

    if answer == "approve":  # 4, as the refusal says it
        _run([ADJOURN, "approve", approval[1]], project, environment)
    else:  # as `adjourn --help` says it
        screen = Screen("inbox", cwd=project, env=environment | {"TERM": "xterm-256color"}, apart=True)
        screen.wait_for("a approve")
        screen.press(b"a\r")
        screen.wait_for("u undo")
        screen.press(b"q")
        assert "Approved: inv.add_item" in screen.finish()

    resume = Use(
        "aex.resume", lambda context: {"name": re.findall(r'"name": "([\w-]+)"', context.replace("\\", ""))[-1]}
    )
    words = ["exec", "--skip-git-repo-check", "-c", "mcp_servers.inv.required=true", "Continue."]  # 5
    continued = [resume, Use("list_items", {}), Use("list_items", {}), Use("add_item", {"name": "washers"})]
    words[2:2] = ["-c", 'mcp_servers.inv.tools.add_item.approval_mode="approve"']  # what a person says at the screen
    with running(continued, "inv") as model:
        _prepare_codex(home, project, model)
        _run([*(CODEX.program() or ()), *words], project, environment | CODEX.environment(home / ".codex", ""))
    assert '{"result":"none"}' in model.results[2]
    assert "added" in model.results[3], model.results
    assert (project / "items.txt").read_text() == "washers\n"

    _run([ADJOURN, "init", "--undo", "--yes"], project, environment)  # 6
    after = _files(project)
    assert {name: after.get(name) for name in before} == before


CODEX_WORDS = ("--skip-git-repo-check", "--dangerously-bypass-hook-trust", "-c", "mcp_servers.inv.required=true")


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_a_conversation_that_is_continued_keeps_its_task(agent: Agent, tmp_path: Path) -> None:
    """`claude --continue` and `codex resume`, after a kill, keep the task and its spent budget; nobody has to resume it."""
    home, project = tmp_path / "home", tmp_path / "shop"
    environment = _make(home, project)
    _run([ADJOURN, "init", "--yes"], project, environment)
    program, own = agent.program() or (), home / f".{agent.name}"
    first, again = ["-p", "Count the washers."], ["-p", "Continue.", "--continue"]
    if agent is CODEX:
        first, again = ["exec", *CODEX_WORDS, "Count."], ["exec", "resume", "--last", *CODEX_WORDS, "Continue."]

    def around(model: Model) -> dict[str, str]:
        if agent is CODEX:
            _prepare_codex(home, project, model)
        return (
            environment
            | agent.environment(home, model.address)
            | {"CLAUDE_CONFIG_DIR": str(own), "CODEX_HOME": str(own)}
        )

    thinking = Use("list_items", _think)  # a hook is not to outlive its client
    with running([*[Use("list_items", {})] * 3, thinking], "inv") as model:
        process = subprocess.Popen([*program, *first], cwd=project, stdin=subprocess.DEVNULL, env=around(model))
        try:
            _until(lambda: len(model.results) > 2, "the first calls")
        finally:
            _kill_with_proxies(process, project)
    store = open_at(str(project))
    (task,) = tasks_of(store)
    spent = Task(store, task, clock=now, secret=bytes(32)).ledger.calls_used

    known = len(model.results)  # the conversation still has them
    with running([Use("list_items", {})] * (known + 2), "inv") as model:
        _run([*program, *again], project, around(model))
    assert f"This conversation continues its task {task}" in model.context
    assert list(tasks_of(store)) == [task]
    assert Task(store, task, clock=now, secret=bytes(32)).ledger.calls_used > spent


def _think(_: str) -> dict[str, object]:
    time.sleep(SECONDS)
    return {}


def _prepare_codex(home: Path, project: Path, model: Model) -> None:
    CODEX.prepare(home / ".codex", model.address, [], {})
    with (home / ".codex" / "config.toml").open("a") as config:
        config.write(f'\n[projects."{project}"]\ntrust_level = "trusted"\n')


def _make(home: Path, project: Path) -> dict[str, str]:
    """The example of docs/how-to/clients.md for both clients, in an empty home folder, where a person trusts the project."""
    for folder in (home / ".claude", home / ".codex", home / "bin", project / ".codex"):
        folder.mkdir(parents=True)
    for name, kind in (("inv.py", "python"), (".mcp.json", "json")):
        block = re.search(rf"<!-- file: {re.escape(name)} -->\n```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
        assert block
        (project / name).write_text(block[1])
    (project / ".codex" / "config.toml").write_text('[mcp_servers.inv]\ncommand = "python"\nargs = ["inv.py"]\n')
    (home / ".codex" / "servers.toml").touch()
    trusted = {"projects": {str(project): {"hasTrustDialogAccepted": True}}}
    (home / ".claude" / ".claude.json").write_text(json.dumps(trusted))
    (home / ".claude" / "settings.json").write_text('{"enableAllProjectMcpServers": true}')
    environment = CLAUDE.full_environment(home, "")
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "ADJOURN_CONFIG": str(home / "config")}
    return environment | own | {"CLAUDE_CONFIG_DIR": str(home / ".claude"), "CODEX_HOME": str(home / ".codex")}


def _run(command: list[str], project: Path, environment: dict[str, str]) -> None:
    """Run what a person types, at a terminal of its own."""
    done = at_terminal(command, cwd=project, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def _files(project: Path) -> dict[str, str]:
    return {path.relative_to(project).as_posix(): path.read_text() for path in project.rglob("*") if _is_own(path)}


def _is_own(path: Path) -> bool:
    return path.is_file() and path.suffix in (".py", ".json", ".toml", ".txt")


def _until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {SECONDS:.0f} s"
        time.sleep(0.05)


def _kill_with_proxies(agent: subprocess.Popen[bytes], project: Path) -> None:
    store = open_at(str(project))
    sessions = [
        each
        for task in tasks_of(store)
        for each in Task(store, task, clock=now, secret=bytes(32)).ledger.sessions.values()
    ]
    proxies = [Process(each.host, each.pid, each.started) for each in sessions if each.era != "hook"]
    for proxy in proxies:
        os.kill(proxy.pid, signal.SIGKILL)
    agent.kill()
    agent.wait()
    _until(lambda: not any(map(lives, proxies)), "the end of the proxy")
