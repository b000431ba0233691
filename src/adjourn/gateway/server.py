"""Listening: the process of `adjourn serve`.

Owns: the socket, the process's life. Must never: listen beyond this machine without a way to tell who asks.
"""

from __future__ import annotations

import gc
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from adjourn.errors import RefusedError, UsageError
from adjourn.gateway.app import GatewayApp
from adjourn.gateway.auth import AuthSettings
from adjourn.gateway.connections import BoundedConfig, expire_all
from adjourn.gateway.settings import GatewaySettings, address_of

BACKLOG = 2048
CLOSE_SECONDS = 5
"""For connections to close, once nothing is to be answered on them."""
GC_THRESHOLD = 50_000
MAX_FILES = 65_536


class _DrainingServer(uvicorn.Server):
    """Ends in steps. A first signal: after a notice nothing new begins, and open requests may finish. A second one: at once. SIGHUP has the
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
        signal.signal(signal.SIGHUP, self._ask_for_reload)  # before anybody knows that the gateway is ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        yield

    def _ask_for_reload(self, sig: int, frame: FrameType | None) -> None:
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
    return _bound(settings.listen, family, address)


def check_reach(address: str, auth: AuthSettings | None) -> None:
    """Raises `RefusedError` for an address that other machines reach, where nothing tells who asks."""
    if auth is None and not (address.startswith("127.") or address == "::1"):
        raise RefusedError(
            f"{address} can be reached by other machines, and nothing tells who asks",
            "say in [auth] of adjourn.toml how clients authenticate, or listen on 127.0.0.1",
        )


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
    server = _DrainingServer(config, app, reload)
    host, port = listening.getsockname()[:2]
    ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    _allow_files()
    server.run(sockets=sockets)


def _allow_files() -> None:
    """More open files than programs get by themselves, as far as this user may have them: each connection is one."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if most == resource.RLIM_INFINITY else min(MAX_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
