"""What is read of a line to see where it belongs."""

from __future__ import annotations

import pytest

from adjourn.gateway.replies import head_of


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
