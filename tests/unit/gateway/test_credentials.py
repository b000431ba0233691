"""What a server is shown to let a request in."""

from __future__ import annotations

import asyncio

import pytest

from adjourn.errors import UsageError
from adjourn.gateway.http_pool import Headers, HttpPool, from_variables
from adjourn.gateway.links import HttpLink, patience
from support.link_user import LINE, User
from support.loopback import serving

OPEN = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 36\r\n\r\n{"jsonrpc":"2.0","id":1,"result":{}}'
CLOSED = "HTTP/1.1 {} No\r\nwww-authenticate: Bearer {}\r\ncontent-length: 0\r\n\r\n"


class Renewable:
    """Has a new token for each refusal, as long as there are some."""

    def __init__(self, *tokens: bytes) -> None:
        self._tokens = list(tokens)
        self.challenges: list[tuple[int, bytes]] = []

    async def headers(self) -> Headers:
        return ((b"authorization", self._tokens[0]),)

    async def refused(self, used: Headers, status: int, challenge: bytes) -> str:
        assert used == await self.headers()
        self.challenges.append((status, challenge))
        if len(self._tokens) == 1:
            return "log in again"
        del self._tokens[0]
        return ""


def asked(tokens: Renewable, *, opened_by: bytes, status: int, challenge: str) -> tuple[User, list[bytes]]:
    """The outcome of one request to a server that a token opens, and the tokens that it got."""
    user, got = User(), []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(LINE) - 1)
            got.append(head.partition(b"authorization: ")[2].partition(b"\r\n")[0])
            writer.write(OPEN if got[-1] == opened_by else CLOSED.format(status, challenge).encode())
            await writer.drain()

    async def use(url: str) -> None:
        pool = HttpPool(url)
        link = HttpLink(user, pool, patience(5), tokens)
        link.send(LINE)
        await link.answered(5)
        pool.close()

    serving(answer, use)
    return user, got


def test_a_refused_token_is_replaced_once() -> None:
    """After a 401 the request is made again with the newer token, and not a third time."""
    user, got = asked(Renewable(b"old", b"new"), opened_by=b"new", status=401, challenge="")
    assert got == [b"old", b"new"]
    assert len(user.heard) == 1
    user, got = asked(Renewable(b"a", b"b", b"c"), opened_by=b"c", status=401, challenge="")
    assert got == [b"a", b"b"]
    assert user.failed == [("the server refuses a token that was just issued", False)]


def test_a_refusal_without_a_newer_token_is_told() -> None:
    """The error is that of the credentials, and the call is not in doubt."""
    tokens = Renewable(b"old")
    user, got = asked(tokens, opened_by=b"new", status=401, challenge='scope="a b"')
    assert (got, user.failed) == ([b"old"], [("log in again", False)])
    assert tokens.challenges == [(401, b'Bearer scope="a b"')]


@pytest.mark.parametrize(("challenge", "asks"), [('error="insufficient_scope"', 1), ("", 0)])
def test_a_lack_of_rights_is_a_refusal_where_the_server_says_so(challenge: str, asks: int) -> None:
    """403 with `insufficient_scope` is a matter of the credentials; any other 403 is the server's answer."""
    tokens = Renewable(b"old")
    user, _ = asked(tokens, opened_by=b"new", status=403, challenge=challenge)
    assert len(tokens.challenges) == asks
    assert len(user.failed) == 1


def test_all_challenges_of_a_server_count() -> None:
    """A lack of rights is seen in whichever header of several it stands."""
    tokens = Renewable(b"old")
    challenge = 'error="insufficient_scope", scope="a"\r\nwww-authenticate: DPoP algs="ES256"'
    asked(tokens, opened_by=b"new", status=403, challenge=challenge)
    assert tokens.challenges == [(403, b'Bearer error="insufficient_scope", scope="a", DPoP algs="ES256"')]


def test_variables_become_headers() -> None:
    """A token, and headers by name; their refusal names the variables, never the values."""
    found = from_variables("T", {"X-Key": "K"}, {"T": "secret", "K": "other"})
    headers = asyncio.run(found.headers())
    assert headers == ((b"authorization", b"Bearer secret"), (b"x-key", b"other"))
    assert asyncio.run(found.refused(headers, 401, b"")) == (
        "the server refuses what T has and what K has (HTTP status 401)"
    )


@pytest.mark.parametrize("value", ["", "a\nb", "ü"])
def test_a_variable_without_a_value_is_named(value: str) -> None:
    """One that is not set, or has what no header may have."""
    with pytest.raises(UsageError, match="K has no value for the header X-Key"):
        from_variables("", {"X-Key": "K"}, {"K": value})
