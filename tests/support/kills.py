"""Kills: an action is ended before each of its system calls in turn."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest


class Killed(BaseException):
    """The process is gone: nothing it still does reaches the disk."""


class Kill:
    """Ends the process, as far as the disk is concerned, before the n-th call of this thread that changes it.

    Threads that an earlier test left behind continue: they are not part of that process.
    """

    CALLS = ("mkdir", "open", "fsync", "rename", "unlink", "rmdir")

    def __init__(self, patch: pytest.MonkeyPatch, after: int, *, by_signal: bool = False) -> None:
        """`by_signal` ends this process for real; otherwise `Killed` is raised."""
        self.left = after
        self._by_signal = by_signal
        self._thread = threading.get_ident()
        for name in self.CALLS:
            patch.setattr(os, name, self.killing(getattr(os, name)))

    def killing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            if threading.get_ident() == self._thread:
                if self.left <= 0 and self._by_signal:
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.left <= 0:
                    raise Killed
                self.left -= 1
            return call(*args, **options)

        return step


def each_step(begin: Callable[[], object], act: Callable[[], object], check: Callable[[], object]) -> int:
    """Do something killed before each of its steps in turn, each time from the same beginning. Returns how many there are."""
    for step in range(300):
        begin()
        with pytest.MonkeyPatch.context() as patch:
            kill = Kill(patch, step)
            try:
                act()
            except Killed:
                pass
            else:
                if kill.left > 0:
                    return step
        check()
    raise AssertionError("it never ends")
