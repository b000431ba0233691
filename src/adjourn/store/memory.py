"""Facts in this process's memory: for tests, the users' tests included, and the yardstick of the other backends.

Owns: `MemoryStore`. Must never: touch a file, or be cleverer than the protocol's words.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from adjourn.errors import StoreError
from adjourn.store.base import EMPTY, NO_REFS, NO_SWAPS, Append, Appended, Entry, Head, Swap
from adjourn.store.checks import (
    PAGE_ENTRIES,
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
                if (text := self._refs.get(name)) != before:
                    raise ref_moved(name, before, text)
            if entries:
                self._streams.setdefault(stream, []).extend(Entry(*entry) for entry in entries)
            for name, (_, after) in swaps.items():
                self._set(name, after)
            for name, value in refs.items():
                self._set(name, value)
            for data in blobs:
                self._blobs.setdefault(hashlib.sha256(data).hexdigest(), data)
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

    def streams(self) -> dict[str, Head]:
        with self._changed:
            self._check_open()
            return {stream: self._head(stream) for stream in sorted(self._streams)}

    def ref(self, name: str) -> str | None:
        check_name(name)
        with self._changed:
            self._check_open()
            return self._refs.get(name)

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
            self._check_open()
            text = self._refs.get(name)
            if text != expect:
                raise ref_moved(name, expect, text)
            self._set(name, value)

    def put_blob(self, data: bytes) -> str:
        check_blob(data)
        digest = hashlib.sha256(data).hexdigest()
        with self._changed:
            self._check_open()
            self._blobs.setdefault(digest, data)
        return digest

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
                self._changed.wait(left)
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

    def _set(self, name: str, value: str | None) -> None:
        if value is None:
            self._refs.pop(name, None)
        else:
            self._refs[name] = value

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed", "open it again")
