"""The budget and the history of `adjourn hook`: calls are counted once, in one task, and written down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adjourn.clients.client_process import ClientOptions
from adjourn.clients.hook_client import HookClient
from adjourn.host import process
from adjourn.host.process import group_of
from adjourn.log.chain import verify_chain
from adjourn.policy.contract import read_contract
from adjourn.tasks.decision import ToolRequest
from support.hooks import HOOK, HOOK_POLICY, SETTLE, HookEventWorkspace, HookWorkspace
from support.proxy import META_TOOLS, adjourn, only
from support.requirements import requirement


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookWorkspace]:
    with HookWorkspace(tmp_path, *HOOK_POLICY) as work:
        yield work


# --- the budget


@requirement("D16")
def test_no_name_of_a_session_resets_the_budget(work: HookWorkspace) -> None:
    """Alternating session ids, none at all, other parents: one task, one count."""
    shell = ["sh", "-c", '"$@"; exit $?', "sh", *HOOK]
    decisions = [
        work.ask("Read", session_id="a").decision,
        work.ask("Read", session_id="b", command=shell).decision,
        work.answer_to(json.dumps({"tool_name": "Read", "cwd": str(work.root)}).encode()).decision,
        work.ask("Read", session_id="a").decision,
        work.ask("Read", session_id="c", command=shell).decision,
        work.answer_to(json.dumps({"tool_name": "Read", "cwd": str(work.root)}).encode()).decision,
    ]
    assert decisions == ["allow"] * 3 + ["deny"] * 3
    assert work.ledger().calls_used == 3
    assert [fact.used for fact in work.facts("budget.exhausted")] == [3, 3, 3]


@requirement("D16")
def test_racing_hooks_count_exactly(work: HookWorkspace) -> None:
    """Of a hundred hooks that race for sixty calls, sixty pass; all sit in one session."""
    work.write_policy("use file.read", "budget calls=60")
    with ThreadPoolExecutor(4) as pool:
        sessions = [{"session_id": f"s{number % 2}"} for number in range(100)]
        said = list(pool.map(lambda members: work.ask("Read", **members), sessions))
    assert Counter(one.decision for one in said) == {"allow": 60, "deny": 40}
    assert work.ledger().calls_used == 60
    assert len(work.facts("session.opened")) == 1
    calls = [fact.call for fact in work.facts("tool.allowed")]
    assert len(set(calls)) == 60


@requirement("D16")
def test_two_hooks_for_one_call_count_it_once(tmp_path: Path) -> None:
    """One of the project's settings and one of the user's, at once or one after the other, both allow it; another call counts, too."""
    with HookEventWorkspace(tmp_path, "use file.*", "budget calls=9") as work:
        given = {"file_path": str(work.root / "a"), "content": "x"}
        for _ in range(2):
            assert work.ask("Write", given, SETTLE, tool_use_id="one").decision == "allow"
        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(work.ask, "Write", given, SETTLE, tool_use_id="two") for _ in range(4)]
        assert {one.result().decision for one in asked} == {"allow"}
        assert work.ledger().calls_used == 2
        work.done("Write", given, "one")
        assert work.ask("Write", given | {"content": "y"}, SETTLE, tool_use_id="two").decision == "allow"
        assert work.ledger().calls_used == 3


def test_only_what_may_run_is_counted(work: HookWorkspace) -> None:
    """A refusal costs nothing; a question costs one call, and the call it was asked for costs no second one."""
    work.ask("WebFetch")
    assert work.ledger().calls_used == 0
    assert work.ask("Bash", {"command": "make"}).decision == "ask"
    assert work.ledger().calls_used == 1
    work.decide(yes=True)
    approved = work.ask("Bash", {"command": "make"}, tool_use_id="toolu_2")
    assert (approved.decision, work.ledger().calls_used) == ("allow", 1)
    assert work.ask("Bash", {"command": "make"}).decision == "ask"  # one yes, one call
    assert work.ledger().calls_used == 2
    assert work.ask("Bash", {"command": "make"}).decision == "ask"  # the client may have run the one before
    assert work.ledger().calls_used == 3
    assert len(work.facts("confirm.required")) == 2


def test_the_last_call_of_a_budget_can_be_approved(work: HookWorkspace) -> None:
    """A call that was counted when it was asked about is not refused for want of another."""
    work.write_policy("use shell.exec", "confirm before shell.exec", "budget calls=1")
    assert work.ask("Bash", {"command": "make"}).decision == "ask"
    work.decide(yes=True)
    assert work.ask("Bash", {"command": "make"}).decision == "allow"
    assert work.ask("Bash", {"command": "make"}).decision == "deny"


# --- the facts


def test_what_is_written(work: HookWorkspace) -> None:
    """Calls are facts of a task that `log`, `status` and `verify` know; none stays open, none is in doubt."""
    work.ask("Write", {"file_path": str(work.root / "a"), "content": "x"})
    work.ask("Bash", {"command": "TOKEN=1 make"})
    work.ask("WebFetch")
    work.ask("Read")
    assert [event.event for event in work.events()] == [
        "task.opened", "session.opened", "tool.allowed", "tool.settled", "confirm.required", "tool.allowed",
        "tool.denied", "tool.allowed", "tool.settled",
    ]  # fmt: skip
    assert {event.by.id for event in work.events() if event.event == "tool.allowed"} == {"claude-code"}
    assert [fact.tool for fact in work.facts("tool.allowed")] == ["file.write", "shell.exec", "file.read"]
    assert "make" in work.facts("tool.allowed")[1].arguments
    ledger = work.ledger()
    assert not ledger.doubts
    for command in (["status"], ["log"], ["verify"]):
        done = subprocess.run(
            [sys.executable, "-m", "adjourn", *command],
            cwd=work.root,
            env=work.environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if command == ["status"]:
            assert b"claude-code, through its hook, since" in done.stdout
            assert b"process 0" not in done.stdout


def test_a_client_s_proxies_and_hooks_are_one(work: HookWorkspace) -> None:
    """Same task, same budget; neither keeps the other out, and the proxy's tools are left to the proxy."""
    work.write_policy("use file.*, echo", "budget calls=4")
    client = work.client()
    client.tools()
    client.call("echo", {"a": 1})
    assert work.ask("Read").decision == "allow"
    client.call("echo", {"a": 2})
    passed = work.ask("mcp__adjourn__echo", {"a": 3})
    assert (passed.code, passed.decision) == (0, "")
    assert work.ask("mcp__other__echo", {"a": 3}).decision == "deny"
    assert work.ask("mcp__other__echo", {"a": 3}, "--proxied", "adjourn,other").decision == ""
    assert work.ask("Read").decision == "allow"
    assert work.ask("Read").decision == "deny"
    assert "exhausted" in json.dumps(client.call("echo", {"a": 4}))
    assert len(work.tasks()) == 1
    groups = {fact.group for fact in work.facts("session.opened")}
    assert groups == {group_of(process.current(), os.path.realpath(work.root))}
    assert client.close() == 0


def test_of_the_proxy_s_own_tools_nobody_is_asked(work: HookWorkspace) -> None:
    """Each of them in either spelling may be called without a question; a name that only begins like theirs is judged by the rules."""
    work.write_policy("use file.*, echo")
    client = work.client()
    client.tools()
    for name in META_TOOLS:
        for spelling in (name, name.replace(".", "_")):
            assert work.ask(f"mcp__adjourn__{spelling}").decision == "allow"
    assert work.ask("mcp__adjourn__aex_delete").decision == "deny"
    assert work.ask("mcp__other__adjourn_note").decision == "deny"
    assert client.close() == 0


def test_without_a_proxy_a_name_proves_nothing(work: HookWorkspace) -> None:
    """A server that only calls itself adjourn is judged by the rules."""
    assert work.ask("mcp__adjourn__echo").decision == "deny"


def test_a_task_held_by_another_client_is_not_taken(work: HookWorkspace) -> None:
    """A hook neither waits for a living holder nor fences it off: the call is denied, and the reason names the holder."""
    work.write_policy("use file.*, echo")
    client = work.client("--task", "t1", foreign=True)
    client.call("echo", {"a": 1})
    said = work.ask("Read", None, "--task", "t1")
    assert said.decision == "deny"
    assert "held by tester" in said.reason
    client.call("echo", {"a": 2})
    client.kill()
    assert work.ask("Read", None, "--task", "t1").decision == "allow"


def test_a_client_that_was_fenced_off_comes_back_in_its_own_name(work: HookWorkspace) -> None:
    """Taken over, its calls are denied; once the other has gone they pass again, in a session of another id."""
    work.write_policy("use file.*, echo")
    env = {"CLAUDE_PID": str(os.getpid())}
    assert work.ask("Read", None, "--task", "t1", env=env).decision == "allow"
    client = work.client("--task", "t1", "--take-over", foreign=True)
    client.call("echo", {"a": 1})
    assert work.ask("Read", None, "--task", "t1", env=env).decision == "deny"
    client.kill()
    assert work.ask("Read", None, "--task", "t1", env=env).decision == "allow"
    sessions = [event.session for event in work.events() if event.event == "session.opened"]
    assert len(set(sessions)) == 3


def test_the_client_s_process_holds_the_task_while_it_lives(work: HookWorkspace) -> None:
    """A client that names its process is the holder; once it is gone, nobody has to wait."""
    env = {"CLAUDE_PID": str(os.getpid())}
    work.ask("Read", env=env)
    [opened] = work.facts("session.opened")
    assert (opened.pid, opened.host, opened.client) == (os.getpid(), process.host(), "claude-code")
    work.ask("Read", env={"CLAUDE_PID": "1"})  # none of its ancestors' business: not believed
    assert work.facts("session.opened")[-1].pid == 0


def test_killed_at_any_moment_it_leaves_a_valid_chain(work: HookWorkspace) -> None:
    """SIGKILL in the middle of hooks: what was answered was counted, and the chain holds."""
    work.write_policy("use file.read")
    request = json.dumps({"tool_name": "Read", "cwd": str(work.root)}).encode()
    answered = 0
    began = time.monotonic()
    work.answer_to(request)
    whole = time.monotonic() - began
    for number in range(12):
        started = subprocess.Popen(
            HOOK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=work.environment
        )
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(request)
        started.stdin.close()
        time.sleep(whole * (0.4 + 0.7 * number / 12))
        started.send_signal(signal.SIGKILL)
        started.wait()
        answered += b"allow" in started.stdout.read()
        started.stdout.close()
    assert work.ask("Read").decision == "allow"
    with work.store() as store:
        assert verify_chain(list(store.read(only(store.streams())))).valid
    assert answered + 2 <= work.ledger().calls_used <= 14


def test_a_long_history_is_not_loaded_whole(work: HookWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """After many visits a fold is kept, near the end of the chain, and the next visit continues from it."""
    work.write_policy("use file.read")
    monkeypatch.setenv("ADJOURN_CONFIG", str(work.config))
    root = os.path.realpath(work.root)
    client_options = ClientOptions(root=root, contract=read_contract(root))
    for _ in range(70):
        hook_client = HookClient(client_options, "claude-code")
        hook_client.ask(ToolRequest(tool="file.read", digest="0" * 64, effectful=False))
        hook_client.close_store()
    with work.store() as store:
        fold = store.ref(f"fold/{only(store.streams())}")
    assert fold is not None
    assert json.loads(fold.partition(":")[2])["seq"] >= 128
    assert work.ask("Read").decision == "allow"
    assert work.ledger().calls_used == 71


def test_the_agent_is_told_of_its_budget_after_a_call(tmp_path: Path) -> None:
    """At 75 % and 90 % of a budget, the answer to PostToolUse has a line for the agent, once in the session."""
    with HookEventWorkspace(tmp_path, "use file.*", "budget calls=4") as work:
        told = []
        for number in range(4):
            given = {"file_path": str(work.root / "a"), "content": str(number)}
            work.ask("Write", given, SETTLE, tool_use_id=f"t{number}")
            told.append(work.done("Write", given, f"t{number}").out)
        assert [index for index, out in enumerate(told) if out] == [2, 3]
        output = json.loads(told[2])["hookSpecificOutput"]
        assert output["hookEventName"] == "PostToolUse"
        assert "3 of 4 calls (75 %)" in output["additionalContext"]
        refused = work.ask("Write", {"file_path": "b", "content": "x"}, SETTLE)
        assert "the work is checkpointed" in refused.reason


def test_the_agent_is_told_of_the_budget_of_the_workspace(tmp_path: Path) -> None:
    """What other sessions spent of it counts, too."""
    with HookEventWorkspace(tmp_path, "allow file.*", "budget calls=4 per day", version="v1") as work:
        given = {"file_path": str(work.root / "a"), "content": "x"}
        told = []
        for number in range(4):
            given["content"], session = str(number), f"s{number % 2}"
            work.ask("Write", given, SETTLE, tool_use_id=f"t{number}", session_id=session)
            told.append(work.done("Write", given, f"t{number}", session_id=session).out)
        assert "3 of 4 calls per day (75 %) of this workspace's budget" in "".join(told)


def test_a_hook_can_be_told_to_say_nothing_of_the_budget(tmp_path: Path) -> None:
    """With --no-budget-notice, PostToolUse prints nothing."""
    with HookEventWorkspace(tmp_path, "use file.*", "budget calls=1") as work:
        given = {"file_path": str(work.root / "a"), "content": "x"}
        work.ask("Write", given, SETTLE, tool_use_id="t")
        assert not work.done("Write", given, "t", "--no-budget-notice").out


def test_a_task_that_a_person_finished_is_followed_by_another(tmp_path: Path) -> None:
    """The hooks' next session begins a task of its own once a person has finished the workspace's; before, its budget continues."""
    with HookEventWorkspace(tmp_path, "use file.*", "budget calls=1") as work:
        given = {"file_path": str(work.root / "a"), "content": "x"}
        work.run("Write", given, "t")
        work.tell("SessionEnd", reason="exit")
        assert work.ask("Write", given, SETTLE).decision == "deny"
        work.tell("SessionEnd", reason="exit")
        (task,) = [name for name in work.tasks() if "/" not in name]
        assert adjourn(work, "tasks", "finish", task).code == 0
        assert work.ask("Write", given, SETTLE).decision == "allow"
        assert len([name for name in work.tasks() if "/" not in name]) == 2
