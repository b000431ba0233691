"""What a relay needs of the edge that it works for: an event loop, and two outlets.

Owns: these types. Must never: do I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from adjourn.log import kinds

if TYPE_CHECKING:
    from adjourn.checkpoints.triggers import GuardedSession
    from adjourn.clients.session_pool import SessionPool
    from adjourn.relay.request import Request
    from adjourn.tasks.decision import ToolRequest
    from adjourn.tasks.session import Admitted
import os
import time
from contextlib import suppress
from copy import copy
from select import PIPE_BUF, POLLOUT, poll
from threading import Lock

from adjourn.log.event import timestamp
from adjourn.text.redact import redact_json, visible_json, visible_line, without_secrets

NEVER = float("inf")
MAX_WAITING = 1024 * 1024
"""Bytes that may wait for one side to read before no more is read from the other."""

_T = TypeVar("_T")


class Outcome(Generic[_T]):
    """What a piece of work came to. `get` returns its result, or raises what it raised."""

    __slots__ = ("_error", "_value")

    def __init__(self, work: Callable[[], _T]) -> None:
        self._error: Exception | None = None
        try:
            self._value = work()
        except Exception as error:  # whoever asked for it handles it
            self._error = error

    def get(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._value


class EventLoop(Protocol):
    """Calls what is given to it, one at a time, in one thread: that in which a relay is used."""

    def time(self) -> float:
        """Return the time in seconds since some moment, as `after` counts it."""

    def after(self, seconds: float, action: Callable[[], None], /) -> None:
        """Call `action` once, in so many seconds. Replaces an earlier time of the same action."""

    def soon(self, action: Callable[[], None], /) -> None:
        """Call `action`. For any thread."""

    def work(self, job: Callable[[], _T], then: Callable[[Outcome[_T]], None], /) -> None:
        """Run `job` in another thread, after those of the same relay that were given before; then call `then` in the loop's."""


class Settled(msgspec.Struct):
    """The outcome of a session's calls, and the results that are kept, by call."""

    facts: list[kinds.ToolSettled] = []
    answers: dict[str, bytes] = {}


class SharedCommits(Protocol):
    """Commits what several relays have to commit at one moment together. `then` is called in the loop's thread."""

    def admit(
        self,
        sessions: SessionPool,
        calls: Sequence[ToolRequest],
        task: str,
        forward: Callable[[GuardedSession, Sequence[Admitted]], None],
        then: Callable[[Outcome[tuple[GuardedSession, list[Admitted]] | None]], None],
        /,
    ) -> None:
        """Decide on calls, and commit their intents. For the arguments see `SessionPool.admitting`; the outcome is None for what has to be
        given to `SessionPool.admit`.
        """

    def settle(
        self, settled: Mapping[GuardedSession, Settled], then: Callable[[Mapping[GuardedSession, Exception]], None], /
    ) -> None:
        """Commit the outcome of calls. `then` gets the errors of the sessions for which that failed."""


class Unread(NamedTuple):
    """What its reader has not taken whole: `about` is what the caller gave with it, `begun` that a part of it was taken."""

    about: Any
    begun: bool


class CallObserver(Protocol):
    """Learns the outcome of each call. It is on the path of all of them: it must be quick, and must not raise."""

    def decided(self, request: Request, outcome: str, /) -> None:
        """A call was allowed, and goes to the server now; or was not, for a reason of few words."""

    def settled(self, request: Request, outcome: str, now: int, /) -> None:
        """An allowed call is over. `now` is when its answer came (`time.monotonic_ns`)."""


class Outlet(Protocol):
    """Takes lines for one side, and never waits."""

    @property
    def size(self) -> int:
        """Bytes that wait."""

    @property
    def since(self) -> float:
        """When the reader last took something (`time.monotonic`), while bytes wait; else `NEVER`."""

    def send(self, data: bytes, about: Any = None, /) -> None:
        """Write whole lines, or keep them.

        `about`, of the client's: the request that a question belongs to. Of the server's: the requests among the lines, for whoever learns
        that nobody reads.
        """

    def lose(self) -> None:
        """Stop writing: the reader has exited, or does not read."""

    def drain(self, seconds: float, /) -> None:
        """Wait until all is written, or nobody reads, or the time is over."""

    def close(self) -> None:
        """Write nothing any more. What waits is lost."""


# --- what the proxy says on stderr

MAX_LOG_LINES = 1000
"""Lines that are kept while nobody reads; older ones are dropped."""
_WARNINGS = frozenset((
    "answer.unasked", "message.refused", "policy.broken", "request.refused", "tool.collision", "tool.denied", "tool.shadowed",
    "upstream.down", "upstream.gone", "upstream.non_jsonrpc", "upstream.odd",
))  # fmt: skip
_ERRORS = (".bug", ".error", ".failed")


class StderrLog:
    """Thread-safe. Routine lines wait for `flush`, which also puts them into words: off the way of a call."""

    def __init__(self, *, as_json: bool, descriptor: int = 2) -> None:
        """`descriptor` is where the lines go, where that is not stderr."""
        self._descriptor = descriptor
        self.is_json = as_json
        self._about: dict[str, str] = {}
        self._events: list[tuple[Any, ...]] = []
        self.routine: Callable[[tuple[str, str, dict[str, Any], int, bool]], None] = self._events.append
        """Takes what happened as it should, to be written soon: `(event, "", data, nanoseconds, False)`, where `data` are names and
        ids that were checked: nothing of them is hidden. No function of ours, since each call has one."""
        self._waiting: list[bytes] = []
        self._lock = Lock()
        self._room = poll()
        self._room.register(descriptor, POLLOUT)

    def event(self, event: str, text: str = "", **data: Any) -> None:
        """Something happened. `text` is for people; without it the data is shown."""
        self._events.append((event, text, data, time.time_ns(), True, self._about))
        self.flush()

    def about(self, **names: str) -> StderrLog:
        """The same log, for what happens to somebody: `names` are further members of each line of JSON."""
        if not self.is_json:
            return self
        log = copy(self)
        log._about = about = self._about | names  # noqa: SLF001  # our own
        events = self._events
        log.routine = lambda event: events.append((*event, about))
        return log

    @property
    def size(self) -> int:
        """Lines that wait."""
        return len(self._events) + len(self._waiting)

    def flush(self) -> None:
        """Write what waits, as far as there is room: a client that never reads our stderr must not stop the work."""
        with self._lock:
            waiting = self._waiting
            events = self._events[:]
            del self._events[: len(events)]
            for event, text, data, when, is_prose, *about in events[-MAX_LOG_LINES:]:
                if self.is_json:
                    members = data if not is_prose else redact_json(data or ({"message": text} if text else {}))
                    waiting.append(_as_json(event, members, when, about[0] if about else {}))
                elif is_prose:
                    waiting.append(_as_text(event, text, data))
                else:
                    waiting.append(f"adjourn: {event:<18} {' '.join(map('%s=%s'.__mod__, data.items()))}\n".encode())
            with suppress(OSError):
                while waiting and self._room.poll(0):
                    size, count = len(waiting[0]), 1
                    while count < len(waiting) and (size := size + len(waiting[count])) <= PIPE_BUF:
                        count += 1
                    os.write(self._descriptor, b"".join(waiting[:count]))
                    del waiting[:count]
            del waiting[:-MAX_LOG_LINES]


def _as_json(event: str, members: Any, when: int, about: dict[str, str]) -> bytes:
    level = "warning" if event in _WARNINGS else "error" if event.endswith(_ERRORS) else "info"
    stamp = timestamp(when // 1_000_000)
    line = {"event": event, "data": members, "timestamp": stamp, "level": level, **about}
    return visible_json(msgspec.json.encode(line).decode()).encode() + b"\n"


def _as_text(event: str, text: str, data: dict[str, Any]) -> bytes:
    prose = text or " ".join(map("%s=%s".__mod__, data.items()))
    return f"adjourn: {event:<18} {visible_line(without_secrets(prose))}\n".encode()
