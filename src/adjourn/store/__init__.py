"""Persistence of facts: streams of hashed entries, named refs, documents by their digest.

Owns: the public names of the storage layer; importing this package imports neither sqlite3 nor psycopg. Must never: know an event
kind.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.store.base import (
        EMPTY,
        NO_REFS,
        NO_SWAPS,
        ZERO_HASH,
        Append,
        Appended,
        Entry,
        Head,
        Store,
        Swap,
    )
    from adjourn.store.memory import MemoryStore
    from adjourn.store.migrate import LATEST
    from adjourn.store.overlay import OverlayStore
    from adjourn.store.postgres import PostgresStore
    from adjourn.store.postgres_link import describe_server, is_prepared
    from adjourn.store.postgres_migration import migrate_postgres
    from adjourn.store.sqlite import SqliteStore
    from adjourn.store.url import open_store

__all__ = [
    "EMPTY", "LATEST", "NO_REFS", "NO_SWAPS", "ZERO_HASH", "Append", "Appended", "Entry", "Head", "MemoryStore", "OverlayStore", "PostgresStore",
    "SqliteStore", "Store", "Swap", "describe_server", "is_prepared", "migrate_postgres", "open_store",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "base": ("Append", "Appended", "EMPTY", "Entry", "Head", "NO_REFS", "NO_SWAPS", "Store", "Swap", "ZERO_HASH"),
        "memory": ("MemoryStore",),
        "migrate": ("LATEST",),
        "overlay": ("OverlayStore",),
        "postgres": ("PostgresStore",),
        "postgres_link": ("describe_server", "is_prepared"),
        "postgres_migration": ("migrate_postgres",),
        "sqlite": ("SqliteStore",),
        "url": ("open_store",),
    })  # fmt: skip
