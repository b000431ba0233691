"""Server-sent events: what a server streams, and what a client is sent.

Owns: this format. Must never: look into the data of an event.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_EVENT = 64 * 1024 * 1024
"""Bytes of one event."""


class StreamEvent(NamedTuple):
    """An event. `retry` is its line, if it has one; `name` what it is called, nothing for a message."""

    data: bytes
    id: bytes = b""
    retry: bytes = b""
    name: bytes = b""


class EventReader:
    """Takes the parts of a stream; `feed` returns the events that are whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._id = self._retry = self._name = b""
        self._size = 0

    def feed(self, part: bytes) -> list[StreamEvent]:
        """Raises `ValueError` for an event that is too long."""
        found: list[StreamEvent] = []
        text = self._rest + part
        if text.endswith(b"\r"):  # a line feed may follow
            text, self._rest = text[:-1], b"\r"
        else:
            self._rest = b""
        *lines, last = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = last + self._rest
        if len(self._rest) > MAX_EVENT:
            raise ValueError("an event of the server's stream is too long")
        for line in lines:
            if line:
                self._take(line)
            elif self._data or self._id or self._retry:
                found.append(StreamEvent(b"\n".join(self._data), self._id, self._retry, self._name))
                self._data, self._id, self._retry, self._name, self._size = [], b"", b"", b"", 0
            else:
                self._name = b""
        return found

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value)
            if self._size > MAX_EVENT:
                raise ValueError("an event of the server's stream is too long")
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value
        elif name == b"retry" and value.isdigit():
            self._retry = value
        elif name == b"event":
            self._name = b"" if value == b"message" else value


def written(event: StreamEvent) -> bytes:
    """An event as it is sent."""
    lines = [b"event: %b\n" % (event.name or b"message")] if event.data else []
    if event.id:
        lines.append(b"id: %b\n" % event.id)
    if event.retry:
        lines.append(b"retry: %b\n" % event.retry)
    lines += [b"data: %b\n" % line for line in event.data.split(b"\n")]
    return b"".join(lines) + b"\n"
