"""This gateway among the others that share its store.

Owns: the thread that keeps this replica's lease, the leases of others that ended, and asking another replica for a task. Must never: wait
for anything that waits for a call: a lease that is kept late looks like a replica that is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from itertools import starmap

from adjourn.errors import AdjournError, StoreError
from adjourn.host import Process, keys, now, process
from adjourn.relay import StderrLog
from adjourn.store import Store
from adjourn.tasks import RENEW_SECONDS, OpenSession, ReplicaLease, expire_sessions_of

HAND_OVER_SECONDS = 5.0
"""How long another replica may take to give back a task. It looks once a second, and its open calls end first."""
POLL_SECONDS = 0.1
MAX_WAITING = 4
"""Threads that may wait for other replicas at once: the others open sessions."""


class Replica:
    """`wanted` is called in the thread of the lease with a task that another replica asks for: it has it given back, and answered."""

    def __init__(self, store: Store, report: StderrLog, wanted: Callable[[str], None]) -> None:
        """`store` may be a connection of its own to the store that the sessions use, so that no append keeps the lease waiting."""
        self._lease = ReplicaLease(store, process.current(), now)
        self._store = store
        self._report = report
        self._wanted = wanted
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._trouble = ""

    @property
    def ref(self) -> str:
        """The lease of this replica."""
        return self._lease.ref

    def start(self) -> None:
        """Take the lease, and keep it from now on. Raises `StoreError`."""
        self._lease.renew()
        self._thread.start()

    def stop(self) -> None:
        """Give the lease up. All sessions are closed."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self._lease.release()
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def is_gone(self, holders: Iterable[OpenSession]) -> bool:
        """Whether the replica that has one of these sessions is gone."""
        gone = self._lease.gone
        return bool(gone) and any(
            ReplicaLease.ref_of(Process(one.host, one.pid, one.started)) in gone for one in list(holders)
        )

    def ask(self, task: str) -> bool:
        """Ask the replica that holds a task for it; returns whether it may be free now. Waits, at most `HAND_OVER_SECONDS`."""
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            holders = self._lease.holders(task)
            asked = {holder: self._lease.ask(holder, task) for holder in holders}
            end = time.monotonic() + HAND_OVER_SECONDS
            while not (answered := all(starmap(self._lease.is_answered, asked.items()))):
                if time.monotonic() > end:
                    break
                time.sleep(POLL_SECONDS)
            for one in asked.values():
                self._lease.forget(one)
            return bool(holders) and answered
        finally:
            self._waiting.release()

    def answer(self, task: str) -> None:
        """Say that a task was given back, or is not."""
        try:
            self._lease.answer(task)
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def _expire_sessions(self, lease: str) -> None:
        """Have what the sessions of another replica left open be in doubt."""
        try:
            expire_sessions_of(self._store, lease, clock=now, secret=keys.secret())
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def _keep(self) -> None:
        while not self._ending.wait(RENEW_SECONDS):
            try:
                self._lease.renew()
                for name in self._lease.ended():
                    self._report.event("replica.gone", name)
                    threading.Thread(
                        target=self._expire_sessions, args=(name,), name="expire", daemon=True
                    ).start()
                for task in self._lease.wanted():
                    self._wanted(task)
                self._trouble = ""
            except StoreError as error:
                if str(error) != self._trouble:  # not once a second
                    self._trouble = str(error)
                    self._report.event("store.error", self._trouble)
            except Exception as error:  # whatever it is, the lease has to be kept
                self._report.event("gateway.bug", f"{type(error).__name__}: {error}")
