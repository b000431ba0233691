"""Which folder a hook works in: the client's project, or, where the client does not name it, one found from where its shell is.

An agent chooses where its shell is, and can make a policy or a store in any folder of the workspace. So what is looked for is
the outermost folder that has either: a folder beneath it never counts. What lies above the workspace an agent cannot be assumed
to write, with two exceptions. The home folder is no workspace of what is in it, and where everybody may write nobody knows
whose policy it is: that is refused.

Owns: that search. Must never: read a policy, prefer an inner folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from adjourn.aex import discover
from adjourn.errors import RefusedError, UsageError
from adjourn.host import DEFAULT_STORE


def root_of(working_directory: str) -> str:
    """The workspace's real path. `working_directory` is what the client says that its shell is in; "": where the hook is.

    Raises `UsageError`, `RefusedError`.
    """
    named = os.environ.get("CLAUDE_PROJECT_DIR", "")
    here = os.path.realpath(named or working_directory or os.getcwd())
    if not os.path.isdir(here):
        raise UsageError(f"{here} is not a folder", "start the client in a folder that is there")
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
            f"the policy or store in {root} may be anybody's: everybody may write there",
            "remove it, or have the client name its project in CLAUDE_PROJECT_DIR",
        )
    return root


def _upwards(folder: str) -> Iterator[str]:
    """The folder and those above it, up to the home folder or the root, which count only where they are the folder itself."""
    ends = ("/", os.path.realpath(os.path.expanduser("~")))
    yield folder
    while folder not in ends and (folder := os.path.dirname(folder)) not in ends:
        yield folder
