"""Whether a token is a person's. A token says so by what its issuer puts into tokens of people only; any other is a service's.

What each provider puts there, by its documentation:

    keycloak   a session (`sid`) of a user whose name is not that of a service account
    auth0      a subject CONNECTION|ID; the subject of a machine is CLIENT@clients
    okta       the id of a user (`uid`), and a subject that is not the client (`cid`)
    entra      scopes (`scp`), which only people delegate, and an object id (`oid`) that is not the subject

Must never: take a claim that is missing, empty or of another type for a sign of a person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adjourn.gateway.auth.settings import OAuthSettings

CLIENTS = ("azp", "client_id", "clientId", "cid", "appid")
"""The claims that name the client that got the token."""
_OF_MACHINES = (
    "act",  # somebody else acts for the subject (RFC 8693)
    "clientId", "clientHost", "clientAddress",  # service accounts of Keycloak
    "xms_act_fct", "xms_sub_fct", "xms_par_app_azp",  # agents of Entra ID
)  # fmt: skip
"""The claims that only tokens of machines have, or of machines that act for a person."""
_GRANT = "client-credentials"
_SERVICE_ACCOUNT = "service-account-"


def claim_at(claims: Mapping[str, Any], path: str) -> object:
    """The claim of this name; else what the names lead to that dots divide it into. None for nothing."""
    if path in claims:
        return claims[path]
    found: object = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def is_person(claims: Mapping[str, Any], settings: OAuthSettings) -> bool:
    """Whether the settings tell that the bearer of a token with these claims is a person."""
    proofs = []
    if settings.provider:
        proofs.append(_PROOFS[settings.provider](claims))
    if (person := settings.person) is not None:
        proofs.append(any(one in person.values for one in _listed(claim_at(claims, person.claim))))
    return bool(proofs) and all(proofs) and not _is_machine(claims)


def _is_machine(claims: Mapping[str, Any]) -> bool:
    """Whether anything says that no person is behind a token, whatever else does."""
    subject = _text(claims, "sub").casefold()
    grants = [one for name in ("gty", "grant_type") for one in _listed(claims.get(name))]
    return (
        any(name in claims for name in _OF_MACHINES)
        or claims.get("idtyp", "user") != "user"
        or subject.endswith("@clients")
        or subject in [_text(claims, name).casefold() for name in CLIENTS]
        or any(str(grant).strip().casefold().replace("_", "-") == _GRANT for grant in grants)
        or _text(claims, "preferred_username").casefold().startswith(_SERVICE_ACCOUNT)
    )


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value.strip() if isinstance(value, str) else ""


def _client(claims: Mapping[str, Any], *names: str) -> bool:
    """Whether a token says which client got it."""
    return any(_text(claims, name) for name in names)


def _keycloak(claims: Mapping[str, Any]) -> bool:
    return bool(_text(claims, "sid") and _text(claims, "preferred_username")) and _client(claims, "azp")


def _auth0(claims: Mapping[str, Any]) -> bool:
    connection, _, user = _text(claims, "sub").partition("|")
    is_grant = "gty" not in claims or bool(_text(claims, "gty"))
    return bool(connection and user and is_grant) and _client(claims, "azp", "client_id")


def _okta(claims: Mapping[str, Any]) -> bool:
    user = _text(claims, "uid")
    return bool(user) and _client(claims, "cid") and user != _text(claims, "cid")


def _entra(claims: Mapping[str, Any]) -> bool:
    user = _text(claims, "oid")
    is_delegated = bool(_text(claims, "scp")) and _client(claims, "azp", "appid")
    return bool(user) and user != _text(claims, "sub") and is_delegated


_PROOFS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "auth0": _auth0, "entra": _entra, "keycloak": _keycloak, "okta": _okta,
}  # fmt: skip
