"""Server-sent events: read whatever the parts they come in, and written so that they are read the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.gateway import http_pool
from adjourn.gateway.http_pool import EventReader, StreamEvent, written

TEXT = st.binary(max_size=40).map(lambda raw: raw.replace(b"\r", b"").replace(b"\0", b""))
WORD = st.text("abc019-", max_size=8).map(str.encode)
EVENTS = st.builds(
    StreamEvent, TEXT.filter(bool), WORD, st.just(b"") | st.integers(0, 10**6).map(lambda n: b"%d" % n), WORD
)


def read(stream: bytes, cuts: list[int]) -> list[StreamEvent]:
    reader, found, at = EventReader(), list[StreamEvent](), 0
    for cut in [*sorted(cuts), len(stream)]:
        found += reader.feed(stream[at:cut])
        at = max(at, cut)
    return found


@given(
    st.lists(EVENTS, max_size=6), st.lists(st.integers(0, 300), max_size=20), st.sampled_from([b"\n", b"\r\n", b"\r"])
)
def test_events_are_read_as_they_were_written(events: list[StreamEvent], cuts: list[int], end: bytes) -> None:
    """With any line end and in any parts, each event comes once, whole, in order."""
    stream = b"".join(map(written, events)).replace(b"\n", end) + b": a comment" + end
    assert read(stream, [min(cut, len(stream)) for cut in cuts]) == events


def test_what_is_no_event_is_left_out() -> None:
    """Comments, unknown fields and an event that is not whole give nothing; one with only an id is one."""
    assert read(b": hi\n\nevent: x\n\nid: 7\nretry: 100\ndata: \n\ndata: half", []) == [StreamEvent(b"", b"7", b"100")]


def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a line nor the lines of an event may grow for ever."""
    monkeypatch.setattr(http_pool, "MAX_EVENT", 100)
    with pytest.raises(ValueError, match="too long"):
        EventReader().feed(b"data: " + b"x" * 200)
    with pytest.raises(ValueError, match="too long"):
        EventReader().feed(b"data: 0123456789\n" * 20)
