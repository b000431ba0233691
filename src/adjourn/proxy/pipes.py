"""The two pipes and what is under way between them: pending requests, batches, whole writes.

Owns: the pending table (no answer without its request), writing to either side, assembling batch answers.
Must never: decide.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from select import PIPE_BUF
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Literal

from adjourn.mcp import frames, write_all
from adjourn.proxy.stderr_log import StderrLog

if TYPE_CHECKING:
    from queue import SimpleQueue

    from adjourn.checkpoints import GuardedSession

CLIENT_OUT = 1
MAX_GIVEN_UP = 1000
MAX_OWED = 1000
"""Answers to an upstream that does not read them."""
CLOSE_SECONDS = 0.5
UNREAD_SECONDS = 300.0
"""How long an upstream may take nothing from a full pipe: one that works on one call at a time does not read meanwhile."""
NO_ANSWER = b""
"""In the place of an answer that nobody waits for any more."""

Written = Literal["all", "a part", "nothing"]


class Batch:
    """The answers to one JSON-RPC batch, sent as one line when the last is there."""

    __slots__ = ("due", "parts")

    def __init__(self, due: int) -> None:
        self.due = due
        """How many of its requests have no answer yet."""
        self.parts: list[bytes] = []

    def expect(self) -> None:
        """One more of its requests gets an answer."""
        self.due += 1

    def add(self, line: bytes) -> bytes:
        """Take an answer, or `NO_ANSWER`. Returns all answers as one line when this was the last, else nothing."""
        if line:
            self.parts.append(line.rstrip(b"\n"))
        self.due -= 1
        return b"[" + b",".join(self.parts) + b"]\n" if self.due == 0 and self.parts else b""


class Pending:
    """A request that has no answer yet, made when it is written. `session` and `call` are those of a call in the history.

    `kept`: its answer is stored, since the call may not be repeated. `cancelled`: the client does not wait for it; an answer may
    still arrive, and then says what became of the call.
    """

    __slots__ = ("batch", "call", "cancelled", "effectful", "kept", "kind", "modern", "session", "started")

    def __init__(
        self,
        kind: str,
        *,
        modern: bool,
        batch: Batch | None,
        session: GuardedSession | None = None,
        call: str = "",
        effectful: bool = False,
        kept: bool = False,
    ) -> None:
        self.kind = kind
        self.modern = modern
        self.batch = batch
        self.session = session
        self.call = call
        self.effectful = effectful
        self.kept = kept
        self.cancelled = False
        self.started = time.monotonic_ns()


class Wire:
    """Shared by both directions. Thread-safe."""

    def __init__(self, upstream_in: int, report: StderrLog) -> None:
        self._upstream_in = upstream_in
        self._is_unread = False
        self._client_lock = Lock()
        self._upstream_lock = Lock()
        self.report = report
        self.pending: dict[Any, Pending] = {}
        self._given_up: list[Any] = []
        self._owed: SimpleQueue[bytes] | None = None

    def answer_upstream(self, line: bytes) -> None:
        """Answer a request of the upstream, without waiting for it to read: it may be waiting for us to."""
        if self._owed is None:
            from queue import SimpleQueue  # noqa: PLC0415  # few upstreams need it

            self._owed = SimpleQueue()
            Thread(target=self._pay, args=(self._owed,), daemon=True).start()
        if self._owed.qsize() < MAX_OWED:
            self._owed.put(line)

    def _pay(self, owed: SimpleQueue[bytes]) -> None:
        while True:
            self.to_upstream(owed.get())

    def to_upstream(self, data: bytes) -> Written:
        """Write whole lines, and say how much of them the upstream may have read."""
        with self._upstream_lock:
            if self._is_unread:  # what follows a line that was cut off would be taken for its end
                return "nothing"
            try:
                write_all(self._upstream_in, data, UNREAD_SECONDS)
            except OSError:
                self._is_unread = True
                # A pipe takes up to PIPE_BUF bytes whole, or not at all.
                return "a part" if len(data) > PIPE_BUF else "nothing"
        return "all"

    def to_client(self, data: bytes) -> None:
        """Write whole lines. A client that has gone is noticed by the reading side."""
        with self._client_lock:
            try:  # noqa: SIM105  # on the path of every call, where `suppress` costs three more
                write_all(CLIENT_OUT, data)
            except OSError:
                pass

    def answer(self, batch: Batch | None, line: bytes) -> bytes:
        """What goes to the client for one answer: the line, or nothing until its batch is whole."""
        if batch is None:
            return line
        with self._client_lock:
            return batch.add(line)

    def reply(self, pending: Pending, line: bytes) -> bytes:
        """The same for the answer to a request that was under way, and has left the table."""
        if pending.batch is None:
            return line
        with self._client_lock:
            batch, pending.batch = pending.batch, None
            return line if batch is None else batch.add(line)

    def close_upstream(self) -> None:
        """Close the upstream's input, unless a write to it hangs; nothing is written to it any more."""
        if self._upstream_lock.acquire(timeout=CLOSE_SECONDS):
            # INVARIANT: a closed descriptor is never used again; its number may soon be that of another file.
            closing, self._upstream_in, self._is_unread = self._upstream_in, -1, True
            self._upstream_lock.release()
            with suppress(OSError):
                os.close(closing)

    def give_up(self, request_id: Any) -> Pending | None:
        """The client does not wait for this any more. Returns the request when that is news."""
        pending = self.pending.get(request_id)
        if pending is None or pending.cancelled:
            return None
        pending.cancelled = True
        if pending.batch is not None:
            self.to_client(self.reply(pending, NO_ANSWER))  # the others of its batch do not wait for it
        self._given_up.append(request_id)
        if len(self._given_up) > MAX_GIVEN_UP:  # an upstream need not answer these, ever
            self.pending.pop(self._given_up.pop(0), None)
        return pending

    def fail_pending(self, message: str) -> list[Pending]:
        """Answer every pending request with an error, but those the client gave up; returns what was pending."""
        gone = []
        for request_id in list(self.pending):
            if (pending := self.pending.pop(request_id, None)) is None:
                continue  # another thread has just answered it
            gone.append(pending)
            if not pending.cancelled:
                error = frames.error(request_id, frames.UPSTREAM_GONE, message)
                self.to_client(self.reply(pending, error))
        return gone
