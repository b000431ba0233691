"""A server as the settings have it, and the sessions that clients have with it alone.

Another setting makes another one: sessions, connections and credentials of the one before it stay as they were until they end.

Owns: that value. Must never: change, or speak to the server itself.
"""

from __future__ import annotations

from collections.abc import Callable

from adjourn.gateway.endpoint import Endpoint
from adjourn.gateway.http_link import patience
from adjourn.gateway.http_pool import HttpPool
from adjourn.gateway.kept_login import credentials_of
from adjourn.gateway.settings import ServerSettings


class GatewayUpstream:
    """See above. `endpoint` makes what has its sessions. Raises `UsageError` for a variable without a value."""

    def __init__(
        self, name: str, settings: ServerSettings, endpoint: Callable[[GatewayUpstream], Endpoint]
    ) -> None:
        self.name = name
        self.settings = settings
        self.pool = HttpPool(settings.url) if settings.url else None
        self.patience = patience(settings.seconds)
        self.credentials = credentials_of(settings)
        self.endpoint = endpoint(self)

    @property
    def command(self) -> str:
        """What it is reached as: its URL, or the words of its command."""
        return self.settings.url or " ".join(self.settings.command)

    def close(self) -> None:
        """Keep no connection. No session is left."""
        if self.pool is not None:
            self.pool.close()
