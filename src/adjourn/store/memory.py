"""Facts in this process's memory: for tests, the users' tests included, and the yardstick of the other backends.

Owns: `MemoryStore`. Must never: touch a file, or be cleverer than the protocol's words.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice

from adjourn.errors import StoreError
from adjourn.store.base import (
    EMPTY,
    NO_REFS,
    NO_SWAPS,
    PAGE_ENTRIES,
    Append,
    Appended,
    Entry,
    Head,
    Store,
    Swap,
    check_append,
    check_blob,
    check_digest,
    check_name,
    check_swap,
    head_moved,
    one_by_one,
    ref_moved,
    verified_blob,
)


class MemoryStore:
    """A store that ends with the process. `durable` is accepted and means nothing here.

    >>> from adjourn.store import EMPTY, Entry
    >>> store = MemoryStore()
    >>> head = store.append("notes", [Entry("ab" * 32, b"first")], expect=EMPTY)
    >>> [entry.data for entry in store.read("notes")]
    [b'first']
    """

    _LONGEST_WAIT = threading.TIMEOUT_MAX

    def __init__(self) -> None:
        # One condition is both the lock and the bell: everything below is read and changed while it is held.
        self._changed = threading.Condition()
        self._streams: dict[str, list[Entry]] = {}
        self._refs: dict[str, str] = {}
        self._blobs: dict[str, bytes | None] = {}
        self._closed = False

    def append(
        self,
        stream: str,
        entries: Sequence[Entry],
        *,
        expect: Head,
        refs: Mapping[str, str | None] = NO_REFS,
        blobs: Sequence[bytes] = (),
        durable: bool = True,  # noqa: ARG002  # the protocol's flag; memory has one durability: none
        swaps: Mapping[str, Swap] = NO_SWAPS,
    ) -> Head:
        check_append(stream, entries, refs, blobs, swaps)
        with self._changed:
            head = self._head(stream)
            if head != expect:
                raise head_moved(stream, expect, head)
            for name, (before, _) in swaps.items():
                if (text := self._ref(name)) != before:
                    raise ref_moved(name, before, text)
            if entries:
                self._extend(stream, head, entries)
            for name, (_, after) in swaps.items():
                self._set(name, after)
            for name, value in refs.items():
                self._set(name, value)
            for data in blobs:
                self._put(data)
            self._changed.notify_all()
            return self._head(stream)

    def append_many(self, appends: Sequence[Append], *, durable: bool = True) -> list[Appended]:
        with self._changed:
            return one_by_one(self, appends, durable=durable)

    def head(self, stream: str) -> Head:
        check_name(stream)
        with self._changed:
            return self._head(stream)

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        head = self.head(stream)
        end = head.seq + 1 if stop is None else min(stop, head.seq + 1)
        return self._read(stream, max(start, 0), end)

    def streams(self, prefix: str = "") -> dict[str, Head]:
        with self._changed:
            self._check_open()
            return {name: self._head(name) for name in sorted(self._streams) if name.startswith(prefix)}

    def ref(self, name: str) -> str | None:
        check_name(name)
        with self._changed:
            return self._ref(name)

    def refs(self, prefix: str = "", *, start: str = "", limit: int = 0) -> dict[str, str]:
        if prefix:
            check_name(prefix)
        with self._changed:
            self._check_open()
            names = sorted(name for name in self._refs if name >= start and name.startswith(prefix))
            return {name: self._refs[name] for name in names[: limit or None]}

    def swap(  # every swap is as durable as it gets here
        self,
        name: str,
        value: str | None,
        *,
        expect: str | None,
        durable: bool = True,  # noqa: ARG002
    ) -> None:
        check_swap(name, value, expect)
        with self._changed:
            text = self._ref(name)
            if text != expect:
                raise ref_moved(name, expect, text)
            self._set(name, value)

    def put_blob(self, data: bytes) -> str:
        check_blob(data)
        with self._changed:
            self._check_open()
            return self._put(data)

    def get_blob(self, digest: str) -> bytes | None:
        check_digest(digest)
        with self._changed:
            self._check_open()
            data = self._blobs.get(digest)
        return None if data is None else verified_blob(digest, data, "memory")

    def forget(self, digest: str) -> None:
        check_digest(digest)
        with self._changed:
            self._check_open()
            if digest in self._blobs:
                self._blobs[digest] = None

    def blobs(self) -> Iterator[tuple[str, int]]:
        with self._changed:
            self._check_open()
            kept = sorted((digest, len(data)) for digest, data in self._blobs.items() if data is not None)
        return iter(kept)

    def drop(self, digests: Collection[str]) -> None:
        for digest in digests:
            check_digest(digest)
        with self._changed:
            self._check_open()
            for digest in digests:
                if self._blobs.get(digest) is not None:
                    del self._blobs[digest]

    def watch(self, stream: str, after: Head, timeout: float) -> Head:
        check_name(stream)
        deadline = time.monotonic() + timeout
        with self._changed:
            while (head := self._head(stream)) == after and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(min(left, self._LONGEST_WAIT))
            return head

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _read(self, stream: str, start: int, end: int) -> Iterator[Entry]:
        for first in range(start, end, PAGE_ENTRIES):
            with self._changed:
                self._check_open()
                page = self._streams[stream][first : min(first + PAGE_ENTRIES, end)]
            yield from page

    def _head(self, stream: str) -> Head:
        self._check_open()
        entries = self._streams.get(stream)
        return Head(len(entries) - 1, entries[-1].hash) if entries else EMPTY

    def _extend(self, stream: str, head: Head, entries: Sequence[Entry]) -> None:  # noqa: ARG002  # for the store below
        self._streams.setdefault(stream, []).extend(Entry(*entry) for entry in entries)

    def _ref(self, name: str) -> str | None:
        self._check_open()
        return self._refs.get(name)

    def _put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self._blobs.setdefault(digest, data)
        return digest

    def _set(self, name: str, value: str | None) -> None:
        if value is None:
            self._refs.pop(name, None)
        else:
            self._refs[name] = value

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed", "open it again")


# --- a store as it would be after some writes: it reads another store, and keeps in this process's memory what is
# written to it


class OverlayStore(MemoryStore):
    """Reads fall through to `below`; writes end with the process. `durable` is accepted and means nothing here.

    A stream that was appended to here no longer sees what others append below. A document that the store below has forgotten can be
    put here again. Closing it forgets what was written here; the store below stays open: whoever opened it closes it.
    """

    _LONGEST_WAIT = 0.05  # seconds: what others append below rings no bell here

    def __init__(self, below: Store) -> None:
        super().__init__()
        self._below = below
        self.place: str = getattr(below, "place", "")
        """Where the store below is, "" for nowhere: what is kept beside the keys about its tasks holds here, too."""
        self._bases: dict[str, Head] = {}
        """The heads below of the streams that were appended to here."""
        self._changed_refs: dict[str, str | None] = {}
        self._gone: set[str] = set()
        """The documents that were dropped here; those that were forgotten are None in `_blobs`."""

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        with self._changed:
            end = self.head(stream).seq + 1
            base = self._bases[stream].seq + 1 if stream in self._bases else end
        start, stop = min(max(start, 0), end), end if stop is None else min(stop, end)
        here = islice(self._streams.get(stream, ()), max(start - base, 0), max(stop - base, 0))
        return self._while_open(chain(self._below.read(stream, start, min(stop, base)), here))

    def streams(self, prefix: str = "") -> dict[str, Head]:
        with self._changed:
            below = self._below_open().streams(prefix)
            heads = below | {name: self._head(name) for name in self._streams if name.startswith(prefix)}
        return heads if len(heads) == len(below) else dict(sorted(heads.items()))

    def refs(self, prefix: str = "", *, start: str = "", limit: int = 0) -> dict[str, str]:
        if prefix:
            check_name(prefix)
        with self._changed:
            changed = self._changed_refs.items()
            here = {name: value for name, value in changed if name >= start and name.startswith(prefix)}
            found = self._below_open().refs(prefix, start=start, limit=limit and limit + len(here)) | here
        kept = ((name, value) for name, value in sorted(found.items()) if value is not None)
        return dict(islice(kept, limit or None))

    def get_blob(self, digest: str) -> bytes | None:
        check_digest(digest)
        with self._changed:
            below = self._below_open()
            if digest in self._gone:
                return None
            return self._blobs[digest] if digest in self._blobs else below.get_blob(digest)

    def forget(self, digest: str) -> None:
        if self.get_blob(digest) is not None:
            with self._changed:
                self._blobs[digest] = None

    def blobs(self) -> Iterator[tuple[str, int]]:
        with self._changed:
            sizes: dict[str, int | None] = dict(self._below_open().blobs())
            sizes |= {digest: None if data is None else len(data) for digest, data in self._blobs.items()}
            sizes |= dict.fromkeys(self._gone)
        return iter(sorted((digest, size) for digest, size in sizes.items() if size is not None))

    def drop(self, digests: Collection[str]) -> None:
        for digest in digests:
            check_digest(digest)
        with self._changed:
            self._below_open()
            for digest in digests:
                if self._blobs.get(digest, b"") is not None:  # what was forgotten stays so
                    self._blobs.pop(digest, None)
                    self._gone.add(digest)

    def _head(self, stream: str) -> Head:
        below = self._below_open()
        if appended := self._streams.get(stream):
            return Head(self._bases[stream].seq + len(appended), appended[-1].hash)
        return below.head(stream)

    def _extend(self, stream: str, head: Head, entries: Sequence[Entry]) -> None:
        self._bases.setdefault(stream, head)
        super()._extend(stream, head, entries)

    def _while_open(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self._check_open()
            yield entry

    def _ref(self, name: str) -> str | None:
        below = self._below_open()
        return self._changed_refs[name] if name in self._changed_refs else below.ref(name)

    def _set(self, name: str, value: str | None) -> None:
        self._changed_refs[name] = value

    def _put(self, data: bytes) -> str:
        digest = super()._put(data)
        self._gone.discard(digest)
        return digest

    def _below_open(self) -> Store:
        """The store below, as long as this one is open."""
        self._check_open()
        return self._below


class PastStore(OverlayStore):
    """A store as it was: each stream of `heads` ends there, and one with the head `EMPTY` is not there. Cached ledgers are left out."""

    def __init__(self, below: Store, heads: Mapping[str, Head]) -> None:
        super().__init__(below)
        self.place = ""  # what is kept beside the keys is of now
        self._ends = heads

    def streams(self, prefix: str = "") -> dict[str, Head]:
        streams = super().streams(prefix) | dict(self._ends)
        return {name: head for name, head in streams.items() if head != EMPTY and name.startswith(prefix)}

    def _head(self, stream: str) -> Head:
        return self._ends[stream] if stream in self._ends else super()._head(stream)

    def _ref(self, name: str) -> str | None:
        return None if name.startswith("fold/") else super()._ref(name)
