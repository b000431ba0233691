"""Asking several servers the same, and what they have said by a certain time.

Owns: pages, and how long is waited. Must never: let one server keep the answers of the others back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from adjourn.gateway.together.member import Member
from adjourn.gateway.together.merging import LISTS, error_of, page_of
from adjourn.mcp import frames

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
