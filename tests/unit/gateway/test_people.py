"""Which tokens are people's, by the shapes that providers document: every other one is a service's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.gateway.settings import OAuthSettings, PersonSettings
from adjourn.gateway.tokens import bearer_of, is_person

CLIENT = "5b1f0a52-6d1b-4c54-9f0e-2f3c8e5a7d11"
USER = "8d0f3a86-7c3f-4a0f-9f0c-3e3a5b7c9d01"

PEOPLE: dict[str, tuple[str, dict[str, Any]]] = {
    "keycloak": (
        "keycloak",
        {
            "jti": "onrtac:1", "sub": USER, "typ": "Bearer", "azp": "mcp-client", "acr": "1",
            "sid": "c1f8a2f0-6a3d-4f52-8ea7-90b8f1c4a0de", "allowed-origins": ["/*"],
            "realm_access": {"roles": ["offline_access", "uma_authorization"]}, "scope": "profile email",
            "email_verified": True, "name": "Ann Example", "preferred_username": "ann", "given_name": "Ann",
        },
    ),
    "auth0": (
        "auth0",
        {
            "sub": "auth0|6553da60a54af58e29493993", "azp": "K1AUPhZq8mRi0Q0pjhkfu1D7y6KjDQja",
            "scope": "openid profile mcp", "permissions": ["mcp"],
        },
    ),
    "auth0 by password": (
        "auth0",
        {
            "sub": "auth0|6553da60a54af58e29493993", "azp": "K1AUPhZq8mRi0Q0pjhkfu1D7y6KjDQja",
            "scope": "mcp", "gty": "password",
        },
    ),
    "auth0 by RFC 9068": (
        "auth0",
        {
            "sub": "google-oauth2|109876543210987654321", "client_id": "K1AUPhZq8mRi0Q0pjhkfu1D7y6KjDQja",
            "jti": "73WakrfVbNJBaAmhQtEeDv", "scope": "openid mcp",
        },
    ),
    "okta": (
        "okta",
        {
            "ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "cid": "0oab8eb55Kb9jdMIr5d6",
            "uid": "00u5t60iloOHN9pBi0h7", "scp": ["openid", "mcp"], "sub": "ann@example.com",
            "auth_time": 1700000000,
        },
    ),
    "entra v2": (
        "entra",
        {
            "aio": "AYQAe/8", "azp": CLIENT, "azpacr": "0", "name": "Ann Example", "oid": USER,
            "preferred_username": "ann@example.com", "rh": "0.AX", "scp": "mcp",
            "sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "tid": "72f988bf-86f1", "uti": "x",
            "ver": "2.0",
        },
    ),
    "entra v1": (
        "entra",
        {
            "acr": "1", "amr": ["pwd"], "appid": CLIENT, "appidacr": "0", "family_name": "Example",
            "idtyp": "user", "oid": USER, "scp": "mcp", "sub": "l3_roISQU222bULS9yi2k0XpqpOiMz5H3ZACo1GeXA",
            "tid": "fa15d692", "unique_name": "ann@example.com", "upn": "ann@example.com", "ver": "1.0",
        },
    ),
}  # fmt: skip

MACHINES: dict[str, tuple[str, dict[str, Any]]] = {
    "keycloak": (
        "keycloak",
        {
            "jti": "trrtcc:1", "sub": USER, "typ": "Bearer", "azp": "ci", "acr": "1",
            "realm_access": {"roles": ["offline_access", "uma_authorization"]}, "scope": "profile email",
            "clientHost": "10.0.0.9", "email_verified": False, "preferred_username": "service-account-ci",
            "clientAddress": "10.0.0.9", "client_id": "ci",
        },
    ),
    "keycloak with refresh tokens": (
        "keycloak",
        {
            "sub": USER, "typ": "Bearer", "azp": "ci", "session_state": "c1f8a2f0", "sid": "c1f8a2f0",
            "clientId": "ci", "clientHost": "10.0.0.9", "clientAddress": "10.0.0.9",
            "preferred_username": "service-account-ci",
        },
    ),
    "auth0": (
        "auth0",
        {
            "sub": "awZfdIir8YFdGZWkvCejDoUb7SjTDicx@clients", "azp": "awZfdIir8YFdGZWkvCejDoUb7SjTDicx",
            "scope": "mcp", "gty": "client-credentials",
        },
    ),
    "auth0 by RFC 9068": (
        "auth0",
        {
            "sub": "awZfdIir8YFdGZWkvCejDoUb7SjTDicx@clients", "client_id": "awZfdIir8YFdGZWkvCejDoUb7SjTDicx",
            "jti": "x", "scope": "mcp",
        },
    ),
    "okta": (
        "okta",
        {
            "ver": 1, "jti": "AT.x", "cid": "0oab8eb55Kb9jdMIr5d6", "scp": ["mcp"],
            "sub": "0oab8eb55Kb9jdMIr5d6",
        },
    ),
    "entra v2": (
        "entra",
        {
            "aio": "E2", "azp": CLIENT, "azpacr": "1", "idtyp": "app", "oid": USER, "rh": "0.AX",
            "roles": ["mcp"], "sub": USER, "tid": "72f988bf", "uti": "x", "ver": "2.0",
        },
    ),
    "entra v1": (
        "entra",
        {
            "appid": CLIENT, "appidacr": "1", "idp": "https://sts.windows.net/fa15d692/", "oid": USER,
            "roles": ["mcp"], "sub": USER, "tid": "fa15d692", "uti": "x", "ver": "1.0",
        },
    ),
    "an agent of entra, for itself": (
        "entra",
        {
            "appid": CLIENT, "appidacr": "2", "idtyp": "app", "oid": USER, "sub": "bbbbbbbb-1111-2222-3333",
            "tid": "fa15d692", "ver": "1.0", "xms_act_fct": "3 9 11", "xms_sub_fct": "9 3 11",
            "xms_par_app_azp": "30cf4c22-9985",
        },
    ),
    "an agent of entra, for a person": (
        "entra",
        {
            "azp": CLIENT, "azpacr": "2", "idtyp": "user", "oid": USER, "scp": "mcp", "sub": "AAAA", "ver": "2.0",
            "xms_act_fct": "11 3 9",
        },
    ),
}  # fmt: skip

SIGNS: dict[str, dict[str, Any]] = {
    "somebody acts for the subject": {"act": {"sub": "agent"}},
    "an empty actor": {"act": {}},
    "the client is the subject": {"azp": "u1"},
    "in another case": {"client_id": "U1"},
    "a client of Okta": {"cid": "u1"},
    "a client of Entra ID": {"appid": "u1"},
    "a grant without a person": {"gty": "client-credentials"},
    "a list of grants": {"gty": ["Client-Credentials"]},
    "a grant by its name in OAuth": {"grant_type": "client_credentials"},
    "an app": {"idtyp": "app"},
    "an odd kind": {"idtyp": ["user"]},
    "no kind": {"idtyp": None},
    "a service account": {"preferred_username": "Service-Account-ci"},
    "the address of a client": {"clientHost": ""},
}

ODD: list[Any] = ["", " ", None, [], {}, 0, 1, True, False, ["x"], {"x": "y"}, 1.5]


def settings_of(**more: Any) -> OAuthSettings:
    return OAuthSettings(issuer="https://login.example.com", resource="https://gw.example.com", **more)


@pytest.mark.parametrize("which", PEOPLE)
def test_a_person_of_each_provider_is_one(which: str) -> None:
    """By the preset; without it, the same token is a service's."""
    provider, claims = PEOPLE[which]
    assert is_person(claims, settings_of(provider=provider))
    assert not is_person(claims, settings_of())


@pytest.mark.parametrize("which", MACHINES)
def test_a_machine_of_each_provider_is_a_service(which: str) -> None:
    """Also where any one of its claims, or two, are missing."""
    provider, claims = MACHINES[which]
    settings = settings_of(provider=provider)
    for one in (None, *claims):
        for other in (None, *claims):
            fewer = {name: value for name, value in claims.items() if name not in (one, other)}
            if not fewer.keys() & {"xms_act_fct"} and "xms_act_fct" in claims and "scp" in claims:
                continue  # without the sign of an agent it is the token of a person
            assert not is_person(fewer, settings), (one, other)


@pytest.mark.parametrize("other", ["auth0", "entra", "keycloak", "okta"])
@pytest.mark.parametrize("which", MACHINES)
def test_a_machine_is_a_service_by_every_preset(which: str, other: Any) -> None:
    """A preset that is not the issuer's makes no person of a machine."""
    assert not is_person(MACHINES[which][1], settings_of(provider=other))


NEEDED = {
    "keycloak": ["sid", "preferred_username", "azp"],
    "auth0": ["sub", "azp"],
    "auth0 by RFC 9068": ["sub", "client_id"],
    "okta": ["uid", "cid"],
    "entra v2": ["oid", "scp", "azp"],
    "entra v1": ["oid", "scp", "appid"],
}


@pytest.mark.parametrize("which", NEEDED)
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_claim_that_is_missing_or_odd_makes_a_service(which: str, odd: Any) -> None:
    """Each claim that proves a person has to be a text with something in it."""
    provider, claims = PEOPLE[which]
    settings = settings_of(provider=provider)
    for name in NEEDED[which]:
        assert not is_person({key: value for key, value in claims.items() if key != name}, settings)
        assert not is_person(claims | {name: odd}, settings), name


PERSON = PersonSettings(claim="realm_access.roles", values=("person",))


@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_of_a_machine_counts_for_more_than_any_proof(sign: str) -> None:
    """Whatever a claim says, a token that no person got, or that another one uses for a person, is a service's."""
    claims = {"sub": "u1", "realm_access": {"roles": ["person"]}}
    assert is_person(claims, settings_of(person=PERSON))
    assert not is_person(claims | SIGNS[sign], settings_of(person=PERSON))


@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        ("kind", {"kind": "person"}),
        ("kind", {"kind": ["robot", "person"]}),
        ("realm_access.roles", {"realm_access": {"roles": ["person"]}}),
        ("https://example.com/kind", {"https://example.com/kind": "person"}),
        ("a.b", {"a.b": "person", "a": {"b": "robot"}}),
    ],
)
def test_a_claim_proves_a_person(claim: str, claims: dict[str, Any]) -> None:
    """One of the values, or a list with one, under a name or down a path."""
    person = PersonSettings(claim=claim, values=("person", "employee"))
    assert is_person({"sub": "u1"} | claims, settings_of(person=person))


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"kind": ""},
        {"kind": "Person"},
        {"kind": " person"},
        {"kind": "person robot"},
        {"kind": ["Person"]},
        {"kind": [["person"]]},
        {"kind": {"person": True}},
        {"kind": {"": "person"}},
        {"kind": True},
        {"kind": None},
        {"kind": [None, 1]},
        {"KIND": "person"},
        {"a": {"kind": "person"}},
    ],
    ids=repr,
)
def test_any_other_value_proves_nothing(claims: dict[str, Any]) -> None:
    """Another case, another type, another place, or nothing."""
    person = PersonSettings(claim="kind", values=("person",))
    assert not is_person({"sub": "u1"} | claims, settings_of(person=person))


def test_where_a_preset_and_a_claim_are_set_both_have_to_prove_it() -> None:
    """So a claim can narrow whom a preset takes for people."""
    settings = settings_of(provider="okta", person=PersonSettings(claim="scp", values=("person",)))
    claims = PEOPLE["okta"][1]
    assert not is_person(claims, settings)
    assert is_person(claims | {"scp": ["mcp", "person"]}, settings)
    assert not is_person(MACHINES["okta"][1] | {"scp": ["person"]}, settings)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted({name for _, one in PEOPLE.values() for name in one})), json_values))
def test_without_a_setting_no_token_is_a_persons(claims: dict[str, Any]) -> None:
    """Whatever it says; and no shape of a claim stops the gateway."""
    for provider in ("auth0", "entra", "keycloak", "okta"):
        is_person(claims, settings_of(provider=provider, person=PERSON))
    assert not is_person(claims, settings_of())


@pytest.mark.parametrize("label", ["root", "user:ann", "", " ", 5, None, ["ann"], "a\x1bb", "x" * 256])
def test_what_a_bearer_calls_itself_is_a_label_only(label: Any) -> None:
    """The name that rules have is the subject; the label stands before it for people, if it is a usual text."""
    bearer = bearer_of({"sub": "u1", "preferred_username": label}, settings_of())
    assert bearer is not None
    assert bearer.name == "u1"
    assert bearer.shown in ("u1", f"{label} (u1)")


def test_groups_may_be_in_an_object() -> None:
    """As the roles of a realm of Keycloak."""
    bearer = bearer_of({"sub": "u1", "realm_access": {"roles": ["ops"]}}, settings_of(groups="realm_access.roles"))
    assert bearer is not None
    assert bearer.groups == ("ops",)
