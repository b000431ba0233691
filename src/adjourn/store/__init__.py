"""Persistence of facts: streams of hashed entries, named refs, documents by their digest.

Owns: the public names of the storage layer, loaded when first used (PEP 562), so that importing this package
imports neither sqlite3 nor psycopg. Must never: know an event kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjourn.store.base import EMPTY, NO_REFS, ZERO_HASH, Entry, Head, Store

if TYPE_CHECKING:
    from adjourn.store.memory import MemoryStore
    from adjourn.store.postgres import PostgresStore
    from adjourn.store.sqlite import SqliteStore
    from adjourn.store.url import open_store

__all__ = [
    "EMPTY",
    "NO_REFS",
    "ZERO_HASH",
    "Entry",
    "Head",
    "MemoryStore",
    "PostgresStore",
    "SqliteStore",
    "Store",
    "open_store",
]

_LAZY = {
    "MemoryStore": "memory",
    "PostgresStore": "postgres",
    "SqliteStore": "sqlite",
    "open_store": "url",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  # only the first use of a lazy name pays for it

    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
