"""The store of a workspace.

Owns: where it is when nothing names it. Must never: be opened with keys that lie in the workspace.
"""

from __future__ import annotations

import os

from adjourn.errors import UsageError
from adjourn.host import keys
from adjourn.store import Store, open_store

DEFAULT_STORE = ".aex/adjourn.db"


def open_at(root: str, url: str = "") -> Store:
    """The store of a workspace: `url`, or `.aex/adjourn.db` in it. A relative path is relative to the workspace.

    Raises `StoreError`, and `RefusedError` where the keys that seal and sign what is in it are the workspace's.
    """
    keys.check_outside(root)
    url = url or os.environ.get("ADJOURN_STORE", "") or DEFAULT_STORE
    scheme, colon, path = url.partition(":")
    if not colon:
        return open_store(os.path.join(root, url))
    if scheme == "sqlite" and path and not path.startswith("/"):
        return open_store("sqlite:" + os.path.join(os.path.abspath(root), path))
    if scheme == "memory":
        raise UsageError("memory: outlives no process", "name a file or a PostgreSQL database")
    return open_store(url)
