"""The workspace of a hook: that of the project that the client names, else that of the working directory of its shell.

An agent chooses that directory, and can create a policy or a store in any folder of the workspace: the outermost one counts. An agent is
assumed not to write above the workspace, except where everybody can, or another user did: then the hook refuses.

Owns: which of the two folders is searched from. Must never: prefer an inner folder that an agent chose.
"""

from __future__ import annotations

import os

from adjourn.errors import RefusedError, UsageError
from adjourn.host.finding import Workspace, workspace_of

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping


def find(working_directory: str) -> Workspace:
    """The workspace. `working_directory` is that of the client's shell; "" means that of the hook.

    Raises `UsageError`, `RefusedError`.
    """
    named = os.environ.get("CLAUDE_PROJECT_DIR", "")
    here = named or working_directory or os.getcwd()
    if not os.path.isdir(here):
        raise UsageError(f"{here} is not a folder", "start the client in an existing folder")
    found = workspace_of(here, outermost=not named)
    if found.skipped:
        raise RefusedError(
            found.skipped[0], "remove its policy or store, or name the project in CLAUDE_PROJECT_DIR"
        )
    return found


def is_outside(found: Workspace, options: Mapping[str, str]) -> bool:
    """Whether neither the client nor this hook works in a workspace, and no policy was named."""
    return not (
        found.is_found
        or options["--policy"]
        or options["--contract"]
        or workspace_of(outermost=True).is_found
    )
