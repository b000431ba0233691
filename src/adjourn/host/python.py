"""This Python as a program of ours: it imports nothing from the folder it is started in.

`python -m` and `python -c` put the current folder in front of everything else that is imported, and PYTHONPATH may name folders of
the workspace. A file there (`msgspec.py`, `adjourn/__init__.py`, `sitecustomize.py`) would run with the rights of whoever started us.

Owns: `command` and `environment`, with which every other Python is started, and `leave_working_folder` for this one. Must never:
import more than os and sys, for hooks start with it.
"""

from __future__ import annotations

import os
import sys

from adjourn.host.executables import lies_in

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

PLACES = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONUSERBASE",
    "PYTHONPYCACHEPREFIX",
    "PYTHONSTARTUP",
    "PYTHONPLATLIBDIR",
)
"""The variables by which Python loads code from other places."""
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that this package is imported from."""


def command(*arguments: str, executable: str = "") -> list[str]:
    """The words that start Python with `arguments`; `executable` is another one than the one that runs this."""
    return [executable or sys.executable, "-P", *arguments]


def environment(given: Mapping[str, str], workspace: str) -> dict[str, str]:
    """Variables for a Python of ours: those that name places name none that is relative or in `workspace`."""
    kept = {name: value for name, value in given.items() if name not in PLACES}
    for name in PLACES:
        entries = [entry for entry in given.get(name, "").split(os.pathsep) if _is_safe(entry, workspace)]
        if entries:
            kept[name] = os.pathsep.join(entries)
    return kept


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
        if entry == _OWN
        or (os.path.isabs(entry) and entry != here and not (entry in brought and lies_in(entry, here)))
    ]


def _is_safe(entry: str, workspace: str) -> bool:
    return os.path.isabs(entry) and (entry == _OWN or not lies_in(entry, workspace))
