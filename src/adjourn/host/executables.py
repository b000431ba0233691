"""Finding programs on PATH, but never one that an agent could have put there.

PATH may hold relative entries (`.`, an empty one) or a folder of the workspace. A program found there is a file that an agent
can write.

Owns: `find`, `search_path`. Must never: start anything. Loaded before the proxy starts its upstream, so it imports only os.
"""

from __future__ import annotations

import os


def find(name: str, workspace: str = "") -> str | None:
    """The absolute path of a program on PATH, looked up in absolute entries outside of `workspace`; None when there is none.

    A name with a slash is no name on PATH, and is returned as it is.
    """
    if "/" in name:
        return name
    for folder in _folders(workspace):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path) and not lies_in(path, workspace):
            return path
    return None


def search_path(workspace: str = "") -> str:
    """PATH without relative entries and folders of `workspace`."""
    return os.pathsep.join(_folders(workspace))


def lies_in(path: str, workspace: str) -> bool:
    """Whether a path, or what it links to, lies in `workspace`. Nothing lies in "" or "/"."""
    root = os.path.realpath(workspace) if workspace else "/"
    return root != "/" and any(
        os.path.join(place, "").startswith(os.path.join(root, ""))
        for place in (os.path.abspath(path), os.path.realpath(path))
    )


def _folders(workspace: str) -> list[str]:
    return [
        folder
        for folder in os.get_exec_path()
        if os.path.isabs(folder) and not (workspace and lies_in(folder, workspace))
    ]
