"""`adjourn hook` as a client runs it: one process a call, by the rules, and closed when it fails."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.aex import KnownTool
from adjourn.clients.served_tools import keep_tools
from support.hooks import HOOK, HOOK_POLICY, HookWorkspace
from support.requirements import requirement

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "clients.md"
HEAVY = {
    "click", "asyncio", "pydantic", "rich", "cryptography", "starlette", "mcp", "anyio", "psycopg", "difflib", "urllib",
    "rfc8785", "inspect", "uuid", "dataclasses", "logging", "subprocess", "json", "argparse",
}  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookWorkspace]:
    with HookWorkspace(tmp_path, *HOOK_POLICY) as work:
        yield work


# --- answers


@requirement("D38")
def test_allow_deny_ask_in_the_documented_shape(work: HookWorkspace) -> None:
    """Each answer is one line with event, decision and reason; the reason names rule, file and line, and a refusal the next step."""
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
    assert all(re.fullmatch(r"[^.].*\. [A-Z].*\.", said.reason) for said in (denied, secret))
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
        for name in ("mcp__files__read_file", "mcp__files__write_file", "mcp__notes__set", "mcp__notes__clear")
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
        "Edit", {"file_path": "policy.aex"}, env={"CLAUDE_PROJECT_DIR": str(work.root)}, cwd=str(work.root / "src")
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
    "data", [b"", b"{", b"[]", b"{}", b'{"tool_name": 5}', b'{"tool_name": "Read", "hook_event_name": "Notification"}']
)
def test_no_call_to_decide_on_blocks(work: HookWorkspace, data: bytes) -> None:
    """Exit code 2, which the client takes for a refusal, and a message that says why."""
    said = work.answer_to(data)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("adjourn: ")
    assert not work.tasks_exist()


def test_wrong_usage_blocks(work: HookWorkspace) -> None:
    """A misspelt option is no leave to continue."""
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
    """What may happen once is let pass once; nobody saw its outcome, so not a second time."""
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


# --- the way there


def test_nothing_heavy_is_imported(work: HookWorkspace) -> None:
    """A hook runs once a call: what it loads is felt."""
    command = [sys.executable, "-X", "importtime", "-m", "adjourn", "hook"]
    said = work.ask("Bash", {"command": "make"}, command=command)
    loaded = {line.rpartition("|")[2].strip() for line in said.err.splitlines() if line.startswith("import time:")}
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
    """No input, no output, or nowhere to say what is wrong: exit code 2, never one that means leave to continue."""
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
    """Exit code 2 after a call, or at the end of a turn, would keep the client from continuing: it is 1."""
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
    """`rm -rf .aex` does not reset the budget: the next hook refuses, until a person accepts the loss."""
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


def test_the_hook_names_tools_as_the_proxy_does(work: HookWorkspace) -> None:
    """Rules name an MCP server's tool SERVER.TOOL or TOOL at the hook, too; the history has the server beside the tool."""
    work.write_policy("use read_file, my_server.search, other-server.search", "deny remove_item", "use notes.*")
    names = ("files__read_file", "my-server__search", "other-server__search", "notes__remove_item", "files__search")
    decisions = [work.ask(f"mcp__{name}").decision for name in names]
    assert decisions == ["allow", "allow", "allow", "deny", "deny"]
    assert [(fact.server, fact.tool) for fact in work.facts("tool.allowed")] == [
        ("files", "read_file"), ("my_server", "search"), ("other_server", "search"),
    ]  # fmt: skip
    assert [(fact.server, fact.tool) for fact in work.facts("tool.denied")] == [
        ("notes", "remove_item"), ("files", "search"),
    ]  # fmt: skip


def test_a_tool_goes_by_the_client_s_spelling_and_by_the_server_s(work: HookWorkspace) -> None:
    """Once the server has listed a tool whose name the client spells otherwise, an allow counts by either spelling."""
    with work.store() as store:
        keep_tools(store, "files", [KnownTool("notes.set"), KnownTool("notes.get")])
    work.write_policy("use files.notes.set, files.notes_get")
    names = ("mcp__files__notes_set", "mcp__files__notes_get", "mcp__files__notes_del")
    assert [work.ask(name).decision for name in names] == ["allow", "allow", "deny"]
    assert [fact.tool for fact in work.facts("tool.allowed")] == ["notes.set", "notes_get"]
