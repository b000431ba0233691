"""What a program does for a tool call, counted: the Python functions that it calls, their files and lines.

Such a count does not depend on what else the machine does. `profiled.py` writes it down inside of the program.

Owns: the command of a profiled program, reading its report. Must never: time anything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

SETTLED_SECONDS = 0.4
"""What a proxy still does for a call after its answer is done by then."""
_LAUNCHER = str(Path(__file__).with_name("profiled.py"))


def profiled(report: Path, program: str, *arguments: str) -> list[str]:
    """The command that runs a Python program and writes the report."""
    return [sys.executable, _LAUNCHER, str(report), program, *arguments]


class Entered(NamedTuple):
    """What a stretch of time entered."""

    calls: int
    """Calls of Python functions, those of libraries, too."""
    entries: int
    """Calls of the program's own functions, without comprehensions and class bodies."""
    functions: int
    """The different functions among these."""
    files: int
    """The files that these functions are in."""
    lines: int
    """The lines that these functions are written in."""


class Profile:
    """A report. `own` are the folders that hold the program itself, in contrast to libraries."""

    def __init__(self, report: Path, *own: Path) -> None:
        body = json.loads(report.read_text("utf-8"))
        self._calls: list[tuple[int, int]] = body["calls"]
        self._functions: list[dict[str, Any]] = body["functions"]
        inside = tuple(f"{folder}/" for folder in own)
        self._own = {
            number
            for number, function in enumerate(self._functions)
            if function["is_function"] and function["file"].startswith(inside)
        }
        self._modules: list[str] = body["modules"]

    def loaded(self, package: str) -> int:
        """How many modules of a package were loaded by the end."""
        return sum(name.partition(".")[0] == package for name in self._modules)

    def between(self, began: int = 0, ended: int = 1 << 63) -> Entered:
        """What was entered from one time to another, in nanoseconds of `time.perf_counter_ns`."""
        numbers = [number for at, number in self._calls if began <= at <= ended]
        own = [number for number in numbers if number in self._own]
        functions = [self._functions[number] for number in set(own)]
        return Entered(
            calls=len(numbers),
            entries=len(own),
            functions=len(functions),
            files=len({function["file"] for function in functions}),
            lines=sum(function["last"] - function["first"] + 1 for function in functions),
        )


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions this thread calls for some work."""
    count = -1  # `work` itself

    def watch(_frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
