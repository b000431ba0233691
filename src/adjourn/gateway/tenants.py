"""What is whose behind a gateway: the space of each principal's tasks, and the folder of its checkpoints and pages.

Without authentication all clients are this machine's, and there is one space: the workspace.

Owns: where these folders are. Must never: look for what is in them.
"""

from __future__ import annotations

import os

from adjourn.host import make_folder
from adjourn.policy import Principal
from adjourn.tasks import Space, space_of

FOLDER = ".aex/spaces"


class Tenants:
    """The principals of a workspace. `shared` are the groups whose members share their tasks."""

    def __init__(self, root: str, shared: tuple[str, ...]) -> None:
        self._root = root
        self._shared = shared

    def space(self, principal: Principal | None) -> Space | None:
        """The tasks that a principal sees; None for all."""
        return space_of(principal, self._shared) if principal is not None else None

    def home(self, principal: Principal | None) -> str:
        """The folder that has a principal's checkpoints and pages, which is made; "" for the workspace itself."""
        space = self.space(principal)
        return make_folder(self._root, os.path.join(FOLDER, space.home)) if space is not None else ""

    def task_named(self, principal: Principal | None, name: str) -> str:
        """The id of the task that a principal means by a name."""
        space = self.space(principal)
        return space.named(name) if space is not None else name
