"""Wall time of one `adjourn hook`, from start to exit, beside an empty Python process: it is run once a tool call."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from peer import ADJOURN, child_environment, wall_time
from sizes import Sizes
from tables import Table, median

POLICY = """\
policy workspace v0

goal "Measure a hook."

use file.read:src/**, file.write, shell.exec
deny network.*, file.write:secrets/**
confirm before tests.run
budget calls=1000000
"""
HOOKS = {
    "a read, scoped": ("Read", {"file_path": "src/main.py"}),
    "a command": ("Bash", {"command": "make test"}),
    "refused": ("WebFetch", {"url": "https://example.org"}),
}


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    workspace = Path(folder, "workspace")
    (workspace / ".aex").mkdir(parents=True)
    (workspace / ".aex/policy.aex").write_text(POLICY)
    environment = child_environment(f"{folder}/config")
    commands: dict[str, tuple[list[str], bytes]] = {"`python -c pass`": ([sys.executable, "-c", "pass"], b"")}
    staying = [ADJOURN, "hook", "--settle", "--stay"]
    for name, (tool, arguments) in HOOKS.items():
        request = {"tool_name": tool, "tool_input": arguments, "cwd": str(workspace)}
        commands[f"`adjourn hook`: {name}"] = ([ADJOURN, "hook", "--settle"], json.dumps(request).encode())
        commands[f"`adjourn hook --stay`: {name}"] = (staying, json.dumps(request).encode())
        if name != "refused":
            ended = json.dumps(request | {"hook_event_name": "PostToolUse"}).encode()
            commands[f"`adjourn hook` after it: {name}"] = ([ADJOURN, "hook", "--settle"], ended)
            commands[f"`adjourn hook --stay` after it: {name}"] = (staying, ended)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(sizes.command_starts + 1):
        for name, (command, given) in commands.items():
            took = wall_time(command, str(workspace), environment, given)
            if number:  # the first one fills the caches, and makes the store
                times[name].append(took)
    table = Table(
        "Hook: wall time of one answer",
        ["", "min ms", "median ms", "times Python, min", "target"],
        "The whole process, from start to exit; with `--stay`, those after the first. "
        f"{sizes.command_starts} runs each, taking turns.",
    )
    floor = min(next(iter(times.values())))
    for number, (name, mine) in enumerate(times.items()):
        table.add(
            name,
            min(mine),
            median(mine),
            min(mine) / floor if number else None,
            "≤ 60 ms" if number else None,
        )
    return [table]
