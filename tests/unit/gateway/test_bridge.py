"""What `adjourn connect` makes of a message's own words in the headers of its request."""

from __future__ import annotations

from adjourn.gateway.bridge import _encoded


def test_a_value_with_an_end_of_a_line_is_encoded() -> None:
    """A text that is not plain stands in a header as base64, so that it ends no line."""
    header = _encoded("2026-07-28\r\nx-b: 2")
    assert header.startswith(b"=?base64?")
    assert not set(header) & set(b"\r\n")


def test_a_plain_value_stands_as_it_is() -> None:
    """A version stands in its header as the protocol writes it."""
    assert _encoded("2026-07-28") == b"2026-07-28"
