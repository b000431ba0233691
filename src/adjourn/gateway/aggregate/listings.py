"""What several servers list, as one list: asking all of them, the names it has there, and whose a listed resource is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from adjourn.gateway.aggregate import merging, task_handles
from adjourn.gateway.aggregate.member import Member
from adjourn.gateway.aggregate.merging import LISTS, error_of, member_of, page_of
from adjourn.mcp import frames
from adjourn.relay.stderr_log import StderrLog

MAX_REPORTED = 1000
Items = Mapping[Member, Sequence[merging.Raw]]
"""What each server lists, in the order of the settings."""


class Listings:
    """`has_dots`: whether the client takes names with a dot."""

    def __init__(self, report: StderrLog, *, has_dots: bool) -> None:
        self.names = merging.JoinedNames(has_dots=has_dots)
        self.owners: ResourceOwners[Member] = ResourceOwners()
        self._report = report
        self._reported: set[str] = set()

    def change(self, servers: Iterable[str]) -> None:
        """Have other servers."""
        self.names.change(servers)
        self.owners = ResourceOwners()

    def joined(self, kind: str, items: Items) -> list[merging.Raw]:
        """One list of all. `kind` is the member of the answer that has it."""
        if kind == "tasks":
            return [
                task_handles.shown_item(raw, member.name) for member, found in items.items() for raw in found
            ]
        if kind == "resources":
            return self._resources(items)
        if kind == "resourceTemplates":
            self.owners.listed_templates(items)
            return [raw for found in items.values() for raw in found]
        return self._named(items)

    def _resources(self, items: Items) -> list[merging.Raw]:
        for uri, member in self.owners.listed(items).items():
            self._report_once(
                "resource.collision", f"{uri} is listed by {member.name}, too; it is read from the first"
            )
        return [
            raw
            for member, found in items.items()
            for raw in found
            if self.owners.of(merging.member_of(raw, "uri")) in (member, None)
        ]

    def _named(self, items: Items) -> list[merging.Raw]:
        """Tools or prompts, under the names that they have together."""
        named, names = [], []
        for member, found in items.items():
            for raw in found:
                name = merging.member_of(raw, "name")
                if member.name and name:
                    name = self.names.joined(member.name, name)
                named.append(merging.named(raw, name) if member.name and name else raw)
                names.append(name)
        for one, other in merging.colliding(names):
            self._report_once("tool.collision", f"clients that rewrite names cannot tell {one} from {other}")
        return named

    def _report_once(self, event: str, text: str) -> None:
        if text not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(text)
            self._report.event(event, text)


# --- which of several servers a resource is read from

MAX_URIS, MAX_TEMPLATES, MAX_TEMPLATE = 100_000, 1000, 2000
_EXPRESSION = re.compile(r"\{([+#./;?&]?)[^{}]*\}")

_M = TypeVar("_M")


class ResourceOwners(Generic[_M]):
    """`_M` is what stands for a server."""

    def __init__(self) -> None:
        self._uris: dict[str, _M] = {}
        self._templates: list[tuple[str, re.Pattern[str], _M]] = []

    def listed(self, items: Mapping[_M, Iterable[msgspec.Raw]]) -> dict[str, _M]:
        """Take note of what servers list, in their order. Returns the URIs that an earlier one lists, too."""
        self._uris, again = {}, {}
        for owner, resources in items.items():
            for raw in resources:
                uri = member_of(raw, "uri")
                if uri and len(self._uris) < MAX_URIS and self._uris.setdefault(uri, owner) is not owner:
                    again[uri] = owner
        return again

    def listed_templates(self, items: Mapping[_M, Iterable[msgspec.Raw]]) -> None:
        """Take note of their templates."""
        found = [
            (template, _pattern(template), owner)
            for owner, templates in items.items()
            for raw in templates
            if 0 < len(template := member_of(raw, "uriTemplate")) <= MAX_TEMPLATE
        ]
        self._templates = found[:MAX_TEMPLATES]

    def of(self, uri: str) -> _M | None:
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
    for found in _EXPRESSION.finditer(template):
        parts.append(re.escape(template[end : found.start()]))
        parts.append("[^/?#]*" if found[1] in ("", ".", ";") else ".*")
        end = found.end()
    return re.compile("".join(parts) + re.escape(template[end:]), re.DOTALL)


# --- asking several servers the same, and what they have said by a certain time

MAX_PAGES, MAX_ITEMS = 500, 50_000
"""Of one server's list."""
SILENT = "it does not answer"

Ask = Callable[[Member, str, dict[str, Any], Callable[[bytes], None]], None]
"""Asks a member: the method, its params without `_meta`, and what gets the answer (nothing where there is none)."""


class Gathering:
    """One question to several members. `then` gets it once all have answered, or the time is over; `late` what comes after that."""

    def __init__(
        self, members: Iterable[Member], then: Callable[[Gathering], None], late: Callable[[], None]
    ) -> None:
        self.answers: dict[Member, bytes] = {}
        """The last answer of each."""
        self.items: dict[Member, list[msgspec.Raw]] = {}
        self.missing: dict[str, str] = {}
        """Why a server's answer is not there, by its name."""
        self._waited = dict.fromkeys(members)
        self._pages: dict[Member, int] = {}
        self._then: Callable[[Gathering], None] | None = then
        self._late = late
        self._timers: list[asyncio.TimerHandle] = []

    def ask(self, ask: Ask, method: str, params: Mapping[str, Any]) -> None:
        """Ask all of them. A list is asked for to its last page."""
        for member in list(self._waited):
            self._ask(ask, member, method, dict(params))
        self._check()

    def _ask(self, ask: Ask, member: Member, method: str, params: dict[str, Any]) -> None:
        def answered(line: bytes) -> None:
            if self._then is None:
                if line and not error_of(line)[0]:
                    self._late()
            elif (page := self._take(member, method, line)) is not None:
                self._ask(ask, member, method, params | {"cursor": page})
            else:
                self._waited.pop(member, None)
                self._check()

        ask(member, method, params, answered)

    def _take(self, member: Member, method: str, line: bytes) -> object:
        """Keep an answer. Returns the cursor of the page that is asked for next, None for none."""
        code, why = error_of(line) if line else (frames.UPSTREAM_GONE, "it ended")
        if code == frames.METHOD_NOT_FOUND and method in LISTS:
            return None
        if code:
            self.missing[member.name] = why
            return None
        self.answers[member] = line
        if method not in LISTS:
            return None
        page = page_of(line, LISTS[method])
        if page is None:
            self.missing[member.name] = "its list is malformed"
            return None
        items = self.items.setdefault(member, [])
        items += page.items[: MAX_ITEMS - len(items)]
        number = self._pages[member] = self._pages.get(member, 0) + 1
        return page.cursor if page.cursor and number < MAX_PAGES and len(items) < MAX_ITEMS else None

    def wait(self, seconds: float, without: Callable[[Member], str] = lambda _member: SILENT) -> None:
        """Do without those that have not answered after so many seconds. `without` says why for each; "" has all waited for still."""
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(seconds, self._give_up, without))

    def _give_up(self, without: Callable[[Member], str]) -> None:
        why = {member: without(member) for member in self._waited}
        if all(why.values()):
            for member, reason in why.items():
                self.missing.setdefault(member.name, reason)
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
