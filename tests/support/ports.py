"""Ports for the servers of tests, of which no other process of this machine can be given one meanwhile.

A port that the system chooses and that is let go is soon chosen again, for any connection. These lie below the ones that it chooses.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator

FIRST, LAST, BLOCK = 12_000, 32_000, 500


def free_port() -> int:
    """A port on which nothing listens, and that no other caller of this function gets."""
    return next(_PORTS)


def _ports() -> Iterator[int]:
    blocks = range(FIRST, LAST, BLOCK)
    first = os.getpid() % len(blocks)
    for start in itertools.chain(blocks[first:], blocks[:first]):
        with socket.socket() as owned:
            # whoever has the first port of a block has the block, until the process ends
            if not _bound(owned, start):
                continue
            for port in itertools.cycle(range(start + 1, start + BLOCK)):
                with socket.socket() as found:
                    free = _bound(found, port)
                if free:
                    yield port
    raise AssertionError(f"no free ports between {FIRST} and {LAST}")


def _bound(found: socket.socket, port: int) -> bool:
    try:
        found.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


_PORTS = _ports()
