"""Proxy and hook of a user's settings: they govern workspaces, and leave other folders as they were (`--outside pass`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.proxy import run

SERVER = (
    "import json, os, sys\n"
    "for line in sys.stdin:\n"
    "    print(json.dumps({'heard': line, 'store': os.environ.get('ADJOURN_STORE', ''), 'args': sys.argv[1:]}), flush=True)\n"
)
POLICY = 'policy mine v0\ngoal "g"\nuse read\n'


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work" / "sub").mkdir(parents=True)
    return tmp_path


def environment(work: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(work / "home"), "ADJOURN_CONFIG": str(work / "config")}


def proxy(work: Path, text: str, *options: str, cwd: str = "work") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "adjourn", "proxy", *options, "--", sys.executable, "-c", SERVER, "a b"],
        cwd=work / cwd,
        env=environment(work) | {"ADJOURN_STORE": str(work / "x.db")},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def hook(work: Path, event: str, *options: str, cwd: str = "work", told: str = "work", **env: str) -> Any:
    request = {
        "session_id": "s1", "cwd": str(work / told), "hook_event_name": event, "tool_name": "Bash",
        "tool_input": {"command": "make"}, "tool_use_id": "t1", "prompt": "do it",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "adjourn", "hook", *options],
        cwd=work / cwd,
        env=environment(work) | env,
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_outside_a_workspace_every_byte_passes_untouched(work: Path) -> None:
    """Even what is no message reaches the server, which gets its arguments and none of our variables; nothing is written."""
    done = proxy(work, "no JSON at all\n", "--name", "s", "--outside", "pass")
    assert json.loads(done.stdout) == {"heard": "no JSON at all\n", "store": "", "args": ["a b"]}
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "without a policy (--outside pass)" in done.stderr
    assert not list((work / "work").rglob(".aex"))


def test_without_the_option_a_proxy_outside_a_workspace_starts_no_server(work: Path) -> None:
    """The default fails closed."""
    done = proxy(work, "x\n", "--name", "s")
    assert (done.returncode != 0, done.stdout) == (True, "") or "error" in done.stdout
    assert "heard" not in done.stdout


@pytest.mark.parametrize("cwd", ["work", "work/sub"])
def test_in_a_workspace_its_policy_decides_whatever_the_option_says(work: Path, cwd: str) -> None:
    """A subfolder belongs to the workspace, and a broken policy is no missing one."""
    policy = work / "work" / ".aex" / "policy.aex"
    policy.parent.mkdir()
    for text in (POLICY, "polcy broken\n"):
        policy.write_text(text)
        assert "heard" not in proxy(work, "no JSON at all\n", "--outside", "pass", cwd=cwd).stdout
        answer = hook(work, "PreToolUse", "--outside", "pass", cwd=cwd, told=cwd)
        assert answer.returncode == 2 or '"deny"' in answer.stdout


def test_a_repository_below_a_workspace_is_no_reason_to_pass(work: Path) -> None:
    """An agent can make one: neither proxy nor hook passes anything there that the workspace around it does not govern."""
    (work / "work" / ".aex").mkdir()
    (work / "work" / ".aex" / "policy.aex").write_text(POLICY)
    (work / "work" / "sub" / ".git").mkdir()
    assert "heard" not in proxy(work, "x\n", "--outside", "pass", cwd="work/sub").stdout
    answer = hook(work, "PreToolUse", "--outside", "pass", cwd="work/sub", told="work/sub")
    assert "not in the allow list" in answer.stdout


def test_a_named_policy_that_is_missing_is_no_reason_to_pass(work: Path) -> None:
    """Somebody wanted a policy there."""
    assert "heard" not in proxy(work, "x\n", "--outside", "pass", "--policy", "none.aex").stdout
    answer = hook(work, "PreToolUse", "--outside", "pass", "--policy", "none.aex")
    assert answer.returncode == 2 or '"deny"' in answer.stdout


def test_a_workspace_that_does_not_count_is_no_reason_to_pass(work: Path) -> None:
    """One in a folder that every user can write: the policy may have been put aside or in by another."""
    (work / "work" / ".aex").mkdir()
    (work / "work" / ".aex" / "policy.aex").write_text(POLICY)
    (work / "work").chmod(0o777)
    assert "heard" not in proxy(work, "x\n", "--outside", "pass", cwd="work/sub").stdout
    assert hook(work, "PreToolUse", "--outside", "pass", cwd="work/sub", told="work/sub").returncode == 2


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "Stop"])
def test_a_hook_outside_a_workspace_says_and_writes_nothing(work: Path, event: str) -> None:
    """The client continues as if there were no hook."""
    answer = hook(work, event, "--outside", "pass")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert not list((work / "work").rglob(".aex"))


def test_a_hook_that_is_told_another_folder_stays_in_the_workspace(work: Path) -> None:
    """Where the client works counts, whatever folder the call names."""
    policy = work / "work" / ".aex" / "policy.aex"
    policy.parent.mkdir()
    policy.write_text(POLICY)
    answer = hook(work, "PreToolUse", "--outside", "pass", told="home")
    assert answer.returncode == 2 or '"deny"' in answer.stdout
    project = {"CLAUDE_PROJECT_DIR": str(work / "work")}
    answer = hook(work, "PreToolUse", "--outside", "pass", cwd="home", told="home", **project)
    assert answer.returncode == 2 or '"deny"' in answer.stdout


def test_a_server_that_cannot_be_started_is_named(work: Path) -> None:
    """The exit code and the message are those of any proxy."""
    done = run("proxy", "--outside", "pass", "--", "no-such-server", cwd=work / "work", env=environment(work))
    assert done.code != 0
    assert "cannot start the server 'no-such-server': it is not on PATH" in done.err
