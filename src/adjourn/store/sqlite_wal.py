"""Keeping the write-ahead log short without making an append wait for it.

Owns: when the log is copied into the database, and by whom. Must never: write an event, hold the writer's lock
while there is much to copy, or delete the log.

SQLite's own habit is to let the commit that brings the log to 1,000 pages copy all of them: about 5 ms, on the
path of some unlucky append. Here that append only starts a short-lived thread, which copies with a connection of its
own while appends continue. A log that is copied whole is restarted by the next append; one that never is grows for
ever, so when appends keep outrunning the thread, it makes its last copy, a short one, with the writer's lock held. On a
machine that is too busy to run the thread, appends wait for it once they have written `PAGES` more.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import Final

from adjourn.store import sqlite_file

PAGES: Final = 2500
"""Pages written since the last copy that start the next one (10 MiB)."""

_FREE_ROUNDS = 3


class LogCopier:
    """Copies the log on request, in the background, one copy at a time."""

    def __init__(self, path: str, writer_lock: threading.Lock) -> None:
        self._path = path
        self._writer_lock = writer_lock
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> bool:
        """Start a copy; False if one is running, or the store is closing. The caller holds the writer's lock."""
        if self._stopping or (self._thread is not None and self._thread.is_alive()):
            return False
        # A daemon: a process that ends without close() must not wait for a copy that the next one can make.
        self._thread = threading.Thread(target=self._copy, name="adjourn-wal", daemon=True)
        self._thread.start()
        return True

    def stop(self) -> None:
        """Wait for a running copy, and start no other. The caller does not hold the writer's lock."""
        self._stopping = True
        self.wait()

    def wait(self) -> None:
        """Wait for a running copy. The caller does not hold the writer's lock."""
        if self._thread is not None:
            self._thread.join()

    def _copy(self) -> None:
        try:
            connection = sqlite_file.connect(self._path)
        except sqlite3.Error:
            return
        try:
            length = 0
            for _ in range(_FREE_ROUNDS):
                before, length = length, _copy_once(connection)
                if self._stopping or length == before:
                    return  # nothing came in since: the next append restarts the log
            with self._writer_lock:
                _copy_once(connection)
        except sqlite3.Error:
            # Nothing is lost: the log still holds it all. If the disk is full or failing, the next append says so.
            return
        finally:
            connection.close()


def _copy_once(connection: sqlite3.Connection) -> int:
    """Copy what no reader still needs in the log, without waiting for anybody; returns the log's length in pages."""
    _busy, pages, _copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(pages)
