"""The store of a workspace.

Must never: be opened with keys that lie in the workspace.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from adjourn.errors import UsageError
from adjourn.host import folders, keys
from adjourn.host.finding import DEFAULT_STORE
from adjourn.store.url import is_postgres, without_user

if TYPE_CHECKING:
    from adjourn.store.base import Store

MAX_STORE_PATH = 480
"""Bytes of a store's path; SQLite adds an ending to it."""


def open_at(root: str, url: str = "") -> Store:
    """The store of a workspace: `url`, or `.aex/adjourn.db` in it. A relative path is relative to the workspace.

    Raises `StoreError`, and `RefusedError` where the keys that seal and sign what is in it are the workspace's.
    """
    from adjourn.store.url import open_store

    keys.check_outside(root)
    url = url or os.environ.get("ADJOURN_STORE", "") or DEFAULT_STORE
    if url == DEFAULT_STORE:
        return open_store(default_store(root))
    scheme, colon, path = url.partition(":")
    if not colon:
        return open_store(os.path.join(root, url))
    if scheme == "sqlite" and path and not path.startswith("/"):
        return open_store("sqlite:" + os.path.join(os.path.abspath(root), path))
    if scheme == "memory":
        raise UsageError("a memory: store does not outlive its process", "name a file or a PostgreSQL database")
    return open_store(url)


def migrate_at(root: str, url: str, partitions: int = 0) -> Iterator[int]:
    """Bring the store of a workspace, which must be there, to the latest schema. Yields the number of events copied so far.

    A SQLite file is brought there whenever it is opened, and has no partitions. Raises `StoreError`.
    """
    from adjourn.store.postgres_migration import migrate_postgres

    if is_postgres(url):
        yield from migrate_postgres(url, partitions=partitions)
    elif partitions:
        raise UsageError("only a PostgreSQL store has partitions", "leave --partitions out")
    else:
        open_at(root, url).close()


def default_store(root: str) -> str:
    """The file of the store that a workspace has when nothing names one.

    SQLite opens no file whose path is longer than 511 bytes. The store of a workspace so deep is beside the user's keys.
    """
    path = os.path.join(root, DEFAULT_STORE)
    if len(os.fsencode(path)) <= MAX_STORE_PATH:
        return path
    name = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]
    return os.path.join(folders.config(), "stores", f"{name}.db")


# --- the workspaces of this account

WORKSPACES = "workspaces"
MAX_KNOWN = 100
MAX_PATH = 4096
REMEMBERED_S = 3600
"""Seconds within which a workspace is not noted again."""


def remember(root: str, url: str = DEFAULT_STORE) -> None:
    """Note a workspace with a store of its own, for the page that shows all of them. What cannot be written is left out."""
    if os.environ.get("ADJOURN_STORE") or store_file(root, url or DEFAULT_STORE) != default_store(root):
        return
    path = os.path.realpath(root)
    folder = os.path.join(folders.config(), WORKSPACES)
    file = os.path.join(folder, hashlib.sha256(os.fsencode(path)).hexdigest()[:32])
    with suppress(OSError):
        if os.path.exists(file):
            if time.time() - os.stat(file).st_mtime > REMEMBERED_S:
                os.utime(file)
            return
        os.makedirs(folder, 0o700, exist_ok=True)
        temporary = f"{file}.{os.getpid()}"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as written:
            written.write(os.fsencode(path))
        os.rename(temporary, file)


def known_workspaces() -> list[str]:
    """The workspaces of this account that have a store, the ones used last first; at most `MAX_KNOWN`."""
    folder = os.path.join(folders.config(), WORKSPACES)
    roots: list[tuple[float, str]] = []
    with suppress(OSError):
        for name in os.listdir(folder)[: 10 * MAX_KNOWN]:
            with suppress(OSError, ValueError), open(os.path.join(folder, name), "rb") as file:
                root = os.fsdecode(file.read(MAX_PATH))
                if os.path.isabs(root) and has_store(root, DEFAULT_STORE):
                    roots.append((os.fstat(file.fileno()).st_mtime, root))
    return [root for _, root in sorted(roots, reverse=True)][:MAX_KNOWN]


def store_file(root: str, url: str) -> str:
    """The file of the store that a URL names from the folder `root`; "" for a store that is none."""
    if root and url == DEFAULT_STORE:
        return default_store(root)
    scheme, colon, text = url.partition(":")
    path = url if not colon else text if scheme.lower() == "sqlite" else ""
    return path and os.path.join(root, path.removeprefix("//") if path.startswith("///") else path)


def has_store(root: str, url: str) -> bool:
    """Whether the store that a URL names from the folder `root` is there. Raises `StoreError` where a server cannot be asked."""
    if path := store_file(root, url):
        return os.path.islink(path) or (os.path.exists(path) and os.path.getsize(path) > 0)
    if not is_postgres(url):
        return True  # of another kind: opening it says what is wrong
    from adjourn.store.postgres_link import is_prepared

    return is_prepared(url)


def shown_store(url: str) -> str:
    """A store's URL without user and password."""
    if not is_postgres(url):
        return without_user(url)
    from adjourn.store.postgres_link import describe_server

    return describe_server(url)
