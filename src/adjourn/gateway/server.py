"""Listening and serving by uvicorn: writes that are joined, connections with bounds, an end in steps.

Must never: end a request before its time.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import math
import resource
import signal
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from adjourn.errors import UsageError
from adjourn.gateway.app import GatewayApp
from adjourn.gateway.limits import RETRY_SECONDS, LoadLimits
from adjourn.gateway.routing import check_reach
from adjourn.gateway.settings import GatewaySettings, address_of

# --- a transport that sends the head of an answer with the first part of its body

_HEAD = b"HTTP/1."


class JoinedWrites:
    """The given transport in all other respects."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data. What starts like a head waits for what is written next, at most until the loop's next turn."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Close the transport, once what was written is sent."""
        self._flush()
        self._transport.close()


# --- connections of clients: how long each may take for a request, and for reading its answer

MAX_HEAD_BYTES = 64 * 1024
NEVER = math.inf
_PHRASES = {408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


class BoundedConfig(uvicorn.Config):
    """uvicorn's settings, with the limits of connections as they are at each moment."""

    def __init__(self, app: Any, limits: Callable[[], LoadLimits], **options: Any) -> None:
        super().__init__(app, http=BoundedProtocol, **options)
        self.limits = limits


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `since` is when what is awaited of the client began: headers, or a body."""

    def __init__(
        self,
        config: BoundedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = config.limits
        self.since = time.monotonic()
        self._in_head = True
        self._head_bytes = 0
        self._unread = 0
        self._unread_since = NEVER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))
        if len(self.connections) > self._limits().connections:
            self._end_with(503, "too many connections", b"retry-after: %d\r\n" % RETRY_SECONDS)

    def data_received(self, data: bytes) -> None:
        was_in_head = self._in_head
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self._end_with(431, f"the headers have more than {MAX_HEAD_BYTES:,} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self.since = time.monotonic()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.since = NEVER
        super().on_message_complete()

    def expire(self, now: float) -> None:
        """End the connection if its client is too slow."""
        limits = self._limits()
        if now - self.since > (limits.header_seconds if self._in_head else limits.body_seconds):
            what = "headers" if self._in_head else "body"
            self._end_with(408, f"the request's {what} did not arrive in time")
        elif self.flow.write_paused:
            self._expire_unread(now)
        else:
            self._unread_since = NEVER

    def _expire_unread(self, now: float) -> None:
        """While bytes wait, nothing is added: fewer than before is progress, also of those that the kernel has."""
        waiting = self.transport.get_write_buffer_size() + _unacknowledged(self.transport)
        if self._unread_since is NEVER or waiting < self._unread:
            self._unread_since = now
        elif now - self._unread_since > self._limits().stalled_seconds:
            self.transport.abort()
        self._unread = waiting

    def _end_with(self, status: int, why: str, header: bytes = b"") -> None:
        """Answer by ourselves: the application has not been asked, or waits for what does not come."""
        self.since = NEVER
        text = f"{why}\n".encode()
        head = f"HTTP/1.1 {status} {_PHRASES[status]}\r\nconnection: close\r\ncontent-length: {len(text)}\r\n"
        self.transport.write(head.encode() + header + b"content-type: text/plain\r\n\r\n" + text)
        self.transport.close()


def _unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes that the kernel keeps for the client; 0 where it does not say."""
    count = bytearray(4)
    with suppress(OSError):
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, count)
    return int.from_bytes(count, sys.byteorder)


def expire_all(connections: Iterable[object], now: float) -> None:
    """Close the connections of clients that are too slow."""
    for connection in list(connections):
        if isinstance(connection, BoundedProtocol):
            connection.expire(now)


# --- listening

BACKLOG = 2048
CLOSE_SECONDS = 5
"""For connections to close, once nothing is to be answered on them."""
GC_THRESHOLD = 50_000
MAX_FILES = 65_536


class DrainingServer(uvicorn.Server):
    """Ends in steps. A first signal: after a notice nothing new starts, and open requests may finish. A second one: at once. SIGHUP has the
    settings read again, between two requests.

    uvicorn's own would close the socket first, so that nobody could ask whether it is ready; and raise the signal again.
    """

    def __init__(self, config: BoundedConfig, app: GatewayApp, reload: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._reload = reload
        self._is_reload_asked = False
        self._limits = config.limits
        self._notice = 0.0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is threading.main_thread():  # no other thread may
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self.handle_exit)
        yield

    def ask_for_reload(self, sig: int, frame: FrameType | None) -> None:
        """Have the settings read again at the next tick. A signal handler."""
        del sig, frame
        self._is_reload_asked = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del sig, frame
        if self._app.throttle.is_leaving:
            self.should_exit = self.force_exit = True
        else:
            limits = self._limits()
            self._notice = time.monotonic() + limits.notice_seconds
            self._app.throttle.ends = self._notice + limits.drain_seconds
            self._app.throttle.is_leaving = True
            self._app.throttle.is_draining = not limits.notice_seconds

    async def on_tick(self, counter: int) -> bool:
        if self._is_reload_asked:
            self._is_reload_asked = False
            self._reload()
        now, throttle = time.monotonic(), self._app.throttle
        if counter % 10 == 0:
            expire_all(self.server_state.connections, now)
        if throttle.is_leaving and now >= self._notice:
            throttle.is_draining = True
        if throttle.is_draining and not self.should_exit and (not throttle.is_busy or now >= throttle.ends):
            self._app.end_requests()
            self.should_exit = True
        return await super().on_tick(counter)


def listen(settings: GatewaySettings) -> socket.socket:
    """The socket. Raises `UsageError` for an address in use, `RefusedError` for one that other machines reach."""
    family, address = _found(settings.listen)
    check_reach(address[0], settings.auth)
    if asked := settings.authorize.listen:
        family_of_it, place = _found(asked)
        check_reach(place[0], settings.auth)
        _bound(asked, family_of_it, place).close()  # whether it is free: gRPC takes no socket
    return _bound(settings.listen, family, address)


def _found(listen: str) -> tuple[int, tuple[str, int]]:
    """The family and the address that a name stands for. Raises `UsageError`."""
    host, port = address_of(listen)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise _unusable(listen, error) from error
    return family, (str(address[0]), port)


def _bound(listen: str, family: int, address: tuple[str, int]) -> socket.socket:
    try:
        listening = socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        raise _unusable(listen, error) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _unusable(listen: str, error: OSError) -> UsageError:
    return UsageError(f"cannot listen on {listen}: {error.strerror}", "choose another address or port")


def serve(
    app: GatewayApp,
    listening: socket.socket,
    ready: Callable[[str], None],
    *,
    reload: Callable[[], None],
    page: str = "",
) -> None:
    """Serve until the process is told to end; `ready` gets the address, `reload` is called after a SIGHUP. `page` is where the page for
    people listens ("": nowhere).
    """
    server, sockets = server_of(app, listening, reload=reload, page=page)
    signal.signal(signal.SIGHUP, server.ask_for_reload)  # before anybody knows that the gateway is ready
    ready(url_of(listening))
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    _allow_files()
    server.run(sockets=sockets)


def server_of(
    app: GatewayApp, listening: socket.socket, *, reload: Callable[[], None], page: str = ""
) -> tuple[DrainingServer, list[socket.socket]]:
    """What `serve` runs, and on which sockets: those of clients, of metrics and of the page."""
    config = BoundedConfig(
        app,
        lambda: app.throttle.limits,
        interface="asgi3",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSE_SECONDS,
        ws="none",
    )
    sockets = [listening]
    if metrics := app.monitoring.address:
        sockets.append(_bound(metrics, *_found(metrics)))
    if page:
        sockets.append(_bound(page, *_found(page)))
    return DrainingServer(config, app, reload), sockets


def url_of(listening: socket.socket) -> str:
    """The URL at which a socket listens."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _allow_files() -> None:
    """More open files than programs get by themselves, as far as this user may have them: each connection is one."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if most == resource.RLIM_INFINITY else min(MAX_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
