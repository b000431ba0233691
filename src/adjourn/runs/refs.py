"""The ref of a run.

Owns: its name. Must never: import anything, for `adjourn status` starts with this.
"""

from __future__ import annotations


def name_of(task: str) -> str:
    """The ref that names an unfinished run."""
    return f"run/{task}"
