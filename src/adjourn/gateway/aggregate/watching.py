"""Changes of servers: what a session wants to hear, asked for in each server's era, and what its client hears of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import msgspec

from adjourn.gateway.aggregate.handshake import ServerSession
from adjourn.gateway.aggregate.merging import error_of, params_of
from adjourn.gateway.aggregate.task_handles import declared, status_of
from adjourn.gateway.http_pool import UnreachableError
from adjourn.gateway.replies import ReplyStream
from adjourn.mcp import frames

MAX_WATCHED = 10_000
ASK_SECONDS = 30.0
AGAIN_SECONDS = 5.0
DAY_SECONDS = 86_400.0
_LISTEN = "subscriptions/listen"
_NOTHING: Final[tuple[frozenset[str], frozenset[str]]] = (frozenset(), frozenset())


class Watching:
    """One per upstream. `tasks` are ids that the server has given to tasks."""

    def __init__(self, upstream: ServerSession) -> None:
        self._upstream = upstream
        self._uris: set[str] = set()
        self._tasks: frozenset[str] = frozenset()
        self._asked: tuple[frozenset[str], frozenset[str]] = _NOTHING
        self._told: set[str] = set()
        """The tasks for which the server has reported status changes to the client."""
        self._lists = self._is_listening = False
        self._stream = ReplyStream()
        self._listening: tuple[str, asyncio.Task[None]] | None = None
        """The subscription in the stateless revision: the id of its request, and what waits for its end."""
        self._outdated: list[asyncio.Task[None]] = []
        """Those before, until the server has acknowledged it: no change is missed in between."""
        self._running: set[asyncio.Task[None]] = set()

    @property
    def is_wanted(self) -> bool:
        """Whether anything is to be heard of."""
        return bool(self._uris or self._tasks) or self._lists

    def watch(self, uri: str) -> None:
        """Hear of changes of a resource."""
        if len(self._uris) < MAX_WATCHED:
            self._uris.add(uri)
            self.update()

    def unwatch(self, uri: str) -> None:
        """Hear of them no longer."""
        self._uris.discard(uri)
        self.update()

    def is_watched(self, uri: str) -> bool:
        """Whether changes of a resource are to be heard of."""
        return uri in self._uris

    def want(self, uris: Iterable[str], tasks: Iterable[str]) -> None:
        """Hear of changes of what the server lists, and of these resources and tasks only."""
        self._lists = True
        self._uris = set(islice(uris, MAX_WATCHED))
        self._tasks = frozenset(islice(tasks, MAX_WATCHED))
        self._told &= self._tasks
        self.update()

    def note(self, uri: str, *, is_wanted: bool) -> None:
        """The client itself has asked the server: only a later session has to be asked again."""
        uris, tasks = self._asked
        if not is_wanted:
            self._uris.discard(uri)
            self._asked = (uris - {uri}, tasks)
        elif len(self._uris) < MAX_WATCHED:
            self._uris.add(uri)
            self._asked = (uris | {uri}, tasks)

    def watch_lists(self) -> None:
        """Hear of changes of what the server lists."""
        self._lists = True
        self.update()

    def follow(self, before: Watching) -> None:
        """Hear of what another one was asked for, of the server that had this one's place."""
        self._uris, self._tasks, self._lists = set(before._uris), before._tasks, before._lists  # our own
        self.update()

    def update(self, *, is_new: bool = False) -> None:
        """Ask the server for what is wanted now. `is_new`: its session knows of nothing yet."""
        if is_new:
            self._asked, self._is_listening = _NOTHING, False
            self._told.clear()
        if self._upstream.era == "legacy":
            self._update_legacy()
        elif self._upstream.era == "modern" and (is_new or self._asked != self._wanted or self._listening is None):
            self._update_modern()

    @property
    def _wanted(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(self._uris), self._tasks

    # --- in the handshake revisions

    def _update_legacy(self) -> None:
        subscribed, _ = self._asked
        for uri in self._uris - subscribed:
            self._start(self._ask("resources/subscribe", uri))
        for uri in subscribed - self._uris:
            self._start(self._ask("resources/unsubscribe", uri))
        self._asked = self._wanted
        link = self._upstream.link
        if self._upstream.is_stateless and not self._is_listening and link is not None:
            self._is_listening = self.is_wanted
            if self._is_listening:
                link.listen(self._stream, b"")

    async def _ask(self, method: str, uri: str) -> None:
        with suppress(UnreachableError, TimeoutError):
            await self._upstream.ask(method, {"uri": uri}, ASK_SECONDS)

    # --- in the stateless revision

    def _update_modern(self) -> None:
        if self._listening is not None:
            self._outdated.append(self._listening[1])
            self._listening = None
        self._asked = self._wanted
        if self.is_wanted:
            self._listen()
        else:
            self._end_outdated()

    def _listen(self) -> None:
        request_id = self._upstream.new_id()
        self._listening = request_id, self._start(self._hear(request_id))

    async def _hear(self, request_id: str) -> None:
        """Subscribe, until the server ends that; then again."""
        wanted: dict[str, Any] = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        if self._tasks:
            wanted["taskIds"] = sorted(self._tasks)
        params = {"notifications": wanted, "_meta": self._meta()}
        began, answer = time.monotonic(), b""
        try:
            answer = await self._upstream.ask(_LISTEN, params, DAY_SECONDS, request_id=request_id)
        except (UnreachableError, TimeoutError):
            pass
        except asyncio.CancelledError:
            if (link := self._upstream.link) is not None:
                link.abandon(request_id)
            raise
        if self._is_current(request_id):
            self._told.clear()
            self._end_outdated()
        if error_of(answer)[0] == frames.METHOD_NOT_FOUND:
            return  # the server has no subscriptions
        await asyncio.sleep(began + AGAIN_SECONDS - time.monotonic())
        if self._upstream.era == "modern" and self._is_current(request_id):
            self._listen()

    def _is_current(self, request_id: object) -> bool:
        return self._listening is not None and self._listening[0] == request_id

    def _meta(self) -> dict[str, Any]:
        """That of the client, which has declared what it subscribes to."""
        meta = self._upstream.meta("")
        return declared(meta) if self._tasks else meta

    def acknowledged(self, line: bytes) -> None:
        """The server tells of changes from now on: what came before it is no longer needed, and tasks have a state already."""
        if self._is_current(_subscription_of(line)):
            self._end_outdated()
            if new := sorted(self._tasks - self._told):
                self._told.update(new)
                self._start(self._tell_states(new))

    async def _tell_states(self, tasks: Iterable[str]) -> None:
        """Tell the client in which state tasks are."""
        for task in tasks:
            params = {"taskId": task, "_meta": self._meta()}
            try:
                answer = await self._upstream.ask("tasks/get", params, ASK_SECONDS)
            except (UnreachableError, TimeoutError):
                self._told.discard(task)  # the next subscription asks again
            else:
                if line := status_of(answer):
                    self._upstream.say(line, None)

    def _end_outdated(self) -> None:
        for listening in self._outdated:
            listening.cancel()
        self._outdated.clear()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        running = asyncio.get_running_loop().create_task(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    def close(self) -> None:
        """Ask for nothing any more."""
        for running in list(self._running):
            running.cancel()


def _subscription_of(line: bytes) -> object:
    """The id of the request that a notification says it belongs to."""
    try:
        about = params_of(line).get("_meta")
    except msgspec.DecodeError:
        return None
    return about.get(frames.META_SUBSCRIPTION) if isinstance(about, dict) else None
