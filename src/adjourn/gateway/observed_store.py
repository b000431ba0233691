"""A store that is timed, and whose failures are counted.

Owns: that. Must never: change what is asked of the store, or what it answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from time import monotonic_ns
from typing import Any, TypeVar, cast

from adjourn.errors import ConflictError, StoreError
from adjourn.gateway.metrics import Metrics
from adjourn.gateway.tracing import current
from adjourn.store import Store

_T = TypeVar("_T")


class _ObservedStore:
    """Passes everything on. Each method is wrapped when it is first used."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found) or name.startswith("_"):
            return found
        watched = self._timed(found) if name == "append" else self._counted(name, found)
        setattr(self, name, watched)
        return watched

    def _timed(self, append: Callable[..., _T]) -> Callable[..., _T]:
        metrics = self._metrics

        @wraps(append)
        def observed(*given: Any, **named: Any) -> _T:
            begun = monotonic_ns()
            try:
                head = append(*given, **named)
            except ConflictError:
                metrics.conflicted()
                raise
            except StoreError:
                metrics.failed("append")
                raise
            took = monotonic_ns() - begun
            metrics.appended(took * 1e-9)
            if (trace := current.get()) is not None:
                trace.appended(begun)
            return head

        return observed

    def _counted(self, name: str, method: Callable[..., _T]) -> Callable[..., _T]:
        metrics = self._metrics

        @wraps(method)
        def observed(*given: Any, **named: Any) -> _T:
            try:
                return method(*given, **named)
            except StoreError:
                metrics.failed(name)
                raise

        return observed


def observed(store: Store, metrics: Metrics) -> Store:
    """The same store."""
    return cast("Store", _ObservedStore(store, metrics))
