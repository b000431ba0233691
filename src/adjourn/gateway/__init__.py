"""MCP servers behind one HTTP address: each call decided on and recorded by the same relay as behind `adjourn proxy`.

Owns: HTTP on both sides, which client session is whose, and the life of the process. Must never: decide on a call itself.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.gateway.app import GatewayApp
    from adjourn.gateway.auth import ApiKey, KeyWish, add_key, keys_of, revoke_key
    from adjourn.gateway.bridge import connect
    from adjourn.gateway.contexts import Ground
    from adjourn.gateway.credentials import from_variables
    from adjourn.gateway.incidents import Incidents, places_of_gateway
    from adjourn.gateway.kept_login import KeptLogin
    from adjourn.gateway.reload import Reload
    from adjourn.gateway.server import listen, serve
    from adjourn.gateway.settings import GatewaySettings, ServerSettings, read_settings, store_files
    from adjourn.gateway.tenants import Tenants

__all__ = [
    "ApiKey",
    "GatewayApp",
    "GatewaySettings",
    "Ground",
    "Incidents",
    "KeptLogin",
    "KeyWish",
    "Reload",
    "ServerSettings",
    "Tenants",
    "add_key",
    "connect",
    "from_variables",
    "keys_of",
    "listen",
    "places_of_gateway",
    "read_settings",
    "revoke_key",
    "serve",
    "store_files",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "app": ("GatewayApp",),
            "auth": ("ApiKey", "KeyWish", "add_key", "keys_of", "revoke_key"),
            "bridge": ("connect",),
            "contexts": ("Ground",),
            "credentials": ("from_variables",),
            "incidents": ("Incidents", "places_of_gateway"),
            "kept_login": ("KeptLogin",),
            "reload": ("Reload",),
            "server": ("listen", "serve"),
            "settings": ("GatewaySettings", "ServerSettings", "read_settings", "store_files"),
            "tenants": ("Tenants",),
        },
    )
