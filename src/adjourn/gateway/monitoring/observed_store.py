"""A store that is timed, and whose failures are counted.

Owns: that. Must never: change what is asked of the store, or what it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from time import monotonic_ns
from typing import Any, TypeVar, cast

from adjourn.errors import ConflictError, StoreError
from adjourn.gateway.monitoring.metrics import Metrics
from adjourn.gateway.monitoring.tracing import AppendTimes
from adjourn.store import Store

_T = TypeVar("_T")


class _ObservedStore:
    """Passes everything on. Each method is wrapped when it is first used."""

    def __init__(self, store: Store, metrics: Metrics, appends: AppendTimes) -> None:
        self._store = store
        self._metrics = metrics
        self._appends = appends

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found) or name.startswith("_"):
            return found
        watched = self._timed(name, found) if name in _APPENDING else self._counted(name, found)
        setattr(self, name, watched)
        return watched

    def _timed(self, name: str, append: Callable[..., _T]) -> Callable[..., _T]:
        metrics, appends, streams_of = self._metrics, self._appends, _APPENDING[name]

        @wraps(append)
        def observed(first: Any, *given: Any, **named: Any) -> _T:
            begun = monotonic_ns()
            try:
                outcome = append(first, *given, **named)
            except ConflictError:
                metrics.conflicted()
                raise
            except StoreError:
                metrics.failed("append")
                raise
            ended = monotonic_ns()
            metrics.appended((ended - begun) * 1e-9)
            if appends.is_kept:
                appends.note(streams_of(first), begun, ended)
            if isinstance(outcome, list):
                _look(outcome, metrics)
            return outcome

        return observed

    def _counted(self, name: str, method: Callable[..., _T]) -> Callable[..., _T]:
        metrics = self._metrics

        @wraps(method)
        def observed(*given: Any, **named: Any) -> _T:
            try:
                return method(*given, **named)
            except ConflictError:
                raise
            except StoreError:
                metrics.failed(name)
                raise

        return observed


def _look(outcomes: Iterable[object], metrics: Metrics) -> None:
    """Count what went wrong among appends that were made together."""
    for one in outcomes:
        if isinstance(one, ConflictError):
            metrics.conflicted()
        elif isinstance(one, StoreError):
            metrics.failed("append")


_APPENDING: dict[str, Callable[[Any], Iterable[str]]] = {
    "append": lambda stream: (stream,),
    "append_many": lambda appends: [one.stream for one in appends],
}
"""The methods that append, and to which streams, by their first argument."""


def observed(store: Store, metrics: Metrics, appends: AppendTimes) -> Store:
    """The same store."""
    return cast("Store", _ObservedStore(store, metrics, appends))
