"""Two coding agents of different makers, one after the other on one task: the second continues where the first was killed.

The models are scripts on loopback; the agents, the proxy and the MCP server (git, slow in the middle of a commit) are
real. The agents are large; `make test-all` installs them, and so does `python tests/support/tools.py --clients`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adjourn.checkpoints import checkpoint
from adjourn.checkpoints.transcript_facts import read_facts
from adjourn.host.clock import now
from adjourn.host.process import Process, lives
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.chain import verify_chain
from adjourn.log.event import decode
from adjourn.log.kinds import data_of
from adjourn.tasks.task import Task, tasks_of
from support.missing import is_missing
from support.real.clients import CLAUDE, CODEX, SERVER, TASK, Agent
from support.real.model import Model, Use, running
from support.real.servers import SERVERS, Place
from support.real.starting import command_of, prepare, proxied
from support.terminal import at_terminal

GIT = next(server for server in SERVERS if server.name == "git")
POLICY = """\
policy workspace v0

goal "Commit what is ready."

use *
deny git_reset

budget calls=6
"""
SLOW_HOOK = """\
#!/bin/sh
cd "$(dirname "$0")/../../.."
test -e slow || exit 0
touch started
for _ in $(seq 600); do test -e slow || exit 1; sleep 0.1; done
exit 1
"""
PATIENCE = 40.0
PAIRS = [pytest.param(CLAUDE, CODEX, id="claude-then-codex"), pytest.param(CODEX, CLAUDE, id="codex-then-claude")]


@pytest.fixture(autouse=True)
def agents() -> None:
    missing = [agent.name for agent in (CLAUDE, CODEX) if agent.program() is None]
    if missing:
        is_missing(f"{' and '.join(missing)} not installed: python tests/support/tools.py --clients")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "work", "")
    prepare(GIT, place, POLICY)
    hook = place.site / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(SLOW_HOOK)
    hook.chmod(0o755)
    return place


@contextmanager
def at_work(agent: Agent, place: Place, model: Model) -> Iterator[subprocess.Popen[bytes]]:
    """The agent, started; killed at the end, if it still runs."""
    home = place.root.parent / "home" / agent.name
    command = proxied(command_of(GIT, place), "--confirm-timeout", "5")
    command = ["sh", "-c", 'exec "$@" 2>>"$0"', str(home / "proxy.log"), *command]
    process = agent.start(place.root, home, model.address, command, place.environment())
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool], what: str, home: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            logs = "\n".join(log.read_text(errors="replace")[-3000:] for log in sorted(home.glob("*/*.log")))
            pytest.fail(f"{what} did not happen within {PATIENCE:.0f} s\n{logs}")
        time.sleep(0.05)


class History(NamedTuple):
    """What the store holds about the task of a checkpoint."""

    task: Task
    events: list[kinds.Data]
    sittings: list[kinds.SessionOpened]
    broken: str


def history(place: Place, name: str) -> History:
    store = open_at(str(place.root))
    found = checkpoint.find(store, name)
    entries = list(store.read(found.event.task, 0))
    data = [data_of(decode(entry.data)) for entry in entries]
    verified = verify_chain((entry.hash, entry.data) for entry in entries)
    known = [event for event in data if event is not None]
    return History(
        Task(store, found.event.task, clock=now, secret=bytes(32)),
        known,
        [event for event in known if isinstance(event, kinds.SessionOpened)],
        verified.reason or "",
    )


@pytest.mark.parametrize("killed", ["the agent", "the agent and its proxy"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_another_agent_goes_on_where_one_was_killed(first: Agent, second: Agent, killed: str, place: Place) -> None:
    """The first is killed in the middle of a commit. The second is informed, must not blindly repeat it, and has what is left of the budget."""
    site = {"repo_path": str(place.site)}
    commit = Use("git_commit", site | {"message": "ready"})
    home = place.root.parent / "home"

    (place.root / "slow").touch()
    begin = [
        Use("git_status", site),
        Use("git_add", site | {"files": ["a.txt"]}),
        Use("aex.checkpoint", {"name": "ready", "description": "a.txt is staged"}),
        commit,
    ]
    with running(begin, SERVER) as model, at_work(first, place, model) as agent:
        until((place.root / "started").exists, "the commit", home)
        sitting = history(place, "ready").sittings[0]
        proxy = Process(sitting.host, sitting.pid, sitting.started)
        if killed != "the agent":
            os.kill(proxy.pid, signal.SIGKILL)
        agent.kill()
        agent.wait()
        until(lambda: lives(proxy) is False, "the end of the proxy", home)
        (place.root / "slow").unlink()

    finish = [
        Use("aex.resume", {"name": "ready"}),
        Use("git_log", site),
        commit,
        Use("git_commit", site | {"message": "ready, the second time"}),
        Use("git_status", site),
        Use("git_branch", site | {"branch_type": "local"}),
    ]
    with running(finish, SERVER) as model, at_work(second, place, model) as agent:
        until(lambda: agent.poll() is not None, "the end of the script", home)
    assert len(model.results) == len(finish)

    told: dict[str, Any] = json.loads(_object_in(model.results[0]))
    assert (told["callsUsed"], told["budgetRemaining"]) == (3, 3)
    assert told["toolsCalled"] == [f"git_{tool}" for tool in ("status", "add", "commit")]
    assert [doubt["tool"] for doubt in told["inDoubt"]] == ["git_commit"]
    assert "8 bytes" in model.results[1]
    assert "ready" not in model.results[1]
    assert "in doubt" in model.results[2]
    assert "committed successfully" in model.results[3]
    assert "nothing to commit" in model.results[4]
    assert "budget exhausted" in model.results[5].lower()

    after = history(place, "ready")
    assert after.broken == ""
    assert after.task.ledger.calls_used == 6
    assert [doubt.tool for doubt in after.task.ledger.doubts.values()] == ["git_commit"]
    assert [sitting.era for sitting in after.sittings] == [first.era, second.era]
    lost = [event for event in after.events if isinstance(event, kinds.SessionLost)]
    assert [event.reason for event in lost] == ([] if killed == "the agent" else ["dead"])


def _object_in(text: str) -> str:
    """The JSON object in a tool result; some agents put words of their own before it."""
    return text[text.index("{") : text.rindex("}") + 1]


# --- set up by one command, and resumed without being asked

GOVERNED = """\
policy workspace v0

goal "Commit what is ready, and say so in a note."

use git_add, git_commit, git_log, file.*, shell.exec

budget calls=8
"""


def own_write(agent: Agent, place: Place, name: str, text: str) -> Use:
    """A file written by a tool of the agent's own, which only a hook sees."""
    path = str(place.root / name)
    if agent is CLAUDE:
        return Use("Write", {"file_path": path, "content": text}, own=True)
    return Use("exec_command", {"cmd": f"printf %s {text} > {path}"}, own=True)


def named_in(context: str) -> dict[str, Any]:
    """The checkpoint that the agent was told to resume."""
    found = re.findall(r'"name": "([\w-]+)"\} before any other tool', context.replace("\\", ""))
    assert found, "the agent was told of no checkpoint"
    return {"name": found[-1]}


def set_up(agent: Agent, place: Place, *, for_every_project: bool = False, beside: Sequence[str] = ()) -> None:
    """What a user has of the agent, and then runs: `adjourn init`, and `adjourn init --user`. `beside`: the command of a second server."""
    home = place.root.parent / "home" / agent.name
    home.mkdir(parents=True, exist_ok=True)
    own = {name: value for name, value in place.environment().items() if name not in ("PATH", "ADJOURN_CONFIG")}
    agent.as_user(place.root, home, command_of(GIT, place), own)
    if beside and agent is CLAUDE:
        settings = json.loads((place.root / ".mcp.json").read_bytes())
        settings["mcpServers"]["beside"] = {"command": beside[0], "args": list(beside[1:])}
        (place.root / ".mcp.json").write_text(json.dumps(settings))
    elif beside:
        with (home / "servers.toml").open("a") as file:
            file.write(
                f"[mcp_servers.beside]\ncommand = {json.dumps(beside[0])}\nargs = {json.dumps(list(beside[1:]))}\n"
            )
        agent.prepare(home, "http://127.0.0.1:9", [], {})
    done = at_terminal(  # as a person does, outside the clients that this process has started
        [sys.executable, "-m", "adjourn", "init", "--yes", "--json"],
        cwd=place.root,
        env=agent.full_environment(home, "") | around(place),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done"]
    if for_every_project:
        words = [sys.executable, "-m", "adjourn", "init", "--user", "--yes"]
        done = at_terminal(words, cwd=place.root, env=agent.full_environment(home, "") | around(place))
        assert done.returncode == 0, done.stderr


@contextmanager
def set_up_at_work(agent: Agent, place: Place, model: Model) -> Iterator[subprocess.Popen[bytes]]:
    """The agent with what `adjourn init` made of its files; killed at the end, if it still runs."""
    process = agent.start_as_set_up(place.root, place.root.parent / "home" / agent.name, model.address, around(place))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def around(place: Place) -> dict[str, str]:
    """What stands in the environment of the client, its servers and its hooks alike."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "ADJOURN_CONFIG": str(place.root.parent / "config")}


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_set_up_by_one_command_killed_and_resumed_without_being_asked(agent: Agent, place: Place) -> None:
    """`adjourn init`; a session is killed in a commit, with its proxy; the next one is informed as it begins, resumes, finishes."""
    site, home = {"repo_path": str(place.site)}, place.root.parent / "home" / agent.name
    (place.root / ".aex" / "policy.aex").write_text(GOVERNED)
    set_up(agent, place)

    commit = Use("git_commit", site | {"message": "ready"})
    (place.root / "slow").touch()
    begin = [own_write(agent, place, "note.txt", "begun"), Use("git_add", site | {"files": ["a.txt"]}), commit]
    with running(begin, SERVER) as model, set_up_at_work(agent, place, model) as process:
        until((place.root / "started").exists, "the commit", place.root.parent / "home")
        [task] = tasks_of(open_at(str(place.root)))
        sittings = list(_task(place, task).ledger.sessions.values())
        assert {sitting.era for sitting in sittings} == {"hook", agent.era}
        kill_with_proxy(process, place)
        (place.root / "slow").unlink()

    finish = [
        Use("aex.resume", named_in),
        Use("git_log", site),
        Use("git_commit", site | {"message": "ready, the second time"}),
        own_write(agent, place, "note.txt", "done"),
    ]
    with running(finish, SERVER) as model, set_up_at_work(agent, place, model) as process:
        until(lambda: process.poll() is not None, "the end of the script", place.root.parent / "home")
    assert len(model.results) == len(finish), model.results
    assert "Unfinished work in this workspace" in model.context
    assert "git_commit" in model.context
    told = json.loads(_object_in(model.results[0]))
    assert (told["callsUsed"], told["budgetRemaining"]) == (3, 5)
    assert [doubt["tool"] for doubt in told["inDoubt"]] == ["git_commit"]
    assert "committed successfully" in model.results[2]
    assert (place.root / "note.txt").read_text() == "done"
    facts = read_facts(open_at(str(place.root)), task)  # from the agent's own transcript, read by its hooks
    assert facts.client == agent.name
    assert str(facts.report.mission).startswith(TASK)
    assert "note.txt" in "\n".join(facts.report.current_state or ())
    assert str(home) in facts.file

    assert list(tasks_of(open_at(str(place.root)))) == [task]
    until(lambda: not _living(place, task), "the end of the proxy", place.root.parent / "home")
    ledger = _task(place, task).ledger
    assert ledger.calls_used == 6
    assert [doubt.tool for doubt in ledger.doubts.values()] == ["git_commit"]
    assert not ledger.open_calls
    assert "hook" not in {sitting.era for sitting in ledger.sessions.values()}  # the proxy may have been killed
    after = history(place, ledger.checkpoint)
    assert after.broken == ""
    assert [event.name for event in after.events if isinstance(event, kinds.CheckpointResumed)] == [told["name"]]
    assert isinstance(after.events[-1], kinds.CheckpointCreated)
    assert (place.root / ".aex" / "checkpoints" / ledger.checkpoint / "audit.jsonl").exists()
    for command in (["verify"], ["doctor"]):
        checked = subprocess.run(
            [sys.executable, "-m", "adjourn", *command],
            cwd=place.root, env=agent.full_environment(home, "") | around(place), capture_output=True, check=False, text=True,
        )  # fmt: skip
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_two_servers_and_the_hook_hand_over_once(agent: Agent, place: Place) -> None:
    """The first request has the unfinished work once, in at most 2.5 KiB, from hook and servers together; no later one repeats it."""
    site = {"repo_path": str(place.site)}
    (place.root / ".aex" / "policy.aex").write_text(GOVERNED)
    second = str(Path(__file__).parents[1] / "support" / "slow_server.py")
    set_up(agent, place, beside=[sys.executable, second, "0", str(place.root.parent)])
    settings = place.root / (".mcp.json" if agent is CLAUDE else ".codex/config.toml")
    assert settings.read_text().count('"proxy"') == 2
    (place.root / "slow").touch()
    begin = [Use("git_add", site | {"files": ["a.txt"]}), Use("git_commit", site | {"message": "ready"})]
    with running(begin, SERVER) as model, set_up_at_work(agent, place, model) as process:
        until((place.root / "started").exists, "the commit", place.root.parent / "home")
        fresh = model.first
        kill_with_proxy(process, place)
        (place.root / "slow").unlink()

    with running([Use("git_log", site)], SERVER) as model, set_up_at_work(agent, place, model) as process:
        until(lambda: process.poll() is not None, "the end of the script", place.root.parent / "home")
    assert re.search(r"(?i)in doubt.*git_commit", model.first, re.DOTALL)
    assert model.first.count("Unfinished work in this workspace") == 1
    assert model.context.count("Unfinished work in this workspace") == 1
    assert len(model.first.encode()) - len(fresh.encode()) <= 2560


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_set_up_without_a_policy_the_first_read_works(agent: Agent, place: Place) -> None:
    """`adjourn init` writes the policy: tools that read work, one that writes asks, and one that destroys is denied."""
    site = {"repo_path": str(place.site)}
    (place.root / ".aex" / "policy.aex").unlink()
    (place.root / "notes.txt").write_text("buy milk")
    set_up(agent, place)
    own_read = (
        Use("Read", {"file_path": str(place.root / "notes.txt")}, own=True)
        if agent is CLAUDE
        else Use("exec_command", {"cmd": f"cat {place.root}/notes.txt"}, own=True)
    )
    script = [Use("git_status", site), own_read, Use("git_add", site | {"files": ["a.txt"]})]
    with running(script, SERVER) as model, set_up_at_work(agent, place, model) as process:
        until(lambda: process.poll() is not None, "the end of the script", place.root.parent / "home")
    assert "a.txt" in model.results[0]
    assert "buy milk" in model.results[1]
    assert "requires confirmation" in model.results[2]
    assert "adjourn approve" in model.results[2]
    assert "deny adjourn_2.git_reset" in (place.root / ".aex" / "policy.aex").read_text()


def test_three_sessions_of_two_clients_are_told_what_the_one_before_did(place: Place) -> None:
    """Claude Code is killed in a commit, Codex continues and is killed too: each next one receives outcome, doubt and next step unasked."""
    site = {"repo_path": str(place.site)}
    (place.root / ".aex" / "policy.aex").write_text(GOVERNED)
    for agent in (CLAUDE, CODEX):
        set_up(agent, place)

    (place.root / "slow").touch()
    begin = [
        own_write(CLAUDE, place, "note.txt", "begun"),
        Use("git_add", site | {"files": ["a.txt"]}),
        Use("aex.checkpoint", {"name": "staged", "resumptionPoint": "Commit a.txt, then say so in note.txt"}),
        Use("git_commit", site | {"message": "ready"}),
    ]
    with running(begin, SERVER) as model, set_up_at_work(CLAUDE, place, model) as process:
        until((place.root / "started").exists, "the commit", place.root.parent / "home")
        kill_with_proxy(process, place)
        (place.root / "slow").unlink()

    go_on = [
        Use("aex.resume", named_in),
        Use("git_commit", site | {"message": "ready, the second time"}),
        Use("aex.checkpoint", {"name": "committed", "resumptionPoint": "Say in note.txt that it is committed"}),
        own_write(CODEX, place, "waits", "now"),
    ]
    with running(go_on, SERVER) as model, set_up_at_work(CODEX, place, model) as process:
        until((place.root / "waits").exists, "the last call", place.root.parent / "home")
        kill_with_proxy(process, place)
    second = model.context
    assert "Commit a.txt, then say so in note.txt" in second
    assert re.search(r"git_add.*a\.txt", second)
    assert re.search(r"(?i)in doubt.*git_commit", second, re.DOTALL)

    finish = [Use("aex.resume", named_in), own_write(CLAUDE, place, "note.txt", "done")]
    with running(finish, SERVER) as model, set_up_at_work(CLAUDE, place, model) as process:
        until(lambda: process.poll() is not None, "the end of the script", place.root.parent / "home")
    third = model.context
    assert "Say in note.txt that it is committed" in third
    assert "Commit a.txt, then say so" not in third
    assert re.search(r"git_commit.*ready, the second time", third)
    assert (place.root / "note.txt").read_text() == "done"
    [task] = tasks_of(open_at(str(place.root)))
    assert history(place, _task(place, task).ledger.checkpoint).broken == ""


def kill_with_proxy(agent: subprocess.Popen[bytes], place: Place) -> None:
    """Kill an agent and the proxy of its server in the same moment, and wait until both are gone."""
    [task] = tasks_of(open_at(str(place.root)))
    sessions = _task(place, task).ledger.sessions.values()
    proxies = [Process(one.host, one.pid, one.started) for one in sessions if one.era != "hook"]
    for proxy in proxies:
        os.kill(proxy.pid, signal.SIGKILL)
    agent.kill()
    agent.wait()
    until(lambda: not any(lives(proxy) for proxy in proxies), "the end of the proxy", place.root.parent / "home")


def _task(place: Place, task: str) -> Task:
    return Task(open_at(str(place.root)), task, clock=now, secret=bytes(32))


def _living(place: Place, task: str) -> list[bool]:
    sittings = _task(place, task).ledger.sessions.values()
    return [True for one in sittings if lives(Process(one.host, one.pid, one.started))]


def _git(place: Place, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=place.root, check=True, capture_output=True)


@pytest.mark.parametrize("where", ["subfolder", "worktree"])
@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_a_session_below_the_project_or_in_a_work_tree_is_governed(agent: Agent, place: Place, where: str) -> None:
    """Its first reads work, and it is in the one history of the workspace, whose policy is committed with the project.

    Claude Code reads a project's hooks only where it is started, so for a subfolder it is set up for every project.
    """
    site = {"repo_path": str(place.site)}
    (place.root / ".aex" / "policy.aex").unlink()
    (place.root / "src").mkdir()
    (place.root / "src" / "notes.txt").write_text("buy milk")
    _git(place, "init", "-q")
    set_up(agent, place, for_every_project=where == "subfolder")
    (place.root / ".git" / "info" / "exclude").write_text("home\nsite\n")
    _git(place, "add", "-A")
    _git(place, "commit", "-qm", "set up")
    cwd = place.root / "src"
    if where == "worktree":
        cwd = place.root.parent / "linked"
        _git(place, "worktree", "add", "-q", str(cwd))
    notes = (cwd if where == "subfolder" else cwd / "src") / "notes.txt"
    own_read = (
        Use("Read", {"file_path": str(notes)}, own=True)
        if agent is CLAUDE
        else Use("exec_command", {"cmd": f"cat {notes}"}, own=True)
    )
    listed = ".mcp.json" if where == "worktree" else str(place.root / ".mcp.json")
    words = tuple(listed if word == ".mcp.json" else word for word in agent.plain_arguments)
    with running([Use("git_status", site), own_read], SERVER) as model:
        process = replace(agent, plain_arguments=words).start_as_set_up(
            cwd, place.root.parent / "home" / agent.name, model.address, around(place)
        )
        until(lambda: process.poll() is not None, "the end of the script", place.root.parent / "home")
    assert "a.txt" in model.results[0]
    assert "buy milk" in model.results[1]
    assert not (cwd / ".aex" / "adjourn.db").exists()
    [task] = tasks_of(open_at(str(place.root)))
    assert _task(place, task).ledger.calls_used == 2
