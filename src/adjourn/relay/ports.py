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
    from adjourn.clients.client import ClientContext
    from adjourn.relay.request import Request
    from adjourn.tasks.decision import ToolRequest
    from adjourn.tasks.session import Admitted

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
        context: ClientContext,
        calls: Sequence[ToolRequest],
        task: str,
        forward: Callable[[GuardedSession, Sequence[Admitted]], None],
        then: Callable[[Outcome[tuple[GuardedSession, list[Admitted]] | None]], None],
        /,
    ) -> None:
        """Decide on calls, and commit their intents. For the arguments see `ClientContext.admitting`; the outcome is None for what has to be
        given to `ClientContext.admit`.
        """

    def settle(
        self,
        settled: Mapping[GuardedSession, Settled],
        then: Callable[[Mapping[GuardedSession, Exception]], None],
        /,
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
