"""How an upstream is reached over the network: whom its certificate must be signed by, the gateway's own certificate, and a proxy.

    [servers.tracker]
    url = "https://tracker.example.com/mcp"
    ca = "tls/company-ca.pem"
    certificate = "tls/gateway.pem"
    key = "tls/gateway.key"
    proxy = "http://proxy.example.com:3128"

Without `proxy`, the variables HTTPS_PROXY and NO_PROXY count. Must never: verify less than the system does.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from adjourn.errors import UsageError

if TYPE_CHECKING:
    from adjourn.gateway.settings import ServerSettings

MAX_HEAD = 64 * 1024
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class HttpProxy(NamedTuple):
    """An HTTP proxy that makes tunnels; `authorization` is what it wants to see, "" for nothing."""

    host: str
    port: int
    authorization: str = ""


class NetworkPath(NamedTuple):
    """The TLS of connections, None without; the proxy that they are made through, None without."""

    tls: ssl.SSLContext | None = None
    proxy: HttpProxy | None = None


def path_to(url: str, settings: ServerSettings | None = None, folder: str = "") -> NetworkPath:
    """The way to the server at a URL. Files of `settings` are relative to `folder`. Raises `UsageError` for one that cannot be used."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        return NetworkPath()
    ca, certificate, key, proxy = ("",) * 4 if settings is None else _named(settings, folder)
    try:
        tls = ssl.create_default_context(cafile=ca or None)
        if certificate:
            tls.load_cert_chain(certificate, key or None, password=_no_password)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        names = ", ".join(filter(None, (ca, certificate, key)))
        raise UsageError(
            f"the certificates of {parts.hostname} cannot be used ({names}): {error}", "check these files"
        ) from error
    return NetworkPath(tls, _proxy(parts, proxy))


def _named(settings: ServerSettings, folder: str) -> tuple[str, str, str, str]:
    files = (settings.ca, settings.certificate, settings.key)
    ca, certificate, key = (os.path.join(folder, os.path.expanduser(name)) if name else "" for name in files)
    return ca, certificate, key, settings.proxy


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _proxy(parts: SplitResult, named: str) -> HttpProxy | None:
    """The proxy of the settings, else of the environment; none for this machine itself."""
    host = parts.hostname or ""
    if named == "direct" or (not named and (host in _LOOPBACK or proxy_bypass(host))):
        return None
    url = named or getproxies_environment().get("https", "")
    place = urlsplit(url if "://" in url else f"http://{url}")
    if not url or place.scheme != "http" or not place.hostname:
        return None
    login = f"{unquote(place.username or '')}:{unquote(place.password or '')}"
    return HttpProxy(place.hostname, place.port or 3128, b64encode(login.encode()).decode() if place.username else "")


class TunnelError(OSError):
    """A proxy makes no tunnel."""


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a tunnel to `target`, and waits for its answer."""

    def __init__(self, proxy: HttpProxy, target: str) -> None:
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.authorization:
            lines.append(f"Proxy-Authorization: Basic {proxy.authorization}")
        self._request = "\r\n".join((*lines, "", "")).encode()
        self._head = b""
        self.made: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if self.made.done() or not (end or len(self._head) > MAX_HEAD):
            return
        status = head.split(b"\r\n")[0].split(b" ")[1:2]
        if end and status[:1] == [b"200"] and not rest:  # the server speaks second: what follows is not its
            self.made.set_result(None)
        else:
            said = b" ".join(status).decode("latin-1")[:20] or "no HTTP"
            self.made.set_exception(TunnelError(f"the proxy makes no tunnel: {said}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.made.done():
            self.made.set_exception(error or TunnelError("the proxy closed the connection"))


async def connect(path: NetworkPath, host: str, port: int, protocol: asyncio.Protocol) -> None:
    """Connect a protocol to a server. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    if path.proxy is None:
        await loop.create_connection(lambda: protocol, host, port, ssl=path.tls)
        return
    name = f"[{host}]" if ":" in host else host
    tunnel = _Tunnel(path.proxy, f"{name}:{port}")
    transport, _ = await loop.create_connection(lambda: tunnel, path.proxy.host, path.proxy.port)
    try:
        await tunnel.made
        assert path.tls is not None
        inner = await loop.start_tls(transport, protocol, path.tls, server_hostname=host)
        assert inner is not None
        protocol.connection_made(inner)
    except BaseException:
        transport.abort()
        raise
