"""One connection to a PostgreSQL server that is replaced when it breaks.

Owns: `PostgresServer`, `PostgresLine`, and what is tried again after a lost connection. Must never: know a table, or trust
that a lost connection means a lost write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from adjourn.errors import StoreError
from adjourn.store import postgres_link

if TYPE_CHECKING:
    from adjourn.store.postgres_link import Connection

SLOW_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 5.0
"""After a connection that took its time to fail no other is tried for as long as it took, at most so long: the threads of a process would
wait for each."""

# A commit waits for all that was written before it. What a look finds may be visible on this server only: its own commit was
# waiting for a standby when the connection was lost.
_CONFIRM = "SELECT pg_logical_emit_message(true, 'adjourn', '')"

_T = TypeVar("_T")


class LostConnectionError(Exception):
    """The connection broke; whether the server executed the statement is not known."""


class PostgresServer:
    """Where to connect to. A server that was slow to fail is left alone for a while, by everyone who shares this."""

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.errors = postgres_link.driver().Error
        self.where = postgres_link.describe_server(url)
        self._url = url
        self._monotonic = monotonic
        self._away: StoreError | None = None
        self._retry_at = 0.0

    def connect(self) -> Connection:
        begun = self._monotonic()
        if self._away is not None and begun < self._retry_at:
            raise StoreError(self._away.message, self._away.remedy)
        try:
            connection = postgres_link.connect(self._url)
        except StoreError as error:
            ended = self._monotonic()
            if (seconds := ended - begun) > SLOW_SECONDS:
                self._away, self._retry_at = error, ended + min(seconds, RETRY_SECONDS)
            raise
        self._away = None
        return connection


class PostgresLine:
    """A connection, made when it is needed and guarded by `lock`. The methods take the lock themselves."""

    def __init__(self, server: PostgresServer, connection: Connection | None = None) -> None:
        self.lock = threading.RLock()
        self.server = server
        self.connection = connection
        self._closed = False

    def again(self, work: Callable[[Connection], _T]) -> _T:
        """Read something; again on a new connection when the old one breaks."""
        with self.lock:
            try:
                return self.first(work)
            except LostConnectionError:
                return self.last(work)

    def write(self, work: Callable[[Connection], object]) -> None:
        """Write something that may be written twice; again on a new connection when the old one breaks."""
        with self.lock:
            try:
                self.first(work)
            except LostConnectionError:
                self.last(work)
                self.last(confirm)

    def once(self, write: Callable[[Connection], bool], is_there: Callable[[Connection], bool]) -> bool:
        """Do something that must be done once. After a lost connection, look whether it was done before all else.

        A server that is still at work on the lost statement holds its place in the index: the second try waits
        for it, writes nothing, and the second look finds what the first one did.
        """
        with self.lock:
            try:
                return self.first(write)
            except LostConnectionError:
                return self._look(is_there) or self.last(write) or self._look(is_there)

    def _look(self, is_there: Callable[[Connection], bool]) -> bool:
        def confirmed(connection: Connection) -> bool:
            found = is_there(connection)
            if found:
                confirm(connection)
            return found

        return self.last(confirmed)

    def first(self, work: Callable[[Connection], _T]) -> _T:
        """Do something. Raises `LostConnectionError` when the connection breaks."""
        with self.lock:
            connection = self.connected()
            try:
                return work(connection)
            except self.server.errors as error:
                if connection.closed:
                    self.connection = None
                    raise LostConnectionError from error
                raise postgres_link.failure(self.server.where, error) from error

    def last(self, work: Callable[[Connection], _T]) -> _T:
        """Do something after a lost connection. Raises `StoreError` when the new one breaks, too."""
        try:
            return self.first(work)
        except LostConnectionError as lost:
            raise StoreError(
                f"the connection to the store {self.server.where} broke twice; a write may or may not have been made",
                "check the server and the network, then read the head before you try again",
            ) from lost.__cause__

    def connected(self) -> Connection:
        """The connection, made now if there is none."""
        with self.lock:
            if self._closed:
                raise StoreError(f"the store {self.server.where} is closed", "open it again")
            if self.connection is None:
                self.connection = self.server.connect()
            return self.connection

    def close(self) -> None:
        with self.lock:
            self._closed = True
            if self.connection is not None:
                self.connection.close()
            self.connection = None


def confirm(connection: Connection) -> None:
    """Wait until what can be seen is where an acknowledged write is: on the disk, and on the standbys that are waited for."""
    connection.execute(_CONFIRM)
