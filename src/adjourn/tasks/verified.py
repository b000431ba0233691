"""Events that are verified before they are shown.

Loading a task begins at its cached fold, so the events behind it are not examined again. Who reads them later reads them through
here: each must have its hash and follow the one before, and the last must be the head that the reader trusts, which is that of a
loaded ledger or of a signed checkpoint. An edited event then breaks the chain between itself and that head.

Owns: this reading. Must never: decode, or trust a stored hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from adjourn.errors import IntegrityError
from adjourn.log import GENESIS
from adjourn.store import Entry, Head, Store


def following(store: Store, task: str, start: int, head: Head) -> Iterator[Entry]:
    """The events from `start` to `head`, each verified as it is read. For readers that show nothing before they have all.

    Raises `IntegrityError` that names the first event that fails verification.
    """
    seq = max(start, 0)
    after = GENESIS if seq == 0 else ""
    for entry in store.read(task, seq, head.seq + 1):
        if not isinstance(entry.data, bytes) or sha256(entry.data).hexdigest() != entry.hash:
            raise _changed(task, seq)
        if after and not entry.data.startswith(b'{"after":"%b"' % after.encode()):
            raise _changed(task, seq)
        after = entry.hash
        yield entry
        seq += 1
    if seq <= head.seq or (after != head.hash and start <= head.seq):
        raise _changed(task, min(seq, head.seq))


def checked(store: Store, task: str, start: int, head: Head) -> Iterator[Entry]:
    """The same, verified whole before the first one is returned: for what is shown while it is read."""
    for _ in following(store, task, start, head):
        pass
    return store.read(task, max(start, 0), head.seq + 1)


def _changed(task: str, seq: int) -> IntegrityError:
    return IntegrityError(
        f"the history of task {task} fails verification at event {seq}: this event, or the one before it, was changed in the store",
        "run `adjourn verify`",
    )
