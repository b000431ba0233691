"""Lines over file descriptors: blocking reads, whole writes, bounded lines.

Owns: splitting at LF only, the size bound, short and refused writes. Must never: look into a line.
"""

from __future__ import annotations

import os
from select import POLLIN, POLLOUT, poll

CHUNK = 1 << 16
ENDS = 16 * 1024
"""Bytes that are kept of the beginning of a line that is too long, and of its end."""


class Oversize(bytes):
    """The ends of a line that was longer than the limit; what is between them was dropped."""


class LineReader:
    """Complete lines from a descriptor, as many as have arrived, each with its line feed."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._partial: list[bytes] = []
        self._size = 0
        self._ends: tuple[bytes, bytes] | None = None
        """Of a line that is too long, so far."""

    def read(self) -> list[bytes] | None:
        """Wait for lines; None at the end."""
        while not (lines := self.take()):
            if lines is None:
                return None
            _wait(self._descriptor, writing=False)
        return lines

    def take(self) -> list[bytes] | None:
        """The lines that one read of the descriptor completes; None at the end.

        A last line without line feed is returned with one. Blocks while there is nothing to read, unless the descriptor does not.
        """
        try:
            chunk = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return []
        except OSError:  # the peer is gone in a way that read() reports as an error (EIO of a terminal)
            chunk = b""
        if not chunk:
            return self._end()
        end = chunk.rfind(b"\n") + 1
        if end == len(chunk) and not self._size:
            return [chunk] if chunk.count(b"\n") == 1 else _split(chunk)
        if not end:
            self._keep(chunk)
            return []
        lines = self._complete(chunk[:end])
        if end < len(chunk):
            self._keep(chunk[end:])
        return lines

    def _complete(self, data: bytes) -> list[bytes]:
        if not self._size:
            return _split(data)
        first, _, rest = data.partition(b"\n")
        self._keep(first + b"\n")
        lines = [self._taken()]
        return lines + _split(rest)

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._ends is not None:
            self._ends = self._ends[0], (self._ends[1] + data)[-ENDS:]
        elif self._size <= self._limit:
            self._partial.append(data)
        else:
            whole = b"".join([*self._partial, data])
            self._partial, self._ends = [], (whole[:ENDS], whole[ENDS:][-ENDS:])

    def _taken(self) -> bytes:
        line = b"".join(self._partial) if self._ends is None else Oversize(b"".join(self._ends))
        self._partial, self._size, self._ends = [], 0, None
        return line

    def _end(self) -> list[bytes] | None:
        if not self._size:
            return None
        line = self._taken()
        return [line if type(line) is Oversize else line + b"\n"]


def _split(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def write_all(descriptor: int, data: bytes, seconds: float | None = None) -> None:
    """Write every byte. Raises `OSError` when the reader has exited, or reads nothing for `seconds` from a non-blocking pipe."""
    view = None
    while True:
        try:
            written = os.write(descriptor, data if view is None else view)
        except BlockingIOError:
            if not _wait(descriptor, writing=True, seconds=seconds):
                raise TimeoutError("the reader stopped reading") from None
            continue
        if written == len(data if view is None else view):
            return
        view = memoryview(data)[written:] if view is None else view[written:]


def _wait(descriptor: int, *, writing: bool, seconds: float | None = None) -> bool:
    """Some clients hand over non-blocking pipes. Returns whether it came to anything in time."""
    ready = poll()
    ready.register(descriptor, POLLOUT if writing else POLLIN)
    return bool(ready.poll(None if seconds is None else seconds * 1000))
