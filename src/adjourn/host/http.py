"""One HTTP request and its answer, with bounds on time and size.

Must never: follow a redirect, speak anything but HTTP, repeat a request.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from urllib.parse import SplitResult, urlsplit

from adjourn.errors import InvalidError

CONNECT_SECONDS = 10.0
TIMED_OUT = "timed out"
_KINDS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class UnansweredError(Exception):
    """No answer came. `sent`: the request may have arrived."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


def address(url: str) -> SplitResult:
    """The parts of an http or https address. Raises `InvalidError`."""
    try:
        place = urlsplit(url)
        _ = place.port
    except ValueError as error:
        raise InvalidError(f"{url[:200]!r} is not an address: {error}", "give an http or https URL") from error
    if place.scheme not in _KINDS or not place.hostname:
        raise InvalidError(f"{url[:200]!r} is not an http or https address", "give an http or https URL")
    return place


def exchange(
    method: str, url: str, body: bytes, limit: int, seconds: float, *, headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, bytes]:
    """Status and body of one request, with more `headers` of the caller. Raises `InvalidError` for what is no such address, `UnansweredError`."""
    place = address(url)
    connection = _KINDS[place.scheme](place.hostname or "", place.port, timeout=min(CONNECT_SECONDS, seconds))
    deadline: threading.Timer | None = None
    is_over = threading.Event()
    try:
        connection.connect()
        connection.sock.settimeout(seconds)
        deadline = threading.Timer(seconds, _cut_off, [connection.sock, is_over])
        deadline.daemon = True
        deadline.start()
        target = (place.path or "/") + (f"?{place.query}" if place.query else "")
        own = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body else {})
        connection.request(method, target, body or None, own | dict(headers))
        with connection.getresponse() as answer:
            received = answer.read(limit + 1)
            missing = answer.length or 0
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = TIMED_OUT if is_over.is_set() else str(error) or type(error).__name__
        raise UnansweredError(reason, sent=deadline is not None) from error
    finally:
        if deadline is not None:
            deadline.cancel()
        connection.close()
    if len(received) > limit:
        raise UnansweredError(f"the answer has more than {limit:,} bytes", sent=True)
    if missing:
        raise UnansweredError(TIMED_OUT if is_over.is_set() else "the answer was cut off", sent=True)
    return answer.status, received


def _cut_off(connected: socket.socket, is_over: threading.Event) -> None:
    """The time is up, however slowly something still comes. To the reader it looks as if the other side had hung up."""
    is_over.set()
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
