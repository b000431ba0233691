"""The workspace of a hook: the project that the client names, else the one that contains the working directory of its shell.

An agent chooses that directory, and can create a policy or a store in any folder of the workspace. So the search returns the outermost
folder that has either; a folder inside it never counts. An agent is assumed not to write above the workspace, with two exceptions: the
home folder is not the workspace of what it contains, and a root that everybody may write to is refused, since anybody may have put
its policy there.

Owns: that search. Must never: read a policy, or prefer an inner folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from adjourn.aex import discover
from adjourn.errors import RefusedError, UsageError
from adjourn.host import DEFAULT_STORE


def root_of(working_directory: str) -> str:
    """The real path of the workspace. `working_directory` is that of the client's shell; "" means that of the hook.

    Raises `UsageError`, `RefusedError`.
    """
    named = os.environ.get("CLAUDE_PROJECT_DIR", "")
    here = os.path.realpath(named or working_directory or os.getcwd())
    if not os.path.isdir(here):
        raise UsageError(f"{here} is not a folder", "start the client in an existing folder")
    return here if named else _outermost(here)


def _outermost(here: str) -> str:
    folders = list(_upwards(here))
    having = [
        folder
        for folder in folders
        if discover(folder) or os.path.lexists(os.path.join(folder, DEFAULT_STORE))
    ]
    root = having[-1] if having else here
    if root != here and os.stat(root).st_mode & stat.S_IWOTH:
        raise RefusedError(
            f"{root} is writable by every user, so any user may have put its policy or store there",
            "remove it, or name the project in CLAUDE_PROJECT_DIR",
        )
    return root


def _upwards(folder: str) -> Iterator[str]:
    """The folder and its parents, up to the home folder or the root, which count only if they are the folder itself."""
    ends = ("/", os.path.realpath(os.path.expanduser("~")))
    yield folder
    while folder not in ends and (folder := os.path.dirname(folder)) not in ends:
        yield folder
