"""The lease of a replica: one ref that says that a gateway process lives, whatever number of sessions it has.

    replica/HOST/PID/STARTED        when the lease ends, in milliseconds by the store's clock
    wanted/HOST/PID/STARTED/TASK    the replica that asks this one to give a task back

A replica renews its lease about each second, and looks at those of the others. One that did not change for `SILENCE_SECONDS`, while
this replica could read and write the store, is deleted; from then on everybody takes the sessions of that process for over. Silence
is counted on the watcher's own clock. So no two machines need the same time, and a store that is away ends nobody's lease.

Owns: these refs, and when a lease ends. Must never: end a session.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from adjourn.errors import ConflictError
from adjourn.host import Process
from adjourn.store import Store

LEASE_MILLISECONDS = 60_000
"""How long a session or a replica that cannot be examined is taken to live without a sign of life, by those who do not watch it."""
RENEW_SECONDS = 0.75
SILENCE_SECONDS = 2.5
MAX_PAUSE_SECONDS = 2.0
"""A longer time between two looks of a watcher says something about the store, or about the watcher: it counts silence from zero."""
MAX_GONE = 100
REPLICA = "replica/"
WANTED = "wanted/"


def time_of(store: Store, otherwise: int) -> int:
    """The store's clock, which all its users share, in milliseconds since the epoch; `otherwise` if it has none."""
    now: Callable[[], int] | None = getattr(store, "now", None)
    return otherwise if now is None else now()


def lease_end(store: Store, lease: str | None) -> int:
    """When a session's lease ends, in milliseconds by the store's clock; 0 if there is none.

    `lease` is the value of its ref: the time, or the ref of the replica that has the session.
    """
    if lease is not None and lease.startswith(REPLICA):
        lease = store.ref(lease)
    return int(lease) if lease is not None and lease.isdigit() else 0


class ReplicaLease:
    """This replica's lease, and what it sees of the others. `renew` and `ended` are for one thread. `monotonic` are seconds."""

    def __init__(
        self,
        store: Store,
        process: Process,
        clock: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self.ref = self.ref_of(process)
        self._clock = clock
        self._monotonic = monotonic
        self._value: str | None = None
        self._seen: dict[str, tuple[str, float]] = {}
        """The leases of the others, and since when each has not changed."""
        self._looked = float("-inf")
        self.gone: dict[str, None] = {}
        """The leases that ended last and did not come back, at most `MAX_GONE`."""

    @staticmethod
    def ref_of(process: Process) -> str:
        """The ref that is the lease of a process."""
        return f"{REPLICA}{process}"

    def renew(self) -> None:
        """Say that this replica lives. Raises `StoreError`."""
        end = str(time_of(self._store, self._clock()) + LEASE_MILLISECONDS)
        try:
            self._store.swap(self.ref, end, expect=self._value, durable=False)
        except ConflictError:  # another replica has deleted it, or the answer to an earlier renewal was lost
            self._store.swap(self.ref, end, expect=self._store.ref(self.ref), durable=False)
        self._value = end

    def ended(self) -> list[str]:
        """The leases that ended since the last call. Deletes those of replicas that are silent. To be called after each `renew`.

        Raises `StoreError`.
        """
        begun = self._monotonic()
        leases = self._store.refs(REPLICA)
        now = self._monotonic()
        if now - self._looked > MAX_PAUSE_SECONDS:
            self._seen = dict.fromkeys(self._seen, ("", begun))
        self._looked = now
        ended = [name for name in self._seen if name not in leases]
        for name in ended:
            del self._seen[name]
        for name in self.gone.keys() & leases.keys():
            del self.gone[name]
        for name, value in leases.items():
            before, since = self._seen.get(name, ("", 0.0))
            if value != before or name == self.ref:
                self._seen[name] = (value, begun)
            elif now - since > SILENCE_SECONDS and self._delete(name, value):
                del self._seen[name]
                ended.append(name)
        self.gone |= dict.fromkeys(ended)
        for name in list(self.gone)[:-MAX_GONE]:
            del self.gone[name]
        return ended

    def holders(self, task: str) -> list[str]:
        """The leases of the other replicas that have sessions on a task. Raises `StoreError`."""
        leases = self._store.refs(f"lease/{task}/").values()
        return sorted({one for one in leases if one.startswith(REPLICA) and one != self.ref})

    def ask(self, holder: str, task: str) -> str:
        """Ask another replica to give a task back. Returns the ref that is there until it has answered. Raises `StoreError`."""
        name = f"{WANTED}{holder.removeprefix(REPLICA)}/{task}"
        with suppress(ConflictError):  # it was asked already
            self._store.swap(name, self.ref, expect=None, durable=False)
        return name

    def is_answered(self, holder: str, asked: str) -> bool:
        """Whether the replica has given the task back, or does not, or is gone. Raises `StoreError`."""
        return self._store.ref(asked) is None or self._store.ref(holder) is None

    def wanted(self) -> list[str]:
        """The tasks that other replicas ask this one for. Raises `StoreError`."""
        begin = self._wanted_by_others
        return [name.removeprefix(begin) for name in self._store.refs(begin)]

    def answer(self, task: str) -> None:
        """The task was given back, or is not. Raises `StoreError`."""
        self.forget(f"{self._wanted_by_others}{task}")

    def forget(self, asked: str) -> None:
        """Ask no longer. Raises `StoreError`."""
        if (value := self._store.ref(asked)) is not None:
            self._delete(asked, value)

    @property
    def _wanted_by_others(self) -> str:
        return f"{WANTED}{self.ref.removeprefix(REPLICA)}/"

    def _delete(self, name: str, value: str) -> bool:
        try:
            self._store.swap(name, None, expect=value, durable=False)
        except (
            ConflictError
        ):  # it was renewed just now, or another replica was first: the next look says which
            return False
        return True

    def release(self) -> None:
        """Give the lease up: this replica has closed its sessions. Raises `StoreError`."""
        self.forget(self.ref)
