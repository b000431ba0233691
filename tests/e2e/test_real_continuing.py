"""A session of a real client, killed in the middle, is continued in another client, and the next session learns of both unasked.

The models are scripts on loopback; the clients, their transcripts, their hooks and `adjourn continue` are real.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from adjourn.sessions import catalog
from support import tools
from support.missing import is_missing
from support.real.clients import CLAUDE, CODEX, SERVER, TASK, Agent
from support.real.model import Model, Use, running
from support.real.servers import SERVERS, Place
from support.real.starting import command_of, prepare
from support.terminal import at_terminal

GIT = next(server for server in SERVERS if server.name == "git")
POLICY = """\
policy workspace v0

goal "Translate the menu."

use file.*, shell.exec

budget calls=40
"""
ASKED, ASKED_OF_CODEX = "Translate menu.txt into French", "Print the price list"
PATIENCE = 60.0
UNFINISHED = "Unfinished work in this workspace"
UNASKED = "left a session in this folder unfinished"


class Ground(NamedTuple):
    """A project of a person who has both clients, with one home folder."""

    place: Place
    home: Path
    is_governed: bool

    def environment(self) -> dict[str, str]:
        """What stands around the clients, their hooks and the commands of the person alike."""
        return {
            "PATH": f"{self.home / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "ADJOURN_CONFIG": str(self.home / "config"),
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / "claude" / ".claude"),
            "CODEX_HOME": str(self.home / "codex"),
        }

    def start(self, agent: Agent, model: Model, asked: str, *more: str) -> subprocess.Popen[bytes]:
        """Start a client with a first prompt, and what a person allows it."""
        words = tuple(asked if word == TASK else word for word in agent.plain_arguments)
        if agent is CLAUDE:
            words = (*(word if word != f"mcp__{SERVER}" else f"mcp__{SERVER},Bash,Write" for word in words), *more)
        return replace(agent, plain_arguments=words).start_as_set_up(
            self.place.root, self.home / agent.name, model.address, self.environment()
        )

    def work(self, model: Model, asked: str, *more: str) -> str:
        """Run Claude Code until it has done what the model's script says. Returns all that it showed last."""
        process = self.start(CLAUDE, model, asked, *more)
        self.until(lambda: process.poll() is not None, "the end of the session")
        return model.context

    def adjourn(self, *words: str) -> str:
        """The output of a command of the person, at a terminal."""
        done = at_terminal(
            [sys.executable, "-m", "adjourn", *words],
            cwd=self.place.root,
            env=CLAUDE.full_environment(self.home / "claude", "") | self.environment(),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                logs = "\n".join(log.read_text(errors="replace")[-3000:] for log in sorted(self.home.glob("*/*.log")))
                pytest.fail(f"{what} did not happen within {PATIENCE:.0f} s\n{logs}")
            time.sleep(0.05)

    def script_of(self, agent: Agent, name: str) -> Use:
        """A command that writes half of a file, and then waits to be killed."""
        command = f"printf half > {name}; touch {name}.begun; sleep 30; printf whole > {name}"
        if agent is CLAUDE:
            return Use("Bash", {"command": command, "description": "write it"}, own=True)
        return Use("exec_command", {"cmd": command, "yield_time_ms": 30000}, own=True)


@pytest.fixture(params=["governed", "without a policy"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    """A project with or without a policy; the hooks are those of `adjourn init --user`."""
    return made(tmp_path, is_governed=request.param == "governed", commands=[["init", "--user", "--yes"]])


def made(path: Path, *, is_governed: bool, commands: Sequence[Sequence[str]] = ()) -> Ground:
    """Set up the project for both clients, by further `commands` of the person and, where it is governed, `adjourn init`."""
    missing = [agent.name for agent in (CLAUDE, CODEX) if agent.program() is None]
    if missing:
        is_missing(f"{' and '.join(missing)} not installed: python tests/support/tools.py --clients")
    place = Place(path / "work", "")
    prepare(GIT, place, POLICY)
    ground = Ground(place, path / "home", is_governed)
    (place.root / "menu.txt").write_text("bread")
    if not is_governed:
        (place.root / ".aex" / "policy.aex").unlink()
        (place.root / ".aex").rmdir()
    for agent in (CLAUDE, CODEX):
        home = ground.home / agent.name
        home.mkdir(parents=True)
        own = {name: value for name, value in place.environment().items() if name not in ("PATH", "ADJOURN_CONFIG")}
        agent.as_user(place.root, home, command_of(GIT, place), own)
    for words in (*commands, *([["init", "--yes"]] if is_governed else [])):
        ground.adjourn(*words)
    return ground


def told_at_start(context: str) -> str:
    """What the session hook told."""
    return context.partition("SessionStart hook additional context:")[2].partition("# Environment")[0]


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a client as a crash does."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def codex_on_path(ground: Ground, model: Model) -> None:
    """`codex`, as it is found on PATH: the real one, headless, with what the person allows it."""
    CODEX.prepare(ground.home / "codex", model.address, [], {})
    program = CODEX.program()
    assert program is not None
    options = " ".join(word for word in CODEX.plain_arguments if word != TASK)
    folder = ground.home / "bin"
    folder.mkdir(exist_ok=True)
    wrapper = folder / "codex"
    wrapper.write_text(f'#!/bin/sh\nexec "{program[0]}" {options} "$@"\n')
    wrapper.chmod(0o755)


def test_killed_continued_in_the_other_client_killed_and_told_of_both(ground: Ground) -> None:
    """Claude Code dies in an edit, `adjourn continue --in codex` continues it, Codex dies too: Claude Code's next session learns of both, once."""
    root = ground.place.root
    script = [
        Use("Write", {"file_path": str(root / "menu.fr.txt"), "content": "pain"}, own=True),
        ground.script_of(CLAUDE, "prices"),
    ]
    with running(script, SERVER) as model:
        process = ground.start(CLAUDE, model, ASKED)
        ground.until((root / "prices.begun").exists, "the edit")
        kill(process)

    listed = ground.adjourn("continue", "--list")
    assert "in a call" in listed
    with running([ground.script_of(CODEX, "list")], SERVER) as model:
        codex_on_path(ground, model)
        with (ground.home / "out.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "adjourn", "continue", "--last", "--in", "codex"],
                cwd=root, env=CODEX.full_environment(ground.home / "codex", model.address) | ground.environment(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        ground.until((root / "list.begun").exists, "Codex's edit")
        kill(process)
    handed = model.context
    assert f"> {ASKED}" in handed
    assert "`menu.fr.txt`: 1 edit (created)" in handed
    assert re.search(r"## In doubt\n.*\n- `printf half > prices", handed)

    with running([], SERVER) as model:
        shown = ground.work(model, "Go on")
    shown = told_at_start(shown)
    assert (
        "Another agent worked on this before you" not in shown
    )  # what `adjourn continue` wrote is not what a person said
    [codex] = [line for line in ground.adjourn("continue", "--list").splitlines() if "codex" in line]
    assert ASKED[:20] in codex
    if ground.is_governed:  # both are tasks, and no line repeats one
        assert UNASKED not in shown
        assert shown.count(f"{ASKED}; calls in doubt") == 1
        assert f"Goal:\n| - {ASKED}\n" in shown
        assert "printf half > list" in shown
    else:
        told = [line for line in shown.splitlines() if UNASKED in line]
        assert [line.partition(" left ")[0].split(": ")[-1] for line in told] == ["Codex", "Claude Code"]
        assert all(f'the person said: "{ASKED}"' in line for line in told)


def test_of_two_windows_the_one_that_broke_off_is_continued(ground: Ground) -> None:
    """Two sessions at once in one folder, the newest idle, the other killed in an edit: that one is continued, and the next session learns of it."""
    root = ground.place.root
    with running([ground.script_of(CLAUDE, "prices")], SERVER) as model:
        broken = ground.start(CLAUDE, model, ASKED)
        ground.until((root / "prices.begun").exists, "the edit")
        with running([Use("Bash", {"command": "cat menu.txt", "description": "read"}, own=True)], SERVER) as other:
            beside = ground.work(other, ASKED_OF_CODEX)
        kill(broken)

    handed = ground.adjourn("continue")
    assert f"> {ASKED}" in handed
    assert ASKED_OF_CODEX in handed.partition("## Other sessions in this folder")[2]
    assert re.search(r"## In doubt\n.*\n- `printf half > prices", handed)
    told = []
    for _ in range(2):
        with running([], SERVER) as model:
            told.append(ground.work(model, "Go on"))
    if ground.is_governed:  # each task has its line until it is resumed
        assert told_at_start(told[0]).count(f"Goal:\n| - {ASKED}\n") == 1
        assert f": {ASKED_OF_CODEX}; calls with effects" in told[0]
        assert UNASKED not in told[0]
    else:
        assert [text.count(UNASKED) for text in (beside, *told)] == [0, 1, 0]
        assert f'the person said: "{ASKED}"' in told[0]


BEFORE = (replace(CLAUDE, program=tools.claude_before), replace(CODEX, program=tools.codex_before))


@pytest.mark.parametrize("agent", [CLAUDE, CODEX, *BEFORE], ids=["claude", "codex", "claude-before", "codex-before"])
def test_two_versions_of_each_client_are_read_whole(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a real client of today and of an earlier version writes: prompt, exit code and answer are known, and no record is unknown."""
    program = agent.program()
    if program is None:
        is_missing(f"{agent.name} is not installed: run `python tests/support/tools.py --clients`")
    place, home = Place(tmp_path / "work", ""), tmp_path / "home"
    prepare(GIT, place)
    before = agent.program in (tools.claude_before, tools.codex_before)
    name, shell = ("command", "shell_command") if before else ("cmd", "exec_command")
    fails = (
        {"command": "echo cold; exit 3", "description": "test"}
        if agent.name == "claude"
        else {name: "echo cold; exit 3"}
    )
    changed = {TASK: ASKED, f"mcp__{SERVER}": f"mcp__{SERVER},Bash"}
    words = [changed.get(word, word) for word in agent.arguments(home)]
    if agent.name == "codex":
        words[1:1] = ["--sandbox", "danger-full-access"]
    with running(
        [Use("Bash" if agent.name == "claude" else shell, fails, own=True)], SERVER, lambda _: "All tests pass."
    ) as model:
        process = replace(agent, arguments=lambda _: words).start(
            place.root, home, model.address, command_of(GIT, place), place.environment()
        )
        assert process.wait(PATIENCE) == 0, (home / "err.log").read_text() + (home / "out.log").read_text()

    for variable, value in agent.full_environment(home, "").items():
        monkeypatch.setenv(variable, value)
    [file] = catalog.sessions([str(place.root)])
    story = catalog.reader_of(file).read(file)
    known = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True).stdout
    assert story.version in known.split()
    assert [prompt.text for prompt in story.prompts] == [ASKED]
    assert [(call.outcome, call.code) for call in story.calls] == [("failed", 3)]
    assert [answer.text for answer in story.answers] == ["All tests pass."]
    assert (story.unknown, story.unreadable) == ({}, 0)


CORRECTED = "No: never touch prices.txt, the office owns it."


def test_what_a_compaction_lost_comes_back_to_the_same_client_once(tmp_path: Path) -> None:
    """Claude Code compacts, and its summary lacks a correction: the conversation has the correction again, once, and keeps its task."""
    ground = made(tmp_path, is_governed=True)
    read = Use("Bash", {"command": "seq 5000", "description": "count"}, own=True)
    with running([read] * 3, SERVER) as model:
        ground.work(model, ASKED)
    with running([read] * 6, SERVER) as model:
        ground.work(model, CORRECTED, "--continue")
    for asked in ("Count on", "And on"):  # what was said last is kept word by word
        with running([read] * 12, SERVER) as model:
            assert CORRECTED in ground.work(model, asked, "--continue")
    with running([], SERVER, lambda _: f"The person asked: {ASKED}.") as model:
        ground.work(model, "/compact", "--continue")
    for asked in ("Go on", "And finish"):
        with running([], SERVER) as model:
            shown = ground.work(model, asked, "--continue")
        assert shown.count(CORRECTED) == 1
        assert UNFINISHED not in shown
        assert "This conversation continues its task" in shown
