"""Introspection of opaque tokens, and tokens for servers in exchange for those of clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from adjourn.aex.policy import Policy
from adjourn.errors import InvalidError, UsageError
from adjourn.gateway import token_requests
from adjourn.gateway.authenticator import Authenticator, AuthenticatorResources, Challenge
from adjourn.gateway.http_pool import FixedCredentials, Headers, UnreachableError
from adjourn.gateway.preflight import check_servers
from adjourn.gateway.settings import (
    AuthSettings,
    ExchangeSettings,
    IntrospectionSettings,
    OAuthSettings,
    PersonSettings,
    settings_of,
)
from adjourn.gateway.token_requests import ClientTokens, ExchangedToken, TokenExchange
from adjourn.policy.principal import Principal
from adjourn.store import MemoryStore
from support.token_issuer import RESOURCE, TokenIssuer

ANN = Principal(id="issuer u1", name="u1", type="human")
BOB = Principal(id="issuer u2", name="u2", type="human")
ENVIRONMENT = {"GATEWAY_SECRET": "of-gateway"}


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenIssuer]:
    monkeypatch.setenv("GATEWAY_SECRET", "of-gateway")
    with TokenIssuer() as serving:
        yield serving


class Gate:
    """A gateway that takes opaque tokens of one issuer. `now` is in milliseconds."""

    def __init__(self, issuer: TokenIssuer, further: tuple[OAuthSettings, ...] = ()) -> None:
        self.now = int(time.time() * 1000)
        self.shown: list[tuple[str, str]] = []
        asked = IntrospectionSettings(url=f"{issuer.url}/introspect", client="gateway", secret_env="GATEWAY_SECRET")
        person = PersonSettings(claim="kind", values=("person",))
        oauth = OAuthSettings(issuer=issuer.url, resource=RESOURCE, introspection=asked, person=person, scopes=("mcp",))
        self._settings = AuthSettings(oauth=oauth, issuers=further)

    def ask(self, *tokens: str) -> list[Principal | Challenge]:
        async def run() -> list[Principal | Challenge]:
            with ThreadPoolExecutor(1) as workers:
                parts = AuthenticatorResources(MemoryStore(), b"\1" * 32, lambda: self.now, workers, print, self._hear)
                gate = Authenticator(self._settings, parts)
                answers = []
                for token in tokens:
                    if token.startswith("+"):
                        self.now += int(token) * 1000
                        continue
                    headers = [(b"authorization", f"Bearer {token}".encode())]
                    answers.append(await gate.authenticate({"path": "/up/mcp", "headers": headers}))
                return answers

        return asyncio.run(run())

    def _hear(self, principal: Principal, token: str) -> None:
        self.shown.append((principal.name, token))


def active(issuer: TokenIssuer, **claims: Any) -> dict[str, Any]:
    said = {
        "active": True, "sub": "u1", "aud": RESOURCE, "scope": "mcp", "iss": issuer.url, "exp": time.time() + 3600,
        "token_type": "Bearer", "client_id": "app", "kind": "person",
    }  # fmt: skip
    return {name: value for name, value in (said | claims).items() if value is not None}


def test_the_issuer_says_whose_an_opaque_token_is(issuer: TokenIssuer) -> None:
    """It names the bearer as a JSON Web Token does, which stays verified by its signature alone."""
    issuer.opaque["opaque"] = active(issuer)
    gate = Gate(issuer)
    ann, same = gate.ask("opaque", issuer.token({"kind": "person"}))
    assert ann == Principal(id=f"{issuer.url} u1", name="u1", type="human", label="u1")
    assert isinstance(same, Principal)
    assert same.id == ann.id
    assert issuer.posted == [("/introspect", {"token": "opaque", "token_type_hint": "access_token"})]
    assert [name for name, _ in gate.shown] == ["u1", "u1"]


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"active": False}, 401),
        ({"active": "true"}, 401),
        ({"sub": None}, 401),
        ({"aud": None}, 401),
        ({"aud": "https://elsewhere.example"}, 401),
        ({"iss": "https://elsewhere.example"}, 401),
        ({"exp": 1}, 401),
        ({"exp": "soon"}, 401),
        ({"nbf": 4e9}, 401),
        ({"token_type": "mac"}, 401),
        ({"scope": "other"}, 403),
    ],
)
def test_anything_but_a_clear_yes_lets_nobody_in(issuer: TokenIssuer, claims: dict[str, Any], status: int) -> None:
    """A token that is not active, of no subject, for another resource, of another time, kind or issuer, or without the rights is refused."""
    issuer.opaque["opaque"] = active(issuer, **claims)
    (answer,) = Gate(issuer).ask("opaque")
    assert isinstance(answer, Challenge)
    assert answer.status == status


@pytest.mark.parametrize("answer", [(500, {}), (200, []), (403, {"active": True})])
def test_while_the_issuer_does_not_tell_nobody_is_known(issuer: TokenIssuer, answer: tuple[int, Any]) -> None:
    """An error or an answer that cannot be read is 503, and lets nobody in."""
    issuer.answers["/introspect"] = lambda _form: answer
    (refused,) = Gate(issuer).ask("opaque")
    assert isinstance(refused, Challenge)
    assert refused.status == 503


def test_an_answer_holds_for_its_seconds_and_no_longer_than_the_token(issuer: TokenIssuer) -> None:
    """A token that was revoked is refused after the seconds of the settings; the issuer is not asked before."""
    issuer.opaque["long"], issuer.opaque["short"] = active(issuer), active(issuer, exp=time.time() + 5)
    gate = Gate(issuer)
    answers = gate.ask("long", "long", "short", "+40", "long", "short")
    assert [isinstance(answer, Principal) for answer in answers] == [True, True, True, True, False]
    assert [form["token"] for _, form in issuer.posted] == ["long", "short", "short"]
    issuer.posted.clear()
    gate.ask("long", "+61", "long")
    assert len(issuer.posted) == 2


def test_a_web_token_of_another_issuer_is_not_shown_to_it(issuer: TokenIssuer) -> None:
    """Only what names no issuer is asked about; a token of nobody's stays with the gateway."""
    issuer.opaque["opaque"] = active(issuer)
    with TokenIssuer() as other:
        further = OAuthSettings(issuer=other.url, resource=RESOURCE)
        mine, theirs, nobody = Gate(issuer, (further,)).ask("opaque", other.token(), issuer.token({"iss": "https://x"}))
    assert isinstance(mine, Principal)
    assert isinstance(theirs, Principal)
    assert isinstance(nobody, Challenge)
    assert [form["token"] for _, form in issuer.posted] == ["opaque"]


# --- exchange


class Exchanging:
    """A server that gets exchanged tokens, and two people who have shown theirs."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer
        settings = ExchangeSettings(
            url=f"{issuer.url}/token",
            client="gateway",
            secret_env="GATEWAY_SECRET",
            audience="tracker",
            scopes=("a", "b"),
        )
        tokens = ClientTokens()
        self.exchange = TokenExchange(settings, tokens, FixedCredentials([(b"x-team", b"ops")]), ENVIRONMENT)
        for principal in (ANN, BOB):
            tokens.keep(principal, issuer.token({"sub": principal.name}))

    def run(self, work: Callable[[], Any]) -> Any:
        return asyncio.run(work())

    def of(self, principal: Principal | None) -> ExchangedToken:
        return ExchangedToken(self.exchange, principal)


@pytest.fixture
def exchanging(issuer: TokenIssuer) -> Exchanging:
    return Exchanging(issuer)


def test_each_person_reaches_the_server_with_a_token_of_their_own(exchanging: Exchanging) -> None:
    """A client's token is exchanged once for all sessions and requests, and is never what the server gets."""

    async def work() -> list[Headers]:
        return await asyncio.gather(*(exchanging.of(who).headers() for who in (ANN, BOB, ANN, ANN)))

    ann, bob, *again = exchanging.run(work)
    assert dict(ann) == {b"authorization": b"Bearer u1-at-tracker", b"x-team": b"ops"}
    assert dict(bob)[b"authorization"] == b"Bearer u2-at-tracker"
    assert again == [ann, ann]
    assert [form["audience"] for _, form in exchanging.issuer.posted] == ["tracker", "tracker"]
    _, form = exchanging.issuer.posted[0]
    assert (form["subject_token_type"], form["scope"]) == (token_requests.ACCESS_TOKEN, "a b")


def test_who_has_shown_no_token_reaches_nothing(exchanging: Exchanging) -> None:
    """Neither a client with a key, nor one that nobody knows, gets another's token."""
    stranger = Principal(id="key:1", name="ci", type="service")
    for principal in (stranger, None):
        with pytest.raises(UnreachableError, match="a token of your own"):
            exchanging.run(exchanging.of(principal).headers)
    assert exchanging.issuer.posted == []


@pytest.mark.parametrize(
    "answer",
    [
        (400, {"error": "invalid_grant"}),
        (503, {}),
        (200, []),
        (200, {"access_token": "t", "token_type": "N_A"}),
        (200, {"access_token": "t\nx-other: 1", "token_type": "Bearer"}),
        (200, {"access_token": "", "token_type": "Bearer"}),
        (
            200,
            {"access_token": "t", "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:jwt"},
        ),
    ],
)
def test_without_an_exchanged_token_nothing_is_sent(exchanging: Exchanging, answer: tuple[int, Any]) -> None:
    """A refusal, and an answer without a bearer token, is an error of the call; it is kept for seconds, and shows no token or address."""
    exchanging.issuer.answers["/token"] = lambda _form: answer

    async def work() -> None:
        for _ in range(3):
            with pytest.raises(UnreachableError) as refused:
                await exchanging.of(ANN).headers()
            assert not refused.value.was_sent
            assert "authorization server" in refused.value.public
            assert "127.0.0.1" not in refused.value.public

    exchanging.run(work)
    assert len(exchanging.issuer.posted) == 1


def test_a_token_that_the_server_refuses_is_exchanged_again_once(
    exchanging: Exchanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was made a moment ago is not; one without rights neither."""

    async def work() -> tuple[str, str, str]:
        credentials = exchanging.of(ANN)
        headers = await credentials.headers()
        fresh = await credentials.refused(headers, 401, b"")
        rights = await credentials.refused(headers, 403, b"")
        monkeypatch.setattr(token_requests, "RETRY_SECONDS", 0.0)
        again = await credentials.refused(headers, 401, b"")
        await credentials.headers()
        return fresh, rights, again

    fresh, rights, again = exchanging.run(work)
    assert "refuses the token" in fresh
    assert "lacks the rights" in rights
    assert again == ""
    assert len(exchanging.issuer.posted) == 2


@pytest.mark.parametrize(
    ("seconds", "used"), [(300, 270.0), (20, 10.0), (None, 60.0), ("x", 60.0), (-1, 60.0), (1e9, 3600.0)]
)
def test_an_exchanged_token_is_renewed_before_its_end(seconds: object, used: float) -> None:
    """It is used until 30 seconds before that, for half of a short life, and for an hour at the most."""
    assert token_requests._lifetime(seconds) == used


def test_a_variable_without_a_secret_is_named(issuer: TokenIssuer) -> None:
    """The gateway does not start without it."""
    settings = ExchangeSettings(url=f"{issuer.url}/token", client="gateway", secret_env="GATEWAY_SECRET")
    with pytest.raises(UsageError, match="GATEWAY_SECRET"):
        TokenExchange(settings, ClientTokens(), FixedCredentials(), {})


SERVER = """
[servers.tracker]
url = "{url}"
{more}
[servers.tracker.exchange]
url = "{token}"
client = "gateway"
secret_env = "{secret}"
{auth}
"""
USUAL = {
    "url": "https://tracker.example/mcp",
    "more": "",
    "token": "https://login.example/token",
    "secret": "GATEWAY_SECRET",
    "auth": '[auth.oauth]\nissuer = "https://login.example"\nresource = "https://gateway.example"',
}
ASKED = 'introspection = {url = "https://a.example/i", client = "gateway", secret_env = "S"}\n'
ISSUER = '[[auth.issuers]]\nissuer = "https://other.example"\nresource = "https://gateway.example"\n'


def test_a_check_does_not_try_a_server_that_wants_a_person() -> None:
    """It says so, and that is no failure."""
    settings = settings_of(SERVER.format(**USUAL).encode(), "adjourn.toml")
    (check,) = check_servers(settings, Policy(), "")
    assert str(check) == "tracker: not tried, because it gets a token of each person"
    assert check.is_usable


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"auth": ""}, "auth.oauth"),
        ({"url": "http://tracker.example/mcp"}, "not protected by TLS"),
        ({"token": "http://login.example/token"}, "not protected by TLS"),
        ({"secret": "not a name"}, "no client or no variable"),
        ({"more": "login = true"}, "beside"),
        ({"more": 'bearer_env = "TOKEN"'}, "beside"),
        ({"auth": f"{USUAL['auth']}\n{ASKED}{ISSUER}{ASKED}"}, "several issuers have introspection"),
        ({"auth": f"{USUAL['auth']}\n{ASKED.replace('https', 'http')}"}, "introspection.url"),
    ],
)
def test_settings_that_would_show_a_token_are_refused(changed: dict[str, str], what: str) -> None:
    """No token leaves unencrypted, and none is shown to an issuer that may not be its own."""
    settings_of(SERVER.format(**USUAL).encode(), "adjourn.toml")
    with pytest.raises(InvalidError, match=what):
        settings_of(SERVER.format(**(USUAL | changed)).encode(), "adjourn.toml")
