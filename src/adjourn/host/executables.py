"""Finds programs on PATH, but never one that an agent could have put there, and starts Python as safely.

PATH may hold relative entries (`.`, an empty one) or a folder of the workspace. A program found there is a file that an agent
can write. The same goes for the other variables by which code is found.

Loaded before the proxy starts its upstream, so it imports only os and sys.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

OF_CODE = (
    "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP",
)  # fmt: skip
"""Variables with colon-separated places from which code is loaded."""
OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that adjourn is imported from. For its own developers it is in the workspace."""


def find(name: str, workspace: str = "", *, given: Mapping[str, str] | None = None) -> str | None:
    """The absolute path of a program on PATH, looked up in absolute entries outside of `workspace`; None when there is none.

    A name with a slash is no name on PATH, and is returned as it is. PATH is that of the `given` variables, else that of this process.
    """
    if "/" in name:
        return name
    for folder in _folders(workspace, given):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path) and not lies_in(path, workspace):
            return path
    return None


def outside(given: Mapping[str, str], workspace: str) -> dict[str, str]:
    """Variables for a program of adjourn: those by which code is found name no relative path, and none in `workspace`."""
    kept = {name: value for name, value in given.items() if name not in OF_CODE}
    for name in OF_CODE:
        entries = [entry for entry in given.get(name, "").split(os.pathsep) if _is_safe(entry, workspace)]
        if entries:
            kept[name] = os.pathsep.join(entries)
    return kept


def strays(given: Mapping[str, str], workspace: str) -> list[tuple[str, str]]:
    """Variable and entry of what leads into `workspace` or is relative. Programs on PATH are the person's own, wherever they are."""
    return [
        (name, entry)
        for name in OF_CODE
        if given.get(name)
        for entry in given[name].split(os.pathsep)
        if not _is_safe(entry, "" if name == "PATH" else workspace)
    ]


def lies_in(path: str, workspace: str) -> bool:
    """Whether a path, or what it links to, lies in `workspace`. Nothing lies in "" or "/"."""
    root = os.path.realpath(workspace) if workspace else "/"
    return root != "/" and any(
        os.path.join(place, "").startswith(os.path.join(root, ""))
        for place in (os.path.abspath(path), os.path.realpath(path))
    )


def _is_safe(entry: str, workspace: str) -> bool:
    return os.path.isabs(entry) and (entry == OWN or not lies_in(entry, workspace))


def _folders(workspace: str, given: Mapping[str, str] | None) -> list[str]:
    return [
        folder
        for folder in os.get_exec_path(given)
        if os.path.isabs(folder) and not (workspace and lies_in(folder, workspace))
    ]


# --- starting this Python so that it imports nothing from the folder it is started in


def python_command(*arguments: str, executable: str = "") -> list[str]:
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
