"""Logins at servers, kept for their user: in the keyring of the system, else in a file that only the user can read.

    ADJOURN_CONFIG/keys/logins/DIGEST/login.json    mode 0600; DIGEST is that of the server's URL

The file has the login itself, or says that it is in the keyring. It is beside the keys, where no agent may read.

Owns: these files and entries of the keyring. Must never: show a token, or give it to anything but requests to its server and issuer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from adjourn.errors import InvalidError, NotFoundError, StoreError, UsageError
from adjourn.host import keys
from adjourn.host.workspace import locked, read_file, remove_file, write_file

NAME = "login.json"
SERVICE = "adjourn login"
MAX_BYTES = 1024 * 1024
LOCK_SECONDS = 90.0
"""Longer than a renewal may take."""
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


class Login(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A login at the server of `url`, which the authorization server `issuer` gave.

    `client` is what that server knows of us (RFC 7591), `is_given_client` whether the user named it; `server` its metadata (RFC 8414),
    `resource` the metadata of the MCP server (RFC 9728). `expires` is in seconds since 1970, 0 where it is not known.
    """

    url: str
    issuer: str
    access: str
    refresh: str = ""
    expires: float = 0.0
    scope: str = ""
    client: dict[str, Any] = {}
    is_given_client: bool = False
    server: dict[str, Any] = {}
    resource: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Login({self.url!r}, {self.issuer!r})"

    @property
    def mark(self) -> str:
        """Tells this access token from others, and nothing about it."""
        return hashlib.sha256(b"adjourn access token\0" + self.access.encode()).hexdigest()[:16]


class _Kept(msgspec.Struct, omit_defaults=True):
    """The file."""

    url: str
    login: Login | None = None
    in_keyring: bool = False


def canonical(url: str) -> str:
    """The URL of a server as logins know it. Raises `UsageError` for one that is no http or https URL, or has a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(
            f"{url[:80]!r} is no address of a server: {error}", "write https://HOST/PATH"
        ) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise UsageError(
            f"{url[:80]!r} is no address of a server", "write http://HOST/PATH or https://HOST/PATH"
        )
    if "@" in parts.netloc:
        raise UsageError("the address of the server has a password in it", "leave it out, and log in")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_default = port in (None, 443 if parts.scheme == "https" else 80)
    netloc = host if is_default else f"{host}:{port}"
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    return (urlsplit(url).hostname or "") in LOOPBACK


def _folder(url: str) -> str:
    return os.path.join(keys.folder(), "logins", hashlib.sha256(canonical(url).encode()).hexdigest()[:32])


@contextmanager
def alone(url: str) -> Iterator[None]:
    """Keep other processes from changing the login at a server. Raises `StoreError`."""
    folder = _folder(url)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make {folder}: {error.strerror}", "make its parent folder writable"
        ) from error
    with locked(folder, LOCK_SECONDS):
        yield


def read(url: str) -> Login | None:
    """The login at a server, if there is one. Raises `StoreError` for one that cannot be read."""
    kept = _file(url)
    if kept is None or not kept.in_keyring:
        return kept.login if kept is not None else None
    again = f"unlock the keyring, or log in again: adjourn login {canonical(url)}"
    try:
        text = _package().get_password(SERVICE, _entry(url))
        login = msgspec.json.decode(text, type=Login) if text else None
    except Exception as error:  # each backend raises its own
        raise StoreError(
            f"the login at {canonical(url)} is in the keyring, which cannot be read: {type(error).__name__}",
            again,
        ) from error
    return login if login is not None and login.url == canonical(url) else None


def keep(login: Login) -> str:
    """Keep a login; returns where: `keyring` or the path of a file. Raises `StoreError`."""
    folder, data = _folder(login.url), msgspec.json.encode(login)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if (backend := _keyring()) is not None:
        try:
            backend.set_password(SERVICE, _entry(login.url), data.decode())
        except Exception:  # a keyring that is locked, or takes no text so long: the file does
            backend = None
    kept = _Kept(login.url, None, in_keyring=True) if backend is not None else _Kept(login.url, login)
    write_file(folder, NAME, msgspec.json.encode(kept), 0o600)
    return "keyring" if backend is not None else os.path.join(folder, NAME)


def forget(url: str) -> bool:
    """Delete the login at a server; False where there was none. Raises `StoreError`."""
    kept = _file(url)
    if kept is None:
        return False
    if kept.in_keyring and (backend := _keyring()) is not None:
        try:
            backend.delete_password(SERVICE, _entry(url))
        except Exception as error:
            raise StoreError(
                f"the login at {canonical(url)} cannot be deleted from the keyring: {type(error).__name__}",
                "unlock the keyring, then try again",
            ) from error
    remove_file(_folder(url), NAME)
    return True


def kept_urls() -> list[str]:
    """The servers at which there is a login, sorted."""
    folder, found = os.path.join(keys.folder(), "logins"), []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            found.append(
                msgspec.json.decode(read_file(os.path.join(folder, name, NAME), MAX_BYTES), type=_Kept).url
            )
        except (InvalidError, NotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            continue  # no login, or none that can be used
    return sorted(found)


def exists(url: str) -> bool:
    """Whether a login at a server is kept."""
    return os.path.exists(os.path.join(_folder(url), NAME))


def _file(url: str) -> _Kept | None:
    path = os.path.join(_folder(url), NAME)
    try:
        kept = msgspec.json.decode(read_file(path, MAX_BYTES), type=_Kept)
    except NotFoundError:
        return None
    except (InvalidError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"the login in {path} cannot be read: {type(error).__name__}",
            f"log in again: adjourn login {canonical(url)}",
        ) from error
    if kept.url != canonical(url) or (kept.login is not None and kept.login.url != kept.url):
        raise StoreError(
            f"the login in {path} is for another server", f"log in again: adjourn login {canonical(url)}"
        )
    return kept


def _entry(url: str) -> str:
    """The name in the keyring: the same server has another login in another configuration folder."""
    return f"{canonical(url)} {hashlib.sha256(keys.folder().encode()).hexdigest()[:8]}"


def _keyring() -> Any:
    """The keyring of the system; None where there is none that keeps anything."""
    try:
        backend = _package().get_keyring()
        works = backend.priority > 0
    except Exception:  # a backend that cannot even say whether it works
        return None
    return backend if works else None


def _package() -> Any:
    import keyring  # slow to import, and not always there

    return keyring
