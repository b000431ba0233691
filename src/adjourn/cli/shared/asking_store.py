"""A store that asks before it is written: for commands that speak for a person, which are checked once it is known what they say.

Owns: which calls are writes. Must never: write what was not agreed to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjourn.store.base import Store

_WRITES = frozenset(("append_many", "put_blob", "forget", "drop"))
_READS = frozenset((
    "head", "read", "streams", "ref", "refs", "get_blob", "blobs", "watch", "close", "place", "shows", "writable", "schema", "now",
))  # fmt: skip
_CACHES = "fold/"
"""Refs that are sealed, and say nothing that the history does not: reading a task may write one."""


class AskingStore:
    """`below`, of which every write waits for `ask`, which gets the stream that is appended to ("" for other writes)."""

    def __init__(self, below: Store, ask: Callable[[str], None]) -> None:
        self._below = below
        self._ask = ask

    def append(self, stream: str, *arguments: Any, **options: Any) -> Any:
        """As `Store.append`."""
        self._ask(stream)
        return self._below.append(stream, *arguments, **options)

    def swap(self, name: str, *arguments: Any, **options: Any) -> None:
        """As `Store.swap`."""
        if not name.startswith(_CACHES):
            self._ask("")
        self._below.swap(name, *arguments, **options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._below, name)
        if name in _READS:
            return found
        if name not in _WRITES:  # what is not known may write
            self._ask("")
            return found

        def asked(*arguments: Any, **options: Any) -> Any:
            self._ask("")
            return found(*arguments, **options)

        return asked
