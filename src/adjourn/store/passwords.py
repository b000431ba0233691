"""Passwords in a store's URL.

Owns: what a password in a URL is. Must never: import anything but errors, for the proxy starts with it.
"""

from __future__ import annotations

from adjourn.errors import UsageError

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
    scheme, slashes, rest = url.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}" if slashes else url


def is_torn(url: str) -> bool:
    """Whether a character of a PostgreSQL URL's password (`/`, `@`) is not escaped, so that a part of it is taken for something else."""
    rest = url.partition("?")[0].partition("://")[2]
    return rest.count("@") > 1 or "@" in rest.partition("/")[2]


def is_postgres(url: str) -> bool:
    """Whether a URL names a PostgreSQL store."""
    return url.lower().startswith(_POSTGRES)


def _has_password(url: str) -> bool:
    place, _, query = url.partition("?")
    user, at, _ = place.partition("://")[2].rpartition("@")
    return (bool(at) and ":" in user) or any(
        word.partition("=")[0].lower() in ("password", "sslpassword") for word in query.split("&")
    )
