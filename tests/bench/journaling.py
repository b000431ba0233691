"""The least that a stdio proxy in Python can be that keeps a history: the pass-through, and one insert a call.

    python journaling.py COMMAND...

Of each line from the client it decodes the JSON; of each call it hashes the arguments, chains an event to the one before,
and inserts it into SQLite (WAL, `synchronous=NORMAL`) before the line goes on. It decides nothing, checks nothing, and
shares nothing with another process. What adjourn costs beyond this is the cost of deciding, and of being safe.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
from threading import Thread
from typing import Any

import msgspec
import passthrough


class Journal:
    """A chain of events in a file of its own."""

    def __init__(self) -> None:
        connection = sqlite3.connect("journal.db", isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS event (position INTEGER PRIMARY KEY, hash TEXT, data BLOB)"
        )
        self._cursor = connection.cursor()
        self._position = self._cursor.execute("SELECT coalesce(max(position), 0) FROM event").fetchone()[0]
        self._hash = "0" * 64

    def write(self, params: dict[str, Any]) -> None:
        arguments = msgspec.json.encode(params.get("arguments"), order="sorted")
        data = {"digest": hashlib.sha256(arguments).hexdigest(), "tool": params["name"]}
        self._position += 1
        event = msgspec.json.encode({"after": self._hash, "data": data, "seq": self._position})
        self._hash = hashlib.sha256(event).hexdigest()
        self._cursor.execute("INSERT INTO event VALUES (?, ?, ?)", (self._position, self._hash, event))


def journal(source: int, sink: int) -> None:
    kept = Journal()
    while data := os.read(source, 1 << 16):
        for line in data.splitlines():
            message = msgspec.json.decode(line)
            if message.get("method") == "tools/call":
                kept.write(message["params"])
        while data:
            data = data[os.write(sink, data) :]
    os.close(sink)


def main() -> None:
    child, to_them, from_them = passthrough.start(sys.argv[1:])
    Thread(target=journal, args=(0, to_them), daemon=True).start()
    passthrough.pump(from_them, 1)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
