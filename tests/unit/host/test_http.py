"""One HTTP exchange: its time is its own, and is named as what ended it."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from adjourn.host.http import UnansweredError, exchange


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"],
    ids=["nothing", "a status", "a body"],
)
def test_an_answer_that_never_ends_is_timed_out(said: bytes) -> None:
    """A server that is silent, or sends a byte now and then, gets its time and no more, and is not said to have hung up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def dribble() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(said)
                for _ in range(100 if said else 0):
                    time.sleep(0.05)
                    try:
                        connection.sendall(b"0")
                    except OSError:
                        return
                connection.settimeout(10)
                while connection.recv(1 << 20):  # until the other side ends it
                    pass

        thread = threading.Thread(target=dribble, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        began = time.monotonic()
        with pytest.raises(UnansweredError, match="timed out") as found:
            exchange("POST", url, b"{}", 100_000, 0.4)
        assert time.monotonic() - began < 5
        assert found.value.sent
        thread.join(10)
