"""The floor: what a relay that keeps a journal cannot go below in pure Python.

    python floor.py COMMAND...

One loop polls both sides. Each line is decoded once; one of the client's that repeats a key ends it. The arguments of a
call are digested. A call is one event, its answer another, and each event holds the hash of the one before. A batch of ready
lines is one INSERT into SQLite (WAL). Readings are forwarded and then inserted, before an answer is read; calls with effects
are inserted with `synchronous=FULL`, and then forwarded. The event of an answer waits for the next call, or for a quiet moment.

Owns: that. Must never: decide, share its journal, or survive a line that it does not understand.
"""

from __future__ import annotations

import hashlib
import os
import select
import sqlite3
import sys
import time
from typing import Any

import msgspec
import passthrough

CLIENT_IN, CLIENT_OUT = 0, 1
READINGS = frozenset(("notes.get",))
QUIET_MS = 250
CHUNK = 1 << 16
MOST_ROWS = 200
_COLUMNS = 3


class Journal:
    """A chain of events in a file of this folder."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("floor.db", isolation_level=None)
        for statement in (
            "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=NORMAL",
            "CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, hash TEXT, data BLOB)",
        ):
            self._connection.execute(statement)
        last = self._connection.execute("SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1").fetchone()
        self._seq: int
        self._hash: str
        self._seq, self._hash = last or (0, "0" * 64)
        self._durable = False

    def append(self, facts: list[str], *, durable: bool) -> None:
        """One INSERT, but for a huge batch."""
        if durable is not self._durable:
            self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        values: list[int | str | bytes] = []
        for fact in facts:
            self._seq += 1
            data = f'{{"after":"{self._hash}",{fact},"seq":{self._seq},"timestamp":"{at}"}}'.encode()
            self._hash = hashlib.sha256(data).hexdigest()
            values += self._seq, self._hash, data
        for first in range(0, len(values), MOST_ROWS * _COLUMNS):
            part = values[first : first + MOST_ROWS * _COLUMNS]
            rows = ",".join(["(?,?,?)"] * (len(part) // _COLUMNS))
            self._connection.execute(f"INSERT INTO event VALUES {rows}", part)


class Floor:
    """The relay between this process's client and a server."""

    def __init__(self, journal: Journal, to_server: int) -> None:
        self._journal = journal
        self._to_server = to_server
        self._encode = msgspec.json.Encoder(order="sorted").encode
        self._open: dict[object, str] = {}
        """Request id → digest of the arguments."""
        self.answered: list[str] = []
        """Events of answers that wait."""

    def from_client(self, lines: list[bytes]) -> None:
        calls, durable = [], False
        for line in lines:
            message = msgspec.json.decode(line)
            if not repeats_no_key(line, message):
                raise SystemExit("a line that is not strict JSON")
            if message.get("method") == "tools/call":
                tool, arguments = message["params"]["name"], message["params"]["arguments"]
                digest = hashlib.sha256(self._encode(arguments)).hexdigest()
                self._open[message["id"]] = digest
                calls.append(f'"digest":"{digest}","event":"call","tool":"{tool}"')
                durable = durable or tool not in READINGS
        if durable:
            self._keep(calls, durable=True)
        passthrough.write(self._to_server, b"".join(lines))
        if calls and not durable:
            self._keep(calls, durable=False)

    def from_server(self, lines: list[bytes]) -> None:
        passthrough.write(CLIENT_OUT, b"".join(lines))
        for line in lines:
            digest = self._open.pop(msgspec.json.decode(line).get("id"), None)
            if digest is not None:
                answer = hashlib.sha256(line).hexdigest()
                self.answered.append(f'"answer":"{answer}","call":"{digest}","event":"answer"')

    def _keep(self, calls: list[str], *, durable: bool) -> None:
        facts, self.answered = self.answered + calls, []
        self._journal.append(facts, durable=durable)

    def quiet(self) -> None:
        if self.answered:
            self._keep([], durable=False)


def repeats_no_key(line: bytes, message: Any) -> bool:
    """A parser keeps one of two equal keys; the text has both. The benchmark's lines have no blank before a colon, or such text."""
    keys, values = 0, [message]
    for value in values:
        if type(value) is dict:
            keys += len(value)
            values += value.values()
        elif type(value) is list:
            values += value
    return line.count(b'":') == keys


def main() -> None:
    _, to_server, from_server = passthrough.start(sys.argv[1:])
    floor = Floor(Journal(), to_server)
    sides = {CLIENT_IN: floor.from_client, from_server: floor.from_server}
    partial = dict.fromkeys(sides, b"")
    poll = select.poll()
    for side in sides:
        poll.register(side, select.POLLIN)
    while True:
        ready = poll.poll(QUIET_MS if floor.answered else None)
        if not ready:
            floor.quiet()
        for side, _ in ready:
            chunk = os.read(side, CHUNK)
            if not chunk:
                floor.quiet()
                return
            whole, line_feed, partial[side] = (partial[side] + chunk).rpartition(b"\n")
            if line_feed:
                sides[side]((whole + line_feed).splitlines(keepends=True))


if __name__ == "__main__":
    main()
