"""Serving the page of this account: its other workspaces, listening on this machine, and opening the browser."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Lock

import uvicorn

from adjourn.errors import AdjournError, UsageError
from adjourn.handover.held import UNDO_SECONDS, HeldAnswers
from adjourn.host.finding import DEFAULT_STORE
from adjourn.host.keys import page_host
from adjourn.host.workspace_store import known_workspaces, open_at
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor
from adjourn.store.base import Store
from adjourn.ui.app import Application
from adjourn.ui.guard import ENTRY, Access
from adjourn.ui.site import Site

MAX_OTHERS = 12
"""Workspaces that are opened, the ones used last."""


class OtherWorkspaces:
    """Opens each other workspace once, and keeps what was seen of it. `root` is the workspace of the page."""

    def __init__(self, root: str, person: Actor, clock: Callable[[], int]) -> None:
        self._own = os.path.realpath(root)
        self._person = person
        self._clock = clock
        self._lock = Lock()
        self._sites: dict[str, Site] = {}
        self._stores: list[Store] = []
        self.own: Site | None = None
        """The workspace of the page, once it is known."""

    def __call__(self) -> Sequence[Site]:
        """The workspaces that can be opened, the ones used last first."""
        with self._lock:
            roots = [root for root in known_workspaces() if root != self._own][:MAX_OTHERS]
            for root in roots:
                if root not in self._sites:
                    self._open(root)
            return [self._sites[root] for root in roots if root in self._sites]

    def _around(self, root: str) -> Sequence[Site]:
        """All workspaces but this one, the one of the page first."""
        own = [self.own] if self.own is not None else []
        return [*own, *(site for site in self() if site.root != root)]

    def close(self) -> None:
        """Close the stores."""
        with self._lock:
            for store in self._stores:
                store.close()
            self._sites.clear()

    def _open(self, root: str) -> None:
        try:
            store = open_at(root, DEFAULT_STORE)
        except (AdjournError, OSError):
            return  # `adjourn doctor` there says why
        self._stores.append(store)
        self._sites[root] = Site(
            root,
            root,
            lambda: store,
            self._person,
            self._clock,
            answers=HeldAnswers(self._clock, UNDO_SECONDS),
            others=partial(self._around, root),
            base=f"/at/{digest(os.fsencode(root))[:16]}",
        )


# --- listening on this machine, and opening the browser. The browser is given a file that only this account can read,
# and that leads to the link: what a program is started with, every account can see. A browser sends a cookie of
# 127.0.0.1 to every port there, also to a development server that an agent has started. So the page has a loopback
# address of its own, where the system has more than one: another one at each start, or, on a port that was chosen,
# the one that links lead to. It listens on no address but loopback

MAX_CONNECTIONS = 200
NICE = 10
"""How much this process gives way: on a busy machine, the calls of agents go before pages that show them."""
SWITCH_SECONDS = 0.001
"""How long one request computes while others wait: five times less than Python lets it by itself."""
_OPENING = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}"><title>adjourn</title>'
)


def serve(site: Site, *, port: int, opens: bool, ready: Callable[[str], None]) -> None:
    """Serve the pages until the process is told to end; `ready` gets the link. Raises `UsageError` if the port is in use.

    `port` 0 picks a free one. `opens`: start the browser of the desktop, if there is one.
    """
    with ExitStack() as closing:
        listening = closing.enter_context(_listen(page_host(site.root), port) if port else _listen_anywhere())
        # Connections inherit it. Else the body of an answer waits for the browser to acknowledge the head: 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host = "{}:{}".format(*listening.getsockname())
        access = Access()
        link = f"http://{host}{ENTRY}?token={access.link_token}"
        config = uvicorn.Config(
            Application(site, access).guarded(host),
            interface="asgi3",
            lifespan="on",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        sys.setswitchinterval(SWITCH_SECONDS)
        os.nice(NICE)
        ready(link)
        if opens and _has_desktop():
            _open_browser(link, closing)
        uvicorn.Server(config).run(sockets=[listening])


def _listen_anywhere() -> socket.socket:
    own = f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
    with suppress(OSError):  # macOS has 127.0.0.1 only
        return socket.create_server((own, 0))
    return _listen("127.0.0.1", 0)


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise UsageError(
            f"cannot listen on port {port}: {error.strerror}", "choose another one, or leave out --port"
        ) from error


def _has_desktop() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_browser(link: str, closing: ExitStack) -> None:
    folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="adjourn-ui-"))
    page = Path(folder, "open.html")
    page.touch(0o600)
    page.write_text(_OPENING.format(url=link), encoding="utf-8")
    webbrowser.open(page.as_uri())
