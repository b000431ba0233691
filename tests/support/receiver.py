"""A receiver of webhooks on loopback, that answers as a test says.

Owns: `Receiver`. Must never: verify what it gets; the tests do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

SECONDS = 30.0


class ReceivedRequest(NamedTuple):
    """One request."""

    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers with each of `statuses` in turn, then with 204; with 0 it gives no answer until the sender is gone."""

    def __init__(self, statuses: Sequence[int]) -> None:
        self._statuses = list(statuses)
        self._news = threading.Condition()
        self.got: list[ReceivedRequest] = []
        self.url = ""

    def wait_for(self, count: int) -> list[ReceivedRequest]:
        """The requests, once there are so many."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.got) >= count, SECONDS), self.got
            return list(self.got)

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        """Take a request and answer it."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self._news:
            self.got.append(ReceivedRequest({name.lower(): value for name, value in handler.headers.items()}, body))
            status = self._statuses.pop(0) if self._statuses else 204
            self._news.notify_all()
        if status:
            handler.send_response(status)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            handler.rfile.read(1)


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    """A receiver until the end of the block."""
    receiver = Receiver(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # named by the library
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
