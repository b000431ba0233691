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
TURNS, CALLS = 5, 5
"""Turns of a session, and calls of a turn."""
OUTPUT = "warm " * 660
"""What a call prints."""
FOLLOWED = 50
"""Turns of the session that hooks follow, before the first of them."""
HOOK = ["hook", "--settle"]
"""As `adjourn init` writes it, but each answers by itself: no standby process."""
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
        f"{FOLDERS} folders, each of about 100 KB; the first list reads their heads, the later ones what it kept of them. The "
        f"large transcript has {sizes.transcript_megabytes} MB of turns of {CALLS} calls, each of which printed "
        f"{len(OUTPUT):,} characters; the long line is one result of {sizes.transcript_line_megabytes} MB.",
    )
    home = folder / "many"
    for number in range(sizes.transcripts):
        kind = ClaudeTranscript if number % 2 else CodexTranscript
        _tell(kind(f"0a5e0000-0000-4000-8000-{number:012}", _place(home, number % FOLDERS)), TURNS).save(home)
    large = _large(folder / "large", sizes.transcript_megabytes * 1_000_000)
    long = _long_line(folder / "line", sizes.transcript_line_megabytes * 1_000_000)
    here = _place(home, 0)
    everywhere = ["continue", "--list", "--all"]
    subjects: dict[str, Callable[[], tuple[float, float, float]]] = {
        f"`{' '.join(['python -c', repr(_FLOOR[2])])}`": partial(_timed, _FLOOR, home, here),
        "list of this folder, first": partial(_first, ["continue", "--list"], home, here),
        "list of this folder, later": partial(_adjourn, ["continue", "--list"], home, here),
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
    without, followed = (_Hooked(folder / name, names_it=name == "followed") for name in ("without", "followed"))
    subjects = {
        f"{event}, {name}": partial(session.measure, event)
        for event in ("PreToolUse", "PostToolUse", "Stop", "PreCompact")
        for name, session in (("no transcript", without), ("followed", followed))
    }
    for subject in subjects.values():
        subject()
    taken = take_turns(subjects, sizes.transcript_rounds * 2)
    followed.check()
    table = Table(
        "Hooks that follow a transcript",
        ["", "wall ms", "processor ms", "times without"],
        f"Whole processes, without a standby. A session of {len(OUTPUT) * CALLS * FOLLOWED // 1_000:,} KB that goes on: before each "
        "hook it makes a call and its transcript gets a turn, and a checkpoint is due at the end of a turn and before a compaction. "
        "Ratios are medians of the rounds, of the processor's time.",
    )
    used = {name: [processor for _, processor in taken.of(name)] for name in subjects}
    for name in subjects:
        floor = used[f"{name.partition(',')[0]}, no transcript"]
        ratio = median_ratio(zip(used[name], floor, strict=True))
        table.add(name, median([wall for wall, _ in taken.of(name)]), median(used[name]), ratio and ratio.median)
    return table


class _Hooked:
    """A session whose client calls the hooks, and says where its transcript is if it `names_it`."""

    def __init__(self, home: Path, *, names_it: bool) -> None:
        self._home, self._place = home, Path(_place(home, 0))
        (self._place / ".aex").mkdir()
        (self._place / ".aex/policy.aex").write_text(
            'policy workspace v0\n\ngoal "Measure a hook."\n\nuse shell.exec\n'
        )
        self._transcript = _tell(ClaudeTranscript(folder=str(self._place)), FOLLOWED)
        self._path = self._transcript.save(home)
        self._about = {"session_id": self._path.stem, "cwd": str(self._place)}
        self._about |= {"transcript_path": str(self._path)} if names_it else {}
        self._calls = 0
        self._hook("SessionStart", source="startup")
        self._hook("UserPromptSubmit", prompt="Make the ovens warm")

    def measure(self, event: str) -> tuple[float, float]:
        """The wall and processor time in ms of a hook behind a call and a turn that nothing took in."""
        self._calls += 1
        call = {"tool_name": "Bash", "tool_input": {"command": "true"}, "tool_use_id": f"toolu_{self._calls}"}
        ended = call | {"tool_response": {"stdout": "", "stderr": "", "interrupted": False}}
        self._grow()
        if event == "PreToolUse":
            took = self._hook(event, **call)
            self._hook("PostToolUse", **ended)
            return took
        self._hook("PreToolUse", **call)
        if event == "PostToolUse":
            return self._hook(event, **ended)
        self._hook("PostToolUse", **ended)
        return self._hook(event)

    def check(self) -> None:
        """The page must tell what only the transcript has. Raises `SystemExit`."""
        pages = [page.read_text() for page in self._place.rglob("*.md")]
        if not any(f"bakery {FOLLOWED - 1} warm" in page for page in pages):
            raise SystemExit("no hook took in the transcript")

    def _grow(self) -> None:
        known = len(self._transcript.records)
        _turn(self._transcript, FOLLOWED + self._calls)
        with self._path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in self._transcript.records[known:])

    def _hook(self, event: str, **members: Any) -> tuple[float, float]:
        body = json.dumps(self._about | members | {"hook_event_name": event})
        return _adjourn(HOOK, self._home, str(self._place), body)[:2]


def _place(home: Path, number: int) -> str:
    folder = home / f"work-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _tell(transcript: Any, turns: int) -> Any:
    transcript.begin = datetime.now(UTC)
    for turn in range(turns):
        _turn(transcript, turn)
    return transcript


def _turn(transcript: Any, turn: int) -> None:
    transcript.ask(f"Make the oven of bakery {turn} warm")
    for call in range(CALLS):
        transcript.run(f"make oven-{turn}-{call}", (turn + call) % 3 and 1, OUTPUT)
    transcript.edit(f"src/oven_{turn}.py")
    transcript.say(f"The oven of bakery {turn} is warm.")


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


def _cache(home: Path) -> Path:
    return home / "cache"


def _first(words: list[str], home: Path, place: str) -> tuple[float, float, float]:
    shutil.rmtree(_cache(home), ignore_errors=True)
    return _adjourn(words, home, place)


def _adjourn(words: list[str], home: Path, place: str, given: str = "") -> tuple[float, float, float]:
    return _timed([ADJOURN, *words], home, place, given)


def _timed(words: list[str], home: Path, place: str, given: str = "") -> tuple[float, float, float]:
    """Wall and processor time in ms, and MiB at most, of a process that must succeed."""
    environment = child_environment(str(home / "config")) | {"HOME": str(home), "XDG_CACHE_HOME": str(_cache(home))}
    runner = [sys.executable, "-I", "-S", "-c", _RUNNER, *words]
    ended = subprocess.run(runner, cwd=place, env=environment, input=given, capture_output=True, text=True, check=True)
    wall, processor, memory = map(float, ended.stderr.split()[-3:])
    return wall * 1e3, processor * 1e3, memory / 1024
