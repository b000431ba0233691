"""Who asks: the ways by which a request of the gateway is authenticated, and what tries them in order.

    settings.py       `[auth]` of adjourn.toml
    authenticator.py  headers and peer in, a principal or a challenge out
    api_keys.py       keys that `adjourn api-keys` makes
    names.py          whose a name is
    tokens.py         access tokens of an OAuth issuer
    people.py         which of them are of people
    issuer.py         that issuer's signing keys
    resource.py       what clients learn of the issuer (RFC 9728)
    forwarded.py      an identity that a trusted proxy in front has checked

Must never: pass a credential on, or say in a refusal whether something exists.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.gateway.auth.api_keys import ApiKey, KeyWish, add_key, keys_of, revoke_key
    from adjourn.gateway.auth.authenticator import Authenticator, AuthenticatorParts, Challenge
    from adjourn.gateway.auth.settings import AuthSettings, check_auth

__all__ = [
    "ApiKey",
    "AuthSettings",
    "Authenticator",
    "AuthenticatorParts",
    "Challenge",
    "KeyWish",
    "add_key",
    "check_auth",
    "keys_of",
    "revoke_key",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "api_keys": ("ApiKey", "KeyWish", "add_key", "keys_of", "revoke_key"),
            "authenticator": ("Authenticator", "AuthenticatorParts", "Challenge"),
            "settings": ("AuthSettings", "check_auth"),
        },
    )
