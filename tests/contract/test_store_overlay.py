"""An overlay over a store that has something: it answers as that store would after the writes, and leaves it as it is."""

from __future__ import annotations

import pytest

from adjourn.errors import ConflictError
from adjourn.store import EMPTY, Entry, Head, MemoryStore, OverlayStore, Store
from adjourn.store.conformance.documents import entry

MADE = [entry(b"%d" % number) for number in range(6)]


@pytest.fixture
def below() -> Store:
    """A store with three entries, a ref and a document."""
    store = MemoryStore()
    store.append("s", MADE[:3], expect=EMPTY, refs={"r": "below"}, blobs=[b"document"])
    return store


def test_reads_fall_through(below: Store) -> None:
    """Nothing was written: an overlay answers as the store below, also with what others append there meanwhile."""
    overlay = OverlayStore(below)
    digest = below.put_blob(b"document")
    assert (list(overlay.read("s")), overlay.head("s")) == (MADE[:3], below.head("s"))
    assert (overlay.ref("r"), overlay.get_blob(digest)) == ("below", b"document")
    assert (overlay.streams(), overlay.refs(), list(overlay.blobs())) == (
        below.streams(),
        below.refs(),
        list(below.blobs()),
    )
    head = below.append("s", MADE[3:4], expect=below.head("s"))
    assert overlay.head("s") == head
    assert list(overlay.read("s", 2)) == MADE[2:4]


def test_an_append_goes_on_where_the_store_below_ends(below: Store) -> None:
    """Ranges are read across the border, and what others append below afterwards is of another history."""
    overlay = OverlayStore(below)
    with pytest.raises(ConflictError):
        overlay.append("s", MADE[3:], expect=EMPTY)
    head = overlay.append("s", MADE[3:], expect=below.head("s"))
    below.append("s", [entry(b"other")], expect=below.head("s"))
    assert (head, overlay.head("s"), overlay.streams()) == (Head(5, MADE[5].hash), head, {"s": head})
    for start in range(-1, 8):
        for stop in (None, *range(8)):
            expected: list[Entry] = MADE[max(start, 0) : stop]
            assert list(overlay.read("s", start, stop)) == expected


def test_refs_and_documents_hide_those_below(below: Store) -> None:
    """A changed or deleted ref and a forgotten or dropped document count here only."""
    digest = below.put_blob(b"document")
    overlay = OverlayStore(below)
    overlay.swap("r", None, expect="below")
    with pytest.raises(ConflictError):
        overlay.swap("r", "again", expect="below")
    overlay.swap("new", "1", expect=None)
    assert (overlay.ref("r"), overlay.refs()) == (None, {"new": "1"})
    overlay.drop([digest])
    assert (overlay.get_blob(digest), list(overlay.blobs())) == (None, [])
    overlay.put_blob(b"document")
    assert overlay.get_blob(digest) == b"document"
    overlay.forget(digest)
    overlay.put_blob(b"document")
    assert overlay.get_blob(digest) is None
    overlay.close()
    assert (below.refs(), below.get_blob(digest)) == ({"r": "below"}, b"document")
