"""Ending a run on request, without leaving anything half written.

Owns: at which places a signal may cut in: between steps, and while something outside is waited for. Must never: cut into a
write of the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Stop:
    """A request to stop. `request` is safe to call from a signal handler."""

    def __init__(self) -> None:
        self._asked = False
        self._may_cut = False

    def request(self, *_signal: object) -> None:
        """Stop as soon as that is safe. Raises `KeyboardInterrupt` where it is so now."""
        self._asked = True
        if self._may_cut:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a stop was requested."""
        if self._asked:
            raise KeyboardInterrupt

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Within this context, a request interrupts at once."""
        self.check()
        self._may_cut = True
        try:
            yield
        finally:
            self._may_cut = False
