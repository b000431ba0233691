"""What commands show on a terminal, and how they end there: layout within the width, live views, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from support.command_line import CommandLine
from support.screen import Screen

CTRL_C = b"\x03"


def screen(context: CommandLine, *arguments: str, **options: Any) -> Screen:
    environment = context.environment | {"PAGER": "cat"} | options.pop("env", {})
    environment.pop("NO_COLOR", None)
    return Screen(*arguments, cwd=context.root, env=environment, **options)


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize(
    "command", [("status",), ("tasks",), ("checkpoint", "list"), ("log",), ("log", "--graph")], ids=" ".join
)
def test_a_terminal_of_any_width_is_not_overrun(left: CommandLine, command: tuple[str, ...], columns: int) -> None:
    """No line is wider than the terminal, and nothing that a session wrote is obeyed by it."""
    shown = screen(left, *command, columns=columns).finish()
    assert max(map(len, shown.splitlines())) <= columns
    assert "\x1b" not in shown
    assert "\x9b" not in shown


def test_status_is_a_panel(left: CommandLine, task: str) -> None:
    """On a terminal `adjourn status` shows a panel with a bar for the budget, and the same facts as on a pipe."""
    shown = screen(left, "status").finish()
    assert shown.startswith(f"╭─ {task} ─")
    assert "━  4 of 20  16 left" in shown
    assert "adjourn approve" in shown
    assert "1 waiting, 1 in doubt ─╯" in shown


def test_what_is_longer_than_the_screen_goes_through_the_pager(left: CommandLine) -> None:
    """`adjourn log` starts $PAGER on a terminal if it prints more lines than the screen has, and only then."""
    pager = {"PAGER": "sed s/^/paged:/"}
    assert screen(left, "log", rows=5, env=pager).finish().startswith("paged:")
    assert "paged:" not in screen(left, "log", rows=50, env=pager).finish()


def test_watch_shows_a_task_until_ctrl_c(context: CommandLine, task: str) -> None:
    """`adjourn status --watch` shows status and last calls, follows what others append, and leaves quietly at Ctrl-C."""
    view = screen(context, "status", "--watch")
    view.wait_for("waits      echo.secrets.read")
    assert task in view.shown
    context.ok("deny", context.ok("approve", "--json").json["questions"][0]["approval"])
    view.wait_for("refused    echo.secrets.read")
    view.press(CTRL_C)
    assert "Traceback" not in view.finish()
    assert view.code == 0


def test_watch_needs_a_terminal(left: CommandLine) -> None:
    """`adjourn status --watch` into a pipe is wrong usage, and names the command that follows."""
    done = left.run("status", "--watch")
    assert (done.code, done.out) == (2, "")
    assert "adjourn log --follow" in done.err


@pytest.mark.parametrize(
    ("command", "told", "code"),
    [
        (("proxy", "--", "cat"), "waits for an MCP client on stdin", 0),
        (("hook",), "waiting for one call as JSON on stdin", -signal.SIGINT),
        (("code",), "waiting for an MCP client on stdin", 130),
        (("log", "--follow"), "in doubt", 130),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_what_waits_says_for_what_and_leaves_at_ctrl_c(
    context: CommandLine, command: tuple[str, ...], told: str, code: int
) -> None:
    """On a terminal a command that waits for a client says so, and Ctrl-C ends it without a traceback."""
    view = screen(context, *command)
    view.wait_for(told)
    view.press(CTRL_C)
    shown = view.finish()
    assert "Traceback" not in shown
    assert view.code == code


PRINTING = (
    ("--help",), ("--version",), ("--version", "--json"), ("help",), ("completion", "bash"), ("status",), ("status", "--json"),
    ("tasks",), ("log",), ("log", "-v"), ("log", "--json"), ("log", "--graph"), ("checkpoint", "list"), ("checkpoint", "show"), ("resume",), ("verify",),
    ("approve",), ("settle",), ("inbox",), ("keys",), ("check", ".aex/policy.aex"), ("effective",), ("doctor",), ("fmt", "--check", "--diff", ".aex"),
    ("parse", ".aex/policy.aex"), ("store", "gc"), ("store", "prune"), ("record",),
)  # fmt: skip


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_closed_output_is_no_traceback(left: CommandLine, command: tuple[str, ...]) -> None:
    """A command whose reader is gone ends with 141 as others do; with stdout closed it does its work and prints nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    run = [sys.executable, "-m", "adjourn", *command]
    gone = subprocess.run(
        run, cwd=left.root, env=left.environment, stdout=writer, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (gone.returncode, gone.stderr) == (141, "")
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *run], cwd=left.root, env=left.environment, stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    assert closed.returncode in (0, 1)
    assert "Traceback" not in closed.stderr
    assert "Exception ignored" not in closed.stderr
