"""Merges the lists of several servers: queries all of them, renames entries, finds the server of a resource, and reports changes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from adjourn.gateway.aggregate import merging, task_handles
from adjourn.gateway.aggregate.backends import BackendSession
from adjourn.gateway.aggregate.merging import LISTS, error_of, member_of, page_of
from adjourn.gateway.aggregate.watching import MAX_WATCHED
from adjourn.gateway.http_pool import StreamEvent
from adjourn.gateway.replies import ReplyStream
from adjourn.mcp import frames
from adjourn.mcp.lenient import object_of, value_of
from adjourn.relay.ports import StderrLog

MAX_REPORTED = 1000
Items = Mapping[BackendSession, Sequence[merging.Raw]]
"""What each server lists, in the order of the settings."""


class Listings:
    """`has_dots`: whether the client takes names with a dot."""

    def __init__(self, report: StderrLog, *, has_dots: bool) -> None:
        self.names = merging.JoinedNames(has_dots=has_dots)
        self.owners = ResourceOwners()
        self._report = report
        self._reported: set[str] = set()

    def change(self, servers: Iterable[str]) -> None:
        """Have other servers."""
        self.names.change(servers)
        self.owners.listed({})
        self.owners.listed_templates({})

    def joined(self, kind: str, items: Items) -> list[merging.Raw]:
        """One list of all. `kind` is the member of the answer that has it."""
        if kind == "tasks":
            return [task_handles.shown_item(raw, backend.name) for backend, listed in items.items() for raw in listed]
        if kind == "resources":
            return self._resources(items)
        if kind == "resourceTemplates":
            self.owners.listed_templates(items)
            return [raw for listed in items.values() for raw in listed]
        return self._named(items)

    def _resources(self, items: Items) -> list[merging.Raw]:
        for uri, backend in self.owners.listed(items).items():
            self._report_once(
                "resource.collision", f"{uri} is listed by {backend.name}, too; it is read from the first"
            )
        return [
            raw
            for backend, listed in items.items()
            for raw in listed
            if self.owners.of(merging.member_of(raw, "uri")) in (backend, None)
        ]

    def _named(self, items: Items) -> list[merging.Raw]:
        """Tools or prompts, under the names that they have together."""
        named, names = [], []
        for backend, listed in items.items():
            for raw in listed:
                name = merging.member_of(raw, "name")
                if backend.name and name:
                    name = self.names.joined(backend.name, name)
                named.append(merging.named(raw, name) if backend.name and name else raw)
                names.append(name)
        for name, other in merging.colliding(names):
            self._report_once("tool.collision", f"clients that rewrite names cannot tell {name} from {other}")
        return named

    def _report_once(self, event: str, text: str) -> None:
        if text not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(text)
            self._report.event(event, text)


# --- which of several servers a resource is read from

MAX_URIS, MAX_TEMPLATES, MAX_TEMPLATE = 100_000, 1000, 2000
_EXPRESSION = re.compile(r"\{([+#./;?&]?)[^{}]*\}")


class ResourceOwners:
    """Of one client's session."""

    def __init__(self) -> None:
        self._uris: dict[str, BackendSession] = {}
        self._templates: list[tuple[str, re.Pattern[str], BackendSession]] = []

    def listed(self, items: Items) -> dict[str, BackendSession]:
        """Take note of what servers list, in their order. Returns the URIs that an earlier one lists, too."""
        self._uris, again = {}, {}
        for owner, resources in items.items():
            for raw in resources:
                uri = member_of(raw, "uri")
                if uri and len(self._uris) < MAX_URIS and self._uris.setdefault(uri, owner) is not owner:
                    again[uri] = owner
        return again

    def listed_templates(self, items: Items) -> None:
        """Take note of their templates."""
        patterns = [
            (template, _pattern(template), owner)
            for owner, templates in items.items()
            for raw in templates
            if 0 < len(template := member_of(raw, "uriTemplate")) <= MAX_TEMPLATE
        ]
        self._templates = patterns[:MAX_TEMPLATES]

    def find(
        self, uris: Sequence[str], gather: Callable[[str, Callable[[Items], None]], None], then: Callable[[], None]
    ) -> None:
        """Find the servers of these resources: `gather` asks them for a list, unless all are known."""

        def are_known() -> bool:
            return all(self.of(uri) is not None for uri in uris)

        def take_list(items: Items) -> None:
            self.listed(items)
            if are_known():
                then()
            else:
                gather("resources/templates/list", take_templates)

        def take_templates(items: Items) -> None:
            self.listed_templates(items)
            then()

        if are_known():
            then()
        else:
            gather("resources/list", take_list)

    def of(self, uri: str) -> BackendSession | None:
        """The server of a resource, or of a template; None where none has listed it."""
        if (owner := self._uris.get(uri)) is not None:
            return owner
        for template, pattern, owner in self._templates:
            if uri == template or pattern.fullmatch(uri):
                return owner
        return None


def _pattern(template: str) -> re.Pattern[str]:
    """What URIs of a template (RFC 6570) look like: an expression without `+` or `#` has no slash in it."""
    parts, end = [], 0
    for expression in _EXPRESSION.finditer(template):
        parts.append(re.escape(template[end : expression.start()]))
        parts.append("[^/?#]*" if expression[1] in ("", ".", ";") else ".*")
        end = expression.end()
    return re.compile("".join(parts) + re.escape(template[end:]), re.DOTALL)


# --- asking several servers the same, and what they have said by a certain time

MAX_PAGES, MAX_ITEMS = 500, 50_000
"""Of one server's list."""
SILENT = "it does not answer"

Ask = Callable[[BackendSession, str, dict[str, Any], Callable[[bytes], None]], None]
"""Asks a backend: the method, its params without `_meta`, and what gets the answer (nothing where there is none)."""


class Gathering:
    """One question to several members. `then` gets it once all have answered, or the time is over; `late` what comes after that."""

    def __init__(
        self, members: Iterable[BackendSession], then: Callable[[Gathering], None], late: Callable[[], None]
    ) -> None:
        self.answers: dict[BackendSession, bytes] = {}
        """The last answer of each."""
        self.items: dict[BackendSession, list[msgspec.Raw]] = {}
        self.missing: dict[str, str] = {}
        """Why a server's answer is not there, by its name."""
        self._waited = dict.fromkeys(members)
        self._pages: dict[BackendSession, int] = {}
        self._then: Callable[[Gathering], None] | None = then
        self._late = late
        self._timers: list[asyncio.TimerHandle] = []

    def ask(self, ask: Ask, method: str, params: Mapping[str, Any]) -> None:
        """Ask all of them. A list is asked for to its last page."""
        for backend in list(self._waited):
            self._ask(ask, backend, method, dict(params))
        self._check()

    def _ask(self, ask: Ask, backend: BackendSession, method: str, params: dict[str, Any]) -> None:
        def answered(line: bytes) -> None:
            if self._then is None:
                if line and not error_of(line)[0]:
                    self._late()
            elif (page := self._take(backend, method, line)) is not None:
                self._ask(ask, backend, method, params | {"cursor": page})
            else:
                self._waited.pop(backend, None)
                self._check()

        ask(backend, method, params, answered)

    def _take(self, backend: BackendSession, method: str, line: bytes) -> object:
        """Keep an answer. Returns the cursor of the page that is asked for next, None for none."""
        code, why = error_of(line) if line else (frames.UPSTREAM_GONE, "it ended")
        if code == frames.METHOD_NOT_FOUND and method in LISTS:
            return None
        if code:
            self.missing[backend.name] = why
            return None
        self.answers[backend] = line
        if method not in LISTS:
            return None
        page = page_of(line, LISTS[method])
        if page is None:
            self.missing[backend.name] = "its list is malformed"
            return None
        items = self.items.setdefault(backend, [])
        items += page.items[: MAX_ITEMS - len(items)]
        number = self._pages[backend] = self._pages.get(backend, 0) + 1
        return page.cursor if page.cursor and number < MAX_PAGES and len(items) < MAX_ITEMS else None

    def wait(self, seconds: float, without: Callable[[BackendSession], str] = lambda _member: SILENT) -> None:
        """Do without those that have not answered after so many seconds. `without` says why for each; "" has all waited for still."""
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(seconds, self._give_up, without))

    def _give_up(self, without: Callable[[BackendSession], str]) -> None:
        why = {backend: without(backend) for backend in self._waited}
        if all(why.values()):
            for backend, reason in why.items():
                self.missing.setdefault(backend.name, reason)
            self._waited.clear()
            self._check()

    def _check(self) -> None:
        if not self._waited and self._then is not None:
            then, self._then = self._then, None
            self.cancel()
            then(self)

    def cancel(self) -> None:
        """Nobody wants the answer any more."""
        self._then = None
        for timer in self._timers:
            timer.cancel()


# --- what the servers of a session say of changes, as its client hears it

TOGETHER_SECONDS = 0.03
"""Changes of one list within this time are one notification."""
MAX_SUBSCRIPTIONS = 100
_CHANGED_LISTS = {
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
    """Of one client's session. What belongs to no subscription goes through the `own` backend."""

    def __init__(self, own: BackendSession) -> None:
        self._own = own
        self._subscriptions: dict[Any, Subscription] = {}
        self._changed: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def noted(self, method: object, line: bytes) -> bytes:
        """A server's notification: what of it goes to the client now."""
        if method in _CHANGED_LISTS:
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
        for method in _CHANGED_LISTS:
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
                if _CHANGED_LISTS[method] in subscription.lists:
                    _put(subscription.stream, method, {}, request_id)

    def _updated(self, line: bytes) -> None:
        params = value_of(line).get("params")
        uri = params.get("uri") if isinstance(params, dict) else None
        if not isinstance(uri, str):
            return
        for request_id, subscription in self._subscriptions.items():
            if any(uri == subscribed or uri.startswith(subscribed) for subscribed in subscription.uris):
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
        lists = frozenset(kind for kind in _CHANGED_LISTS.values() if wanted.get(kind) is True)
        named = [len(self.resources.union(uris)), len(self.tasks.union(tasks))]
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS or max(named) > MAX_WATCHED:
            why = (
                f"a client may have {MAX_SUBSCRIPTIONS} subscriptions, to {MAX_WATCHED:,} resources and as many tasks;"
                " end one before you start another"
            )
            stream.put(StreamEvent(frames.error(request_id, frames.INVALID_REQUEST, why).rstrip()), is_last=True)
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
        return frozenset().union(*(subscription.uris for subscription in self._subscriptions.values()))

    @property
    def tasks(self) -> frozenset[str]:
        """Those that the client subscribes to."""
        return frozenset().union(*(subscription.tasks for subscription in self._subscriptions.values()))

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
    texts = wanted.get(member) if isinstance(wanted, dict) else None
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []


def _put(stream: ReplyStream, method: str, params: dict[str, Any], request_id: Any) -> None:
    params_sent = params | {"_meta": {frames.META_SUBSCRIPTION: request_id}}
    stream.put(StreamEvent(frames.notification(method, params_sent).rstrip()))
