"""The way to a server over https: through a proxy, with a CA and a certificate of one's own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from adjourn.errors import UsageError
from adjourn.gateway.http_pool import HttpPool, UnreachableError
from adjourn.gateway.network_path import HttpProxy, NetworkPath, path_to
from adjourn.gateway.settings import ServerSettings
from support.certificates import make_certificate

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
    finally:
        writer.close()


class Place:
    """A TLS server that wants a client's certificate, and a proxy; `asked` is what the proxy was asked for."""

    def __init__(self, folder: Path, *, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.certificate, self.client = make_certificate(folder / "server.pem"), make_certificate(folder / "client.pem")
        self.asked: list[bytes] = []
        self.proxy_port = self.port = 0
        self._answer = answer

    async def use(self, work: Callable[[Place], Awaitable[None]]) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.client))
        tls.load_cert_chain(self.certificate)
        tls.verify_mode = ssl.CERT_REQUIRED
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        proxy = await asyncio.start_server(self._tunnel, "127.0.0.1", 0)
        self.port, self.proxy_port = (each.sockets[0].getsockname()[1] for each in (server, proxy))
        async with server, proxy:
            await asyncio.wait_for(work(self), 10)
            await asyncio.sleep(0.1)  # for what was closed to be gone

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer)
        if b" 200 " not in self._answer:
            writer.close()
            return
        inner, out = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.wait([asyncio.ensure_future(pipe(*ends)) for ends in ((reader, out), (inner, writer))])

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/mcp"

    def settings(self, **more: str) -> ServerSettings:
        files = {"ca": self.certificate.name, "certificate": self.client.name} | more
        return msgspec.convert({"url": self.url, **files}, ServerSettings)


async def fetched(url: str, path: NetworkPath) -> bytes:
    pool = HttpPool(url, path)
    reply = await pool.request(b"GET", ())
    body = await reply.body(100)
    reply.release()
    pool.close()
    return body


@pytest.mark.parametrize("through", [True, False])
def test_a_server_is_reached_with_ca_certificate_and_proxy(tmp_path: Path, *, through: bool) -> None:
    """The proxy sees only the name of the server; TLS is with the server itself. Files are relative to the workspace."""

    async def work(place: Place) -> None:
        proxy = f"http://127.0.0.1:{place.proxy_port}" if through else "direct"
        assert await fetched(place.url, path_to(place.url, place.settings(proxy=proxy), str(tmp_path))) == b"ok"
        wanted = f"CONNECT 127.0.0.1:{place.port} HTTP/1.1\r\nHost: 127.0.0.1:{place.port}\r\n\r\n".encode()
        assert place.asked == [wanted] * through

    asyncio.run(Place(tmp_path).use(work))


@pytest.mark.parametrize("left_out", ["ca", "certificate"])
def test_without_either_file_there_is_no_connection(tmp_path: Path, left_out: str) -> None:
    """The system's CAs do not count as the server's own, and a server that wants a certificate gets one only where it is set."""

    async def work(place: Place) -> None:
        settings = place.settings(proxy="direct", **{left_out: ""})
        with pytest.raises(UnreachableError):
            await fetched(place.url, path_to(place.url, settings, str(tmp_path)))

    asyncio.run(Place(tmp_path).use(work))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy makes no tunnel: 407"),
        (b"HTTP/1.1 500 200 OK\r\n\r\n", "the proxy makes no tunnel: 500"),
        (b"SSH-2.0-x\r\n\r\n", "the proxy makes no tunnel"),
        (b"x", "the proxy closed the connection"),
    ],
)
def test_a_proxy_that_makes_no_tunnel_is_named(tmp_path: Path, answer: bytes, said: str) -> None:
    """Nothing was sent to the server: the call is not in doubt."""

    async def work(place: Place) -> None:
        settings = place.settings(proxy=f"http://127.0.0.1:{place.proxy_port}")
        with pytest.raises(UnreachableError, match=said) as failure:
            await fetched(place.url, path_to(place.url, settings, str(tmp_path)))
        assert not failure.value.was_sent

    asyncio.run(Place(tmp_path, answer=answer).use(work))


def test_variables_name_the_proxy_of_servers_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its password; not for this machine, not for what NO_PROXY names, not for http."""
    monkeypatch.setenv("HTTPS_PROXY", "http://me:p%40ss@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert path_to("https://tracker.example/mcp").proxy == HttpProxy("proxy.example", 3128, "bWU6cEBzcw==")
    for url in ("https://inside.example/mcp", "https://127.0.0.1/mcp", "http://tracker.example/mcp"):
        assert path_to(url).proxy is None
    named = ServerSettings(url="https://inside.example/mcp", proxy="http://other.example")
    assert path_to(named.url, named).proxy == HttpProxy("other.example", 3128)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """Before the gateway serves: a file that is not there, one that is no certificate."""
    (tmp_path / "odd.pem").write_text("no certificate", encoding="utf-8")
    for member in ("ca", "certificate"):
        for name in ("gone.pem", "odd.pem"):
            settings = msgspec.convert({"url": "https://a.example/mcp", member: name}, ServerSettings)
            with pytest.raises(UsageError, match=name):
                path_to(settings.url, settings, str(tmp_path))
