"""The texts that `adjourn init` writes."""

from __future__ import annotations

from adjourn.aex.expr import NAME

_TASK = """\
task {name} v0

goal "Fix the failing test with the smallest safe change."

use file.read, file.write, tests.run
deny network.*, secrets.read

need test_cmd: str
need target_files: list[file]

budget calls=20

confirm before file.write

do tests.run(cmd=test_cmd) -> failure

do file.read(paths=target_files) -> sources

make patch: diff from failure, sources with:
  - change only what the failing test needs
  - touch no file outside target_files

check patch is valid diff

check patch touches only target_files

do file.write(diff=patch) -> applied

do tests.run(cmd=test_cmd) -> final

check final.passed

return {{
  status: "fixed",
  patch: patch
}}
"""

SAMPLE_INPUTS = """\
{
  "test_cmd": "npm test",
  "target_files": ["README.md"]
}
"""

SAMPLE_JSON_POLICY = """\
{
  "allow": ["file.read", "file.write", "tests.run:npm test*"],
  "deny": ["network.*", "secrets.read"],
  "require_confirmation": ["file.write"],
  "budget": {"calls": 20}
}
"""


def safe_name(name: str) -> str:
    """The name with each invalid character replaced by `_`; never empty.

    >>> safe_name("My task!")
    'My_task_'
    """
    return "".join(char if char in NAME else "_" for char in name) or "_"


def sample_task(name: str = "sample-task") -> str:
    """A task that needs no more than a first policy grants."""
    return _TASK.format(name=safe_name(name))
