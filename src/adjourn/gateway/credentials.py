"""What a server is shown so that it lets a request in: headers from variables of the environment, or a kept login.

Owns: those headers. Must never: give a secret to anything but requests to the server that it is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from adjourn.errors import UsageError
from adjourn.gateway.http_pool import Headers, HttpPool, HttpReply, UnreachableError

CHALLENGE = b"www-authenticate"
_MORE_RIGHTS = b"insufficient_scope"


class Credentials(Protocol):
    """Whatever opens a server."""

    async def headers(self) -> Headers:
        """The headers of a request. Raises `UnreachableError` where none can be had now."""

    async def refused(self, used: Headers, status: int, challenge: bytes) -> str:
        """The server refused these headers: "" if a request may be made again with newer ones, else why not, and what to do.

        Raises `UnreachableError` for a reason with an address.
        """


class FixedCredentials:
    """Headers that do not change. `source` says where they come from, for the error of a server that refuses them."""

    def __init__(self, headers: Headers = (), source: str = "") -> None:
        self._headers = tuple(headers)
        self._source = source

    async def headers(self) -> Headers:
        return self._headers

    async def refused(self, used: Headers, status: int, challenge: bytes) -> str:
        del used, challenge
        wants = f"the server refuses {self._source}" if self._source else "the server wants a login"
        return f"{wants} (HTTP status {status})"


NO_CREDENTIALS = FixedCredentials()


async def ask(
    pool: HttpPool,
    credentials: Credentials,
    method: bytes,
    headers: Headers,
    body: bytes = b"",
    *,
    target: bytes = b"",
) -> HttpReply:
    """Send a request with the credentials, and once more if the server refuses them and there are newer ones; see `HttpPool.request`.

    Raises `UnreachableError`, for a refusal with the reason.
    """
    for _ in range(2):
        shown = await credentials.headers()
        reply = await pool.request(method, [*headers, *shown], body, target)
        challenge = reply.headers.get(CHALLENGE, b"")
        if reply.status != 401 and not (reply.status == 403 and _MORE_RIGHTS in challenge):
            return reply
        reply.close()
        why = await credentials.refused(shown, reply.status, challenge)
        if why:
            break
    raise UnreachableError(why or "the server refuses a token that is new", was_sent=False)


def from_variables(
    bearer: str, headers: Mapping[str, str], environment: Mapping[str, str]
) -> FixedCredentials:
    """The token in the variable `bearer`, and `headers` by the variables that have their values. Raises `UsageError`."""
    wanted = [("Authorization", bearer)] if bearer else []
    wanted += headers.items()
    found = []
    for name, variable in wanted:
        value = environment.get(variable, "")
        if not value.isascii() or not value.isprintable() or not value:
            raise UsageError(
                f"the variable {variable[:80]} has no token"
                if name == "Authorization"
                else f"the variable {variable[:80]} has no value for the header {name}",
                "set it where the client or the gateway is started",
            )
        text = f"Bearer {value}" if variable == bearer and name == "Authorization" else value
        found.append((name.lower().encode(), text.encode()))
    return FixedCredentials(found, " and ".join(f"what {variable} has" for _, variable in wanted))
