"""What Gemini CLI, opencode and Copilot CLI write is read as it happened: the prompt, the exit code against the answer, and a kill in a command.

The model is a script on loopback; the clients and their transcripts are real. Claude Code and Codex: `test_real_continuing`.
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
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from adjourn.sessions import catalog
from adjourn.sessions.page import page
from support import tools
from support.gateway import SERVER
from support.missing import is_missing
from support.real.clients import NOWHERE
from support.real.model import Model, Use, running
from support.transcripts import ClaudeTranscript

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adjourn.sessions.story import SessionStory

ASKED, CLAIMED = "Translate menu.txt into French", "All tests pass."
FAILS = "echo cold; exit 3"
STAYS = "printf half > prices; touch begun; sleep 60; printf whole > prices"
LEFT = "Bake bread."
PATIENCE = 120.0


class Client(NamedTuple):
    """A client: how it is started with a first prompt, its tool for commands, and what stands in its home and around it."""

    key: str
    program: Callable[[], list[str] | None]
    arguments: tuple[str, ...]
    shell: str
    set_up: Callable[[Path, str], dict[str, str]]


def _gemini(home: Path, model: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    _write(home / ".gemini" / "settings.json", settings)
    return {"GEMINI_API_KEY": "none-is-needed", "GOOGLE_GEMINI_BASE_URL": model}


def _opencode(home: Path, model: str) -> dict[str, str]:
    options = {"baseURL": f"{model}/v1", "apiKey": "none-is-needed"}
    models = {"scripted": {"name": "scripted", "tool_call": True}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options, "models": models}
    settings = {"autoupdate": False, "share": "disabled", "provider": {"scripted": provider}}
    _write(home / ".config" / "opencode" / "opencode.json", settings)
    return {}


def _copilot(home: Path, model: str) -> dict[str, str]:
    del home
    about = {"BASE_URL": f"{model}/v1", "TYPE": "openai", "API_KEY": "none-is-needed"}
    provider = {f"COPILOT_PROVIDER_{name}": value for name, value in about.items()}
    return {**provider, "COPILOT_MODEL": "scripted", "COPILOT_OFFLINE": "true"}


def _write(path: Path, settings: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))


def _leave(home: Path, work: Path) -> None:
    """A session of Claude Code that was killed in a command ten minutes ago."""
    transcript = ClaudeTranscript(folder=str(work))
    transcript.begin = datetime.now(UTC) - timedelta(minutes=10)
    transcript.ask(LEFT)
    transcript.run("printf half > bread", None)
    path = transcript.save(home)
    stamp = time.time() - 600
    os.utime(path, (stamp, stamp))


CLIENTS = (
    Client("gemini", tools.gemini, ("-y", "-m", "gemini-2.5-flash", "-p", ASKED), "run_shell_command", _gemini),
    Client("opencode", tools.opencode, ("run", "-m", "scripted/scripted", ASKED), "bash", _opencode),
    Client("copilot", tools.copilot, ("--allow-all-tools", "-p", ASKED), "bash", _copilot),
)
BEFORE = CLIENTS[0]._replace(program=tools.gemini_before)
every_client = pytest.mark.parametrize(
    "client", [*CLIENTS, BEFORE], ids=[*(client.key for client in CLIENTS), "gemini-before"]
)


@contextmanager
def started(client: Client, folder: Path, model: Model, *, leaves: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """The client at work in `folder`/work; what it leaves behind is ended."""
    program = client.program()
    if program is None:
        is_missing(f"{client.key} is not installed: run `python tests/support/tools.py --clients`")
    home, work = folder / "home", folder / "work"
    if not (work / "menu.txt").exists():
        work.mkdir(exist_ok=True)
        (work / "menu.txt").write_text("bread")
        subprocess.run(["git", "init", "--quiet", str(work)], check=True)
    if leaves:
        _leave(home, work)
    around = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "TERM": "dumb", "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost", "ADJOURN_CONFIG": str(folder / "config"), **client.set_up(home, model.address),
    }  # fmt: skip
    home.mkdir(exist_ok=True)
    with (folder / "out.log").open("wb") as out:
        process = subprocess.Popen(
            [*program, *client.arguments],
            cwd=work, env=around, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a client and all that it started, as a machine that stops does."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def read(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SessionStory, str]:
    """The story of the client's only session, and its page."""
    for name in ("GEMINI_CLI_HOME", "XDG_DATA_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    [file] = catalog.sessions([str(folder / "work")])
    assert (file.client, file.title) == (client.key, ASKED)
    account = catalog.account(file, str(folder / "work"))
    return account.story, page(account, 8192)


@every_client
def test_a_failed_test_stands_against_the_answer(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has its exit code, whatever the answer claims, and no record is unknown."""
    with (
        running(
            [Use(client.shell, {"command": FAILS, "description": "test"}, own=True)], "", lambda _: CLAIMED
        ) as model,
        started(client, tmp_path, model) as process,
    ):
        assert process.wait(PATIENCE) == 0, (tmp_path / "out.log").read_text()
    story, text = read(client, tmp_path, monkeypatch)
    assert [prompt.text for prompt in story.prompts] == [ASKED]
    assert [(call.what, call.outcome, call.code) for call in story.calls] == [(FAILS, "failed", 3)]
    assert [answer.text for answer in story.answers] == [CLAIMED]
    assert (story.unknown, story.unreadable) == ({}, 0)
    assert "exit code 3" in text
    assert "newer than the versions" not in text


@every_client
def test_a_kill_in_a_command_leaves_it_in_doubt(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that ran when the client was killed is in doubt; Gemini CLI had not written it, and its session is one that broke off."""
    script = [Use(client.shell, {"command": STAYS, "description": "write"}, own=True)]
    with running(script, "") as model, started(client, tmp_path, model) as process:
        end = time.monotonic() + PATIENCE
        while not (tmp_path / "work" / "begun").exists():
            assert process.poll() is None, (tmp_path / "out.log").read_text()
            assert time.monotonic() < end, (tmp_path / "out.log").read_text()
            time.sleep(0.1)
        time.sleep(0.5)  # it writes down the call a moment after it began
    story, text = read(client, tmp_path, monkeypatch)
    assert [prompt.text for prompt in story.prompts] == [ASKED]
    assert story.is_unfinished
    in_doubt = [call.what for call in story.in_doubt]
    assert in_doubt == ([] if client.key == "gemini" else [STAYS])
    assert "prices" in text
    assert (tmp_path / "work" / "prices").read_text() == "half"


def test_gemini_learns_once_of_a_checkpoint(tmp_path: Path) -> None:
    """Its session hook and the proxy of its server both could show the work that Claude Code left: one of them does."""
    work = tmp_path / "work"
    server = {"command": sys.executable, "args": [str(SERVER), "0", str(tmp_path), "files"], "trust": True}
    _write(work / ".gemini" / "settings.json", {"mcpServers": {"files": server}})
    around = {**os.environ, "HOME": str(tmp_path / "home"), "ADJOURN_CONFIG": str(tmp_path / "config")}
    adjourn = [sys.executable, "-m", "adjourn"]
    subprocess.run([*adjourn, "init", "--yes"], cwd=work, env=around, check=True, capture_output=True)
    (work / ".aex" / "policy.aex").write_text('policy workspace v0\n\ngoal "Bake."\n\nuse file.write, files.echo\n')
    call = {"tool_name": "Write", "tool_input": {"file_path": "bread.txt", "content": "1"}, "tool_use_id": "toolu_1"}
    for event, members in (
        ("UserPromptSubmit", {"prompt": LEFT}),
        ("PreToolUse", call),
        ("SessionEnd", {"reason": "exit"}),
    ):
        request = {"hook_event_name": event, "session_id": "left", "cwd": str(work), **members}
        subprocess.run(
            [*adjourn, "hook", "--settle"],
            input=json.dumps(request).encode(),
            cwd=work,
            env=around,
            check=True,
            capture_output=True,
        )
    with running([], "", lambda _: "Done.") as model, started(CLIENTS[0], tmp_path, model) as process:
        assert process.wait(PATIENCE) == 0, (tmp_path / "out.log").read_text()
    assert len(re.findall("unfinished work in this workspace", model.context, re.IGNORECASE)) == 1, model.context


def test_gemini_learns_once_of_a_session_that_another_client_left(tmp_path: Path) -> None:
    """The hook that `init` writes names the unfinished session of Claude Code and how to get it; the next session does not repeat it."""
    client = CLIENTS[0]
    settings = tmp_path / "work" / ".gemini" / "settings.json"
    _write(settings, {})
    around = {**os.environ, "HOME": str(tmp_path / "home"), "ADJOURN_CONFIG": str(tmp_path / "config")}
    init = [sys.executable, "-m", "adjourn", "init", "--yes"]
    subprocess.run(init, cwd=settings.parents[1], env=around, check=True, capture_output=True)
    told = []
    for number in range(2):
        with (
            running([], "", lambda _: "Done.") as model,
            started(client, tmp_path, model, leaves=number == 0) as process,
        ):
            assert process.wait(PATIENCE) == 0, (tmp_path / "out.log").read_text()
        told.append([line for line in model.context.splitlines() if "left a session in this folder unfinished" in line])
    [[line], later] = told
    assert f'Claude Code left a session in this folder unfinished, 10 min ago; the person said: "{LEFT}"' in line
    assert "adjourn continue 0a5e0000-0000 --print" in line
    assert later == []
