"""An identity that a proxy in front has checked, as by a client's TLS certificate, and passes in a header.

Owns: whose headers count. Must never: believe an address that another header names.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from adjourn.gateway.auth.settings import ForwardedSettings
from adjourn.policy import Principal

MAX_IDENTITY = 512
MAX_GROUPS = 64
RawHeaders = list[tuple[bytes, bytes]]


class Forwarded:
    """Reads the headers of one proxy."""

    def __init__(self, settings: ForwardedSettings) -> None:
        self._settings = settings
        self._networks = [ip_network(address) for address in settings.trusted]

    def is_trusted(self, peer: str) -> bool:
        """Whether a connection comes from the proxy. `peer` is the address that the socket says."""
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._networks)

    def find(self, headers: RawHeaders, peer: str) -> Principal | None:
        """Whom the proxy names; None where it names nobody, or the headers are not its own."""
        if not self.is_trusted(peer):
            return None
        settings = self._settings
        name = _one(headers, settings.header)
        groups = _one(headers, settings.groups) if settings.groups else ""
        if not name or groups is None:
            return None
        listed = tuple(dict.fromkeys(filter(None, (one.strip() for one in groups.split(",")))))
        if len(listed) > MAX_GROUPS:
            return None
        return Principal(id=f"proxy:{name}", name=name, type=settings.type, groups=listed)


def _one(headers: RawHeaders, name: str) -> str | None:
    """The only value of a header, "" where it is not there; None for several, or what is no text of a usual length."""
    values = [value for key, value in headers if key == name.encode()]
    if len(values) > 1:
        return None
    try:
        text = values[0].decode().strip() if values else ""
    except UnicodeDecodeError:
        return None
    return text if len(text) <= MAX_IDENTITY and text.isprintable() else None
