"""Waiting for appends to a PostgreSQL store: one connection for all who wait.

Owns: `PostgresWatch`, LISTEN and what is heard. Must never: have a thread of its own, believe a notification more than a look at
the head, or leave a connection listening that nobody reads: the server keeps what it has not delivered, for everybody.

One of the threads that wait reads the connection, and wakes those whose streams are named. When it leaves, another one reads.
Everybody looks at the head once a second, so that a lost notification delays, and nothing more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from adjourn.errors import StoreError
from adjourn.store import postgres_link
from adjourn.store.base import Head
from adjourn.store.postgres_line import LostConnectionError, PostgresServer

if TYPE_CHECKING:
    from adjourn.store.postgres_link import Connection

POLL_SECONDS: Final = 1.0


class PostgresWatch:
    """Those who wait for the head of a stream to change, which `head` tells."""

    def __init__(self, server: PostgresServer, head: Callable[[str], Head]) -> None:
        self._server, self._head = server, head
        self._lock = threading.Lock()
        self._bells: dict[str, set[threading.Event]] = {}
        self._connection: Connection | None = None
        self._has_reader = self._listens = self._closed = False

    def wait(self, stream: str, after: Head, deadline: float) -> Head:
        """The head, once it is not `after` or the time is over. Raises `StoreError`."""
        bell = threading.Event()
        with self._lock:
            self._bells.setdefault(stream, set()).add(bell)
        failed = False
        try:
            while (head := self._head(stream)) == after and (left := deadline - time.monotonic()) > 0:
                try:
                    self._wait(bell, min(left, POLL_SECONDS))
                    failed = False
                except LostConnectionError as lost:
                    if failed:
                        raise StoreError(
                            f"the connection to the store {self._server.where} broke twice while waiting for new events",
                            "check the server and the network, then try again",
                        ) from lost.__cause__
                    failed = True
        finally:
            self._leave(stream, bell)
        return head

    def close(self) -> None:
        """Those who still wait notice it when they look at the head."""
        with self._lock:
            self._closed = True
            reads = not self._has_reader
            self._has_reader = True
        if reads:
            self._end_reading()

    def _wait(self, bell: threading.Event, seconds: float) -> None:
        """Until the stream of `bell` is named or may have been, at most so long."""
        with self._lock:
            reads = not self._has_reader
            self._has_reader = True
        if not reads:
            bell.wait(seconds)
            bell.clear()
            return
        try:
            self._read(bell, seconds)
            bell.clear()
        finally:
            self._end_reading(bell)

    def _read(self, bell: threading.Event, seconds: float) -> None:
        end = time.monotonic() + seconds
        try:
            if self._connection is None:
                self._connection = self._server.connect()
            if not self._listens:
                self._connection.execute("LISTEN adjourn")
                self._listens = True
                self._ring("")  # look once more: what came before was not heard
            while not bell.is_set() and (left := end - time.monotonic()) > 0:
                for news in self._connection.notifies(timeout=left, stop_after=1):
                    self._ring(news.payload)
        except self._server.errors as error:
            connection, self._connection, self._listens = self._connection, None, False
            if connection is not None and connection.closed:
                raise LostConnectionError from error
            if connection is not None:
                connection.close()
            raise postgres_link.failure(self._server.where, error) from error

    def _ring(self, streams: str) -> None:
        """Wake those who wait for one of these streams; everybody if none is named."""
        with self._lock:
            named = streams.split("\n") if streams else list(self._bells)
            for stream in named:
                for bell in self._bells.get(stream, ()):
                    bell.set()

    def _leave(self, stream: str, bell: threading.Event) -> None:
        with self._lock:
            self._bells[stream].discard(bell)
            if not self._bells[stream]:
                del self._bells[stream]
            reads = not self._bells and not self._has_reader
            self._has_reader = self._has_reader or reads
        if reads:
            self._end_reading()

    def _end_reading(self, own: threading.Event | None = None) -> None:
        """Leave the connection to another one who waits. Without any, it stops to listen; of a closed store, it ends."""
        with self._lock:
            idle, closed = not self._bells, self._closed
        try:
            if self._connection is not None and (closed or (idle and self._listens)):
                self._stop_listening(self._connection, closed=closed)
        finally:
            with self._lock:
                self._has_reader = False
                others = (bell for bells in self._bells.values() for bell in bells if bell is not own)
                if heir := next(others, None):
                    heir.set()

    def _stop_listening(self, connection: Connection, *, closed: bool) -> None:
        self._listens = False
        if not closed:
            with suppress(self._server.errors):
                connection.execute("UNLISTEN *")
                return
        self._connection = None
        connection.close()
