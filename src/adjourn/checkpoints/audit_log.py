"""`audit.jsonl` of a checkpoint's folder: read line by line, so that a history of any length, or what is none, needs little memory.

The first line that breaks the chain ends the reading. What is kept of a chain that holds is 32 bytes an event; who needs the events
reads them again, and each is held to its digest: nobody can change the file in between.

Owns: reading that file. Must never: hold more of it than a line, decode, or hand out an event that was not verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from adjourn.errors import IntegrityError
from adjourn.host import read_lines
from adjourn.log import GENESIS, MAX_EVENT_BYTES
from adjourn.store import Entry

MAX_AUDIT_BYTES = 256 * 1024 * 1024
MAX_EVENTS = 1_000_000
_DIGEST_BYTES = 32
_RESTORE = "restore it from version control, or `adjourn export` it again from the store"


class Audit(NamedTuple):
    """The events of a file whose chain holds, up to the one that was asked for."""

    path: str
    digests: bytes

    @property
    def total(self) -> int:
        """How many events there are."""
        return len(self.digests) // _DIGEST_BYTES

    def hash_of(self, seq: int) -> str:
        return self.digests[seq * _DIGEST_BYTES : (seq + 1) * _DIGEST_BYTES].hex()

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """The events `start <= seq < stop`. Raises `IntegrityError` where the file is not the one that was verified."""
        stop = self.total if stop is None else min(stop, self.total)
        seq = start
        for line in islice(read_lines(self.path, MAX_AUDIT_BYTES, MAX_EVENT_BYTES), start, stop):
            entry = _entry(line)
            if entry.hash != self.hash_of(seq):
                raise IntegrityError(f"{self.path} was changed at line {seq + 1} while it was read", _RESTORE)
            yield entry
            seq += 1
        if seq < stop:
            raise IntegrityError(f"{self.path} became shorter while it was read", _RESTORE)


def follow(path: str, seq: int) -> tuple[Audit, Entry]:
    """The events 0 … `seq` of a file, and the last of them. Raises `InvalidError`, `IntegrityError`.

    Later lines are left by a crash between two files: they must follow, and are not looked at otherwise.
    """
    digests = bytearray()
    last = None
    link = _link(GENESIS)
    number = 0
    for number, line in enumerate(read_lines(path, MAX_AUDIT_BYTES, MAX_EVENT_BYTES), 1):  # told below
        if not line.startswith(link):
            raise IntegrityError(f"{path} breaks at line {number}: parent-mismatch", _RESTORE)
        if not line.endswith(b"\n"):
            raise IntegrityError(f"{path} does not end with a line feed", _RESTORE)
        if number > MAX_EVENTS:
            raise IntegrityError(f"{path} has more than {MAX_EVENTS:,} events", "use the store they are from")
        entry = _entry(line)
        link = _link(entry.hash)
        if number <= seq + 1:
            digests += bytes.fromhex(entry.hash)
            last = entry
    if last is None or number <= seq:
        raise IntegrityError(f"{path} has {number} events, not the {seq + 1} that it must have", _RESTORE)
    return Audit(path, bytes(digests)), last


def _entry(line: bytes) -> Entry:
    data = line[:-1]
    return Entry(sha256(data).hexdigest(), data)


def _link(after: str) -> bytes:
    return b'{"after":"%b"' % after.encode()
