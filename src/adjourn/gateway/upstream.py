"""A server as the settings have it, and the sessions that clients have with it alone.

Another setting makes another one: sessions, connections and credentials of the one before it stay as they were until they end.

Owns: that value. Must never: change, or speak to the server itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from adjourn.errors import UsageError
from adjourn.gateway.endpoint import Endpoint
from adjourn.gateway.http_link import patience
from adjourn.gateway.http_pool import HttpPool
from adjourn.gateway.kept_login import credentials_of
from adjourn.gateway.settings import ServerSettings
from adjourn.host import common


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
        self.environment = variables_of(name, settings, os.environ)
        """The variables of its command."""
        self.endpoint = endpoint(self)

    @property
    def command(self) -> str:
        """What it is reached as: its URL, or the words of its command."""
        return self.settings.url or " ".join(self.settings.command)

    def close(self) -> None:
        """Keep no connection. No session is left."""
        if self.pool is not None:
            self.pool.close()


def variables_of(name: str, settings: ServerSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a server's command gets: those by which programs run, and its own. Raises `UsageError` for one without a value."""
    if missing := [source for source in settings.env_from.values() if source not in environment]:
        raise UsageError(
            f"the variable {missing[0][:80]} of the server {name} is not set",
            "set it where the gateway is started, or write a value into env in place of env_from",
        )
    own = {variable: environment[source] for variable, source in settings.env_from.items()}
    return common(environment) | settings.env | own
