"""One client process in a workspace: its settings, who it is, and the store of its work."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock

import msgspec

from adjourn.host import keys, process
from adjourn.host.clock import now
from adjourn.host.finding import DEFAULT_STORE
from adjourn.host.process import group_of
from adjourn.host.workspace_store import open_at, remember, store_file
from adjourn.policy.contract import Contract
from adjourn.policy.principal import Principal, Space, SpaceStore
from adjourn.policy.protected.places import PROTECTED, SIGNATURES, ProtectedPlaces, places_of
from adjourn.store.base import Store


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`root` is the workspace, `tree` the work tree of it (default: the same), `start` the folder that relative paths in arguments are
    of (default: `tree`). `task` is an explicit task id, empty for the client's own; `server` is the name that a person gave the server
    behind it, `command` stands for the command that starts it; `brief_bytes` is the most that a resume answers; `principal` is who stands
    behind the client, None where nobody authenticated one. Such a one sees the tasks of its `space`, and has its checkpoints and pages
    in `home`. `secret` are files that no gated call may even read, absolute. `words` puts the text of an error into
    those for the client. `names_are_joined`: its list of tools may name them SERVER.TOOL. Without `sees_outcomes` nobody reports how its
    calls end.
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
    names_are_joined: bool = False
    sees_outcomes: bool = True

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
        places = [] if ":" in path else [store_file(root, path or DEFAULT_STORE)]
        for file in contract.policy_files:
            policy_path = os.path.join(root, file)
            places += [policy_path, os.path.realpath(policy_path)]
        if tree != root:
            places += [os.path.join(root, name) for name in PROTECTED]
        names = {os.path.relpath(place, tree): os.path.normpath(place) for place in places}
        protected = [path if name.startswith("..") else name for name, path in names.items() if name not in PROTECTED]
        return (*protected, *([SIGNATURES] if contract.policy.signers else []))

    def places_under(self, contract: Contract) -> ProtectedPlaces:
        """All places that no gated call may touch."""
        return places_of(self.tree, self.protected_under(contract), self.secret)


class ClientProcess:
    """A client's process, with the store of its work. Thread-safe.

    `client` is its name, `era` that of its protocol. `group` names the client in this workspace: its proxies and hooks share it.
    `replica` is the lease of this process, where it has one for all its sessions. `on_event` is called with an event's name and text
    when an edited policy or a checkpoint page is worth a line.
    """

    def __init__(
        self,
        options: ClientOptions,
        clock: Callable[[], int] = now,
        on_event: Callable[[str, str], None] = lambda _event, _text: None,
        store: Store | None = None,
    ) -> None:
        """`clock` returns milliseconds. `store` is one that others use, too: it stays open."""
        self.options = options
        self.clock = clock
        self.on_event = on_event
        self.began = clock()
        self.client = ""
        self.era = ""
        self.process = process.current()
        self.group = group_of(process.parent(), options.root)
        self.replica = ""
        self.lock = RLock()
        space = options.space
        self._store = SpaceStore(store, space) if store is not None and space is not None else store
        self._owns_store = store is None
        self._secret = b""

    @property
    def store(self) -> Store:
        """The store, opened when first used. Raises `StoreError`; the next use tries again."""
        with self.lock:
            if self._store is None:
                opened, space = open_at(self.options.root, self.options.store), self.options.space
                if space is None:
                    remember(self.options.root, self.options.store)
                self._store = SpaceStore(opened, space) if space is not None else opened
            return self._store

    @property
    def secret(self) -> bytes:
        """The key that authenticates what is kept beside the store."""
        with self.lock:
            if not self._secret:
                self._secret = keys.secret()
            return self._secret

    def identify(self, client: str, era: str) -> None:
        """Take note of the client's name and protocol era; an empty name keeps the earlier one."""
        self.client = client or self.client
        self.era = era

    def join(self, group: str, replica: str = "") -> None:
        """Work as one of the processes of another client's `group`; `replica` is the lease of this one (`ReplicaLease.ref`)."""
        self.group = group
        self.replica = replica

    def close_store(self) -> None:
        """Close the store, unless others use it, too. The next use opens it again."""
        if self._store is not None and self._owns_store:
            self._store.close()
            self._store = None
