"""Proxy, hook and commands in any folder: below the workspace, in a linked work tree, and under any name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.code_server import Repo, Server
from support.home import BIN, Home
from support.hooks import HookWorkspace
from support.proxy import adjourn, refused, run

POLICY = ("use file.read, file.write:src/**, echo, note", "deny file.write:src/secrets/**", "budget calls=20")

AGE = re.compile(r" *(?:just now|\d+ (?:s|min) ago)")


def git(*words: str, cwd: Path) -> None:
    given = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *given, *words], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookWorkspace]:
    with HookWorkspace(tmp_path, *POLICY) as work:
        (work.root / "src" / "deep").mkdir(parents=True)
        git("init", cwd=work.root)
        git("commit", "--allow-empty", "-m", "first", cwd=work.root)
        yield work


def call_and_checkpoint(work: HookWorkspace, cwd: Path) -> None:
    """A call and a checkpoint through a proxy that a client starts in a folder."""
    client = work.client(cwd=cwd)
    assert not refused(client.call("echo", {"a": 1}))
    assert not refused(client.call("aex.checkpoint", {"name": "here", "description": "d"}))
    client.kill()


# --- below the workspace


def test_a_proxy_below_the_workspace_is_governed_by_its_policy(work: HookWorkspace) -> None:
    """Its rules, its store and its budget are those of the workspace, and it says where that is."""
    client = work.client(cwd=work.root / "src" / "deep")
    assert not refused(client.call("echo", {"a": 1}))
    assert refused(client.call("drop", {}))
    client.kill()
    assert f"workspace          {work.root}" in client.stderr()
    assert work.ledger().calls_used == 1
    assert not (work.root / "src" / "deep" / ".aex").exists()


def test_a_relative_path_is_of_the_folder_that_the_server_runs_in(work: HookWorkspace) -> None:
    """A scope is held against the file that the server would open, and no place that is protected is out of sight."""
    work.write_policy("use note:src/**", "deny note:src/secrets/**")
    client = work.client(cwd=work.root / "src")
    assert not refused(client.call("note", {"path": "deep/a"}))
    assert refused(client.call("note", {"path": "secrets/a"}))
    assert refused(client.call("note", {"path": "../a"}))
    assert refused(client.call("note", {"path": "../.aex/policy.aex"}))
    client.kill()


def test_a_hook_below_the_workspace_is_governed_by_its_policy(work: HookWorkspace) -> None:
    """Also where the client names the folder that it was started in."""
    deep = work.root / "src" / "deep"
    for env in (None, {"CLAUDE_PROJECT_DIR": str(deep)}):
        assert work.ask("Read", {"file_path": "a"}, env=env, cwd=str(deep)).decision == "allow"
        assert work.ask("Bash", {"command": "make"}, env=env, cwd=str(deep)).decision == "deny"
    assert work.ledger().calls_used == 2
    assert not (deep / ".aex").exists()


def test_a_hook_works_where_json_cannot_spell_the_folder(work: HookWorkspace) -> None:
    """A client replaces bytes that are not UTF-8; the hook then works in the folder that it was started in, and outside of any it refuses."""
    told = json.dumps({"hook_event_name": "PreToolUse", "tool_name": "Read", "cwd": "/gone/caf\ufffd"}).encode()
    for folder, decision in ((work.root, "allow"), (work.root.parent, "deny")):
        words = [sys.executable, "-m", "adjourn", "hook"]
        done = subprocess.run(words, input=told, cwd=folder, env=work.environment, capture_output=True, check=False)
        assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == decision, done.stderr


def test_commands_below_the_workspace_work_on_it(work: HookWorkspace) -> None:
    """The same answers as in the workspace, with files that a person names taken from the current folder."""
    call_and_checkpoint(work, work.root)
    deep = work.root / "src" / "deep"
    (deep / "t.aex").write_text('task t v0\ngoal "g"\nuse echo\n\ndo echo() -> a\nreturn a\n')
    for words in (
        ("status",), ("tasks",), ("log",), ("checkpoint", "list"), ("verify",), ("resume", "here"), ("checkpoint", "show", "here"),
        ("checkpoint",), ("page", "show"), ("page", "lint"), ("inbox",), ("page", "archive", "--help"),
    ):  # fmt: skip
        above = adjourn(work, *words)
        for below in (
            run(*words, cwd=deep, env=work.environment),
            run("-C", str(deep), *words, cwd=work.root.parent, env=work.environment),
        ):
            assert (below.code, AGE.sub("", below.out)) == (above.code, AGE.sub("", above.out)), words
    told = run("effective", cwd=deep, env=work.environment)
    assert told.first == "Policy:   ../../.aex/policy.aex"
    assert run("review", "t.aex", cwd=deep, env=work.environment).first == "Status: valid, runs under .aex/policy.aex"
    assert run("check", "t.aex", cwd=deep, env=work.environment).code == 0


def test_without_a_workspace_the_error_says_where_was_looked(work: HookWorkspace) -> None:
    """A command, a proxy and a hook name the first and the last folder that they searched."""
    inner = work.root / "other"
    (inner / "sub").mkdir(parents=True)
    git("init", cwd=inner)
    searched = f"in {inner / 'sub'} or above it, up to {inner}"
    told = run("log", cwd=inner / "sub", env=work.environment)
    assert (told.code, told.out) == (1, "")
    assert searched in told.err
    client = work.client(cwd=inner / "sub", greet=False)
    client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert searched in client.find(lambda body: body.get("id") == 1)["error"]["message"]
    env = {"CLAUDE_PROJECT_DIR": str(inner / "sub")}
    assert searched in work.ask("Read", {"file_path": "a"}, env=env).reason


def test_a_folder_to_work_in_that_is_not_there_is_wrong_usage(work: HookWorkspace) -> None:
    """Before any command, `-C` is as in git."""
    for words in (("-C", "gone", "status"), ("-C",), ("-C", "gone", "hook"), ("-C", "gone", "proxy", "--", "x")):
        told = run(*words, cwd=work.root, env=work.environment)
        assert told.code == 2
        assert told.err.startswith("adjourn: -C ")


# --- linked work trees


def test_a_linked_work_tree_shares_policy_and_task_and_has_its_own_paths(work: HookWorkspace) -> None:
    """One budget and one history; scopes, pages and protected places are those of the work tree, and of the workspace."""
    work.write_policy("use note:src/**, echo", "deny note:src/secrets/**", "budget calls=20")
    linked = work.root.parent / "linked"
    git("worktree", "add", str(linked), cwd=work.root)
    (linked / "src").mkdir()
    call_and_checkpoint(work, linked)
    client = work.client(cwd=linked)
    for path, passes in (
        ("src/a", True), (f"{linked}/src/a", True), ("src/secrets/a", False), (f"{work.root}/src/a", False),
        (".aex/policy.aex", False), (f"{work.root}/.aex/policy.aex", False), (f"{work.root}/.aex/checkpoints/a", False),
    ):  # fmt: skip
        assert refused(client.call("note", {"path": path})) != passes, path
    client.kill()
    assert len(work.tasks()) == 1
    assert (work.root / ".aex" / "checkpoints" / "here").is_dir()
    assert (linked / "tmp" / "checkpoint-active.md").is_file()
    assert not (linked / ".aex").exists()
    assert not (work.root / "tmp").exists()
    assert run("status", cwd=linked, env=work.environment).out == adjourn(work, "status").out
    assert run("page", "show", cwd=linked, env=work.environment).code == 0


def test_a_deny_of_the_workspace_holds_from_a_linked_work_tree(work: HookWorkspace) -> None:
    """A path that leads from the work tree back into the workspace is held against its rules, too."""
    work.write_policy("use note", "deny note:src/secrets/**")
    linked = work.root / ".worktrees" / "one"
    git("worktree", "add", str(linked), cwd=work.root)
    client = work.client(cwd=linked)
    assert not refused(client.call("note", {"path": f"{work.root}/src/a"}))
    assert refused(client.call("note", {"path": f"{work.root}/src/secrets/a"}))
    assert refused(client.call("note", {"path": "src/secrets/a"}))
    client.kill()


# --- setting up, and coding sessions


def test_init_below_a_workspace_sets_that_one_up(work: HookWorkspace) -> None:
    """It says where the workspace is, and writes no second policy; with --here the folder becomes a workspace of its own."""
    below = work.root / "src"
    below.mkdir(exist_ok=True)
    (work.root / ".mcp.json").write_text('{"mcpServers": {"inv": {"command": "no-such-server"}}}')
    env = work.environment | {"HOME": str(work.root.parent)}
    told = run("init", "--yes", cwd=below, env=env)
    assert told.out.startswith(f"workspace: {work.root} (for the current folder instead: --here)\n"), told
    assert "proxy" in (work.root / ".mcp.json").read_text()
    assert not (below / ".aex").exists()
    assert run("init", "--undo", "--yes", cwd=below, env=env).code == 0
    assert "proxy" not in (work.root / ".mcp.json").read_text()
    assert run("init", "--policy", "--here", cwd=below, env=env).out.startswith("written: .aex/policy.aex")
    assert (below / ".aex" / "policy.aex").exists()


def test_init_below_a_repository_sets_its_top_up(tmp_path: Path) -> None:
    """Where there is no workspace yet, unless the folder has settings of its own: a policy in it would hide one above."""
    at = Home(tmp_path)
    git("init", cwd=at.root)
    at.write(".mcp.json", '{"mcpServers": {"inv": {"command": "no-such-server"}}}')
    for name in ("plain", "own/.claude"):
        (at.root / name).mkdir(parents=True)
    told = run("init", "--yes", cwd=at.root / "plain", env=at.environment)
    assert told.out.startswith(f"workspace: {at.root} (for the current folder instead: --here)\n"), told
    assert "proxy" in (at.root / ".mcp.json").read_text()
    assert run("init", "--undo", "--yes", cwd=at.root / "plain", env=at.environment).code == 0
    assert "workspace:" not in run("init", "--yes", cwd=at.root / "own", env=at.environment).out
    assert (at.root / "own" / ".aex" / "policy.aex").exists()


def test_aex_init_writes_where_it_is_started(tmp_path: Path) -> None:
    """The published command writes its sample into the current folder, wherever a repository or a workspace begins."""
    at = Home(tmp_path)
    git("init", cwd=at.root)
    below = at.root / "sub"
    below.mkdir()
    command = [f"{BIN}/aex", "init"]
    done = subprocess.run(command, cwd=below, env=at.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert (below / "tasks" / "sample-task.aex").exists()


def test_a_coding_session_below_a_workspace_is_in_its_history(tmp_path: Path) -> None:
    """The store is that of the workspace, not one of the repository in it."""
    repo = Repo(tmp_path, git=False)
    repo.write(".aex/policy.aex", "policy p v1\nallow *\n")
    repo.write("inner/a.py", "a = 1\n")
    with Server(repo, root=repo.root / "inner") as server:
        assert server.start(query="why?", intent="QUESTION", flags="--no-doc")["success"] is True
    assert (repo.root / ".aex" / "adjourn.db").exists()
    assert not (repo.root / "inner" / ".aex").exists()


# --- any name


LONG = "/".join(["long" * 50] * 18)
"""3,600 characters: with the folders of a test run before it and files in it, about as long as a path can get."""


@pytest.mark.parametrize("name", ["two words", os.fsdecode(b"na\xefve \xff"), "ünï \U0001f600", "line\nend", LONG])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Proxy, hook, status, verify and resume work in it, also where SQLite could not open a file in it."""
    with HookWorkspace(tmp_path, *POLICY, name=name) as work:
        env = work.environment
        client = work.client()
        assert not refused(client.call("echo", {"a": 1}))
        assert not refused(client.call("aex.checkpoint", {"name": "here", "description": "d"}))
        client.kill()
        hook = [sys.executable, "-m", "adjourn", "-C", str(work.root), "hook"]
        asked = work.ask("Read", {"file_path": "a"}, command=hook, cwd="")
        assert asked.decision == "allow", asked
        for words in (("status",), ("verify",), ("resume", "here"), ("page", "show"), ("log",)):
            told = run(*words, cwd=work.root, env=env)
            assert told.code == 0, (words, told)
