"""Access tokens at the gateway: which are taken, from whom, and what the others are answered with."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from adjourn.aex.layers import permits
from adjourn.gateway.authenticator import Authenticator, AuthenticatorResources, Challenge
from adjourn.gateway.settings import AuthSettings, OAuthSettings, PersonSettings
from adjourn.host.clock import now
from adjourn.policy.principal import Principal
from adjourn.store import MemoryStore
from support.token_issuer import RESOURCE, TokenIssuer

STRANGER = rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with TokenIssuer() as serving:
        yield serving


def asked(issuer: TokenIssuer, *tokens: str, path: str = "/up/mcp", **settings: Any) -> list[Principal | Challenge]:
    """What one gateway says to requests that show these tokens, one after the other."""
    oauth = OAuthSettings(issuer=issuer.url, resource=RESOURCE, **settings)

    async def run() -> list[Principal | Challenge]:
        with ThreadPoolExecutor(1) as workers:
            parts = AuthenticatorResources(MemoryStore(), b"\1" * 32, now, workers, print)
            gate = Authenticator(AuthSettings(oauth=oauth), parts)
            scope: dict[str, Any] = {"type": "http", "path": path, "client": ("127.0.0.1", 1)}
            return [
                await gate.authenticate(scope | {"headers": [(b"authorization", f"Bearer {token}".encode())]})
                for token in tokens
            ]

    return asyncio.run(run())


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token_of_the_issuer_names_its_bearer(issuer: TokenIssuer, algorithm: str) -> None:
    """Name and groups are the token's subject and groups; a person is who has the claim for it, and anybody else is a service."""
    person, service = asked(
        issuer,
        issuer.token({"kind": "person"}, algorithm=algorithm),
        issuer.token({"preferred_username": None, "groups": None}, algorithm=algorithm),
        person=PersonSettings(claim="kind", values=("person",)),
    )
    assert person == Principal(id=f"{issuer.url} u1", name="u1", type="human", groups=("ops",), label="ann")
    assert service == Principal(id=f"{issuer.url} u1", name="u1", type="service", label="u1")


def test_of_several_issuers_each_speaks_for_its_own_subjects(issuer: TokenIssuer) -> None:
    """One subject of two issuers is two principals; a token that names an issuer is verified by its keys, audience and scopes alone."""

    async def run(other: TokenIssuer) -> list[Principal | Challenge]:
        person = PersonSettings(claim="kind", values=("person",))
        first = OAuthSettings(issuer=issuer.url, resource=RESOURCE, scopes=("mcp",), person=person)
        second = OAuthSettings(issuer=other.url, resource=RESOURCE, audience=("api",), person=person)
        tokens = (
            issuer.token({"kind": "person"}),
            other.token({"kind": "person", "scope": "", "aud": "api"}),
            issuer.token({"aud": "api"}),
            issuer.token({"scope": ""}),
            other.token({"iss": issuer.url}),
            issuer.token({"iss": "https://elsewhere.example"}),
            "no token",
        )
        with ThreadPoolExecutor(1) as workers:
            parts = AuthenticatorResources(MemoryStore(), b"\1" * 32, now, workers, print)
            gate = Authenticator(AuthSettings(oauth=first, issuers=(second,)), parts)
            metadata = json.loads(gate.metadata("/.well-known/oauth-protected-resource") or b"")
            assert metadata["authorization_servers"] == [issuer.url, other.url]
            scope: dict[str, Any] = {"type": "http", "path": "/up/mcp", "client": ("127.0.0.1", 1)}
            return [
                await gate.authenticate(scope | {"headers": [(b"authorization", f"Bearer {token}".encode())]})
                for token in tokens
            ]

    with TokenIssuer() as other:
        mine, theirs, *refused = asyncio.run(run(other))
        assert mine == Principal(id=f"{issuer.url} u1", name="u1", type="human", groups=("ops",), label="ann")
        assert isinstance(theirs, Principal)
        assert (theirs.id, theirs.type) == (f"{other.url} u1", "human")
        assert theirs.name != "u1"
    assert [challenge.status for challenge in refused if isinstance(challenge, Challenge)] == [401, 403, 401, 401, 401]


def test_a_name_that_another_token_took_over_is_not_its_principals(issuer: TokenIssuer) -> None:
    """Two subjects that call themselves alike are two principals, and none is called so by rules."""
    first, second = asked(issuer, issuer.token(), issuer.token({"sub": "u2"}))
    assert isinstance(first, Principal)
    assert isinstance(second, Principal)
    assert (first.name, second.name) == ("u1", "u2")
    assert first.id != second.id
    assert not permits(["service:ann", "user:ann"], first)


def _unsigned(issuer: TokenIssuer) -> str:
    header, claims, _ = issuer.token().split(".")
    named = json.loads(base64.urlsafe_b64decode(header + "==")) | {"alg": "none"}
    return f"{base64.urlsafe_b64encode(json.dumps(named).encode()).rstrip(b'=').decode()}.{claims}."


def _signed_with_the_public_key(issuer: TokenIssuer) -> str:
    """HS256 with the public key as the secret: what a verifier falls for that lets a token choose."""
    import hmac
    from hashlib import sha256

    public = issuer.keys["rsa"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"rsa","typ":"at+jwt"}').rstrip(b"=").decode()
    text = f"{head}.{issuer.token().split('.')[1]}"
    seal = base64.urlsafe_b64encode(hmac.digest(public, text.encode(), sha256)).rstrip(b"=").decode()
    return f"{text}.{seal}"


def _changed(issuer: TokenIssuer) -> str:
    head, _, seal = issuer.token().split(".")
    claims = json.dumps({"iss": issuer.url, "sub": "root", "aud": RESOURCE, "exp": int(time.time()) + 60})
    return f"{head}.{base64.urlsafe_b64encode(claims.encode()).rstrip(b'=').decode()}.{seal}"


REFUSED: dict[str, Any] = {
    "expired": lambda issuer: issuer.token({"exp": int(time.time()) - 31}),
    "not yet": lambda issuer: issuer.token({"nbf": int(time.time()) + 90}),
    "without an end": lambda issuer: issuer.token({"exp": None}),
    "without a subject": lambda issuer: issuer.token({"sub": None}),
    "an empty subject": lambda issuer: issuer.token({"sub": ""}),
    "another issuer": lambda issuer: issuer.token({"iss": "https://login.example.org"}),
    "another audience": lambda issuer: issuer.token({"aud": "https://other.example.com"}),
    "the audience of another server": lambda issuer: issuer.token({"aud": f"{RESOURCE}/down/mcp"}),
    "no audience": lambda issuer: issuer.token({"aud": None}),
    "another key": lambda issuer: issuer.token(key=STRANGER),
    "an unknown key": lambda issuer: issuer.token(key=STRANGER, kid="mine"),
    "the key of another kind": lambda issuer: issuer.token(kid="ec"),
    "no signature": _unsigned,
    "the public key as a secret": _signed_with_the_public_key,
    "changed claims": _changed,
    "an id token": lambda issuer: issuer.token(typ="id+jwt"),
    "critical extensions": lambda issuer: issuer.token(crit=["b64"]),
    "too many groups": lambda issuer: issuer.token({"groups": [f"g{n}" for n in range(65)]}),
    "too long": lambda issuer: issuer.token({"more": "x" * 20_000}),
    "no token": lambda _: "a.b.c",
}


@pytest.mark.parametrize("which", REFUSED)
def test_any_other_token_is_refused(issuer: TokenIssuer, which: str) -> None:
    """It gets 401 with the error of RFC 6750 and where tokens are made, and says nothing of what exists."""
    (answer,) = asked(issuer, REFUSED[which](issuer))
    assert isinstance(answer, Challenge)
    assert answer.status == 401
    assert 'error="invalid_token"' in answer.header
    assert f'resource_metadata="{RESOURCE}/.well-known/oauth-protected-resource/up/mcp"' in answer.header


def test_a_token_without_the_rights_learns_which(issuer: TokenIssuer) -> None:
    """A scope that is missing is 403 with `insufficient_scope`; with all scopes the token passes."""
    short, whole = asked(issuer, issuer.token(), issuer.token({"scope": "mcp admin"}), scopes=("mcp", "admin"))
    assert isinstance(short, Challenge)
    assert (short.status, 'error="insufficient_scope"' in short.header) == (403, True)
    assert 'scope="mcp admin"' in short.header
    assert isinstance(whole, Principal)


def test_a_token_may_be_for_one_server(issuer: TokenIssuer) -> None:
    """A token whose audience is the address of a server is taken there, and at no other."""
    token = issuer.token({"aud": [f"{RESOURCE}/up/mcp"]})
    assert isinstance(asked(issuer, token)[0], Principal)
    assert isinstance(asked(issuer, token, path="/down/mcp")[0], Challenge)


def test_tokens_of_unknown_keys_do_not_flood_the_issuer(issuer: TokenIssuer) -> None:
    """However many keys that do not exist are named, the issuer is asked once in a while."""
    before = issuer.asked
    answers = asked(issuer, *(issuer.token(key=STRANGER, kid=f"k{number}") for number in range(20)))
    assert all(isinstance(answer, Challenge) for answer in answers)
    assert issuer.asked == before + 1


def test_without_the_issuer_nobody_passes() -> None:
    """Where the keys cannot be read, a request gets 503 rather than a verdict."""
    with TokenIssuer() as gone:
        token = gone.token()
    (answer,) = asked(gone, token)
    assert isinstance(answer, Challenge)
    assert answer.status == 503
