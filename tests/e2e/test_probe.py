"""Probing servers: real ones, and ones that hang, flood, exit, or list without end. `adjourn init` and `doctor` rely on it."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from adjourn.host import process
from adjourn.setup import probe
from adjourn.setup.probe import Probed, ProbedTool, ServerStart, probe_all
from support import tools
from support.proxy import ECHO, wait_for

ODD = ECHO.with_name("odd.py")


def odd(way: str, *more: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(ODD), way, *more]


def probed(words: list[str], cwd: Path, seconds: float = 20.0) -> Probed:
    return probe.probe(words, environment=os.environ, cwd=str(cwd), seconds=seconds)


def names(found: Probed) -> list[str]:
    return [tool.name for tool in found.tools]


def test_all_pages_of_a_server_are_listed(tmp_path: Path) -> None:
    """The tools of each page come in order, with what the server says about them, and no tool is called."""
    found = probed([sys.executable, "-I", "-S", str(ECHO), str(tmp_path), "--page", "4"], tmp_path)
    assert (found.failure, found.name, len(found.tools)) == ("", "echo", 15)
    assert found.tools[0] == ProbedTool("file.read", read_only=True)
    assert (tmp_path / "calls").read_text() == ""


def test_a_server_of_others_is_probed(tmp_path: Path) -> None:
    """mcp-server-git lists its tools."""
    command = tools.python_program("mcp-server-git")
    if command is None:
        pytest.skip("mcp-server-git is not installed")
    found = probed(command, tmp_path)
    assert (found.failure, found.name) == ("", "mcp-git")
    assert {"git_status", "git_reset"} <= set(names(found))


@pytest.mark.parametrize("way", ["fine", "asks", "junk"])
def test_a_server_that_asks_or_chats_is_listed_all_the_same(tmp_path: Path, way: str) -> None:
    """Requests of the server are answered, and lines that are no message are skipped."""
    assert probed(odd(way), tmp_path) == Probed("odd one", (ProbedTool("look"),))


def test_a_server_lists_what_it_has_for_a_capable_client(tmp_path: Path) -> None:
    """Roots, sampling and elicitation are declared; a server that lists more once it knows the roots is asked again."""
    assert names(probed(odd("capable"), tmp_path)) == ["look", "elicitation", "roots", "sampling"]
    assert names(probed(odd("grows"), tmp_path)) == ["look", "elicitation", "roots", "sampling", tmp_path.name]


def test_a_tool_that_reads_at_an_address_is_told_from_others(tmp_path: Path) -> None:
    """By an argument that is one, or by its name; not where the server says that its world is closed."""
    found = probed(odd("address"), tmp_path).tools
    assert [(tool.name, tool.reaches) for tool in found] == [
        ("look", False), ("read_0", True), ("read_1", False), ("web_search", True),
    ]  # fmt: skip


def test_a_server_of_the_stateless_era_is_listed(tmp_path: Path) -> None:
    """A server that refuses the handshake is asked without one; its name comes with the list."""
    assert probed(odd("stateless"), tmp_path) == Probed("new one", (ProbedTool("look"),))


def test_of_a_tool_that_is_listed_twice_the_worse_counts(tmp_path: Path) -> None:
    """A tool is read-only only if each entry says so, and an entry without a usable name is no tool."""
    assert probed(odd("twice"), tmp_path).tools == (ProbedTool("look", read_only=False, destructive=True),)


@pytest.mark.parametrize(
    ("way", "failure", "code"),
    [
        (["exits"], "exited with code 3", 3),
        (["later"], "exited with code 1", 1),
        (["killed"], "was ended by SIGKILL", -9),
        (["floods"], "wrote more than 32 MiB to stdout", None),
        (["pages"], "lists its tools on more than 1,000 pages", None),
        (["circles"], "repeats the same page of tools", None),
        (["many", "10001"], "lists more than 10,000 tools", None),
        (["wrong"], "sent an invalid answer to `tools/list`: Expected `array`, got `str` - at `$.tools`", None),
        (["refuses"], "refused `tools/list`: log in first", None),
    ],
)  # fmt: skip
def test_a_server_that_goes_wrong_has_a_reason(tmp_path: Path, way: list[str], failure: str, code: int | None) -> None:
    """A server that ends or breaks a bound lists no tools, and the failure says why."""
    found = probed(odd(*way), tmp_path)
    assert (found.failure, found.exit_code, found.tools) == (failure, code, ())


def test_ten_thousand_tools_are_listed(tmp_path: Path) -> None:
    """The bound itself is no failure."""
    assert len(probed(odd("many", "10000"), tmp_path).tools) == 10_000


@pytest.mark.parametrize("way", ["hangs", "endless"])
def test_a_server_that_never_answers_runs_out_of_time(tmp_path: Path, way: str) -> None:
    """The failure names the request that was not answered and the time that it was given."""
    began = time.monotonic()
    found = probed(odd(way), tmp_path, 0.5)
    assert (found.failure, found.timed_out) == ("did not answer `initialize` within 0.5 seconds", True)
    assert time.monotonic() - began < 15


def test_the_last_lines_of_stderr_are_kept_without_secrets(tmp_path: Path) -> None:
    """Secrets are replaced, and what a terminal would obey is escaped."""
    assert probed(odd("exits"), tmp_path).errors == (
        "loading", "no such database", "password=[redacted] \\u001b[31mred",
    )  # fmt: skip


def test_nothing_is_left_of_a_server_that_does_not_end(tmp_path: Path) -> None:
    """A server that ignores its input's end and SIGTERM is killed, with what it has started."""
    numbers = tmp_path / "pids"
    assert probed(odd("stays", str(numbers)), tmp_path).failure == ""
    started = [int(pid) for pid in numbers.read_text().split()]
    wait_for(lambda: [process.started(pid) for pid in started] == [None, None])


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A name that is on no absolute folder of the server's own PATH, or no program, cannot be started."""
    here = tmp_path / "server"
    here.write_text("#!/bin/sh\n")
    here.chmod(0o755)
    found = probe.probe(["server"], environment={"PATH": ".:/nowhere"}, cwd=str(tmp_path))
    assert found.failure == "cannot be started: server is not on PATH"
    found = probe.probe([f"{tmp_path}/none"], environment={}, cwd=str(tmp_path))
    assert found.failure == f"cannot be started: No such file or directory: {tmp_path}/none"


def test_several_servers_are_probed_at_a_time(tmp_path: Path) -> None:
    """The answers come in the order of the servers."""
    starts = [ServerStart(odd(way), os.environ, str(tmp_path)) for way in ("fine", "exits", "twice", "hangs")]
    found = probe_all(starts, seconds=3)
    assert [len(one.tools) for one in found] == [1, 0, 1, 0]


def test_a_probe_can_be_stopped(tmp_path: Path) -> None:
    """A server that hangs is ended as soon as nobody waits for it any more."""
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    probe.probe(odd("hangs"), environment=os.environ, cwd=str(tmp_path), seconds=60, stop=stop)
    assert time.monotonic() - began < 30
