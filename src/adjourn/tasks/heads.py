"""How far a task's history is known to reach: heads kept outside of every workspace, and entries checked by them.

    heads/PLACE/TASK     a position of the task's chain that a loss of power leaves there: seq, hash, calls used until then
    heads/PLACE/.CLIENT  the task that a client's processes worked on

PLACE and CLIENT are digests of where the store is and of the client's group. Each file is sealed with the user's secret and
replaced in one step; one that is not sealed so is as good as none. A store that does not say where it is (memory) has none.

INVARIANT: a kept head may lag behind the store, and is never ahead of what the store has on disk: a loss of power must not make an
honest history look like one that was cut. So only positions of durable appends are kept.
"""

from __future__ import annotations

import fcntl
import hmac
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

import msgspec

from adjourn.errors import IntegrityError, NotFoundError
from adjourn.host import keys
from adjourn.host.workspace import read_file
from adjourn.log.canonical_json import digest
from adjourn.log.event import GENESIS, decode
from adjourn.log.kinds import Data, PhaseEntered, data_of, facts_of
from adjourn.store.base import Entry, Head, Store
from adjourn.tasks.ledger import Ledger

MAX_BYTES = 4096
MAX_KNOWN = 10_000
"""Files of one place that are examined."""
_RECENT = 1_000


class KeptHead(msgspec.Struct, frozen=True, kw_only=True):
    """Event `seq` of a task has this hash and the time `at`, and up to it `calls` were used. Earlier versions kept no time ("")."""

    task: str
    seq: int
    hash: str
    calls: int
    at: str = ""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """The task that a client works on."""

    group: str
    task: str


_T = TypeVar("_T", KeptHead, Binding)


class KeptHeads:
    """What is kept of the tasks of one store."""

    def __init__(self, store: Store, secret: bytes) -> None:
        place: str = getattr(store, "place", "")
        self._place = digest(place.encode(errors="surrogateescape"))[:32] if place else ""
        self._secret = secret
        self._shows: Callable[[str], bool] = getattr(store, "shows", bool)
        """Whether the store, which may be one principal's view, shows a task."""

    @property
    def _folder(self) -> str:
        return os.path.join(os.path.dirname(keys.folder()), "heads", self._place)

    def of(self, task: str) -> KeptHead | None:
        """What is kept of a task."""
        head = self._read(task, KeptHead)
        return head if head is not None and head.task == task else None

    def known(self, prefix: str = "") -> list[KeptHead]:
        """All that is kept of this store, by task; with a `prefix`, of tasks whose ids start with it."""
        found = [self.of(name) for name in self._names() if not name.startswith(".") and name.startswith(prefix)]
        return [head for head in found if head is not None and self._shows(head.task)]

    def keep(self, head: KeptHead, *, over: KeptHead | None = None) -> bool:
        """Keep a head unless a later one is kept, other than `over`.

        False when it could not be written, or another process was writing: it is for the next time then.
        """
        try:
            self._write(head.task, head, over)
        except OSError:
            return False
        return True

    def forget(self, task: str) -> None:
        """Keep nothing of a task any longer."""
        self._remove(task)

    def forget_store(self) -> None:
        """Keep nothing of this store any longer: it is deleted."""
        if self._place:
            import shutil  # 2 ms, for a store that is deleted

            shutil.rmtree(self._folder, ignore_errors=True)

    def bound(self, group: str) -> str:
        """The task that a client was last known to work on here, "" for none."""
        found = self._read(_name_of(group), Binding)
        return found.task if found is not None and found.group == group else ""

    def bind(self, group: str, task: str) -> None:
        """Keep which task a client works on."""
        with suppress(OSError):
            self._write(_name_of(group), Binding(group=group, task=task))

    def unbind(self, group: str) -> None:
        self._remove(_name_of(group))

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            if self._place:
                os.unlink(os.path.join(self._folder, name))

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._folder))[:MAX_KNOWN] if self._place else []
        except FileNotFoundError:
            return []

    def _read(self, name: str, kind: type[_T]) -> _T | None:
        if not self._place:
            return None
        try:
            seal, _, text = read_file(os.path.join(self._folder, name), MAX_BYTES).partition(b":")
        except NotFoundError:
            return None
        if not hmac.compare_digest(seal, self._seal(name, text)):
            return None
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError:
            return None

    def _write(self, name: str, value: KeptHead | Binding, over: KeptHead | None = None) -> None:
        """Write a temporary file and rename it, one process at a time; who finds another writing leaves it for the next time."""
        if not self._place:
            return
        os.makedirs(self._folder, 0o700, exist_ok=True)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = self.of(value.task) if isinstance(value, KeptHead) else None
            if there is not None and there != over and isinstance(value, KeptHead) and there.seq >= value.seq:
                return
            text = msgspec.json.encode(value)
            temporary = f"..{name}"  # the one of whoever holds the lock
            handle = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
            )
            try:
                os.write(handle, self._seal(name, text) + b":" + text)
            finally:
                os.close(handle)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)

    def _seal(self, name: str, text: bytes) -> bytes:
        about = f"adjourn/head/1:{self._place}/{name}:".encode()
        return hmac.digest(self._secret, about + text, "sha256").hex().encode()


def _name_of(group: str) -> str:
    return f".{digest(group.encode())[:32]}"


# --- events that are verified before they are shown


def verified_entries_from(store: Store, task: str, start: int, head: Head) -> Iterator[Entry]:
    """The events from `start` to `head`, each verified as it is read. For readers that show nothing before they have all.

    Raises `IntegrityError` that names the first event that fails verification.
    """
    seq = max(start, 0)
    after = GENESIS if seq == 0 else ""
    for entry in store.read(task, seq, head.seq + 1):
        if not isinstance(entry.data, bytes) or sha256(entry.data).hexdigest() != entry.hash:
            raise _changed(task, seq)
        if after and not entry.data.startswith(b'{"after":"' + after.encode() + b'"'):
            raise _changed(task, seq)
        after = entry.hash
        yield entry
        seq += 1
    if seq <= head.seq or (after != head.hash and start <= head.seq):
        raise _changed(task, min(seq, head.seq))


def checked(store: Store, task: str, start: int, head: Head) -> Iterator[Entry]:
    """The same, verified whole before the first one is returned: for what is shown while it is read."""
    for _ in verified_entries_from(store, task, start, head):
        pass
    return store.read(task, max(start, 0), head.seq + 1)


def recent_facts(store: Store, ledger: Ledger) -> Iterator[Data | None]:
    """The last 1,000 facts of a task, verified as they are read; None for one of an unknown kind."""
    head = Head(ledger.seq, ledger.hash)
    for entry in verified_entries_from(store, ledger.task, ledger.seq - _RECENT, head):
        yield from map(data_of, facts_of(decode(entry.data)))


def last_phase(store: Store, ledger: Ledger) -> PhaseEntered | None:
    """The last step of a coding session; None for a task of another kind."""
    phases = [fact for fact in recent_facts(store, ledger) if isinstance(fact, PhaseEntered)]
    return phases[-1] if phases else None


def _changed(task: str, seq: int) -> IntegrityError:
    return IntegrityError(
        f"the history of task {task} fails verification at event {seq}: this event, or the one before it, was changed in the store",
        "run `adjourn verify`",
    )
