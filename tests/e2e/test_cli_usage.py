"""How every command meets people and scripts: wrong usage, help, colour, pipes and stores that are none."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.clients.options import options_of
from support.command_line import CommandLine

EXTRAS = (
    "httptools", "jinja2", "jwt", "mcp", "prometheus_client", "sse_starlette", "starlette", "tree_sitter", "uvicorn",
    "watchfiles", "yaml",
)  # fmt: skip


@pytest.mark.parametrize(
    "command", [("nonsense",), ("taks",), ("tasks", "--nope"), ("settle", "--done"), ("proxy",)], ids=" ".join
)
def test_wrong_usage_is_2_with_a_way_on(left: CommandLine, command: tuple[str, ...]) -> None:
    """Wrong usage exits with 2, prints nothing on stdout and starts its message with `adjourn:`."""
    done = left.run(*command)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("adjourn: ")


def test_a_slip_is_guessed(left: CommandLine) -> None:
    """A misspelled command is answered with the closest one."""
    assert "did you mean: adjourn tasks" in left.run("taks").err


def test_a_command_names_the_extra_that_it_needs(left: CommandLine, tmp_path: Path) -> None:
    """Without the packages of an extra, a command that needs them says how to get them; one that does not works."""
    (tmp_path / ".aex").mkdir()
    (tmp_path / ".aex" / "policy.aex").write_text('policy workspace v0\n\ngoal "g"\n\nallow echo\n')
    (tmp_path / "adjourn.toml").write_text('[servers.a]\nurl = "http://127.0.0.1:1/mcp"\n')
    program = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRAS}))
from adjourn.cli.app import main
main(sys.argv[1:])
"""
    for extra, *words in (
        ("gateway", "serve"), ("gateway", "connect", "https://a.example/mcp"),
        ("", "login"), ("", "doctor"), ("", "keys"), ("", "code"),
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", program, *words], cwd=tmp_path, env=left.environment, check=False,
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (f"pip install 'adjourn[{extra}]'" in done.stderr) == bool(extra), (words, done.stderr)
        assert "Traceback" not in done.stderr, (words, done.stderr)


def test_the_proxys_help_is_made_from_its_options(left: CommandLine) -> None:
    """`adjourn proxy --help` names each option that the proxy parses."""
    text = left.ok("proxy", "--help").out
    assert all(option.flag in text for option in options_of("proxy"))
    assert left.run("proxy", "--nope", "--", "true").code == 2


def test_the_proxy_behaves_the_same_when_it_is_reached_by_the_command_line(left: CommandLine, tmp_path: Path) -> None:
    """`adjourn proxy` has the same exit codes and messages through click as through its fast start."""
    program = "import sys; from adjourn.cli import main; sys.exit(main(['proxy', *sys.argv[1:]]))"
    for arguments in (["--nope"], ["--policy", "none.aex", "--", "true"], ["--", "/no/such/program"]):
        direct, through = (
            subprocess.run(
                [sys.executable, *start, *arguments], check=False, cwd=tmp_path, env=left.environment,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=30,
            )
            for start in (["-m", "adjourn", "proxy"], ["-c", program])
        )  # fmt: skip
        assert (direct.returncode, direct.stderr) == (through.returncode, through.stderr)


def on_a_terminal(context: CommandLine, *arguments: str, **extra: str) -> str:
    """What a terminal is sent."""
    pid, handle = pty.fork()
    if pid == 0:
        os.chdir(context.root)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "adjourn", *arguments],
            context.environment | {"TERM": "xterm"} | extra,
        )
    shown = b""
    while True:
        try:
            part = os.read(handle, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(handle)
    os.waitpid(pid, 0)
    return shown.decode()


def test_colour_is_for_terminals_without_no_color(left: CommandLine) -> None:
    """`adjourn verify` prints colour on a terminal only, and none if NO_COLOR is set."""
    assert "\x1b[32m" in on_a_terminal(left, "verify")
    assert "\x1b" not in on_a_terminal(left, "verify", NO_COLOR="1")
    assert "\x1b" not in left.ok("verify").out


def test_raw_events_on_a_terminal_are_escaped(left: CommandLine) -> None:
    """`adjourn log --json` on a terminal escapes control characters and stays valid JSON."""
    shown = on_a_terminal(left, "log", "--json")
    assert "\x9b" not in shown
    assert "\\u009b" in shown
    assert [json.loads(line)["seq"] for line in shown.splitlines() if line] == list(range(len(left.rows())))


def test_a_reader_that_has_seen_enough_is_no_error(left: CommandLine) -> None:
    """A pipe that is closed early causes no message."""
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m adjourn log --json | head -n 1'],
        check=True, cwd=left.root, env=left.environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""


@pytest.mark.parametrize("damage", [b"", b"not a database at all, but long enough to be one" * 50])
def test_a_store_that_is_none_is_said_so(context: CommandLine, damage: bytes) -> None:
    """A file that is no database exits with 1 and is not changed."""
    for path in (context.root / ".aex").glob("adjourn.db-*"):
        path.unlink()
    context.database.write_bytes(damage)
    done = context.run("tasks")
    assert done.code == 1
    assert "adjourn.db" in done.err
    assert context.database.read_bytes() == damage
