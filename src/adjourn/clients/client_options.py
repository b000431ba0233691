"""What a client's context is set up with.

Owns: these settings, and which places they make protected. Must never: open what they name.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from adjourn.host.finding import DEFAULT_STORE
from adjourn.host.workspace_store import store_file
from adjourn.policy.contract import Contract
from adjourn.policy.principal import Principal, Space
from adjourn.policy.protected.places import PROTECTED, SIGNATURES


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`root` is the workspace, `tree` the work tree of it (default: the same), `start` the folder that relative paths in arguments are
    of (default: `tree`). `task` is an explicit task id, empty for the client's own; `server` is the name that a person gave the server
    behind it, `command` stands for the command that starts it; `brief_bytes` is the most that a resume answers; `principal` is who stands
    behind the client, None where nobody authenticated one. Such a one sees the tasks of its `space`, and has its checkpoints and pages
    in `home`. `secret` are files that no gated call may even read, absolute. `words` puts the text of an error into
    those for the client.
    """

    root: str
    contract: Contract
    tree: str = ""
    start: str = ""
    store: str = ""
    task: str = ""
    take_over: bool = False
    auto_confirm: bool = False
    server: str = ""
    command: str = ""
    brief_bytes: int = 8192
    principal: Principal | None = None
    space: Space | None = None
    home: str = ""
    secret: tuple[str, ...] = ()
    words: Callable[[str], str] = str

    def __post_init__(self) -> None:
        if not self.tree:
            msgspec.structs.force_setattr(self, "tree", self.root)
        if self.task and self.space is not None:
            msgspec.structs.force_setattr(self, "task", self.space.named(self.task))

    @property
    def checkpoint_root(self) -> str:
        """The folder whose `.aex/checkpoints` has the folders of checkpoints."""
        return self.home or self.root

    @property
    def page_tree(self) -> str:
        """The folder whose `output` has the pages."""
        return self.home or self.tree

    def protected_under(self, contract: Contract) -> tuple[str, ...]:
        """Places that no gated call may touch, beside the usual ones: store and policy, if elsewhere. Relative to the work tree
        where they lie in it. For a linked one, also those of the workspace.

        The policy with what it extends, because an edited one counts from the next call on: also where it really is, if it
        is a link. Signatures, where it requires them.
        """
        root, tree = self.root, self.tree
        path = (self.store or os.environ.get("ADJOURN_STORE", "")).removeprefix("sqlite:")
        found = [] if ":" in path else [store_file(root, path or DEFAULT_STORE)]
        for file in contract.policy_files:
            whole = os.path.join(root, file)
            found += [whole, os.path.realpath(whole)]
        if tree != root:
            found += [os.path.join(root, name) for name in PROTECTED]
        names = {os.path.relpath(place, tree): os.path.normpath(place) for place in found}
        kept = [
            path if name.startswith("..") else name for name, path in names.items() if name not in PROTECTED
        ]
        return (*kept, *([SIGNATURES] if contract.policy.signers else []))
