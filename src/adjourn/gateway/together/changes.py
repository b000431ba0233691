"""What the servers of a session say of changes, as its client hears it: several at once as one, each subscription with its own.

Owns: the client's subscriptions. Must never: ask a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from adjourn.gateway.event_stream import StreamEvent
from adjourn.gateway.replies import ReplyStream
from adjourn.gateway.together import task_handles
from adjourn.gateway.together.member import Member
from adjourn.gateway.together.watching import MAX_WATCHED
from adjourn.mcp import frames, object_of, value_of

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
