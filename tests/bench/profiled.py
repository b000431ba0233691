"""Run a Python program and write down every call of a Python function in it.

    python profiled.py REPORT PROGRAM ARGUMENT...

The report is JSON: when each call began (`time.perf_counter_ns`, one clock for all processes of the machine) and which
function it entered, the functions, and the modules that were loaded at the end. A generator that continues counts as called,
as `sys.setprofile` has it; functions written in C do not count.

Owns: the report. Must never: change what the program does, or need help from it.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any

COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
entered: list[tuple[int, CodeType]] = []


def watch(frame: FrameType, event: str, _: Any) -> None:
    if event == "call":
        entered.append((time.perf_counter_ns(), frame.f_code))


def write(report: str) -> None:
    sys.setprofile(None)
    numbers: dict[CodeType, int] = {}
    calls = [(began, numbers.setdefault(code, len(numbers))) for began, code in list(entered)]
    functions = [
        {
            "file": code.co_filename,
            "name": code.co_qualname,
            "first": code.co_firstlineno,
            "last": max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno),
            "is_function": bool(code.co_flags & CO_OPTIMIZED) and code.co_name not in COMPREHENSIONS,
        }
        for code in numbers
    ]
    modules = [name for name, module in sys.modules.items() if module is not None]
    with open(report, "w", encoding="utf-8") as file:
        json.dump({"calls": calls, "functions": functions, "modules": modules}, file)


def main() -> None:
    report, program = sys.argv[1:3]
    sys.argv[:] = sys.argv[2:]
    sys.path[0] = os.path.dirname(program)
    leave = os._exit

    def write_and_leave(code: int) -> None:
        write(report)
        leave(code)

    os._exit = write_and_leave  # type: ignore[assignment]  # it returns as little as the other
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        write(report)


if __name__ == "__main__":
    main()
