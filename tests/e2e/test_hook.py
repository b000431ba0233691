"""`adjourn hook` as a client runs it: one process a call, by the rules, in one budget, and closed when it fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adjourn.clients.client import ClientOptions
from adjourn.clients.hook_client import HookClient
from adjourn.host import process
from adjourn.host.process import group_of
from adjourn.log.chain import verify_chain
from adjourn.policy.contract import read_contract
from adjourn.tasks.decision import ToolRequest
from support.hooks import HOOK, HookWorkspace
from support.proxy import META_TOOLS, only
from support.requirements import requirement

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "hook.md"
HEAVY = {
    "click", "asyncio", "pydantic", "rich", "cryptography", "starlette", "mcp", "anyio", "psycopg", "difflib", "urllib",
    "rfc8785", "inspect", "uuid", "dataclasses", "logging", "subprocess", "json", "argparse",
}  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookWorkspace]:
    lines = (
        "use file.*, shell.exec, todo.*",
        "deny file.write:secrets/**",
        "confirm before shell.exec",
        "budget calls=3",
    )
    with HookWorkspace(tmp_path, *lines) as work:
        yield work


# --- answers


@requirement("D38")
def test_allow_deny_ask_in_the_documented_shape(work: HookWorkspace) -> None:
    """Each answer is one line with event, decision and reason; the reason names rule, file and line."""
    allowed = work.ask("Read", {"file_path": str(work.root / "a")})
    denied = work.ask("WebFetch", {"url": "https://example.org"})
    asked = work.ask("Bash", {"command": "make"})
    secret = work.ask("Write", {"file_path": str(work.root / "secrets/key"), "content": "x"})
    assert [said.decision for said in (allowed, denied, asked, secret)] == ["allow", "deny", "ask", "deny"]
    for said in (allowed, denied, asked, secret):
        output = json.loads(said.out)["hookSpecificOutput"]
        assert set(output) == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
        assert output["hookEventName"] == "PreToolUse"
        assert said.out.count("\n") == 1
        assert (said.code, said.err) == (0, "")
    assert "file.* (.aex/policy.aex:3)" in allowed.reason
    assert "network.fetch" in denied.reason
    assert "confirm shell.exec (.aex/policy.aex:5)" in asked.reason
    assert "deny file.write:secrets/** (.aex/policy.aex:4)" in secret.reason


@requirement("D38")
def test_the_published_shape_and_name(work: HookWorkspace) -> None:
    """`gate --format aex` answers as hooks that were written for it expect."""
    gate = [*HOOK[:-1], "gate", "--format", "aex"]
    assert json.loads(work.ask("Read", command=gate).out) == {"permissionDecision": "allow"}
    assert json.loads(work.ask("WebFetch", command=gate).out).keys() == {"permissionDecision", "reason"}
    assert json.loads(work.ask("Bash", command=gate).out).keys() == {"permissionDecision", "message"}


@requirement("mcp__")
def test_tools_of_mcp_servers_go_by_server_and_tool(work: HookWorkspace) -> None:
    """Rules name them SERVER.TOOL; what no rule names is refused."""
    work.write_policy("use files.read_file, notes.*", "deny notes.clear")
    decisions = {
        name: work.ask(name).decision
        for name in (
            "mcp__files__read_file",
            "mcp__files__write_file",
            "mcp__notes__set",
            "mcp__notes__clear",
        )
    }
    assert list(decisions.values()) == ["allow", "deny", "allow", "deny"]


def test_protected_places_whatever_the_policy_says(work: HookWorkspace) -> None:
    """The policy and the history are not written to by a gated call; it is on record that it was tried."""
    work.write_policy("use *")
    for name, arguments in (
        ("Write", {"file_path": str(work.policy_file), "content": "policy p v0"}),
        ("Bash", {"command": "rm -f .aex/adjourn.db"}),
        ("mcp__fs__move", {"source": "x", "destination": ".aex/checkpoints/x"}),
    ):
        assert work.ask(name, arguments).decision == "deny"
    assert [fact.reason for fact in work.facts("tool.denied")] == ["protected"] * 3
    assert work.ask("Read", {"file_path": str(work.policy_file)}).decision == "allow"


def test_protected_places_from_where_the_client_s_shell_went(work: HookWorkspace) -> None:
    """The policy and the store are protected by paths of the working directory, too, also in a patch within a list."""
    work.write_policy("use file.*, unknown.*")
    (work.root / "src").mkdir()
    patch = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch"
    for folder, path in (("src", "../.aex/policy.aex"), (".aex", "policy.aex"), (".aex", "./adjourn.db")):
        cwd = str(work.root / folder)
        for name, arguments in (
            ("Edit", {"file_path": path}),
            ("apply_patch", {"command": patch.format(path)}),
            ("apply_patch", {"command": ["apply_patch", patch.format(path)]}),
        ):
            said = work.ask(name, arguments, env={"CLAUDE_PROJECT_DIR": str(work.root)}, cwd=cwd)
            assert (said.decision, "protected" in said.reason) == ("deny", True), (name, path)
    said = work.ask(
        "Edit",
        {"file_path": "policy.aex"},
        env={"CLAUDE_PROJECT_DIR": str(work.root)},
        cwd=str(work.root / "src"),
    )
    assert said.decision == "allow"


def test_a_named_policy_and_what_it_extends_are_protected(work: HookWorkspace) -> None:
    """A JSON policy that --policy names, and its base, wherever in the workspace they lie."""
    (work.root / "conf").mkdir()
    (work.root / "conf" / "own.json").write_text('{"extends": "base.json", "allow": ["file.read"]}')
    (work.root / "conf" / "base.json").write_text('{"allow": ["file.write"]}')
    for name, decision in (("own.json", "deny"), ("base.json", "deny"), ("other.json", "allow")):
        arguments = {"file_path": str(work.root / "conf" / name), "content": "{}"}
        assert work.ask("Write", arguments, "--policy", "conf/own.json").decision == decision


def test_scopes_hold_where_links_lead(work: HookWorkspace) -> None:
    """Paths are resolved, relative ones from where the client's shell is; a link out of the workspace is outside."""
    work.write_policy("use file.read:src/**")
    (work.root / "src").mkdir()
    (work.root / "src" / "out").symlink_to(work.root.parent)
    assert work.ask("Read", {"file_path": "a"}).decision == "deny"
    assert work.ask("Read", {"file_path": "a"}, cwd=str(work.root / "src")).decision == "allow"
    env = {"CLAUDE_PROJECT_DIR": str(work.root)}
    assert work.ask("Grep", {"pattern": "x"}, cwd=str(work.root / "src"), env=env).decision == "allow"
    assert work.ask("Grep", {"pattern": "x"}).decision == "deny"
    assert work.ask("Read", {"file_path": f"{work.root}/src/out/x"}).decision == "deny"
    assert work.ask("Glob", {"pattern": "../../**", "path": f"{work.root}/src"}).decision == "deny"


def test_the_project_decides_wherever_its_shell_went(work: HookWorkspace) -> None:
    """A policy in another folder does not count when the client says which project it works on."""
    other = work.root / "sub"
    (other / ".aex").mkdir(parents=True)
    (other / ".aex" / "policy.aex").write_text('policy p v0\ngoal "g"\nuse *\n')
    env = {"CLAUDE_PROJECT_DIR": str(work.root)}
    assert work.ask("WebFetch", cwd=str(other), env=env).decision == "deny"
    assert not (other / ".aex" / "adjourn.db").exists()


# --- failing closed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"tool_name": 5}',
        b'{"tool_name": "Read", "hook_event_name": "Notification"}',
    ],
)
def test_no_call_to_decide_on_blocks(work: HookWorkspace, data: bytes) -> None:
    """Exit code 2, which the client takes for a refusal, and a message that says why."""
    said = work.answer_to(data)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("adjourn: ")
    assert not work.tasks_exist()


def test_wrong_usage_blocks(work: HookWorkspace) -> None:
    """A misspelt option is no leave to go on."""
    said = work.ask("Read", None, "--polcy", "x")
    assert (said.code, said.out) == (2, "")
    assert "--polcy" in said.err


def test_without_a_store_it_blocks(work: HookWorkspace) -> None:
    """What cannot be written down is not allowed: a file that is no store, a folder that cannot be written."""
    Path(work.store_url).write_text("this is no database, but long enough to be looked at as one. " * 100)
    said = work.ask("Read")
    assert (said.code, said.out) == (2, "")
    assert "not a SQLite database" in said.err


def test_a_store_out_of_reach_blocks(work: HookWorkspace) -> None:
    """A database server that is not there, likewise."""
    said = work.ask("Read", None, "--store", "postgresql://nobody@127.0.0.1:1/nowhere")
    assert (said.code, said.out) == (2, "")


def test_a_full_disk_blocks(work: HookWorkspace) -> None:
    """When nothing more can be written, nothing more is allowed, and what was written holds."""
    assert work.ask("Read").decision == "allow"
    limited = ["sh", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$@"', "sh", *HOOK]
    said = work.ask("Read", command=limited)
    assert (said.code, said.out) == (2, "")
    assert work.ledger().calls_used == 1


def test_a_broken_policy_denies_with_all_diagnostics(work: HookWorkspace) -> None:
    """Every finding is in the reason and on stderr, with file and line."""
    work.write_policy("use file.read", "alow x", "deny")
    said = work.ask("Read")
    assert (said.code, said.decision) == (0, "deny")
    for text in (said.reason, said.err):
        assert ".aex/policy.aex:4" in text
        assert ".aex/policy.aex:5" in text


def test_a_policy_that_only_observes_blocks_nothing(work: HookWorkspace) -> None:
    """What it would have refused is on record."""
    work.policy_file.write_text('policy test v1\ngoal "a test"\nmode observe\nuse file.read\n')
    assert work.ask("Bash", {"command": "make"}).decision == "allow"
    assert [(fact.decision, fact.tool) for fact in work.facts("policy.observed")] == [("block", "shell.exec")]


def test_once_holds_for_hooked_calls(work: HookWorkspace) -> None:
    """What may happen once is let pass once; nobody saw what came of it, so not a second time."""
    work.policy_file.write_text('policy test v1\ngoal "a test"\nuse pay.charge\nonce pay.charge by invoice\n')
    decisions = [work.ask("mcp__pay__charge", {"invoice": one}).decision for one in ("1", "2", "1")]
    assert decisions == ["allow", "allow", "deny"]


def test_no_policy(work: HookWorkspace) -> None:
    """Denied, unless it was said that no policy means allow; protected places stay protected."""
    work.policy_file.unlink()
    denied = work.ask("Read")
    assert denied.decision == "deny"
    assert "no policy" in denied.reason
    assert work.ask("Read", None, "--allow-no-policy").decision == "allow"
    assert work.ask("Write", {"file_path": ".aex/policy.aex"}, "--allow-no-policy").decision == "deny"
    work.write_policy("alow x")
    assert work.ask("Read", None, "--allow-no-policy").decision == "deny"


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
    """A hook neither waits for a living holder nor fences it off: the call is denied, and says by whom it is held."""
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
            HOOK,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=work.environment,
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
    """After many visits a fold is kept, near the end of the chain, and the next visit goes on from it."""
    work.write_policy("use file.read")
    monkeypatch.setenv("ADJOURN_CONFIG", str(work.config))
    root = os.path.realpath(work.root)
    client_options = ClientOptions(root=root, contract=read_contract(root))
    for _ in range(70):
        hook_client = HookClient(client_options, "claude-code")
        hook_client.ask(ToolRequest(tool="file.read", digest="0" * 64, effectful=False))
        hook_client.context.close("")
    with work.store() as store:
        fold = store.ref(f"fold/{only(store.streams())}")
    assert fold is not None
    assert json.loads(fold.partition(":")[2])["seq"] >= 128
    assert work.ask("Read").decision == "allow"
    assert work.ledger().calls_used == 71


# --- the way there


def test_nothing_heavy_is_imported(work: HookWorkspace) -> None:
    """A hook runs once a call: what it loads is felt."""
    command = [sys.executable, "-X", "importtime", "-m", "adjourn", "hook"]
    said = work.ask("Bash", {"command": "make"}, command=command)
    loaded = {
        line.rpartition("|")[2].strip() for line in said.err.splitlines() if line.startswith("import time:")
    }
    assert {"adjourn.hooks.main", "msgspec", "sqlite3"} <= loaded
    assert {module.partition(".")[0] for module in loaded} & HEAVY == set()
    assert not loaded & {
        "adjourn.aex.format",
        "adjourn.checkpoints.checkpoint",
        "msgspec.inspect",
        "msgspec._json_schema",
    }


@pytest.mark.parametrize("closed", ["2>/dev/full", "2>&-", ">&-", "<&-", ">/dev/full"])
@pytest.mark.parametrize("stay", ["", "--stay"])
def test_what_cannot_be_read_or_written_is_a_refusal(work: HookWorkspace, closed: str, stay: str) -> None:
    """No input, no output, or nowhere to say what is wrong: exit code 2, never one that means leave to go on."""
    store = "--store /proc/nowhere/x.db" if closed.startswith("2") else ""
    line = f"{' '.join(HOOK)} {stay} {store} {closed}"
    done = subprocess.run(
        ["bash", "-c", line],
        input=b"" if closed == "<&-" else json.dumps({"tool_name": "Read", "cwd": str(work.root)}).encode(),
        capture_output=True,
        cwd=work.root,
        env=work.environment | {"XDG_RUNTIME_DIR": "/proc/nowhere"},
        timeout=30,
        check=False,
    )
    assert done.returncode == 2


def test_an_event_that_is_odd_holds_nobody_up(work: HookWorkspace) -> None:
    """Exit code 2 after a call, or at the end of a turn, would keep the client from going on: it is 1."""
    for event in ("PostToolUse", "Stop", "SessionStart"):
        assert work.answer_to(json.dumps({"hook_event_name": event, "cwd": 5}).encode()).code == 1
    assert work.answer_to(json.dumps({"hook_event_name": "PreToolUse", "cwd": 5}).encode()).code == 2


def test_large_input_takes_no_longer_than_its_size(work: HookWorkspace) -> None:
    """Thirty megabytes of an answer are read in one go, not copied for every piece."""
    event = {"hook_event_name": "PostToolUse", "tool_name": "Read", "tool_response": "x" * 30_000_000}
    work.answer_to(json.dumps(event | {"cwd": str(work.root)}).encode(), "--settle")  # has half a minute


def test_the_settings_of_the_how_to_run_the_hook(work: HookWorkspace) -> None:
    """The snippet for Claude Code is valid JSON; its matcher takes every tool, its command answers."""
    settings = next(
        json.loads(block)
        for block in re.findall(r"```json\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
        if "PreToolUse" in block
    )
    [entry] = settings["hooks"]["PreToolUse"]
    [hook] = entry["hooks"]
    assert entry["matcher"] == "*"
    assert (hook["type"], hook["onFailure"]) == ("command", "block")
    command = hook["command"].split()
    assert command[0] == "adjourn"
    assert work.ask("Read", command=[sys.executable, "-m", *command]).decision == "allow"


def test_help_is_the_command_line_s(work: HookWorkspace) -> None:
    """`--help` comes from the same table, and is no refusal."""
    done = subprocess.run([*HOOK, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "--allow-no-policy" in done.stdout


def test_a_store_that_is_deleted_between_two_hooks_refunds_nothing(tmp_path: Path) -> None:
    """The workspace's budget is not begun anew by `rm -rf .aex`: the next hook refuses, until a person accepts it."""
    with HookWorkspace(tmp_path, "allow *", "budget calls=5") as work:
        policy = work.policy_file.read_text()
        for number in range(4):
            assert work.ask("Bash", {"command": "ls"}, tool_use_id=f"toolu_{number}").decision == "allow"
        shutil.rmtree(work.root / ".aex")
        (work.root / ".aex").mkdir()
        work.policy_file.write_text(policy)
        for _ in range(2):
            said = work.ask("Bash", {"command": "ls"})
            assert said.decision == "deny" or said.code == 2
            assert "was cut or changed" in said.reason + said.err
