"""Wall time of whole commands that people and hooks run often, beside an empty Python process."""

from __future__ import annotations

import sys
from pathlib import Path

from peer import ADJOURN, Peer, child_environment, wall_time
from relays import POLICY, UPSTREAM
from sizes import Sizes
from tables import Table, median

COMMANDS = {
    "`python -c pass`": [sys.executable, "-c", "pass"],
    "`adjourn --version`": [ADJOURN, "--version"],
    "`adjourn status`": [ADJOURN, "status"],
    "`adjourn --help`": [ADJOURN, "--help"],
}


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    workspace = Path(folder, "workspace")
    (workspace / ".aex").mkdir(parents=True)
    (workspace / ".aex/policy.aex").write_text(POLICY)
    environment = child_environment(f"{folder}/config")
    peer = Peer([ADJOURN, "proxy", "--", *UPSTREAM], str(workspace), environment)
    peer.greet()
    peer.sequential("notes.set", 20)
    peer.close()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(sizes.command_starts + 1):
        for name, command in COMMANDS.items():
            took = wall_time(command, str(workspace), environment)
            if number:  # the first one fills the caches
                times[name].append(took)
    table = Table(
        "Commands: wall time",
        ["", "min ms", "median ms", "over Python, min"],
        f"The whole process, from start to exit; {sizes.command_starts} runs each, taking turns.",
    )
    floor = min(next(iter(times.values())))
    for number, (name, mine) in enumerate(times.items()):
        table.add(name, min(mine), median(mine), min(mine) - floor if number else None)
    return [table]
