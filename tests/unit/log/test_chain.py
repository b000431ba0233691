"""A chain says where it was changed, without decoding anything."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.log import kinds
from adjourn.log.chain import ChainResult, verify_chain
from adjourn.log.event import GENESIS
from adjourn.store.base import Entry
from support.events import chained, link, linked
from support.strategies import chains, histories


@given(chains())
def test_a_whole_chain_holds(entries: list[Entry]) -> None:
    """All entries are counted, and the head is the last hash."""
    head = entries[-1].hash if entries else GENESIS
    assert verify_chain(entries) == ChainResult(len(entries), head)
    assert verify_chain(iter(entries), expect_head=head).valid


@given(histories)
def test_events_make_a_chain_that_holds(facts: list[tuple[kinds.Data, str]]) -> None:
    """Any events, encoded one after another, make a valid chain."""
    entries = [Entry(event_hash, stored) for _, event_hash, stored in chained(facts)]
    assert verify_chain(entries).checked == len(facts)
    assert verify_chain(entries).valid


@given(chains(min_size=1), st.data())
def test_any_changed_byte_is_found_where_it_is(entries: list[Entry], choose: st.DataObject) -> None:
    """One byte of one entry, changed in any way, breaks the chain at that entry."""
    at = choose.draw(st.integers(0, len(entries) - 1))
    changed = bytearray(entries[at].data)
    changed[choose.draw(st.integers(0, len(changed) - 1))] ^= choose.draw(st.integers(1, 255))
    entries[at] = Entry(entries[at].hash, bytes(changed))
    result = verify_chain(entries)
    assert (result.checked, result.broken_at, result.reason) == (at, at, "hash-mismatch")
    assert result.head == (entries[at - 1].hash if at else GENESIS)


@given(chains(min_size=1), st.data())
def test_a_changed_hash_is_found_where_it_is(entries: list[Entry], choose: st.DataObject) -> None:
    """A stored hash that is not that of its bytes breaks the chain there, the letters' case included."""
    at = choose.draw(st.integers(0, len(entries) - 1))
    other = choose.draw(st.sampled_from([GENESIS, "", entries[at].hash + "0", entries[at].hash.upper()]))
    entries[at] = Entry(other, entries[at].data)
    assert verify_chain(entries)[2:] == (at, "hash-mismatch")


@given(chains(min_size=2), st.data())
def test_a_byte_changed_with_its_hash_breaks_the_next_link(entries: list[Entry], choose: st.DataObject) -> None:
    """Whoever mends the hash of an edited entry breaks its successor's link, or its own."""
    at = choose.draw(st.integers(0, len(entries) - 2))
    changed = bytearray(entries[at].data)
    where = choose.draw(st.integers(0, len(changed) - 1))
    changed[where] ^= choose.draw(st.integers(1, 255))
    entries[at] = Entry(sha256(changed).hexdigest(), bytes(changed))
    in_link = where < len(b'{"after":"') + 64 + 1
    assert verify_chain(entries)[2:] == (at if in_link else at + 1, "parent-mismatch")


@given(chains(min_size=2), st.data())
def test_a_removed_entry_is_found_where_it_was(entries: list[Entry], choose: st.DataObject) -> None:
    """Without one entry, the one after it does not follow."""
    at = choose.draw(st.integers(0, len(entries) - 2))
    del entries[at]
    assert verify_chain(entries)[2:] == (at, "parent-mismatch")


@given(chains(min_size=1), st.data())
def test_an_inserted_entry_is_found(entries: list[Entry], choose: st.DataObject) -> None:
    """An entry put in with a right link breaks the next one; with a wrong link, itself."""
    at = choose.draw(st.integers(0, len(entries) - 1))
    after = entries[at - 1].hash if at else GENESIS
    forged = link(after, b',"by":"me"}')
    assert verify_chain([*entries[:at], forged, *entries[at:]])[2:] == (at + 1, "parent-mismatch")
    stray = link("f" * 64, b"}")
    assert verify_chain([*entries[:at], stray, *entries[at:]])[2:] == (at, "parent-mismatch")


@given(chains(min_size=1), st.data())
def test_a_repeated_entry_is_found_where_it_is_repeated(entries: list[Entry], choose: st.DataObject) -> None:
    """An entry that comes twice does not follow itself."""
    at = choose.draw(st.integers(0, len(entries) - 1))
    entries.insert(at, entries[at])
    assert verify_chain(entries)[2:] == (at + 1, "parent-mismatch")


@given(chains(min_size=2), st.data())
def test_swapped_entries_are_found_at_the_first(entries: list[Entry], choose: st.DataObject) -> None:
    """Two entries that changed places break the chain at the earlier place."""
    first = choose.draw(st.integers(0, len(entries) - 2))
    second = choose.draw(st.integers(first + 1, len(entries) - 1))
    entries[first], entries[second] = entries[second], entries[first]
    assert verify_chain(entries)[2:] == (first, "parent-mismatch")


@given(chains(min_size=1), st.data())
def test_a_missing_tail_is_found_only_with_an_outside_head(entries: list[Entry], choose: st.DataObject) -> None:
    """A shortened chain holds by itself; the head that somebody kept elsewhere gives it away."""
    head = entries[-1].hash
    kept = entries[: choose.draw(st.integers(0, len(entries) - 1))]
    assert verify_chain(kept).valid
    result = verify_chain(kept, expect_head=head)
    assert (result.checked, result.broken_at, result.reason) == (len(kept), len(kept), "head-mismatch")
    assert not result.valid


@given(chains(min_size=1), st.data())
def test_a_part_is_verified_after_the_entry_before_it(entries: list[Entry], choose: st.DataObject) -> None:
    """The entries from some position on hold after the hash before them, and after no other."""
    at = choose.draw(st.integers(0, len(entries) - 1))
    after = entries[at - 1].hash if at else GENESIS
    assert verify_chain(entries[at:], after=after) == ChainResult(len(entries) - at, entries[-1].hash)
    assert verify_chain(entries[at:], after="f" * 64)[2:] == (0, "parent-mismatch")


def test_nothing_is_decoded() -> None:
    """Entries that are no JSON after their link are verified like any others."""
    entries = linked([b"\xff\x00 not JSON"] * 5)
    assert verify_chain(entries) == ChainResult(5, entries[-1].hash)


@pytest.mark.parametrize(
    "data",
    [
        b'{"after":"' + b"0" * 64,
        b' {"after":"' + b"0" * 64 + b'"',
        b'{"after": "' + b"0" * 64 + b'"',
        b'{"by":1,"after":"' + b"0" * 64 + b'"',
        b'{"after":"' + b"0" * 63 + b'"',
        b'{"after":"' + b"0" * 65 + b'"',
        b"",
    ],
)
def test_the_link_is_exact(data: bytes) -> None:
    """A link in another spelling, at another place or of another length is none."""
    result = verify_chain([Entry(sha256(data).hexdigest(), data)])
    assert result == ChainResult(0, GENESIS, 0, "parent-mismatch")


def test_the_first_fault_is_reported() -> None:
    """Of several faults the first one counts, and a bad hash comes before a bad link."""
    entries = linked([b"}"] * 6)
    entries[4] = Entry(entries[4].hash, b"")
    entries[2] = Entry(GENESIS, b"both wrong")
    assert verify_chain(entries, expect_head="f" * 64)[2:] == (2, "hash-mismatch")


def test_a_chain_is_read_lazily() -> None:
    """Verification stops reading at the first fault."""
    entries = iter([*linked([b"}"] * 2), Entry(GENESIS, b"bad"), *linked([b"}"])])
    assert verify_chain(entries).broken_at == 2
    assert len(list(entries)) == 1
