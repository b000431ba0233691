"""Verification: events a second, beside hashing the same bytes and nothing else."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import histories
from sizes import Sizes
from tables import Table, ratio

from adjourn.log.chain import verify_chain
from adjourn.store.sqlite import SqliteStore
from adjourn.verification.verify import verify_task


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    count = sizes.verified
    store = SqliteStore(f"{folder}/verify.db")
    histories.extend(store, histories.facts(), count)
    chain = list(store.read(histories.TASK))

    def hash_all() -> bool:
        return all(hashlib.sha256(data).hexdigest() == stored for stored, data in chain)

    def read_all() -> bool:
        return sum(1 for _ in store.read(histories.TASK)) == count

    subjects: list[tuple[str, Callable[[], bool], str]] = [
        ("SHA-256 of the same bytes, in memory", hash_all, ""),
        ("the chain, in memory", lambda: verify_chain(chain).valid, "≥ 300,000 events/s"),
        ("reading the store, checking nothing", read_all, ""),
        ("the chain, from the store", lambda: verify_chain(store.read(histories.TASK)).valid, ""),
        ("`verify --chain`", lambda: verify_task(store, histories.TASK, deep=False).valid, ""),
        ("`verify`, whole", lambda: verify_task(store, histories.TASK).valid, ""),
    ]
    best = dict.fromkeys((name for name, *_ in subjects), float("inf"))
    for _ in range(sizes.repeats):
        for name, check, _target in subjects:
            began = time.perf_counter()
            assert check(), name
            best[name] = min(best[name], time.perf_counter() - began)
    store.close()
    size = sum(len(entry.data) for entry in chain) / count
    table = Table(
        f"Verifying {count:,} events",
        ["", "seconds", "events/s", "hashing = 1", "target"],
        f"Events of {size:.0f} bytes on average, in a SQLite file; the fastest of {sizes.repeats}, taking turns. "
        "*hashing = 1*: the time as a multiple of that for hashing alone. The whole verification also decodes every event and folds the "
        "ledger anew.",
    )
    floor = best[subjects[0][0]]
    for name, _check, target in subjects:
        table.add(name, best[name], count / best[name], ratio(best[name], floor), target)
    return [table]
