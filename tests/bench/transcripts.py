"""What continuing a session costs: the list of many sessions, the hand-over of a large one, and a hook that follows one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from peer import ADJOURN, child_environment
from sizes import Sizes
from tables import Table, median
from turns import median_ratio, take_turns

from support.transcripts import ClaudeTranscript, CodexTranscript

FOLDERS = 50
"""Among how many folders the sessions are spread."""
TURNS = 10
_RUNNER = """\
import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
took, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
print(took, used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""
"""Measures a command from a small process: a child's memory at most counts that of its parent before it."""
_FLOOR = [sys.executable, "-c", "import sqlite3, msgspec"]


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The tables of this section; files are made in `folder`."""
    return [_continuing(sizes, Path(folder)), _following(sizes, Path(folder))]


def _continuing(sizes: Sizes, folder: Path) -> Table:
    table = Table(
        "Continuing: sessions from their transcripts",
        ["", "wall ms", "processor ms", "peak MiB", "target"],
        f"Whole processes, medians of {sizes.transcript_rounds}. {sizes.transcripts:,} sessions of Claude Code and Codex lie in "
        f"{FOLDERS} folders; the first list reads their heads, the later ones what it kept of them. The large transcript has "
        f"{sizes.transcript_megabytes} MB of turns, the long line one result of {sizes.transcript_line_megabytes} MB.",
    )
    home = folder / "many"
    for number in range(sizes.transcripts):
        kind = ClaudeTranscript if number % 2 else CodexTranscript
        _tell(kind(f"0a5e0000-0000-4000-8000-{number:012}", _place(home, number % FOLDERS)), TURNS).save(home)
    large = _large(folder / "large", sizes.transcript_megabytes * 1_000_000)
    long = _long_line(folder / "line", sizes.transcript_line_megabytes * 1_000_000)
    here = _place(home, 0)
    everywhere = ["continue", "--list", "--all", "--json"]
    subjects: dict[str, Callable[[], tuple[float, float, float]]] = {
        f"`{' '.join(['python -c', repr(_FLOOR[2])])}`": partial(_timed, _FLOOR, home, here),
        "list of this folder, first": partial(_first, ["continue", "--list", "--json"], home, here),
        "list of this folder, later": partial(_adjourn, ["continue", "--list", "--json"], home, here),
        "list of all folders, first": partial(_first, everywhere, home, here),
        "list of all folders, later": partial(_adjourn, everywhere, home, here),
        "hand-over of the large transcript": partial(_adjourn, ["continue", "--last", "--print"], *large),
        "hand-over of the one with a long line": partial(_adjourn, ["continue", "--last", "--print"], *long),
    }
    targets = [None, "≤ 500 ms", "≤ 150 ms", None, None, "≤ 600 ms, ≤ 80 MiB", "≤ 80 MiB"]
    for (name, subject), target in zip(subjects.items(), targets, strict=True):
        subject()
        taken = [subject() for _ in range(sizes.transcript_rounds)]
        table.add(name, *(median(values) for values in zip(*taken, strict=True)), target)
    return table


def _following(sizes: Sizes, folder: Path) -> Table:
    home = folder / "hooked"
    place = Path(_place(home, 0))
    (place / ".aex").mkdir(parents=True)
    (place / ".aex/policy.aex").write_text(
        'policy workspace v0\n\ngoal "Measure a hook."\n\nuse file.read, shell.exec\n'
    )
    transcript = _tell(ClaudeTranscript(folder=str(place)), 200).save(home)
    command = {"command": "true"}
    event = {"session_id": transcript.stem, "cwd": str(place), "hook_event_name": "PostToolUse", "tool_name": "Bash"}
    plain = event | {"tool_input": command, "tool_response": {"stdout": "", "stderr": "", "interrupted": False}}
    followed = plain | {"transcript_path": str(transcript)}
    end = {"session_id": transcript.stem, "cwd": str(place), "hook_event_name": "Stop"}

    def grown(event: dict[str, Any]) -> tuple[float, float, float]:
        with transcript.open("a") as file:
            file.write(
                json.dumps({"type": "user", "message": {"role": "user", "content": "and now the next one"}}) + "\n"
            )
        return _adjourn(["hook"], home, str(place), json.dumps(event))

    subjects = {
        "PostToolUse, no transcript": partial(grown, plain),
        "PostToolUse, followed": partial(grown, followed),
        "Stop, no transcript": partial(grown, end),
        "Stop, followed": partial(grown, end | {"transcript_path": str(transcript)}),
    }
    for subject in subjects.values():
        subject()
    taken = take_turns(subjects, sizes.transcript_rounds * 4)
    table = Table(
        "Hooks that follow a transcript",
        ["", "wall ms", "times without"],
        "The transcript of 200 turns gets a record between two hooks; ratios are medians of the rounds.",
    )
    for name in subjects:
        walls = [wall for wall, _, _ in taken.of(name)]
        floors = [wall for wall, _, _ in taken.of(name.partition(",")[0] + ", no transcript")]
        ratio = median_ratio(zip(walls, floors, strict=True))
        table.add(name, median(walls), ratio and ratio.median)
    return table


def _place(home: Path, number: int) -> str:
    folder = home / f"work-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _tell(transcript: Any, turns: int) -> Any:
    transcript.begin = datetime.now(UTC)
    for turn in range(turns):
        transcript.ask(f"Make the oven of bakery {turn} warm")
        transcript.run(f"make oven-{turn}", turn % 3 and 1, "warm " * 40)
        transcript.edit(f"src/oven_{turn}.py")
        transcript.say(f"The oven of bakery {turn} is warm.")
    return transcript


def _large(home: Path, size: int) -> tuple[Path, str]:
    """The home and folder of one session whose transcript has so many bytes, its turns all different."""
    place = _place(home, 0)
    transcript = _tell(ClaudeTranscript(folder=place), 100)
    path = transcript.save(home)
    data = path.read_text()
    with path.open("a") as file:
        for number in range(1, size // len(data)):
            file.write(
                data.replace('"call_', f'"call_{number}_')
                .replace('"uuid":"u', f'"uuid":"u{number}_')
                .replace("oven", f"oven_{number}")
            )
    return home, place


def _long_line(home: Path, size: int) -> tuple[Path, str]:
    """The same, with one line of so many bytes."""
    place = _place(home, 0)
    transcript = ClaudeTranscript(folder=place)
    transcript.ask("Print everything")
    transcript.run("cat all", 0, "LONG")
    transcript.say("All is printed.")
    path = transcript.save(home)
    before, middle, after = path.read_text().split("LONG")
    with path.open("w") as file:
        for part, long in ((before, True), (middle, True), (after, False)):
            file.write(part)
            for _ in range(size // 2_000 if long else 0):
                file.write("x" * 1_000)
    return home, place


def _first(words: list[str], home: Path, place: str) -> tuple[float, float, float]:
    shutil.rmtree(home / "config", ignore_errors=True)
    return _adjourn(words, home, place)


def _adjourn(words: list[str], home: Path, place: str, given: str = "") -> tuple[float, float, float]:
    return _timed([ADJOURN, *words], home, place, given)


def _timed(words: list[str], home: Path, place: str, given: str = "") -> tuple[float, float, float]:
    """Wall and processor time in ms, and MiB at most, of a process that must succeed."""
    environment = child_environment(str(home / "config")) | {"HOME": str(home)}
    runner = [sys.executable, "-I", "-S", "-c", _RUNNER, *words]
    ended = subprocess.run(runner, cwd=place, env=environment, input=given, capture_output=True, text=True, check=True)
    wall, processor, memory = map(float, ended.stderr.split()[-3:])
    return wall * 1e3, processor * 1e3, memory / 1024
