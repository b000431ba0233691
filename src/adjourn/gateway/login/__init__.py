"""Logins of a person at servers that speak OAuth 2.1: obtained at a terminal, kept, renewed.

Owns: these logins. Must never: be loaded with the SDK on the way of a call.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.gateway.login.flow import log_in, renew, revoke
    from adjourn.gateway.login.kept import Login, alone, canonical, exists, forget, keep, kept_urls, read
    from adjourn.gateway.login.provider import Wish

__all__ = [
    "Login",
    "Wish",
    "alone",
    "canonical",
    "exists",
    "forget",
    "keep",
    "kept_urls",
    "log_in",
    "read",
    "renew",
    "revoke",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "flow": ("log_in", "renew", "revoke"),
            "kept": ("Login", "alone", "canonical", "exists", "forget", "keep", "kept_urls", "read"),
            "provider": ("Wish",),
        },
    )
