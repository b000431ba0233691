"""A store as one principal sees it: what is of other spaces is not there, whatever it is asked for by.

Streams and refs that name a task are there if the space shows the task. A few refs are the workspace's, and everybody's. All other
refs are the space's own, and stand in the store below with its key at the end: `checkpoint/half@KEY`.

Owns: this view, which every lookup of a gateway's principal goes through. Must never: tell what is hidden from what does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from adjourn.errors import NotFoundError
from adjourn.policy.principal import Space, key_of_task
from adjourn.store.base import EMPTY, NO_REFS, NO_SWAPS, Append, Appended, Entry, Head, Store, Swap

SHARED = ("tools/", "budget/", "replica/")
"""How refs begin that are of the whole workspace: which tools its servers have, what all tasks have spent, which replicas live."""
OF_TASKS = ("lease/", "fold/", "vouched/", "once/", "shown/", "run/", "record/", "cognition/")
"""How refs begin whose next part is a task."""
OF_CALLS = "open/"
"""How refs begin that name a task behind the digest of a call."""
BY_CONTENT = ("version/",)
"""How refs begin that are found by the digest of what they lead to, in a stream of a task."""


class SpaceStore:
    """See above; `below` stays open. See `Store` for the methods."""

    def __init__(self, below: Store, space: Space) -> None:
        self.below = below
        self._space = space
        self.now: Callable[[], int] | None = getattr(below, "now", None)
        """The clock of the store below, if it has one."""
        self.place: str = getattr(below, "place", "")
        """Where the store below is: what is kept beside the keys about its tasks holds here, too."""

    def shows(self, stream: str) -> bool:
        """Whether the stream of a task, or one about a task (`record/TASK`), may be known of."""
        return self._space.shows(stream)

    # --- streams

    def append(
        self,
        stream: str,
        entries: Sequence[Entry],
        *,
        expect: Head,
        refs: Mapping[str, str | None] = NO_REFS,
        blobs: Sequence[bytes] = (),
        durable: bool = True,
        swaps: Mapping[str, Swap] = NO_SWAPS,
    ) -> Head:
        stored = self.stored(Append(stream, entries, expect, refs, blobs, swaps))
        return self.below.append(
            stream,
            entries,
            expect=expect,
            refs=stored.refs,
            blobs=blobs,
            durable=durable,
            swaps=stored.swaps,
        )

    def append_many(self, appends: Sequence[Append], *, durable: bool = True) -> list[Appended]:
        return self.below.append_many(list(map(self.stored, appends)), durable=durable)

    def stored(self, append: Append) -> Append:
        """An append as the store below gets it. Raises `NotFoundError` for the stream of another space."""
        stream, refs, swaps = append.stream, append.refs, append.swaps
        if not self._space.shows(stream):
            raise NotFoundError(f"there is no stream {stream[:80]!r}", "name a task of your own")
        if refs:
            of = key_of_task(stream)
            refs = {self._stored(name, of): value for name, value in refs.items()}
        if swaps:
            swaps = {self._stored(name): swap for name, swap in swaps.items()}
        return append._replace(refs=refs, swaps=swaps)

    def head(self, stream: str) -> Head:
        return self.below.head(stream) if self._space.shows(stream) else EMPTY

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        return self.below.read(stream, start, stop) if self._space.shows(stream) else iter(())

    def streams(self) -> dict[str, Head]:
        shows = self._space.shows
        return {name: head for name, head in self.below.streams().items() if shows(name)}

    def watch(self, stream: str, after: Head, timeout: float) -> Head:
        return self.below.watch(stream, after, timeout) if self._space.shows(stream) else EMPTY

    # --- refs

    def ref(self, name: str) -> str | None:
        names = [self._stored(name)]
        if names[0] != name:  # those of a shared space come first
            names += [f"{name}@{key}" for key in self._space.keys[1:]]
        found = (value for one in names if (value := self.below.ref(one)) is not None)
        return next((value for value in found if self._is_ours(name, value)), None)

    def refs(self, prefix: str = "") -> dict[str, str]:
        below = self.below.refs(prefix)
        found: dict[str, str] = {}
        for name, value in below.items():
            if name.startswith(SHARED) or self._names_shown(name) or name.startswith(BY_CONTENT):
                if self._is_ours(name, value):
                    found[name] = value
                continue
            own, at, key = name.rpartition("@")
            if at and key in self._space.keys and (own not in found or key == self._space.home):
                found[own] = value
        return dict(sorted(found.items()))

    def swap(self, name: str, value: str | None, *, expect: str | None, durable: bool = True) -> None:
        task = (expect or value or "").partition(" ")[0] if name.startswith("checkpoint/") else ""
        stored = self._stored(name, key_of_task(task) if self._space.shows(task) else "")
        self.below.swap(stored, value, expect=expect, durable=durable)

    def _stored(self, name: str, key: str = "") -> str:
        """The name of a ref in the store below. `key` is that of the space it is written for (default: the one tasks begin in)."""
        if name.startswith((*SHARED, *BY_CONTENT)) or self._names_shown(name):
            return name
        return f"{name}@{key or self._space.home}"

    def _names_shown(self, name: str) -> bool:
        if name.startswith(OF_CALLS):
            return self._space.shows(name.split("/")[2]) if name.count("/") > 1 else False
        return name.startswith(OF_TASKS) and self._space.shows(name.split("/", 2)[1])

    def _is_ours(self, name: str, value: str) -> bool:
        """Whether what a ref by content leads to is in a stream that may be known of."""
        return not name.startswith(BY_CONTENT) or self._space.shows(value.rpartition(" ")[2])

    # --- documents, which are found by what a visible event says

    def put_blob(self, data: bytes) -> str:
        return self.below.put_blob(data)

    def get_blob(self, digest: str) -> bytes | None:
        return self.below.get_blob(digest)

    def forget(self, digest: str) -> None:
        self.below.forget(digest)

    def blobs(self) -> Iterator[tuple[str, int]]:
        return iter(())

    def drop(self, digests: Collection[str]) -> None:
        """Others may need them: nothing is dropped here."""

    def close(self) -> None:
        """The store below stays open."""
