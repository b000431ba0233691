"""A kept login as the credentials of a server: read when it is needed, renewed before it expires and when the server refuses it.

The renewal runs in a process of its own. It needs the SDK, which is slow to load, and it must not be killed with a client: the authorization
server gives each refresh token once.

Owns: the header made of it, and the words of a refusal. Must never: log in.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import time

from adjourn.errors import AdjournError
from adjourn.gateway import login as logins
from adjourn.gateway.credentials import NO_CREDENTIALS, Credentials, FixedCredentials, from_variables
from adjourn.gateway.http_pool import Headers, UnreachableError
from adjourn.gateway.settings import ServerSettings
from adjourn.host import OF_CODE, common, outside, python

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


def credentials_of(server: ServerSettings) -> Credentials:
    """What opens a server of the gateway. Raises `UsageError` for a variable without a value."""
    fixed = from_variables(server.bearer_env, server.headers_env, os.environ)
    return KeptLogin(server.url, fixed) if server.login else fixed


class KeptLogin:
    """The login of this user at the server of `url`; `further` headers go with its own."""

    def __init__(self, url: str, further: FixedCredentials = NO_CREDENTIALS) -> None:
        self._further = further
        self._url = logins.canonical(url)
        self._login: logins.Login | None = None
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

    async def _renew_early(self, login: logins.Login) -> None:
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

    def _lacks(self, login: logins.Login, challenge: str) -> str:
        found = _SCOPE.search(challenge)
        wanted = dict.fromkeys([*login.scope.split(), *(found[1].split() if found else ())])
        rights = f" ({found[1]})" if found else ""
        return f"the login at {self._url} has not the rights for this{rights}; run: {self._command(' '.join(wanted))}"

    def _command(self, scope: str = "") -> str:
        words = ["adjourn", "login", *(["--scope", scope] if scope else []), self._url]
        return shlex.join(words)

    async def _look(self) -> None:
        """Read what is kept."""
        try:
            login = await asyncio.to_thread(logins.read, self._url)
        except AdjournError as error:
            raise _wanting(str(error)) from error
        if not self._headers or _mark(login) != _mark(self._login):
            token = f"Bearer {login.access}".encode("latin-1", "replace") if login is not None else b""
            own = [(b"authorization", token)] if token else []
            self._headers = (*own, *await self._further.headers())
        self._login = login
        self._until = float("inf")
        if login is not None and login.expires and login.refresh:
            left = login.expires - time.time()
            self._until = login.expires - min(MARGIN, left / 2) if left > 1 else 0.0

    async def _renew(self, login: logins.Login) -> str:
        """Have the token renewed; returns why not, "" after a success."""
        mark, at, why = self._failed
        if mark == login.mark and time.monotonic() < at + RETRY_SECONDS:
            return why
        words = python.command("-m", "adjourn", "connect", "--renew", login.mark, "--", self._url)
        given = {name: os.environ[name] for name in (*OF_CODE, *_OF_LOGINS) if name in os.environ}
        variables = outside(common(os.environ) | given, os.getcwd())
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env=variables,
            )
            said, _ = await asyncio.wait_for(process.communicate(), RENEWAL_SECONDS)
            ended_well = process.returncode == 0
            why = "" if ended_well else said.decode(errors="replace").strip()[:500] or "the renewal failed"
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
    return UnreachableError(why, was_sent=False, public="the server wants a login that the gateway has not")


def _mark(login: logins.Login | None) -> str:
    return login.mark if login is not None else ""
