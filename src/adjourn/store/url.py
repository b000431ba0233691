"""URLs of stores: from one line of text to an open store, and what a password in it is.

Must never: import a backend that was not asked for (the proxy starts with this), or show a password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adjourn.errors import UsageError

if TYPE_CHECKING:
    from adjourn.store.base import Store

DEFAULT_PATH: Final = ".aex/adjourn.db"

_FORM_OF: Final = dict.fromkeys(("pg", "psql", "pgsql", "postgre", "postgress"), "postgresql://USER@HOST/DATABASE") | {
    "file": "sqlite:PATH",
    "sqlite3": "sqlite:PATH",
    "mem": "memory:",
}
"""Schemes that people write instead, and the form of the same meaning."""
_FORMS = "use memory:, sqlite:PATH (or just a path), or postgresql://USER@HOST/DATABASE"


def open_store(url: str = DEFAULT_PATH) -> Store:
    """Open the store that `url` names, and make it if it is a SQLite path where nothing is yet.

    `memory:` · `sqlite:PATH`, `sqlite:///absolute/path` or a bare path · `postgresql://...` (also `postgres://`).
    Raises `UsageError` for anything else, `StoreError` when the store cannot be opened.

    >>> store = open_store("memory:")
    >>> store.close()
    """
    if "\0" in url:
        raise UsageError("the store's URL contains a NUL character", _FORMS)
    scheme, colon, text = url.partition(":")
    if not colon or "/" in scheme or len(scheme) == 1:  # a bare path; one letter is a drive, not a scheme
        return _open_sqlite(url)
    match scheme.lower():
        case "memory":
            if text:
                raise UsageError(f"a memory store takes no name; got {text!r}", _FORMS)
            from adjourn.store.memory import MemoryStore

            return MemoryStore()
        case "sqlite":
            return _open_sqlite(_sqlite_path(text))
        case "postgresql" | "postgres":
            from adjourn.store.postgres import PostgresStore

            return PostgresStore(url)
        case _:
            meant = _FORM_OF.get(scheme.lower())
            remedy = f"did you mean {meant}?" if meant else _FORMS
            raise UsageError(f"unknown kind of store {scheme[:40]}:", remedy)


def _sqlite_path(text: str) -> str:
    if not text.startswith("//"):
        return text
    host, slash, path = text[2:].partition("/")
    if host or not slash:
        raise UsageError(
            "the URL of the SQLite store names a host", "write sqlite:PATH, or sqlite:///PATH for an absolute path"
        )
    return "/" + path


def _open_sqlite(path: str) -> Store:
    from adjourn.store.sqlite import SqliteStore

    if not path or path.endswith("/"):
        raise UsageError(f"{path!r} does not name a file", _FORMS)
    return SqliteStore(path)


# --- passwords in a store's URL

_POSTGRES = ("postgresql:", "postgres:")


def check_argument(url: str) -> str:
    """The URL of a store as a command line may have it. Raises `UsageError` for one with a password: everyone can list those."""
    if is_postgres(url) and _has_password(url):
        raise UsageError(
            "the URL after --store holds a password, and every user of this machine can see command lines",
            "set ADJOURN_STORE to the URL, or leave the password out and keep it in ~/.pgpass (PGPASSFILE)",
        )
    return url


def without_user(url: str) -> str:
    """A URL of another kind than the stores', fit to be shown."""
    scheme, slashes, text = url.partition("://")
    return f"{scheme}{slashes}{text.rpartition('@')[2]}" if slashes else url


def is_postgres(url: str) -> bool:
    """Whether a URL names a PostgreSQL store."""
    return url.lower().startswith(_POSTGRES)


def _has_password(url: str) -> bool:
    place, _, query = url.partition("?")
    user, at, _ = place.partition("://")[2].rpartition("@")
    return (bool(at) and ":" in user) or any(
        word.partition("=")[0].lower() in ("password", "sslpassword") for word in query.split("&")
    )
