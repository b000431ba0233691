"""What a session wants to hear of a server's changes, asked for in the server's era, and again when a session was lost.

Owns: these subscriptions. Must never: say to whom a change goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol

from adjourn.gateway.exchange import ServerLink
from adjourn.gateway.http_pool import UnreachableError
from adjourn.gateway.replies import ReplyStream

MAX_URIS = 10_000
ASK_SECONDS = 30.0
AGAIN_SECONDS = 5.0
DAY_SECONDS = 86_400.0


class Watched(Protocol):
    """What is used of the gateway's session with the server."""

    @property
    def era(self) -> str | None:
        """The server's; None while there is no session."""

    @property
    def link(self) -> ServerLink | None:
        """The way to the server."""

    @property
    def is_stateless(self) -> bool:
        """Whether the client speaks the stateless revision."""

    def meta(self) -> dict[str, Any]:
        """What the stateless revision wants to know of the client."""

    async def ask(self, method: str, params: dict[str, Any], seconds: float, /) -> bytes:
        """Ask the server. Raises `UnreachableError`, `TimeoutError`."""


class Watching:
    """One per upstream."""

    def __init__(self, upstream: Watched) -> None:
        self._upstream = upstream
        self._uris: set[str] = set()
        self._asked: set[str] = set()
        self._lists = self._is_listening = False
        self._stream = ReplyStream()
        self._listening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_wanted(self) -> bool:
        """Whether anything is to be heard of."""
        return bool(self._uris) or self._lists

    def watch(self, uri: str) -> None:
        """Hear of changes of a resource."""
        if len(self._uris) < MAX_URIS:
            self._uris.add(uri)
            self.update()

    def unwatch(self, uri: str) -> None:
        """Hear of them no longer."""
        self._uris.discard(uri)
        self.update()

    def note(self, uri: str, *, is_wanted: bool) -> None:
        """The client itself has asked the server: only a later session has to be asked again."""
        for uris in (self._uris, self._asked):
            if not is_wanted:
                uris.discard(uri)
            elif len(uris) < MAX_URIS:
                uris.add(uri)

    def watch_lists(self) -> None:
        """Hear of changes of what the server lists."""
        self._lists = True
        self.update()

    def follow(self, before: Watching) -> None:
        """Hear of what another one was asked for, of the server that had this one's place."""
        self._uris, self._lists = set(before._uris), before._lists  # our own
        self.update()

    def update(self, *, is_new: bool = False) -> None:
        """Ask the server for what is wanted now. `is_new`: its session knows of nothing yet."""
        if is_new:
            self._asked, self._is_listening = set(), False
        if self._upstream.era == "legacy":
            self._update_legacy()
        elif self._upstream.era == "modern" and (is_new or self._uris != self._asked or not self._listening):
            self._update_modern()

    def _update_legacy(self) -> None:
        for uri in self._uris - self._asked:
            self._start(self._ask("resources/subscribe", uri))
        for uri in self._asked - self._uris:
            self._start(self._ask("resources/unsubscribe", uri))
        self._asked = set(self._uris)
        link = self._upstream.link
        if self._upstream.is_stateless and not self._is_listening and link is not None:
            self._is_listening = bool(self._uris or self._lists)
            if self._is_listening:
                link.listen(self._stream, b"")

    async def _ask(self, method: str, uri: str) -> None:
        with suppress(UnreachableError, TimeoutError):
            await self._upstream.ask(method, {"uri": uri}, ASK_SECONDS)

    def _update_modern(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        self._asked = set(self._uris)
        if self._uris or self._lists:
            self._listening = self._start(self._listen(sorted(self._uris)))

    async def _listen(self, uris: list[str]) -> None:
        wanted: dict[str, Any] = dict.fromkeys(
            ("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True
        )
        if uris:
            wanted["resourceSubscriptions"] = uris
        while self._upstream.era == "modern":
            params = {"notifications": wanted, "_meta": self._upstream.meta()}
            with suppress(UnreachableError, TimeoutError):
                await self._upstream.ask("subscriptions/listen", params, DAY_SECONDS)
            await asyncio.sleep(AGAIN_SECONDS)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Ask for nothing any more."""
        for task in list(self._tasks):
            task.cancel()
