"""Lines over file descriptors: blocking reads, whole writes, bounded lines.

Owns: splitting at LF only, the size bound, short and refused writes. Must never: look into a line.
"""

from __future__ import annotations

import os

CHUNK = 1 << 16
OVERSIZE = b""
"""Stands for a line that was longer than the limit, and was dropped."""


class LineReader:
    """Complete lines from a descriptor, as many as have arrived, each with its line feed."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._partial: list[bytes] = []
        self._size = 0
        self._dropping = False

    def read(self) -> list[bytes] | None:
        """Wait for lines; None at the end. A last line without line feed is returned with one."""
        while True:
            try:
                chunk = os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                _wait(self._descriptor, writing=False)
                continue
            except OSError:  # the peer is gone in a way that read() reports as an error (EIO of a terminal)
                chunk = b""
            if not chunk:
                return self._end()
            end = chunk.rfind(b"\n") + 1
            if not end:
                self._keep(chunk)
                continue
            lines = self._complete(chunk if end == len(chunk) else chunk[:end])
            if end < len(chunk):
                self._keep(chunk[end:])
            if lines:
                return lines

    def _complete(self, data: bytes) -> list[bytes]:
        if not self._partial and not self._dropping:
            if data.count(b"\n") == 1:
                return [data]
            return _split(data)
        first, _, rest = data.partition(b"\n")
        self._keep(first + b"\n")
        lines = [OVERSIZE if self._dropping else b"".join(self._partial)]
        self._partial, self._size, self._dropping = [], 0, False
        return lines + _split(rest)

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            self._partial, self._dropping = [], True
        elif not self._dropping:
            self._partial.append(data)

    def _end(self) -> list[bytes] | None:
        if not self._partial:
            return None
        line = b"".join(self._partial) + b"\n"
        self._partial = []
        return [line]


def _split(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte. Raises `OSError` when the reader is gone."""
    view = None
    while True:
        try:
            written = os.write(descriptor, data if view is None else view)
        except BlockingIOError:
            _wait(descriptor, writing=True)
            continue
        if written == len(data if view is None else view):
            return
        view = memoryview(data)[written:] if view is None else view[written:]


def _wait(descriptor: int, *, writing: bool) -> None:
    """Some clients hand over non-blocking pipes."""
    import select  # noqa: PLC0415  # rarely needed

    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if writing else select.POLLIN)
    poll.poll()
