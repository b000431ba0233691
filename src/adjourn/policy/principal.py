"""The principal behind a client, the space that holds the principal's tasks, and a view of the store limited to that space."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Literal

import msgspec

from adjourn.errors import NotFoundError
from adjourn.store.base import EMPTY, NO_REFS, NO_SWAPS, Append, Appended, Entry, Head, Store, Swap

GROUP = "group:"
"""How the name of a group starts where a person may be named, too."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is unique in a store, and never reused for somebody else: an issuer and its subject, or a key's own id. `name` and `groups`
    are what rules write; one name is one principal's. `label` is what somebody may have chosen for themselves: it permits nothing.
    """

    id: str
    name: str
    type: Literal["human", "service"]
    groups: tuple[str, ...] = ()
    label: str = ""

    @property
    def shown(self) -> str:
        """Who it is, for people and the history."""
        return f"{self.label} ({self.name})" if self.label not in ("", self.name) else self.name


# --- spaces

KEY_CHARACTERS = 16
"""Of a key: a zero, and 75 bits of the digest."""
_KEY = r"0[a-z2-7]{15}"
_OWNED = rf"(?s).*\.({_KEY})"


class Space(msgspec.Struct, frozen=True):
    """What a principal sees: the tasks of these `keys`. It starts tasks in the first one; the last one is its own alone."""

    keys: tuple[str, ...]

    @property
    def home(self) -> str:
        """The key of tasks that it starts."""
        return self.keys[0]

    @property
    def own(self) -> str:
        """The key that nobody else has."""
        return self.keys[-1]

    def named(self, task: str) -> str:
        """The id of the task that the principal means by a name: one that it sees, or of that name in its space."""
        return task if self.shows(task) else f"{task}.{self.home}"

    def shows(self, task: str) -> bool:
        """Whether the principal may know of a task."""
        return task[-KEY_CHARACTERS:] in self.keys and task[-KEY_CHARACTERS - 1 : -KEY_CHARACTERS] == "."


def space_of(principal: Principal, shared: Sequence[str] = ()) -> Space:
    """The space of a principal. Members of a `shared` group see each other's tasks; the first of several is where theirs start."""
    groups = [_key(f"group:{name}") for name in shared if name in principal.groups]
    return Space((*groups, _key(f"principal:{principal.id}")))


def key_of_task(task: str) -> str:
    """The key of the space that a task is in; "" for one of no space."""
    match = re.fullmatch(_OWNED, task)
    return match[1] if match is not None else ""


def checkpoint_ref(name: str, task: str) -> str:
    """The name of the ref of a task's checkpoint, as the store has it: each space has names of its own."""
    key = key_of_task(task)
    return f"checkpoint/{name}{'@' * bool(key)}{key}"


def _key(text: str) -> str:
    from base64 import b32encode  # where somebody is known

    return "0" + b32encode(sha256(text.encode(errors="surrogatepass")).digest()[:10]).decode().lower()[:15]


# --- the store of a space

SHARED = ("tools/", "budget/", "replica/", "restored/")
"""How refs start that are of the whole workspace: which tools its servers have, what all tasks have spent, which replicas live, which
losses a person accepted."""
OF_TASKS = ("lease/", "fold/", "vouched/", "once/", "shown/", "run/", "record/", "cognition/", "noted/")
"""How refs start whose next part is a task."""
OF_SPACES = ("work/", "named/", "waiting/")
"""How refs start whose next part is the key of a space: the index of its tasks, of the names of their checkpoints, and of what may wait."""
NO_SPACE = "-"
"""Stands there for tasks of no space."""
OF_CALLS = "open/"
"""How refs start that name a task behind the digest of a call."""
BY_CONTENT = ("version/",)
"""How refs start that are found by the digest of what they lead to, in a stream of a task."""


class SpaceStore:
    """A store as one principal sees it; `below` stays open. See `Store` for the methods.

    What is of other spaces is not there, whatever it is asked for by: what is hidden looks like what does not exist. Streams and refs
    that name a task are there if the space shows the task. A few refs are the workspace's, and everybody's. All other refs are the
    space's own, and stand in the store below with its key at the end: `checkpoint/half@KEY`.
    """

    def __init__(self, below: Store, space: Space) -> None:
        self.below = below
        self._space = space
        self.now: Callable[[], int] | None = getattr(below, "now", None)
        """The clock of the store below, if it has one."""
        self.place: str = getattr(below, "place", "")
        """Where the store below is: what is kept beside the keys about its tasks holds here, too."""
        self.keys = space.keys
        """Those of the space."""

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
            stream, entries, expect=expect, refs=stored.refs, blobs=blobs, durable=durable, swaps=stored.swaps
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

    def streams(self, prefix: str = "") -> dict[str, Head]:
        shows = self._space.shows
        return {name: head for name, head in self.below.streams(prefix).items() if shows(name)}

    def watch(self, stream: str, after: Head, timeout: float) -> Head:
        return self.below.watch(stream, after, timeout) if self._space.shows(stream) else EMPTY

    # --- refs

    def ref(self, name: str) -> str | None:
        names = [self._stored(name)]
        if names[0] != name:  # those of a shared space come first
            names += [f"{name}@{key}" for key in self._space.keys[1:]]
        values = (value for name in names if (value := self.below.ref(name)) is not None)
        return next((value for value in values if self._is_ours(name, value)), None)

    def refs(self, prefix: str = "", *, start: str = "", limit: int = 0) -> dict[str, str]:
        if prefix.startswith(OF_SPACES) and prefix.count("/") > 1:
            return self.below.refs(prefix, start=start, limit=limit) if self._names_shown(prefix) else {}
        below = self.below.refs(prefix)
        by_name: dict[str, str] = {}
        for name, value in below.items():
            if name.startswith(SHARED) or self._names_shown(name) or name.startswith(BY_CONTENT):
                if self._is_ours(name, value):
                    by_name[name] = value
                continue
            own, at, key = name.rpartition("@")
            if at and key in self._space.keys and (own not in by_name or key == self._space.home):
                by_name[own] = value
        return dict([pair for pair in sorted(by_name.items()) if pair[0] >= start][: limit or None])

    def swap(self, name: str, value: str | None, *, expect: str | None, durable: bool = True) -> None:
        task = (expect or value or "").partition(" ")[0] if name.startswith("checkpoint/") else ""
        stored = self._stored(name, key_of_task(task) if self._space.shows(task) else "")
        self.below.swap(stored, value, expect=expect, durable=durable)

    def _stored(self, name: str, key: str = "") -> str:
        """The name of a ref in the store below. `key` is that of the space it is written for (default: the one tasks start in)."""
        if name.startswith((*SHARED, *BY_CONTENT)) or self._names_shown(name):
            return name
        return f"{name}@{key or self._space.home}"

    def _names_shown(self, name: str) -> bool:
        if name.startswith(OF_CALLS):
            return self._space.shows(name.split("/")[2]) if name.count("/") > 1 else False
        if name.startswith(OF_SPACES):
            return name.split("/", 2)[1] in self._space.keys
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
