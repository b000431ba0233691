"""What is read of a line to see where it belongs, and what waits for a client."""

from __future__ import annotations

import asyncio

import pytest

from adjourn.gateway import replies
from adjourn.gateway.http_pool import StreamEvent
from adjourn.gateway.replies import ReplyStream, head_of


@pytest.mark.parametrize("line", [b"[]", b'[{"id":1,"method":"ping"}]', b"nonsense", b"\xff", b"[" * 100_000])
def test_what_is_no_message_belongs_to_no_request(line: bytes) -> None:
    """A batch, and what is no JSON, has a head that belongs to no request."""
    head = head_of(line)
    assert head.id is None
    assert head.method == ""


def test_the_head_of_a_message_is_its_id_and_method() -> None:
    """The id and method of a message are read, whatever else it has."""
    head = head_of(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}')
    assert (head.id, head.method) == (7, "ping")


@pytest.mark.parametrize("value", [b"NaN", b'"\\ud83d"', b'"\xff"', b"[" * 5000 + b"]" * 5000])
def test_the_head_of_a_message_that_strict_readers_refuse(value: bytes) -> None:
    """An answer finds its request whatever its result contains."""
    head = head_of(b'{"jsonrpc":"2.0","result":{"id":8,"a":%b},"id":7}' % value)
    assert (head.id, head.method) == (7, None)


@pytest.mark.parametrize(("events", "size"), [(2, 1000), (1000, 5)])
def test_a_client_that_does_not_read_has_so_much_kept(monkeypatch: pytest.MonkeyPatch, events: int, size: int) -> None:
    """Beyond a number of events, or of bytes, the oldest are dropped; the answer, which comes last, is not."""
    monkeypatch.setattr(replies, "MAX_KEPT", events)
    monkeypatch.setattr(replies, "MAX_KEPT_BYTES", size)
    stream = ReplyStream()
    for number in range(4):
        stream.put(StreamEvent(b"%d%d" % (number, number)))
    stream.put(StreamEvent(b"the answer"), is_last=True)

    async def read() -> list[bytes]:
        found = []
        while (event := await stream.next()) is not None:
            found.append(event.data)
        return found

    assert asyncio.run(read()) == ([b"33", b"the answer"] if events == 2 else [b"the answer"])
