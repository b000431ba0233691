"""Heads kept beside the keys: how far this user's processes saw a task's history reach, outside every workspace.

    heads/PLACE/TASK     a position of the task's chain that a loss of power leaves there: seq, hash, calls used until then
    heads/PLACE/.CLIENT  the task that a client's processes worked on

PLACE and CLIENT are digests of where the store is and of the client's group. Each file is sealed with the user's secret and
replaced in one step; one that is not sealed so is as good as none. A store that does not say where it is (memory) has none.

INVARIANT: a kept head may lag behind the store, and is never ahead of what the store has on disk: a loss of power must not make an
honest history look like one that was cut. So only positions of durable appends are kept.

Owns: these files. Must never: examine a store's events, keep a session from working because a file could not be written.
"""

from __future__ import annotations

import fcntl
import hmac
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from adjourn.errors import NotFoundError
from adjourn.host import keys, read_file
from adjourn.log import digest
from adjourn.store import Store

MAX_BYTES = 4096
MAX_KNOWN = 10_000
"""Files of one place that are examined."""


class KeptHead(msgspec.Struct, frozen=True, kw_only=True):
    """Event `seq` of a task has this hash, and up to it `calls` were used."""

    task: str
    seq: int
    hash: str
    calls: int


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
        found = self._read(task, KeptHead)
        return found if found is not None and found.task == task else None

    def known(self) -> list[KeptHead]:
        """All that is kept of this store, by task."""
        found = [self.of(name) for name in self._names() if not name.startswith(".")]
        return [one for one in found if one is not None and self._shows(one.task)]

    def keep(self, head: KeptHead) -> bool:
        """Keep a head unless a later one is kept.

        False when it could not be written, or another process was writing: it is for the next time then.
        """
        try:
            self._write(head.task, head)
        except OSError:
            return False
        return True

    def forget(self, task: str) -> None:
        """Keep nothing of a task any longer."""
        self._remove(task)

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

    def _write(self, name: str, value: KeptHead | Binding) -> None:
        """Write a temporary file and rename it, one process at a time; who finds another writing leaves it for the next time."""
        if not self._place:
            return
        os.makedirs(self._folder, 0o700, exist_ok=True)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = self.of(value.task) if isinstance(value, KeptHead) else None
            if there is not None and isinstance(value, KeptHead) and there.seq >= value.seq:
                return
            text = msgspec.json.encode(value)
            temporary = f"..{name}"  # the one of whoever holds the lock
            handle = os.open(
                temporary,
                os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=folder,
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
