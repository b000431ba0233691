"""`audit.jsonl` of a checkpoint's folder, read line by line, so that a file of any length and content needs little memory.

Reading ends at the first line that breaks the chain. Of each verified event the 32 bytes of its hash are kept. A second reading
compares every event with its hash, so a change of the file in between is found.

Owns: reading that file. Must never: keep more of it than a line, decode it, or return an event that was not verified.
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
CRLF = "put the line `.aex/checkpoints/** -text` into .gitattributes, commit it, then delete the folder and `git checkout` it again"
RESTORE = "restore it from version control, or `adjourn export` it again from the store"


class Audit(NamedTuple):
    """The verified events of a file, up to the one that was asked for: its path and their hashes, 32 bytes each."""

    path: str
    digests: bytes

    @property
    def total(self) -> int:
        """The number of events."""
        return len(self.digests) // _DIGEST_BYTES

    def hash_of(self, seq: int) -> str:
        """The hash of event `seq`, in hex."""
        return self.digests[seq * _DIGEST_BYTES : (seq + 1) * _DIGEST_BYTES].hex()

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Read the events `start <= seq < stop` again. Raises `IntegrityError` if the file changed since it was verified."""
        stop = self.total if stop is None else min(stop, self.total)
        seq = start
        for line in islice(read_lines(self.path, MAX_AUDIT_BYTES, MAX_EVENT_BYTES), start, stop):
            entry = _entry(line)
            if entry.hash != self.hash_of(seq):
                raise IntegrityError(f"{self.path} was changed at line {seq + 1} while it was read", RESTORE)
            yield entry
            seq += 1
        if seq < stop:
            raise IntegrityError(f"{self.path} became shorter while it was read", RESTORE)


def follow(path: str, seq: int) -> tuple[Audit, Entry]:
    """Verify the events 0 … `seq` of a file; returns them and the last one. Raises `InvalidError`, `IntegrityError`.

    A crash between the writing of two files can leave more lines than that: they must continue the chain, and are ignored.
    """
    digests = bytearray()
    last = None
    link = _link(GENESIS)
    number = 0
    for number, line in enumerate(read_lines(path, MAX_AUDIT_BYTES, MAX_EVENT_BYTES), 1):
        check_line_ending(path, number, line)
        if not line.startswith(link):
            raise IntegrityError(
                f"{path} fails verification at line {number}: it does not follow the line before (parent-mismatch)",
                RESTORE,
            )
        if not line.endswith(b"\n"):
            raise IntegrityError(f"{path} does not end with a line feed", RESTORE)
        if number > MAX_EVENTS:
            raise IntegrityError(
                f"{path} has more than {MAX_EVENTS:,} events", "resume from the store that wrote the folder"
            )
        entry = _entry(line)
        link = _link(entry.hash)
        if number <= seq + 1:
            digests += bytes.fromhex(entry.hash)
            last = entry
    if last is None or number <= seq:
        raise IntegrityError(f"{path} has {number} events, expected {seq + 1}", RESTORE)
    return Audit(path, bytes(digests)), last


def check_line_ending(path: str, number: int, line: bytes) -> None:
    """Raise `IntegrityError` where git or an editor replaced the line feed at the end of a line by CR and LF."""
    if line.endswith(b"\r\n"):
        raise IntegrityError(
            f"{path} has CRLF line endings (line {number}): they were converted since it was written", CRLF
        )


def _entry(line: bytes) -> Entry:
    data = line[:-1]
    return Entry(sha256(data).hexdigest(), data)


def _link(after: str) -> bytes:
    return b'{"after":"%b"' % after.encode()
