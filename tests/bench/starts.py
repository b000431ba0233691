"""How long commands take to start, beside a Python process that imports what all of them need: SQLite and msgspec.

Commands that end are timed whole; servers until their answer to `initialize`. All of them take turns.

Owns: the table of starts. Must never: time a start that fills a cache, or one that creates the store.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import machine
from peer import ADJOURN, Peer, child_environment, wall_time
from profiling import Entered, Profile, profiled
from relays import PACKAGE, UPSTREAM
from sizes import Sizes
from tables import Table, median
from turns import median_ratio, take_turns

TITLE = "Starts"
POLICY = """\
policy workspace v0

goal "Measure a start."

use notes.*, file.read:src/**, file.write, shell.exec
deny network.*, file.write:secrets/**
confirm before tests.run
budget calls=1000000
"""
FLOOR = '`python -c "import sqlite3, msgspec"`'
_FLOOR_COMMAND = [sys.executable, "-c", "import sqlite3, msgspec"]
_READ = {"tool_name": "Read", "tool_input": {"file_path": "src/main.py"}}
_REFUSED = {"tool_name": "WebFetch", "tool_input": {"url": "https://example.org"}}


class Start(NamedTuple):
    """Milliseconds until the end or the answer, and what the process computed until then."""

    wall: float
    processor: float


class Command(NamedTuple):
    """`given` is the input of a command that ends; None for a server. One that `stays` leaves the work to a process that stays."""

    words: list[str]
    given: bytes | None = b""
    stays: bool = False


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    workspace = Path(folder, "workspace")
    (workspace / ".aex").mkdir(parents=True)
    (workspace / "src").mkdir()
    (workspace / "src/main.py").write_text("def main() -> None:\n    print('started')\n")
    (workspace / ".aex/policy.aex").write_text(POLICY)
    environment = child_environment(f"{folder}/config")
    commands = _commands(str(workspace))
    peer = Peer([ADJOURN, *commands["`adjourn proxy`, to `initialize`"].words], str(workspace), environment)
    peer.greet()
    peer.sequential("notes.set", 20)
    peer.close()
    subjects: dict[str, Callable[[], Start]] = {FLOOR: partial(_whole, _FLOOR_COMMAND, b"", workspace, environment)}
    for name, command in commands.items():
        words = [ADJOURN, *command.words]
        subjects[name] = (
            partial(_greeted, words, workspace, environment)
            if command.given is None
            else partial(_whole, words, command.given, workspace, environment)
        )
    for start in subjects.values():
        start()
    rounds = take_turns(subjects, sizes.starts, sizes.idle_seconds)
    table = Table(
        TITLE,
        ["", "best ms", "median ms", "floor = 1", "±", "CPU ms", "Python calls", "modules of adjourn"],
        f"{rounds.note}. CPU: median, of the process that is started.",
    )
    for name in subjects:
        starts, floors = rounds.of(name), rounds.of(FLOOR)
        ratio = median_ratio((mine.wall, floor.wall) for mine, floor in zip(starts, floors, strict=True))
        walls = [start.wall for start in starts]
        entered: tuple[int | None, int | None] = (None, None)
        if name in commands and not commands[name].stays:
            profile = _profiled(commands[name], Path(folder, "report.json"), workspace, environment)
            entered = (profile[0].calls, profile[1])
        table.add(
            name,
            min(walls),
            median(walls),
            ratio and ratio.median,
            ratio and ratio.error,
            median([start.processor for start in starts]),
            *entered,
        )
    return [table]


def _commands(workspace: str) -> dict[str, Command]:
    def hook(call: Mapping[str, object], *options: str) -> Command:
        given = json.dumps({**call, "cwd": workspace}).encode()
        return Command(["hook", "--settle", *options], given, stays="--stay" in options)

    return {
        "`adjourn --version`": Command(["--version"]),
        "`adjourn --help`": Command(["--help"]),
        "`adjourn status`": Command(["status"]),
        "`adjourn hook`: a read": hook(_READ),
        "`adjourn hook` after it": hook(_READ | {"hook_event_name": "PostToolUse"}),
        "`adjourn hook`: refused": hook(_REFUSED),
        "`adjourn hook --stay`: a read": hook(_READ, "--stay"),
        "`adjourn hook --stay` after it": hook(_READ | {"hook_event_name": "PostToolUse"}, "--stay"),
        "`adjourn proxy`, to `initialize`": Command(["proxy", "--", *UPSTREAM], None),
        "`adjourn code`, to `initialize`": Command(["code"], None),
    }


def _whole(command: list[str], given: bytes, workspace: Path, environment: dict[str, str]) -> Start:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = wall_time(command, str(workspace), environment, given)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Start(wall, computed * 1e3)


def _greeted(command: list[str], workspace: Path, environment: dict[str, str]) -> Start:
    peer = Peer(command, str(workspace), environment)
    try:
        took = peer.initialize()
        return Start(took * 1e3, (machine.processor_seconds(peer.process.pid) or 0) * 1e3)
    finally:
        peer.close()


def _profiled(command: Command, report: Path, workspace: Path, environment: dict[str, str]) -> tuple[Entered, int]:
    """What was entered until the end, or the answer; and how many modules of the package were loaded at the end."""
    words = profiled(report, ADJOURN, *command.words)
    answered = 1 << 63
    if command.given is None:
        peer = Peer(words, str(workspace), environment)
        took = peer.initialize()
        answered = int((peer.began + took) * 1e9)
        peer.close()
    else:
        subprocess.run(
            words, cwd=workspace, env=environment, input=command.given, stdout=subprocess.DEVNULL, check=True
        )
    profile = Profile(report, PACKAGE)
    return profile.between(0, answered), profile.loaded(PACKAGE.name)
