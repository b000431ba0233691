"""Starting this Python so that it imports nothing from the folder it is started in.

`python -m` and `python -c` put the current folder in front of everything else that is imported, and PYTHONPATH may name folders of
the workspace. A file there (`msgspec.py`, `adjourn/__init__.py`, `sitecustomize.py`) would run with the rights of whoever started us.

Owns: `command`, with which every other Python is started (with variables of `executables.outside`), and `leave_working_folder` for
this one. Must never: import more than os and sys, for hooks start with it.
"""

from __future__ import annotations

import os
import sys

from adjourn.host.executables import OWN, lies_in


def command(*arguments: str, executable: str = "") -> list[str]:
    """The words that start Python with `arguments`; `executable` is another one than the one that runs this."""
    return [executable or sys.executable, "-P", *arguments]


def leave_working_folder() -> None:
    """Import nothing from the current folder from here on, unless adjourn itself was."""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        here = ""
    named = os.environ.get("PYTHONPATH", "")
    brought = {os.path.abspath(entry) for entry in named.split(os.pathsep)} if named and here else ()
    sys.path[:] = [
        entry
        for entry in sys.path
        if entry == OWN
        or (os.path.isabs(entry) and entry != here and not (entry in brought and lies_in(entry, here)))
    ]
