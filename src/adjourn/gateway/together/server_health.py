"""What all sessions with one server know of it: its era, and whether it can be reached.

Owns: how often a server that fails is tried. Must never: speak to it.
"""

from __future__ import annotations

import time
from typing import Literal

from adjourn.gateway.together.merging import Greeting
from adjourn.relay import StderrLog

Era = Literal["legacy", "modern"]
FIRST_SECONDS, MOST_SECONDS = 0.5, 15.0
"""How long a server that failed is left alone: doubled each time, up to the second."""
MAX_WHY = 300


class ServerHealth:
    """One per server of the settings."""

    def __init__(self, name: str, report: StderrLog) -> None:
        self.name = name
        self._report = report
        self.is_met = False
        """Whether it has ever answered."""
        self._lacks: Era | None = None
        self.greeting = Greeting()
        self.why = ""
        """Why it cannot be reached; "" while it can, as far as is known."""
        self.recoveries = 0
        """How often it came back."""
        self.is_tried = False
        self._delay = FIRST_SECONDS
        self._next = 0.0

    @property
    def may_try(self) -> bool:
        """Whether it may be reached for now: one session at a time tries a server that failed."""
        return not self.why or (not self.is_tried and time.monotonic() >= self._next)

    def begin(self) -> bool:
        """Whether a session may be begun; then it either `failed` or `answered`."""
        if not self.may_try:
            return False
        self.is_tried = self.why != ""
        return True

    def eras_for(self, client: Era) -> tuple[Era, Era]:
        """In which era a session is begun for a client of one, and in which else: its own first, unless the server lacks that."""
        other: Era = "legacy" if client == "modern" else "modern"
        return (other, client) if self._lacks == client else (client, other)

    def has(self, era: Era) -> bool:
        """Whether it is known to lack the other era."""
        return self._lacks not in (None, era)

    def failed(self, why: str) -> None:
        """A session could not be begun."""
        if not self.why:
            self._report.event("upstream.down", f"server {self.name} is not available: {why[:MAX_WHY]}")
        self.why, self.is_tried, self._lacks = why[:MAX_WHY], False, None
        self._next = time.monotonic() + self._delay
        self._delay = min(self._delay * 2, MOST_SECONDS)

    def answered(self, era: Era, wanted: Era, greeting: Greeting) -> None:
        """A session was begun in an era, `wanted` in the client's."""
        self.is_met, self.greeting = True, greeting
        self._lacks = wanted if era != wanted else None if self._lacks == era else self._lacks
        if self.why:
            self.recoveries += 1
            self._report.event("upstream.up", f"server {self.name} is available again")
        self.why, self.is_tried, self._delay = "", False, FIRST_SECONDS
