"""Logins at servers, kept for their user in the keyring or a file, and used as the credentials of requests.

    ADJOURN_CONFIG/keys/logins/DIGEST/login.json    mode 0600; DIGEST is that of the server's URL

The file has the login itself, or says that it is in the keyring. It is beside the keys, where no agent may read.

Owns: these files and entries of the keyring. Must never: show a token, or give it to anything but requests to its server and issuer.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from adjourn.errors import AdjournError, InvalidError, NotFoundError, StoreError, UsageError
from adjourn.host import executables, keys
from adjourn.host.executables import OF_CODE, common, outside
from adjourn.host.workspace import locked, read_file, remove_file, write_file

if TYPE_CHECKING:
    from adjourn.gateway.http_pool import Credentials, Headers, UnreachableError

NAME = "login.json"
SERVICE = "adjourn serve login"
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
        raise UsageError(f"{url[:80]!r} is not an http or https address: {error}", "write https://HOST/PATH") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise UsageError(f"{url[:80]!r} is not an http or https address", "write http://HOST/PATH or https://HOST/PATH")
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
        raise StoreError(f"cannot make {folder}: {error.strerror}", "make its parent folder writable") from error
    with locked(folder, LOCK_SECONDS):
        yield


def read(url: str) -> Login | None:
    """The login at a server, if there is one. Raises `StoreError` for one that cannot be read."""
    file = _file(url)
    if file is None or not file.in_keyring:
        return file.login if file is not None else None
    again = f"unlock the keyring, or log in again: adjourn serve login {canonical(url)}"
    try:
        text = _package().get_password(SERVICE, _entry(url))
        login = msgspec.json.decode(text, type=Login) if text else None
    except Exception as error:  # each backend raises its own
        raise StoreError(
            f"the login at {canonical(url)} is in the keyring, which cannot be read: {type(error).__name__}", again
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
    file = _Kept(login.url, None, in_keyring=True) if backend is not None else _Kept(login.url, login)
    write_file(folder, NAME, msgspec.json.encode(file), 0o600)
    return "keyring" if backend is not None else os.path.join(folder, NAME)


def forget(url: str) -> bool:
    """Delete the login at a server; False where there was none. Raises `StoreError`."""
    file = _file(url)
    if file is None:
        return False
    if file.in_keyring and (backend := _keyring()) is not None:
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
    folder, urls = os.path.join(keys.folder(), "logins"), []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            urls.append(msgspec.json.decode(read_file(os.path.join(folder, name, NAME), MAX_BYTES), type=_Kept).url)
        except (InvalidError, NotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            continue  # no login, or none that can be used
    return sorted(urls)


def exists(url: str) -> bool:
    """Whether a login at a server is kept."""
    return os.path.exists(os.path.join(_folder(url), NAME))


def _file(url: str) -> _Kept | None:
    path = os.path.join(_folder(url), NAME)
    try:
        file = msgspec.json.decode(read_file(path, MAX_BYTES), type=_Kept)
    except NotFoundError:
        return None
    except (InvalidError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"the login in {path} cannot be read: {type(error).__name__}",
            f"log in again: adjourn serve login {canonical(url)}",
        ) from error
    if file.url != canonical(url) or (file.login is not None and file.login.url != file.url):
        raise StoreError(
            f"the login in {path} is for another server", f"log in again: adjourn serve login {canonical(url)}"
        )
    return file


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


# --- a kept login as the credentials of a server

MARGIN = 30.0
"""Seconds before its end at which a token is renewed."""
RENEWAL_SECONDS = 120.0
RETRY_SECONDS = 5.0
FRESH_SECONDS = 5.0
"""A token that is refused so soon after its renewal is not renewed again: the server wants another one."""
_OF_LOGINS = (
    "ADJOURN_CONFIG", "DBUS_SESSION_BUS_ADDRESS", "PYTHON_KEYRING_BACKEND",
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "all_proxy", "https_proxy", "http_proxy", "no_proxy",
)  # fmt: skip
"""Variables that a renewal needs beside the common ones: it gets no other secrets of this process."""
_SCOPE = re.compile(r"""\bscope="([\x21\x23-\x5b\x5d-\x7e ]{1,500})\"""")


class KeptLogin:
    """The login of this user at the server of `url`; `further` headers go with its own."""

    def __init__(self, url: str, further: Credentials | None = None) -> None:
        self._further = further
        self._url = canonical(url)
        self._login: Login | None = None
        self._headers: Headers = ()
        self._until = 0.0
        """When the login is looked at again (`time.time`)."""
        self._lock = asyncio.Lock()
        self._failed = ("", 0.0, "")
        """The last renewal that failed: of which token, when, why."""
        self._renewed = ("", 0.0)
        """The token of the last renewal, and when it was."""

    async def headers(self) -> Headers:
        if time.time() < self._until:
            return self._headers
        async with self._lock:
            if time.time() >= self._until:
                await self._look()
                if self._login is not None and time.time() >= self._until:
                    await self._renew_early(self._login)
            return self._headers

    async def _renew_early(self, login: Login) -> None:
        """Renew a token that ends soon. While it has not ended, a failure is no matter; then it is the reason for the next one."""
        why = await self._renew(login)
        if why and time.time() < login.expires:
            self._until = time.time() + RETRY_SECONDS
        elif why:
            raise _wanting(why)

    async def refused(self, used: Headers, status: int, challenge: bytes) -> str:
        async with self._lock:
            if used is not self._headers:
                return ""
            before = self._login
            await self._look()
            if self._login is None:
                raise _wanting(f"{self._url} needs a login; run: {self._command()}")
            if _mark(before) != self._login.mark:
                return ""
            if status == 403:
                raise _wanting(self._lacks(self._login, challenge.decode("latin-1")))
            if not self._login.refresh:
                raise _wanting(f"the login at {self._url} has ended; run: {self._command()}")
            mark, at = self._renewed
            if mark == self._login.mark and time.monotonic() < at + FRESH_SECONDS:
                raise _wanting(
                    f"the server refuses a token that it was just given for {self._url}; run: {self._command()}"
                )
            if why := await self._renew(self._login):
                raise _wanting(why)
            return ""

    def _lacks(self, login: Login, challenge: str) -> str:
        match = _SCOPE.search(challenge)
        wanted = dict.fromkeys([*login.scope.split(), *(match[1].split() if match else ())])
        rights = f" ({match[1]})" if match else ""
        return f"the login at {self._url} lacks the rights for this{rights}; run: {self._command(' '.join(wanted))}"

    def _command(self, scope: str = "") -> str:
        words = ["adjourn", "serve", "login", *(["--scope", scope] if scope else []), self._url]
        return shlex.join(words)

    async def _look(self) -> None:
        """Read what is kept."""
        try:
            login = await asyncio.to_thread(read, self._url)
        except AdjournError as error:
            raise _wanting(str(error)) from error
        if not self._headers or _mark(login) != _mark(self._login):
            token = f"Bearer {login.access}".encode("latin-1", "replace") if login is not None else b""
            own = [(b"authorization", token)] if token else []
            further = await self._further.headers() if self._further is not None else ()
            self._headers = (*own, *further)
        self._login = login
        self._until = float("inf")
        if login is not None and login.expires and login.refresh:
            left = login.expires - time.time()
            self._until = login.expires - min(MARGIN, left / 2) if left > 1 else 0.0

    async def _renew(self, login: Login) -> str:
        """Have the token renewed; returns why not, "" after a success."""
        mark, at, why = self._failed
        if mark == login.mark and time.monotonic() < at + RETRY_SECONDS:
            return why
        words = executables.python_command("-m", "adjourn", "connect", "--renew", login.mark, "--", self._url)
        needed = {name: os.environ[name] for name in (*OF_CODE, *_OF_LOGINS) if name in os.environ}
        variables = outside(common(os.environ) | needed, os.getcwd())
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env=variables,
            )
            output, _ = await asyncio.wait_for(process.communicate(), RENEWAL_SECONDS)
            ended_well = process.returncode == 0
            why = "" if ended_well else output.decode(errors="replace").strip()[:500] or "the renewal failed"
        except (OSError, TimeoutError) as error:
            why = str(error) or "no answer in time"
        if why:
            self._failed = (login.mark, time.monotonic(), why)
            return why
        await self._look()
        self._renewed = (_mark(self._login), time.monotonic())
        return ""


def _wanting(why: str) -> UnreachableError:
    """What is wrong with a login: its server's address and the command for the operator are no client's."""
    from adjourn.gateway.http_pool import UnreachableError  # the list of logins needs no HTTP

    return UnreachableError(why, was_sent=False, public="the server needs a login, and the gateway has none")


def _mark(login: Login | None) -> str:
    return login.mark if login is not None else ""
