"""The one thread of a proxy: it polls the pipes, writes without ever waiting, and keeps the time.

What may take long (writing a checkpoint, opening the session of a large task) runs in one worker thread, whose results are handled
here as well: only this thread touches pipes and open requests.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from select import POLLIN, POLLOUT, poll
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from adjourn.relay.ports import NEVER, Outcome, Unread
from adjourn.text.quoting import last_lines

if TYPE_CHECKING:
    from queue import SimpleQueue

_T = TypeVar("_T")


class Loop:
    """Calls what is registered with it, one at a time, in the thread that runs it. `soon` may be called from any thread.

    `on_error` is called with what one of these calls raises; the loop continues.
    """

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self._poll = poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._paused: dict[int, tuple[int, Callable[[int], None], Callable[[], bool]]] = {}
        self._timers: dict[Callable[[], None], float] = {}
        self._next = NEVER
        self._soon: deque[Callable[[], None]] = deque()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._work: SimpleQueue[Callable[[], None]] | None = None
        self._stopped = False
        self.watch(self._woken, POLLIN, self._take_soon)

    def watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler` with what `poll` reports of a descriptor, from now on."""
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, events)

    def unwatch(self, descriptor: int) -> None:
        """Look at a descriptor no more."""
        self._paused.pop(descriptor, None)
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def pause(self, descriptor: int, events: int, until: Callable[[], bool]) -> None:
        """Look at a descriptor no more until `until()`, which is asked after each thing that happens."""
        self._paused[descriptor] = events, self._handlers.pop(descriptor), until
        self._poll.unregister(descriptor)

    def time(self) -> float:
        """Return the time in seconds (`time.monotonic`)."""
        return time.monotonic()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` once, in so many seconds. Replaces an earlier time of the same action."""
        due = self._timers[action] = time.monotonic() + seconds
        self._next = min(self._next, due)

    def soon(self, action: Callable[[], None]) -> None:
        """Call `action` in the thread of the loop. For other threads, and for signal handlers."""
        self._soon.append(action)
        with suppress(BlockingIOError):  # full of wakes that were not examined: one is enough
            os.write(self._wake, b"\0")

    def work(self, job: Callable[[], _T], then: Callable[[Outcome[_T]], None]) -> None:
        """Run `job` in the worker, after those that were given to it before; then call `then` in the thread of the loop."""
        if self._work is None:
            from queue import SimpleQueue  # not before the first call

            self._work = SimpleQueue()
            Thread(target=self._run_worker, args=(self._work,), daemon=True).start()

        def run() -> None:
            outcome = Outcome(job)
            self.soon(lambda: then(outcome))

        self._work.put(run)

    def stop(self) -> None:
        """Have `run` return once what is in progress has been handled."""
        self._stopped = True
        self.soon(_nothing)

    def run(self) -> None:
        """Poll and handle until `stop`."""
        ready, handlers = self._poll.poll, self._handlers
        monotonic = time.monotonic
        while not self._stopped:
            if self._paused:
                self._resume()
            wait = None if self._next == NEVER else max(0.0, self._next - monotonic()) * 1000
            for descriptor, events in ready(wait):
                if (handler := handlers.get(descriptor)) is None:
                    continue  # one before it has taken it away
                try:
                    handler(events)
                except Exception as error:  # one failure must not end the session
                    self._on_error(error)
            if (now := monotonic()) < self._next:
                continue
            due = [action for action, at in self._timers.items() if at <= now]
            for action in due:
                del self._timers[action]
            self._next = min(self._timers.values(), default=NEVER)
            for action in due:
                try:
                    action()
                except Exception as error:  # as above
                    self._on_error(error)
        self._stopped = False

    def _resume(self) -> None:
        for descriptor, (events, handler, until) in list(self._paused.items()):
            if until():
                del self._paused[descriptor]
                self.watch(descriptor, events, handler)

    def _take_soon(self, events: int) -> None:
        del events
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        while self._soon:
            try:
                self._soon.popleft()()
            except Exception as error:  # as above
                self._on_error(error)

    def _run_worker(self, work: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            work.get()()


def _nothing() -> None:
    """To be called by who only has to be woken."""


class PipeWriter:
    """Writes to a non-blocking pipe. What it has no room for waits here, in order; see `size`.

    `on_lost` is called with what was not read once the reader has exited, and with all that comes after it.
    """

    def __init__(self, loop: Loop, descriptor: int, on_lost: Callable[[list[Unread]], None]) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._on_lost = on_lost
        self._waiting: deque[tuple[memoryview, Unread]] = deque()
        self._is_lost = False
        self.size = 0
        """Bytes that wait."""
        self.since = NEVER
        """When the reader last took something (`time.monotonic`), while bytes wait."""

    def send(self, data: bytes, about: Any = None) -> None:
        """Write, or keep what there is no room for. `about` is for `on_lost`."""
        written = 0
        if self._is_lost:
            self._on_lost([Unread(about, False)])
            return
        if not self._waiting:
            try:
                written = os.write(self._descriptor, data)
            except BlockingIOError:
                pass
            except OSError:
                self.lose()
                self._on_lost([Unread(about, False)])
                return
            if written == len(data):
                return
            self.since = time.monotonic()
            self._loop.watch(self._descriptor, POLLOUT, self._flush)
        self._waiting.append((memoryview(data)[written:], Unread(about, written > 0)))
        self.size += len(data) - written

    def _flush(self, events: int) -> None:
        del events
        while self._waiting:
            data, unread = self._waiting[0]
            try:
                written = os.write(self._descriptor, data)
            except BlockingIOError:
                return
            except OSError:
                self.lose()
                return
            self.size -= written
            self.since = time.monotonic()
            if written < len(data):
                self._waiting[0] = data[written:], unread._replace(begun=True)
                return
            self._waiting.popleft()
        self.since = NEVER
        self._loop.unwatch(self._descriptor)

    def lose(self) -> None:
        """Stop writing: the reader has exited, or does not read."""
        self._is_lost = True
        self._loop.unwatch(self._descriptor)
        unread = [entry for _, entry in self._waiting]
        self._waiting.clear()
        self.size, self.since = 0, NEVER
        if unread:
            self._on_lost(unread)

    def drain(self, seconds: float) -> None:
        """Wait until all is written, or nobody reads, or the time is over."""
        end = time.monotonic() + seconds
        room = poll()
        room.register(self._descriptor, POLLOUT)
        while self._waiting and (left := end - time.monotonic()) > 0:
            room.poll(left * 1000)
            self._flush(POLLOUT)

    def close(self) -> None:
        """Close the pipe. What waits is lost."""
        if self._descriptor >= 0:
            self.lose()
            # INVARIANT: a closed descriptor is never used again; its number may soon be that of another file.
            closing, self._descriptor = self._descriptor, -1
            with suppress(OSError):
                os.close(closing)


# --- what the server writes to stderr

MAX_KEPT = 16 * 1024
MAX_LINES, MAX_LINE = 5, 300
_PART = 64 * 1024
_LAST_SECONDS = 0.25
"""How long the rest of what a server wrote before it ended may take: another process may hold its stderr open."""


class ServerStderr:
    """Reads a pipe to its end, from now on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = b""
        self._thread = Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        with suppress(OSError):
            while data := os.read(self._descriptor, _PART):
                self._kept = (self._kept + data)[-MAX_KEPT:]
                _write(data)

    def finish(self) -> None:
        """Pass on what is left, now that the server has ended."""
        self._thread.join(_LAST_SECONDS)

    def last(self) -> str:
        """The last lines that the server wrote, without secrets, as the end of a sentence; "" for none."""
        lines = last_lines(self._kept, MAX_LINES, MAX_LINE)
        return f" (stderr: {'; '.join(lines)})" if lines else ""


def _write(data: bytes) -> None:
    """Write to our stderr, whether it blocks or not. Nobody may read it."""
    with suppress(OSError):
        while data:
            try:
                data = data[os.write(2, data) :]
            except BlockingIOError:
                room = poll()
                room.register(2, POLLOUT)
                room.poll()
