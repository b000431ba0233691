"""The protocol as a test suite, for our backends and for yours.

    class TestMyStore(StoreConformance):
        def make_store(self) -> Store:
            return MyStore(...)          # new and empty at each call

Owns: `StoreConformance`, which pytest collects from a subclass. Must never: import pytest, or test what the protocol does not
promise. In particular a store does not recompute the hash of an entry: whoever made the entry did, and verifying does again.
"""

from adjourn.store.conformance.documents import DocumentCases, Limits
from adjourn.store.conformance.races import Histories, Races, state_machine
from adjourn.store.conformance.streams import ManyAppends, Streams, WatchCases

__all__ = ["StoreConformance", "state_machine"]


class StoreConformance(Streams, DocumentCases, Limits, ManyAppends, Races, WatchCases, Histories):
    """Subclass it under a name that starts with `Test`, override `make_store`, and `opener` if there can be two.

    >>> from adjourn.store import MemoryStore
    >>> class TestMine(StoreConformance):
    ...     def make_store(self):
    ...         return MemoryStore()
    >>> len([name for name in dir(TestMine) if name.startswith("test_")]) > 20
    True
    """
