"""From one line of text to an open store.

Owns: the URL forms, whether there is a store under a URL, how a URL is shown. Must never: import a backend that was not asked for,
or show a password.
"""

from __future__ import annotations

import os
from typing import Final

from adjourn import store
from adjourn.errors import UsageError
from adjourn.store.base import Store
from adjourn.store.passwords import is_postgres, without_user

DEFAULT_PATH: Final = ".aex/adjourn.db"

_FORMS = "use memory:, sqlite:PATH (or just a path), or postgresql://USER@HOST/DATABASE"


def open_store(url: str = DEFAULT_PATH) -> Store:
    """Open the store that `url` names, and make it if it is a SQLite path where nothing is yet.

    `memory:` · `sqlite:PATH`, `sqlite:///absolute/path` or a bare path · `postgresql://...` (also `postgres://`).
    Raises `UsageError` for anything else, `StoreError` when the store cannot be opened.
    """
    if "\0" in url:
        raise UsageError("the store's URL holds a NUL character", _FORMS)
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme or len(scheme) == 1:  # a bare path; one letter is a drive, not a scheme
        return _open_sqlite(url)
    match scheme.lower():
        case "memory":
            if rest:
                raise UsageError(f"a memory store has no name, but was given {rest!r}", _FORMS)
            return store.MemoryStore()
        case "sqlite":
            return _open_sqlite(_sqlite_path(rest))
        case "postgresql" | "postgres":
            return store.PostgresStore(url)
        case _:
            raise UsageError(f"{scheme}: is not a kind of store", _FORMS)


def file_of(url: str, root: str) -> str:
    """The file of the store that a URL names; a relative path is of the folder `root`. "" for a store that is none."""
    scheme, colon, rest = url.partition(":")
    path = url if not colon else rest if scheme.lower() == "sqlite" else ""
    return path and os.path.join(root, path.removeprefix("//") if path.startswith("///") else path)


def exists(url: str, root: str) -> bool:
    """Whether opening the store that a URL names would not make it. Raises `StoreError` where a server cannot be asked."""
    if path := file_of(url, root):
        return os.path.islink(path) or (os.path.exists(path) and os.path.getsize(path) > 0)
    return not is_postgres(url) or store.is_prepared(url)  # of another kind: opening it says what is wrong


def shown(url: str) -> str:
    """A URL without user and password."""
    return store.describe(url) if is_postgres(url) else without_user(url)


def _sqlite_path(rest: str) -> str:
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    if host or not slash:
        raise UsageError(
            "the URL of the SQLite store names a host",
            "write sqlite:PATH, or sqlite:///PATH for an absolute path",
        )
    return "/" + path


def _open_sqlite(path: str) -> Store:
    if not path or path.endswith("/"):
        raise UsageError(f"{path!r} does not name a file", _FORMS)
    return store.SqliteStore(path)
