"""Answers that can be undone: each is kept here for some seconds, and only then recorded.

INVARIANT: until its time is over, nothing of an answer is in the store, so no agent can use an approval that is undone. Where the process
ends first, nothing is recorded, and the item still waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from secrets import token_urlsafe
from threading import Lock, Timer
from typing import Generic, NamedTuple, Protocol, TypeVar

from adjourn.handover.answering import ItemReply
from adjourn.handover.inbox import WaitingItem
from adjourn.log.event import milliseconds, timestamp

UNDO_SECONDS = 10.0
MAX_HELD = 100
"""Answers that are kept at once; more are recorded at once."""
MAX_FAILED = 20
MIN_HELD = 1.0
"""Seconds: an answer that could be kept for less is recorded at once."""

MARGIN = 2.0
"""Seconds before an item expires at which its answer is recorded at the latest."""
MAX_TITLE = 80
_HOUR = 3_600_000
_WORDS: Mapping[str, str] = {
    "accept": "Accept", "answer": "Answer", "approve": "Approve", "deny": "Deny", "done": "It happened:", "not-done": "It did not happen:",
    "override": "Decide otherwise:", "resolve": "Resolved:", "skip": "Skip",
}  # fmt: skip
"""What answers are called while they can be undone."""


class HeldAnswer(NamedTuple):
    """An answer in words, the `keys` of the items that it is for, and when it is recorded."""

    id: str
    text: str
    keys: frozenset[str]
    due: str


class ShownOutcome(Protocol):
    """What recording came to; the `tone` `bad` is for an answer that does not count."""

    @property
    def tone(self) -> str: ...


Outcome = TypeVar("Outcome", bound=ShownOutcome)


class HeldAnswers(Generic[Outcome]):
    """The answers of one person. `seconds` is how long each can be undone; with 0 all are recorded at once."""

    def __init__(self, clock: Callable[[], int], seconds: float = 0) -> None:
        self._clock = clock
        self._seconds = seconds
        self._lock = Lock()
        self._held: dict[str, tuple[HeldAnswer, Callable[[], Outcome], Timer]] = {}
        self._failed: list[Outcome] = []
        self.version = 0
        """The number of the last change."""

    def hold(self, text: str, keys: frozenset[str], record: Callable[[], Outcome], within: float) -> HeldAnswer | None:
        """Keep an answer, but no longer than `within` seconds, and then `record` it. None where it is to be recorded at once.

        It takes the place of what is kept for any of the same items: the last answer to an item is the one that counts.
        """
        seconds = min(self._seconds, within)
        name = token_urlsafe(8)
        with self._lock:
            for earlier in [answer for answer, _, _ in self._held.values() if answer.keys & keys]:
                self._held.pop(earlier.id)[2].cancel()
                self.version += 1
            if seconds < MIN_HELD or len(self._held) >= MAX_HELD:
                return None
            timer = Timer(seconds, self._end, [name])
            timer.daemon = True
            answer = HeldAnswer(name, text, keys, timestamp(self._clock() + round(seconds * 1000)))
            self._held[name] = answer, record, timer
            self.version += 1
            timer.start()
            return answer

    def undo(self, name: str) -> str:
        """Forget an answer. Returns it in words; "" where it was recorded before."""
        held = self._take(name)
        return held[0].text if held is not None else ""

    def record(self, name: str) -> Outcome | None:
        """Record an answer now. None where that was done before."""
        held = self._take(name)
        return held[1]() if held is not None else None

    @property
    def held(self) -> list[HeldAnswer]:
        """The answers that can be undone, the oldest first."""
        with self._lock:
            return [answer for answer, _, _ in self._held.values()]

    @property
    def failed(self) -> list[Outcome]:
        """What the last answers came to that could not be recorded."""
        with self._lock:
            return list(self._failed)

    def dismiss(self) -> None:
        """Show what failed no more."""
        with self._lock:
            self._failed.clear()
            self.version += 1

    def _take(self, name: str) -> tuple[HeldAnswer, Callable[[], Outcome], Timer] | None:
        with self._lock:
            held = self._held.pop(name, None)
            if held is not None:
                held[2].cancel()
                self.version += 1
        return held

    def _end(self, name: str) -> None:
        """The time of an answer is over."""
        notice = self.record(name)
        if notice is not None and notice.tone == "bad":
            with self._lock:
                self._failed = [*self._failed, notice][-MAX_FAILED:]
                self.version += 1


# --- one answer to several items


def same_replies(reply: ItemReply, items: Sequence[WaitingItem]) -> list[ItemReply]:
    """The answer to the first item, and the same one to the others, which are equal to it."""
    others = [reply._replace(id=item.id, task=item.task, record=item.record) for item in items[1:]]
    return [reply, *others]


def reply_in_words(reply: ItemReply, items: Sequence[WaitingItem]) -> str:
    """`Approve deploy (2)`."""
    return f"{_WORDS[reply.action]} {items[0].title[:MAX_TITLE]}{f' ({len(items)})' if len(items) > 1 else ''}"


def seconds_until_due(items: Sequence[WaitingItem], now: int) -> float:
    """For how long the answer to these items can be kept before one of them expires; `now` is in milliseconds."""
    return min((milliseconds(item.until) - now for item in items if item.until), default=_HOUR) / 1000 - MARGIN
