"""Changes of servers: what a session wants to hear, asked for in each server's era, and what its client hears of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from adjourn.gateway.aggregate import task_handles
from adjourn.gateway.aggregate.member import Member
from adjourn.gateway.aggregate.merging import params_of
from adjourn.gateway.aggregate.task_handles import declared, status_of
from adjourn.gateway.exchange import ServerLink
from adjourn.gateway.http_pool import StreamEvent, UnreachableError
from adjourn.gateway.replies import ReplyStream
from adjourn.mcp import frames
from adjourn.mcp.lenient import object_of, value_of

MAX_WATCHED = 10_000
ASK_SECONDS = 30.0
AGAIN_SECONDS = 5.0
DAY_SECONDS = 86_400.0
_LISTEN = "subscriptions/listen"
_NOTHING: Final[tuple[frozenset[str], frozenset[str]]] = (frozenset(), frozenset())


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

    def new_id(self) -> str:
        """An id for a request of the gateway's own."""

    async def ask(
        self, method: str, params: dict[str, Any], seconds: float, /, *, request_id: str = ""
    ) -> bytes:
        """Ask the server. Raises `UnreachableError`, `TimeoutError`."""

    def say(self, line: bytes, about: Any, /) -> None:
        """Tell the client, as if the server had."""


class Watching:
    """One per upstream. `tasks` are ids that the server has given to tasks."""

    def __init__(self, upstream: Watched) -> None:
        self._upstream = upstream
        self._uris: set[str] = set()
        self._tasks: frozenset[str] = frozenset()
        self._asked: tuple[frozenset[str], frozenset[str]] = _NOTHING
        self._told: set[str] = set()
        """The tasks whose state the client knows since the server has told of its changes."""
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
        elif self._upstream.era == "modern" and (
            is_new or self._asked != self._wanted or self._listening is None
        ):
            self._update_modern()

    @property
    def _wanted(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(self._uris), self._tasks

    # --- in the handshake revisions

    def _update_legacy(self) -> None:
        asked, _ = self._asked
        for uri in self._uris - asked:
            self._start(self._ask("resources/subscribe", uri))
        for uri in asked - self._uris:
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
        wanted: dict[str, Any] = dict.fromkeys(
            ("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True
        )
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
        if _is_unknown(answer):
            return
        await asyncio.sleep(began + AGAIN_SECONDS - time.monotonic())
        if self._upstream.era == "modern" and self._is_current(request_id):
            self._listen()

    def _is_current(self, request_id: object) -> bool:
        return self._listening is not None and self._listening[0] == request_id

    def _meta(self) -> dict[str, Any]:
        """That of the client, which has declared what it subscribes to."""
        meta = self._upstream.meta()
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


class _Error(msgspec.Struct):
    code: int


class _Refusal(msgspec.Struct):
    error: _Error


def _subscription_of(line: bytes) -> object:
    """The id of the request that a notification says it belongs to."""
    try:
        about = params_of(line).get("_meta")
    except msgspec.DecodeError:
        return None
    return about.get(frames.META_SUBSCRIPTION) if isinstance(about, dict) else None


def _is_unknown(answer: bytes) -> bool:
    """Whether a server says that it has no subscriptions."""
    with suppress(msgspec.DecodeError):
        return msgspec.convert(value_of(answer), _Refusal).error.code == frames.METHOD_NOT_FOUND
    return False


# --- what the servers of a session say of changes, as its client hears it

TOGETHER_SECONDS = 0.03
"""Changes of one list within this time are one notification."""
MAX_SUBSCRIPTIONS = 100
_LISTS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
_UPDATED = "notifications/resources/updated"


class Subscription(NamedTuple):
    """A `subscriptions/listen` of the client."""

    stream: ReplyStream
    lists: frozenset[str]
    uris: frozenset[str]
    tasks: frozenset[str]


class Changes:
    """Of one client's session. What belongs to no subscription goes through the `own` member."""

    def __init__(self, own: Member) -> None:
        self._own = own
        self._subscriptions: dict[Any, Subscription] = {}
        self._changed: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def noted(self, method: object, line: bytes) -> bytes:
        """A server's notification: what of it goes to the client now."""
        if method in _LISTS:
            self._list_changed(str(method))
            return b""
        if method == _UPDATED and self._is_stateless:
            self._updated(line)
            return b""
        if method == task_handles.CHANGED:
            self._task_changed(line)
            return b""
        return line

    @property
    def _is_stateless(self) -> bool:
        return self._own.context.era == "modern"

    @property
    def is_subscribed(self) -> bool:
        """Whether the client subscribes to something, in the stateless revision."""
        return bool(self._subscriptions)

    def all_lists(self) -> None:
        """A server has come back, or has another content altogether."""
        for method in _LISTS:
            self._list_changed(method)

    def _list_changed(self, method: str) -> None:
        self._changed[method] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TOGETHER_SECONDS, self._tell)

    def _tell(self) -> None:
        changed, self._changed, self._timer = self._changed, {}, None
        for method in changed:
            if not self._is_stateless:
                self._own.tell(frames.notification(method).rstrip())
                continue
            for request_id, subscription in self._subscriptions.items():
                if _LISTS[method] in subscription.lists:
                    _put(subscription.stream, method, {}, request_id)

    def _updated(self, line: bytes) -> None:
        params = value_of(line).get("params")
        uri = params.get("uri") if isinstance(params, dict) else None
        if not isinstance(uri, str):
            return
        for request_id, subscription in self._subscriptions.items():
            if any(uri == one or uri.startswith(one) for one in subscription.uris):
                _put(subscription.stream, _UPDATED, {"uri": uri}, request_id)

    def _task_changed(self, line: bytes) -> None:
        """Each subscriber hears the whole state."""
        try:
            params = object_of(object_of(line)["params"])
            task = msgspec.json.decode(params["taskId"], type=str)
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            return
        for request_id, subscription in self._subscriptions.items():
            if task in subscription.tasks:
                _put(subscription.stream, task_handles.CHANGED, params, request_id)

    def subscribe(
        self, request_id: Any, stream: ReplyStream, wanted: dict[str, Any], may_have: Callable[[str], bool]
    ) -> None:
        """The client subscribes, and is told to what: of tasks to those that `may_have` says a server may have."""
        uris = resources_of(wanted)
        tasks = tasks_of(wanted)
        lists = frozenset(kind for kind in _LISTS.values() if wanted.get(kind) is True)
        named = [len(self.resources.union(uris)), len(self.tasks.union(tasks))]
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS or max(named) > MAX_WATCHED:
            why = (
                f"a client may have {MAX_SUBSCRIPTIONS} subscriptions, to {MAX_WATCHED:,} resources and as many tasks;"
                " end one before you begin another"
            )
            stream.put(
                StreamEvent(frames.error(request_id, frames.INVALID_REQUEST, why).rstrip()), is_last=True
            )
            return
        tasks = [task for task in tasks if may_have(task)]
        self._subscriptions[request_id] = Subscription(stream, lists, frozenset(uris), frozenset(tasks))
        honoured: dict[str, Any] = dict.fromkeys(sorted(lists), True)
        if uris:
            honoured["resourceSubscriptions"] = uris
        if tasks:
            honoured["taskIds"] = tasks
        _put(stream, frames.ACKNOWLEDGED, {"notifications": honoured}, request_id)

    @property
    def resources(self) -> frozenset[str]:
        """Those that the client subscribes to."""
        return frozenset().union(*(one.uris for one in self._subscriptions.values()))

    @property
    def tasks(self) -> frozenset[str]:
        """Those that the client subscribes to."""
        return frozenset().union(*(one.tasks for one in self._subscriptions.values()))

    def leave(self, request_id: Any) -> bool:
        """The client no longer reads the stream of a request. Returns whether that was a subscription."""
        return self._subscriptions.pop(request_id, None) is not None

    def close(self) -> None:
        """End all."""
        if self._timer is not None:
            self._timer.cancel()
        for request_id, subscription in self._subscriptions.items():
            result = {"resultType": "complete", "_meta": {frames.META_SUBSCRIPTION: request_id}}
            subscription.stream.put(StreamEvent(frames.result(request_id, result).rstrip()), is_last=True)


def resources_of(wanted: object) -> list[str]:
    """The resources that a client subscribes to."""
    return _texts(wanted, "resourceSubscriptions")


def tasks_of(wanted: object) -> list[str]:
    """The tasks that a client subscribes to."""
    return _texts(wanted, "taskIds")


def _texts(wanted: object, member: str) -> list[str]:
    given = wanted.get(member) if isinstance(wanted, dict) else None
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []


def _put(stream: ReplyStream, method: str, params: dict[str, Any], request_id: Any) -> None:
    told = params | {"_meta": {frames.META_SUBSCRIPTION: request_id}}
    stream.put(StreamEvent(frames.notification(method, told).rstrip()))
