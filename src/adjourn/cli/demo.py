"""`adjourn demo`: a session that is killed in mid-call, and the one that resumes it, step by step.

Everything is real: a third-party MCP server (mcp-server-git) on a scratch repository, the official SDK's client in both
protocol eras, a SIGKILL. It touches no folder but its own and its cached environment, and prints only what it
saw happen.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from adjourn.cli.context import example, flag, user
from adjourn.cli.output import say_prose
from adjourn.cli.terminal import Spinner
from adjourn.errors import AdjournError
from adjourn.host import executables
from adjourn.host.clock import now
from adjourn.host.executables import find, outside
from adjourn.host.finding import DEFAULT_STORE
from adjourn.host.keys import secret
from adjourn.host.workspace_store import open_at
from adjourn.tasks.approvals import settle_doubt
from adjourn.tasks.lease import expire_dead_sessions
from adjourn.tasks.task import Task, tasks_of

SERVER = "mcp-server-git>=2026.10"
SDK = "mcp>=2.3"
HOOK = """#!/bin/sh
touch hook-is-running
sleep 2
"""
POLICY = """policy workspace v0

goal "Fix the greeting, and nothing else"

use git_status, git_log, git_diff_unstaged, git_add, git_commit
deny git_reset, git_checkout
confirm before git_add
budget calls=100
"""


@click.command(epilog=example("adjourn demo", "adjourn demo --keep"))
@flag("--keep", "Keep the scratch folder, so that you can inspect it.")
def demo(*, keep: bool) -> None:
    """Demonstrate how a session is killed during a call, and how another client resumes it.

    The first run installs a real MCP server and the official SDK into a separate, cached environment.
    """
    if find("git", os.getcwd()) is None:
        raise AdjournError("git is not found on this PATH", "install git: the demonstration makes a commit")
    interpreter = _environment()
    folder = Path(tempfile.mkdtemp(prefix="adjourn-demo-"))
    try:
        Story(folder, interpreter).tell()
    finally:
        if keep:
            click.echo(f"\nEverything is in {folder}: try `adjourn log`, `adjourn status`, `adjourn verify` there.")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _environment() -> Path:
    """The Python of an environment with the server and the SDK, made on first use."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adjourn" / "demo"
    interpreter = cache / "bin" / "python"
    if (cache / "ready").exists():
        return interpreter
    if not sys.stderr.isatty():
        click.echo("Preparing: installing mcp-server-git and the MCP SDK (once) …", err=True)
    shutil.rmtree(cache, ignore_errors=True)
    for command in (
        executables.python_command("-m", "venv", str(cache)),
        executables.python_command(
            "-m", "pip", "install", "--quiet", "--disable-pip-version-check", SERVER, SDK, executable=str(interpreter)
        ),
    ):
        variables = outside(os.environ, os.getcwd())
        with Spinner("preparing: installing mcp-server-git and the MCP SDK (once)"):
            done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = done.stderr.strip()[-500:]
            raise AdjournError(
                f"cannot prepare the demonstration: {reason}", "connect to a package index; it is needed once"
            )
    (cache / "ready").touch()
    return interpreter


class Story:
    """One run. `folder` is the scratch workspace, `interpreter` the Python of the demonstration's environment."""

    def __init__(self, folder: Path, interpreter: Path) -> None:
        self.folder = folder
        self.interpreter = str(interpreter)
        by_name = {key: value for key, value in os.environ.items() if not key.startswith(("ADJOURN_", "GIT_"))}
        self.environment = {
            **outside(by_name, os.getcwd()),
            "GIT_AUTHOR_NAME": "demo", "GIT_AUTHOR_EMAIL": "demo@localhost",
            "GIT_COMMITTER_NAME": "demo", "GIT_COMMITTER_EMAIL": "demo@localhost",
        }  # fmt: skip
        self.chapters = 0
        self.proxy = [
            *executables.python_command("-m", "adjourn", "proxy", "--"),
            *executables.python_command("-m", "mcp_server_git", "--repository", str(folder), executable=self.interpreter),
        ]  # fmt: skip

    def tell(self) -> None:
        self._prepare()
        self._first_session()
        self._second_session()
        self._verify()

    # --- the chapters

    def _prepare(self) -> None:
        self._chapter("A workspace: a git repository and a policy that a person wrote")
        self._run("git", "init", "--quiet", "--initial-branch=main")
        (self.folder / "greeting.txt").write_text("Helo, world\n", encoding="utf-8")
        (self.folder / ".gitignore").write_text(".aex/adjourn.db*\nhook-is-running\n", encoding="utf-8")
        (self.folder / ".aex").mkdir()
        (self.folder / ".aex" / "policy.aex").write_text(POLICY, encoding="utf-8")
        self._run("git", "add", ".")
        self._run("git", "commit", "--quiet", "--message", "first")
        (self.folder / "greeting.txt").write_text("Hello, world\n", encoding="utf-8")
        hook = self.folder / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(HOOK, encoding="utf-8")
        hook.chmod(0o755)
        for line in POLICY.strip().splitlines()[2:]:
            if line:
                self._say(f"    {line}", "dim")

    def _first_session(self) -> None:
        self._chapter("Session 1: a client with the initialize handshake works through the proxy")
        repository = {"repo_path": str(self.folder)}
        client = self._client(
            "first-client",
            "legacy",
            [
                ("git_status", repository, "reads the status"),
                ("git_diff_unstaged", repository, "reads the change"),
                ("git_reset", repository, "tries what the policy denies"),
                ("git_add", {**repository, "files": ["greeting.txt"]}, "stages it, which a person has to confirm"),
                ("aex.checkpoint", {"name": "greeting", "description": "Staged the fixed greeting; commit is next"},
                 "checkpoints"),
                ("git_commit", {**repository, "message": "Fix the greeting"}, "commits"),
            ],
        )  # fmt: skip
        marker = self.folder / "hook-is-running"
        end = time.monotonic() + 20
        while not marker.exists() and client.running and time.monotonic() < end:
            client.read(0.05)
        process = self._holder()
        os.kill(process, signal.SIGKILL)
        client.stop()
        self._say(f"  !! kill -9 of the proxy (process {process}) while git_commit is under way", "red")
        time.sleep(3)  # the server may still finish what it was doing: that is what makes the call doubtful

    def _second_session(self) -> None:
        self._chapter("Session 2: another client, with the stateless protocol, resumes the work")
        client = self._client("second-client", "2026-07-28", [("aex.resume", {"name": "greeting"}, "resumes")])
        client.finish()
        handover = json.loads(client.texts[-1])
        self._say(
            f"     used {handover['callsUsed']}, remaining {handover['budgetRemaining']} of 100: nothing is refunded"
        )
        self._say(f"     description: {handover['description']}")
        for doubt in handover.get("inDoubt", []):
            self._say(f"     in doubt: {doubt['tool']} {doubt.get('arguments', '')} since {doubt['since']}", "yellow")
        for doubt in handover.get("inDoubt", []):
            self._settle(doubt["call"])
        repository = {"repo_path": str(self.folder)}
        steps: list[tuple[str, Any, str]] = [("git_log", {**repository, "max_count": 1}, "looks at the result")]
        if self._commits() < 2:
            message = {**repository, "message": "Fix the greeting"}
            steps.insert(0, ("git_commit", message, "commits again, now that it is known to be safe"))
        self._client("second-client", "2026-07-28", [("aex.resume", {"name": "greeting"}, "resumes"), *steps]).finish()

    def _settle(self, call: str) -> None:
        happened = self._commits() > 1
        self._say(f"  A person checks: git has {'the commit' if happened else 'no such commit'}, and records it,")
        self._say(f"  as with: adjourn settle {call} {'--done' if happened else '--not-done'}")
        with self._task() as task:  # the command itself wants a terminal
            expire_dead_sessions(task)
            settle_doubt(task, call, happened=happened, by=user(), note="git log says so")

    def _verify(self) -> None:
        self._chapter("Afterwards: the history is a chain that anyone can verify")
        self._adjourn("status")
        self._adjourn("verify")

    # --- the means

    def _client(self, name: str, mode: str, steps: list[tuple[str, Any, str]]) -> DemoClient:
        return DemoClient(self, name, mode, steps)

    def _holder(self) -> int:
        """The process of the open session, as the task's history names it."""
        with self._task() as task:
            for session in task.ledger.sessions.values():
                return session.pid
        raise AdjournError("the demonstration has no open session", "run it again with --keep and inspect its folder")

    @contextmanager
    def _task(self) -> Iterator[Task]:
        """The demonstration's task, of which there is one."""
        store = open_at(str(self.folder), DEFAULT_STORE)
        try:
            yield Task(store, next(iter(tasks_of(store))), clock=now, secret=secret())
        finally:
            store.close()

    def _commits(self) -> int:
        return int(self._run("git", "rev-list", "--count", "HEAD").strip())

    def _adjourn(self, *arguments: str) -> None:
        self._say(f"  $ adjourn {' '.join(arguments[:3])}", "bold")
        text = self._run(*executables.python_command("-m", "adjourn", *arguments))
        for line in text.rstrip().splitlines():
            self._say(f"     {line}")

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise AdjournError(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _chapter(self, title: str) -> None:
        self.chapters += 1
        click.echo()
        self._say(f"{self.chapters}. {title}", "bold")

    def _say(self, line: str, style: str = "") -> None:
        say_prose(line, style)
        sys.stdout.flush()


class DemoClient:
    """A running `demo_client`, whose steps are printed as they come."""

    def __init__(self, story: Story, name: str, mode: str, steps: list[tuple[str, Any, str]]) -> None:
        script = {
            "command": story.proxy,
            "cwd": str(story.folder),
            "env": story.environment,
            "mode": mode,
            "name": name,
            "steps": [{"tool": tool, "arguments": arguments} for tool, arguments, _ in steps],
        }
        self._story = story
        self._steps = steps
        self.texts: list[str] = []
        program = Path(__file__).with_name("demo_client.py")
        self._process = subprocess.Popen(
            executables.python_command(str(program), json.dumps(script), executable=story.interpreter),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=story.environment,
            cwd=story.folder,
        )
        assert self._process.stdout is not None  # it was asked for above
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def read(self, seconds: float) -> None:
        """Print what has happened; wait `seconds` when nothing has."""
        assert self._process.stdout is not None
        data = self._process.stdout.read()
        if not data:
            time.sleep(seconds)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(json.loads(line))

    def _tell(self, line: dict[str, Any]) -> None:
        say, step, text = self._story._say, line["step"], line["text"]  # noqa: SLF001  # they are one program
        first = text.strip().splitlines()[0] if text.strip() else ""
        if step == "connected":
            say(f"  connected, protocol {text}")
        elif step == "asked":
            say("  ?  a person is asked, and approves", "yellow")
        elif step == "calling":
            say(f"  -> {self._steps[int(text)][0]:<18} {self._steps[int(text)][2]}")
        else:
            self.texts.append(text)
            if first.startswith("{"):
                first = json.loads(text).get("message", "the state that the first session left")
            if line["error"]:
                say(f"     refused: {first}", "red")
            else:
                say(f"     answered: {first}", "green")

    def finish(self) -> None:
        """Print everything until it ends. Raises `AdjournError` when it ends badly."""
        end = time.monotonic() + 60
        while self.running and time.monotonic() < end:
            self.read(0.02)
        self.read(0)
        if self._process.wait(5):
            raise AdjournError("the demonstration's client failed", "run it again with --keep and inspect its folder")

    def stop(self) -> None:
        """Kill it: its server has exited."""
        self.read(0)
        self._process.kill()
        self._process.wait()
