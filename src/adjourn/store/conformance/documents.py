"""What a store promises of refs and of blobs.

Owns: these tests. Must never: import pytest, or test what the protocol does not promise.
"""

from __future__ import annotations

import hashlib

from adjourn.errors import ConflictError, InvalidError
from adjourn.store.base import EMPTY
from adjourn.store.conformance.suite import NAMES, Suite, entry, linked, refused


class DocumentCases(Suite):
    """Refs change by compare-and-swap; blobs are kept by their digest, and forgotten permanently."""

    def test_a_ref_is_changed_by_compare_and_swap(self) -> None:
        store = self._new()
        store.swap("r", None, expect=None)
        store.swap("r", "1", expect=None)
        for stale in (None, "", "0", "11"):
            for value in (None, "2"):
                with refused(ConflictError):
                    store.swap("r", value, expect=stale)
        assert store.ref("r") == "1"
        store.swap("r", "1", expect="1")
        store.swap("r", "", expect="1")
        assert store.ref("r") == ""
        store.swap("r", None, expect="")
        assert store.ref("r") is None
        with refused(ConflictError):
            store.swap("r", "2", expect="")
        assert store.refs() == {}

    def test_refs_are_listed_by_prefix(self) -> None:
        store = self._new()
        for name in NAMES:
            store.swap(name, f"of {name}", expect=None)
        assert store.refs() == {name: f"of {name}" for name in sorted(NAMES)}
        assert list(store.refs()) == sorted(NAMES)
        for prefix in ("a", "A", "a_", "5", "50%", "%", "_", "日", "🧵", "task/", "zzz"):
            assert store.refs(prefix) == {n: f"of {n}" for n in sorted(NAMES) if n.startswith(prefix)}

    # --- blobs

    def test_a_blob_is_kept_by_its_digest(self) -> None:
        store = self._new()
        for data in (b"", b"document", bytes(range(256)) * 1000):
            digest = hashlib.sha256(data).hexdigest()
            assert store.get_blob(digest) is None
            assert store.put_blob(data) == digest
            assert store.put_blob(data) == digest
            assert store.get_blob(digest) == data

    def test_forgetting_a_blob_keeps_the_rest(self) -> None:
        store = self._new()
        gone, kept = b"gone", b"kept"
        digest = hashlib.sha256(gone).hexdigest()
        made = linked(EMPTY, digest)
        head = store.append("s", [made], expect=EMPTY, refs={"r": digest}, blobs=[gone, kept])
        store.forget(digest)
        store.forget(digest)
        assert store.get_blob(digest) is None
        assert store.get_blob(hashlib.sha256(kept).hexdigest()) == kept
        assert store.head("s") == head
        assert list(store.read("s")) == [made]
        assert store.ref("r") == digest

    def test_what_was_forgotten_stays_forgotten(self) -> None:
        store = self._new()
        digest = store.put_blob(b"gone")
        store.forget(digest)
        assert store.put_blob(b"gone") == digest
        head = store.append("s", [entry(b"1")], expect=EMPTY, blobs=[b"gone"])
        assert store.get_blob(digest) is None
        assert store.head("s") == head

    def test_blobs_are_listed_with_their_sizes(self) -> None:
        store = self._new()
        data = [bytes(size) for size in (0, 1, 700)] + [b"gone"]
        digests = [store.put_blob(one) for one in data]
        store.forget(digests[3])
        assert list(store.blobs()) == sorted((digests[n], len(data[n])) for n in range(3))

    def test_what_was_dropped_may_be_put_again(self) -> None:
        store = self._new()
        kept, dropped, gone = (store.put_blob(data) for data in (b"kept", b"dropped", b"gone"))
        store.forget(gone)
        store.drop([dropped, gone, hashlib.sha256(b"never").hexdigest()])
        store.drop([])
        assert (store.get_blob(dropped), store.get_blob(kept)) == (None, b"kept")
        for data in (b"dropped", b"gone"):
            store.put_blob(data)
        assert store.get_blob(dropped) == b"dropped"
        assert store.get_blob(gone) is None
        with refused(InvalidError):
            store.drop(["no digest"])

    def test_forgetting_what_never_was_changes_nothing(self) -> None:
        store = self._new()
        digest = hashlib.sha256(b"later").hexdigest()
        store.forget(digest)
        assert store.put_blob(b"later") == digest
        assert store.get_blob(digest) == b"later"
