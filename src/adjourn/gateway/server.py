"""Listening: the process of `adjourn serve`.

Owns: the socket, the process's life. Must never: listen beyond this machine without a way to tell who asks.
"""

from __future__ import annotations

import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from adjourn.errors import RefusedError, UsageError
from adjourn.gateway.app import GatewayApp
from adjourn.gateway.settings import GatewaySettings

BACKLOG = 2048
DRAIN_SECONDS = 20
GC_THRESHOLD = 50_000


class _QuietServer(uvicorn.Server):
    """Ends with 0 where a signal asked it to: uvicorn's own raises the signal again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        yield


def listen(settings: GatewaySettings) -> socket.socket:
    """The socket. Raises `UsageError` for an address in use, `RefusedError` for one that other machines reach."""
    host, port = settings.address
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not str(address[0]).startswith("127.") and address[0] != "::1":
            raise RefusedError(
                f"{settings.listen} can be reached by other machines, and the gateway cannot tell yet who asks",
                "listen on 127.0.0.1, and let a proxy that authenticates stand before it",
            )
        listening = socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {settings.listen}: {error.strerror}", "choose another address or port"
        ) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve(app: GatewayApp, listening: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve until the process is told to end; `ready` gets the address."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http="httptools",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        ws="none",
    )
    host, port = listening.getsockname()[:2]
    ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    _QuietServer(config).run(sockets=[listening])
