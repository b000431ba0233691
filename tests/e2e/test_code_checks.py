"""What a verdict rests on: commands that the server runs itself, or that the client reports.

Through a real MCP client over stdio.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.code_server import FAST, FIX, SIMPLE, Repo, Server, begin, shared_server, to, walk

server = shared_server()
PASSED = {"passed": True, "failed_tasks": [], "details": "looks right"}


@pytest.fixture
def checking(tmp_path: Path) -> Iterator[tuple[Server, Repo]]:
    """A server whose test command is a script of the project."""
    repo = Repo(tmp_path)
    repo.write("check.sh", f"grep -qF {shlex.quote(FIX[1])} app/cart.py && echo 3 passed\n")
    repo.commit("Check")
    with Server(repo, "--test-command", "sh check.sh") as server:
        yield server, repo


def test_passed_with_nothing_run_is_refused(server: Server, repo: Repo) -> None:
    """A verdict without evidence changes nothing, and the refusal says what to do."""
    to(server, repo, "POST_IMPL_VERIFY")
    for given in (PASSED, {**PASSED, "evidence": []}):
        reply = server.submit(given)
        assert (reply["error"], reply["phase"]) == ("payload_mismatch", "POST_IMPL_VERIFY")
        assert "nothing was run" in reply["message"]
        assert "exit_code" in reply["message"]
    evidence = [{"command": "pytest", "exit_code": 0, "output": "3 passed"}]
    assert server.accepted({**PASSED, "evidence": evidence})["verified"] is True


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ([{"command": "pytest", "exit_code": 1, "output": "1 failed"}], "pytest exited with 1"),
        ([{"command": " ", "exit_code": 0}], "is empty"),
        ([{"command": "pytest", "exit_code": 0}] * 51, "at most 50"),
        ([{"command": "pytest"}], "exit_code"),
    ],
)
def test_evidence_that_does_not_hold_is_refused(server: Server, repo: Repo, evidence: list[Any], said: str) -> None:
    """What failed, or was not run, does not let a change pass."""
    to(server, repo, "POST_IMPL_VERIFY", flags=FAST)
    reply = server.submit({**PASSED, "evidence": evidence})
    assert (reply["error"], reply["phase"]) == ("payload_mismatch", "POST_IMPL_VERIFY")
    assert said in reply["message"]


def test_the_server_runs_the_users_test_command(checking: tuple[Server, Repo]) -> None:
    """With the command declared, the server runs it; its exit code decides, and its output is what the record says."""
    server, repo = checking
    reply = to(server, repo, "POST_IMPL_VERIFY", flags=FAST)
    assert reply["server_runs"] == ["sh check.sh"] == server.status()["server_runs"]
    good = repo.read("app/cart.py")
    repo.write("app/cart.py", "broken = True\n")
    reply = server.accepted(PASSED)
    assert (reply["verified"], reply["phase"], reply["step"]) == (False, "READY", 12)
    assert "sh check.sh exited with 1" in reply["reason"]
    assert [task["status"] for task in reply["existing_tasks"]] == ["pending", "pending"]
    repo.write("app/cart.py", good)
    reply = walk(server, repo, server.accepted(SIMPLE["12"]), until="POST_IMPL_VERIFY")
    reply = server.accepted(PASSED)
    assert (reply["verified"], reply["phase"]) == (True, "PRE_COMMIT")
    (run,) = reply["evidence"]
    assert (run["command"], run["exit_code"], run["ran_by"]) == ("sh check.sh", 0, "server")
    assert (run["output_end"], run["output_digest"]) == ("3 passed\n", hashlib.sha256(b"3 passed\n").hexdigest())
    (saved,) = repo.saved()["check_runs"]
    assert saved == run


def test_a_command_that_cannot_be_run_is_a_failure(tmp_path: Path) -> None:
    """A program that is not there does not let a change pass; the reason names it."""
    repo = Repo(tmp_path)
    with Server(repo, "--test-command", "no-such-program --all") as server:
        to(server, repo, "POST_IMPL_VERIFY", flags=FAST)
        reply = server.accepted(PASSED)
    assert reply["verified"] is False
    assert "no-such-program is not on PATH" in reply["reason"]


def test_what_a_check_prints_is_stored_without_secrets(tmp_path: Path) -> None:
    """A token in the output is in no reply and in no checkpoint; of much output the end is kept."""
    repo = Repo(tmp_path)
    token = "ghp_" + "a1B2c3D4e5" * 4
    repo.write("check.sh", f"seq 100000\necho token {token}\necho the end\n")
    repo.commit("Check")
    with Server(repo, "--test-command", "sh check.sh") as server:
        to(server, repo, "POST_IMPL_VERIFY", flags=FAST)
        reply = server.accepted(PASSED)
        assert reply["evidence"][0]["output_end"].endswith("the end\n")
        assert token not in str(reply)
        assert token not in str(repo.saved())


def test_a_kill_ends_what_the_server_runs(tmp_path: Path) -> None:
    """With the server end the test command and what it started; the next server is still at the verification."""
    repo = Repo(tmp_path)
    mark = repo.home / "pids"
    repo.write("check.sh", f"test -e '{mark}' && exit 0\nsleep 600 & echo $$ $! >'{mark}'\nsetsid sleep 600\n")
    repo.commit("Check")
    with Server(repo, "--test-command", "sh check.sh") as server:
        to(server, repo, "POST_IMPL_VERIFY", flags=FAST)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(server.submit, PASSED)
            while not (mark.exists() and mark.read_text().strip()):
                time.sleep(0.01)
            server.kill()
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in mark.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with Server(repo, "--test-command", "sh check.sh") as server:
        reply = server.status()
        assert (reply["phase"], reply["server_runs"]) == ("POST_IMPL_VERIFY", ["sh check.sh"])
        assert server.accepted(PASSED)["verified"] is True


def test_a_lenient_session_takes_the_published_verdict(tmp_path: Path) -> None:
    """Under `lenient` the published form is enough; a declared command is run all the same."""
    repo = Repo(tmp_path)
    with Server(repo, "--strictness", "lenient") as server:
        begin(server, repo, FAST)
        for data in (
            {"action_type": "fix", "target_symbols": [], "scope": "", "constraints": ""},
            SIMPLE["12"], {"task_id": "t1", "summary": "s"}, {"task_id": "t2", "summary": "s"}, {},
        ):  # fmt: skip
            server.accepted(data)
        assert server.accepted(PASSED)["verified"] is True


def test_a_test_command_that_is_no_command_is_an_error(repo: Repo) -> None:
    """The server does not start with a command that it could not run."""
    assert "--test-command is empty" in repo.cli("code", "--test-command", " ", code=2)
    assert "close the quote" in repo.cli("code", "--test-command", "sh 'x", code=2)


def test_a_lie_about_the_tests_does_not_pass_where_hooks_record(tmp_path: Path) -> None:
    """With hooks, a check that failed or ran before the last change is refused; one that succeeded after it is proved."""
    repo = Repo(tmp_path)
    repo.cli("init", "--policy")
    repo.commit("Policy")
    evidence = [{"command": "pytest -q", "exit_code": 0, "output": "3 passed"}]
    with Server(repo) as server:
        to(server, repo, "POST_IMPL_VERIFY", flags=FAST)
        _hooked(repo, "PostToolUseFailure", error="1 failed")
        assert "pytest -q failed" in server.submit({**PASSED, "evidence": evidence})["message"]
        _hooked(repo, "PostToolUse", tool_response="3 passed")
        repo.write("app/cart.py", repo.read("app/cart.py") + "\n")
        assert "files changed after pytest -q" in server.submit({**PASSED, "evidence": evidence})["message"]
        _hooked(repo, "PostToolUse", tool_response="3 passed")
        reply = server.accepted({**PASSED, "evidence": evidence})
    assert (reply["outcome"], reply["phase"], reply["evidence"][0]["proved"]) == ("proved", "PRE_COMMIT", True)


def test_a_lie_about_the_tests_does_not_pass_where_the_proxy_records(tmp_path: Path) -> None:
    """With a shell server behind the proxy, a check that exited with 1 is refused; one that succeeded after the fix is proved."""
    repo = Repo(tmp_path)
    repo.cli("init", "--policy")
    repo.write(".aex/policy.aex", 'policy p v1\ngoal "Fix the cart"\nallow *\n')
    repo.write("check.sh", "grep -q fixed app/cart.py\n")
    repo.commit("Policy")
    evidence = [{"command": "sh check.sh", "exit_code": 0, "output": "3 passed"}]
    with Server(repo) as server:
        to(server, repo, "POST_IMPL_VERIFY", flags=FAST)
        assert _behind_proxy(repo, "sh check.sh") == "\nexit code: 1"
        refused = server.submit({**PASSED, "evidence": evidence})
        assert "sh check.sh failed" in refused["message"]
        repo.write("app/cart.py", repo.read("app/cart.py") + "# fixed\n")
        _behind_proxy(repo, "true")
        assert "sh check.sh failed" in server.submit({**PASSED, "evidence": evidence})["message"]
        assert _behind_proxy(repo, "sh check.sh") == "\nexit code: 0"
        reply = server.accepted({**PASSED, "evidence": evidence})
    assert (reply["outcome"], reply["phase"], reply["evidence"][0]["proved"]) == ("proved", "PRE_COMMIT", True)
    log = json.loads(repo.cli("resume", "--json"))
    assert "sh check.sh failed" not in json.dumps(log["nextStep"])


def _behind_proxy(repo: Repo, command: str) -> str:
    """Run a command by a shell server behind the proxy. Returns the text of its answer."""
    server = Path(__file__).parents[1] / "support/shell_server.py"
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "run_command", "arguments": {"command": command}}},
    ]
    words = [sys.executable, "-m", "adjourn", "proxy", "--", sys.executable, str(server)]
    with subprocess.Popen(
        words, cwd=repo.root, env=repo.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        for message in messages:
            proxy.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        proxy.stdin.flush()
        answers = (json.loads(line) for line in proxy.stdout)
        answer = next(answer for answer in answers if answer.get("id") == 2)
        proxy.stdin.close()
    text: str = answer["result"]["content"][0]["text"]
    return text


def _hooked(repo: Repo, ended: str, **more: str) -> None:
    """Report to the hook that a client ran `pytest -q`, and how it ended."""
    call = {
        "session_id": "s",
        "cwd": str(repo.root),
        "tool_name": "Bash",
        "tool_use_id": "u",
        "tool_input": {"command": "pytest -q"},
    }
    for event in ({"hook_event_name": "PreToolUse"}, {"hook_event_name": ended, **more}):
        subprocess.run(
            [sys.executable, "-m", "adjourn", "hook", "--settle"],
            cwd=repo.root, env=repo.environment, input=json.dumps({**call, **event}), text=True, check=True, capture_output=True,
        )  # fmt: skip
