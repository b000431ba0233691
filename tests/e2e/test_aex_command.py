"""The `aex` script itself: its published names and flags do what `adjourn` does, and start as fast."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from adjourn import __version__
from adjourn.cli.app import AEX_COMMANDS, aex_group
from adjourn.clients.options import options_of
from adjourn.policy.person_commands import PUBLISHED
from support.terminal import at_terminal

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "aex-command.md"
AEX = str(Path(sys.executable).with_name("aex"))
HEAVY = {"click", "asyncio", "rich", "cryptography", "mcp", "anyio"}

FLAGS = {
    "init": ("--task", "--policy"),
    "parse": ("--tolerant",),
    "check": (),
    "compile": (),
    "fmt": ("--check",),
    "sign": ("--id", "--key", "--key-file", "--output"),
    "verify": ("--signature", "--id", "--key", "--key-file"),
    "effective": ("--contract", "--policy"),
    "run": ("--policy", "--inputs", "--auto-confirm", "--model", "--model-handler", "--registry", "--otlp-endpoint",
            "--log-json"),
    "proxy": ("--upstream", "--contract", "--policy", "--auto-confirm"),
    "gate": ("--contract", "--policy", "--allow-no-policy"),
    "draft": ("--model", "--out", "--name", "--policy", "--from-plan", "--max-retries"),
    "review": (
        "--json", "--run", "--yes", "--policy", "--model", "--model-handler", "--inputs", "--auto-confirm",
    ),
    "classify": (),
}  # fmt: skip
"""The published names, each with its flags."""


def aex(root: Path, *arguments: str, text: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the script at a terminal; its exit code must be `code`."""
    environment = os.environ | {"ADJOURN_CONFIG": f"{root}-config"}
    done = at_terminal([AEX, *arguments], cwd=root, env=environment, given=text)
    assert done.returncode == code, done
    return done


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a first policy and a sample task."""
    aex(tmp_path, "init", "--policy")
    aex(tmp_path, "init", "--task", "look")
    return tmp_path


def test_the_published_names_are_all_there() -> None:
    """And no others: what `adjourn` has besides is found there."""
    assert set(FLAGS) == set(AEX_COMMANDS)


def test_the_reference_says_what_each_name_is() -> None:
    """docs/reference/aex-command.md has a row for each name: the command that it is, and the published flags."""
    page = PAGE.read_text("utf-8")
    for name, flags in FLAGS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `aex {name}` |"))
        assert f"`adjourn {PUBLISHED.get(name, name)}`" in row
        assert re.findall(r"`(--[a-z-]+)`", row) == list(flags)


@pytest.mark.parametrize("name", AEX_COMMANDS)
def test_each_command_takes_its_published_flags(name: str) -> None:
    """Whatever else it takes."""
    command = aex_group.get_command(click.Context(aex_group), name)
    assert command is not None
    known = {flag for parameter in command.params for flag in parameter.opts}
    known |= {option.flag for option in options_of("proxy")} if name == "proxy" else set()
    assert known >= set(FLAGS[name])


@pytest.mark.parametrize("name", AEX_COMMANDS)
def test_each_command_starts(tmp_path: Path, name: str) -> None:
    """With help that calls it by the name it was started with."""
    assert aex(tmp_path, name, "--help").stdout.startswith(f"Usage: aex {name} ")


def test_help_and_version(tmp_path: Path) -> None:
    """The script answers as itself; a slip gets a hint, and the hint names what only `adjourn` has."""
    assert aex(tmp_path, "--version").stdout == f"aex {__version__}\n"
    told = aex(tmp_path, "--help").stdout
    assert all(f"\n  {name} " in told for name in AEX_COMMANDS)
    slip = aex(tmp_path, "chekc", code=2).stderr
    assert "did you mean: aex check" in slip
    aex(tmp_path, "status", code=2)


def test_a_contract_from_first_to_last(root: Path) -> None:
    """Check, effective permissions, signature: each as `adjourn` does it, with the exit codes."""
    assert "valid task" in aex(root, "check", "tasks/look.aex").stdout
    assert "file.write" in aex(root, "effective", "--contract", "tasks/look.aex").stdout
    (root / "broken.aex").write_text("nonsense\n")
    aex(root, "check", "broken.aex", code=1)
    aex(root, "sign", "tasks/look.aex", "--id", "ann", "--key", "secret")
    signature = "tasks/look.aex.signature.json"
    aex(root, "verify", "tasks/look.aex", "--signature", signature, "--id", "ann", "--key", "secret")
    aex(root, "verify", "tasks/look.aex", "--signature", signature, "--key", "other", code=1)


def test_what_prints_json_prints_it(root: Path) -> None:
    """Model, IR, review and classification are one JSON document each."""
    for arguments, key in (
        (("parse", "tasks/look.aex", "--tolerant"), "goal"),
        (("compile", "tasks/look.aex"), "goal"),
        (("review", "tasks/look.aex", "--json"), "requested"),
        (("classify", "explain the parser"), "mode"),
    ):
        assert key in json.loads(aex(root, *arguments).stdout), arguments


def test_fmt_checks_and_writes(root: Path) -> None:
    """`--check` exits with 1 and writes nothing; without it the file is written, and is in order then."""
    path = root / "tasks" / "look.aex"
    untidy = path.read_text().replace("use file.read, file.write", "use   file.read,file.write")
    path.write_text(untidy)
    aex(root, "fmt", "--check", "tasks/look.aex", code=1)
    assert path.read_text() == untidy
    aex(root, "fmt", "tasks/look.aex")
    aex(root, "fmt", "--check", "tasks/look.aex")


def test_a_run_under_a_json_policy(root: Path) -> None:
    """As published: events and the result on stdout; what the policy does not allow blocks the run, with exit code 1."""
    (root / "read.aex").write_text(
        'task read v0\ngoal "read"\nuse file.read\nneed a: str\ndo file.read(paths=[a]) -> x\nreturn {\n  ok: "yes"\n}\n'
    )
    (root / "in.json").write_text('{"a": "read.aex"}')
    (root / "base.json").write_text('{"allow": ["file.read:*.aex"]}')
    (root / "p.json").write_text('{"extends": "base.json", "budget": {"calls": 5}}')
    run = ("run", "read.aex", "--inputs", "in.json", "--policy", "p.json")
    assert "runtime success" in aex(root, *run).stdout
    (root / "base.json").write_text('{"allow": ["file.read:src/**"]}')
    assert "runtime blocked" in aex(root, *run, code=1).stderr
    (root / "base.json").write_text('{"extends": "p.json"}')
    assert "extends itself" in aex(root, *run, code=1).stderr


def test_the_proxy_relays(root: Path) -> None:
    """Each published way to name the upstream; the session ends with the client."""
    ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
    for upstream in (["--", "cat"], ["cat"], ["--upstream", "cat"]):
        assert '"ping"' in aex(root, "proxy", "--auto-confirm", *upstream, text=ask).stdout
    aex(root, "proxy", "--polcy", "x", "--", "cat", code=2)


def test_the_gate_answers_in_the_documented_shape(root: Path) -> None:
    """As Claude Code reads it; what it cannot read is refused with exit code 2, as published."""
    call = {
        "session_id": "s", "cwd": str(root), "hook_event_name": "PreToolUse",
        "tool_name": "mcp__mail__send", "tool_input": {"to": "ann"},
    }  # fmt: skip
    answer = json.loads(aex(root, "gate", text=json.dumps(call)).stdout)["hookSpecificOutput"]
    assert (answer["hookEventName"], answer["permissionDecision"]) == ("PreToolUse", "deny")
    old = json.loads(aex(root, "gate", "--format", "aex", text=json.dumps(call)).stdout)
    assert old["permissionDecision"] == "deny"
    aex(root, "gate", text="{", code=2)


@pytest.mark.parametrize("arguments", [("proxy", "--", "cat"), ("gate",)])
def test_proxy_and_gate_start_without_the_framework(root: Path, arguments: tuple[str, ...]) -> None:
    """As fast as `adjourn proxy` and `adjourn hook`: nothing heavy is loaded on the way."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", AEX, *arguments],
        check=False, cwd=root, env=os.environ | {"ADJOURN_CONFIG": f"{root}-config"}, capture_output=True,
        text=True, timeout=30, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    packages = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "adjourn" in packages
    assert packages & HEAVY == set()
