"""Resuming a task against the length of its history."""

from __future__ import annotations

import os
import time
from contextlib import closing

import histories
from sizes import Sizes
from tables import Table, median

from adjourn.checkpoints import checkpoint
from adjourn.handover.rendering import to_json
from adjourn.handover.resumption import Reader, hand_over
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.task import FOLD_EVERY, Task

NAME = "bench"


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    table = Table(
        "Resuming, by the length of the history",
        [
            "events",
            "after a checkpoint, ms",
            "slowest ms",
            f"{FOLD_EVERY - 1:,} events later, ms",
            "without a cached fold, ms",
            "target",
        ],
        "Opening the SQLite store, loading the task, finding the checkpoint and testing its signature and document, "
        f"and building the answer of `aex.resume`: medians of {sizes.resumes}. A cached fold is made at the first checkpoint of "
        f"every {checkpoint.FOLD_SPAN} events and every {FOLD_EVERY:,} events, so the third column is the worst case of a task "
        "in use. The one after it is what a first load costs where there is no cache of this user's (once).",
    )
    path, source = f"{folder}/resume.db", histories.facts()
    for count in sizes.histories:
        with closing(SqliteStore(path)) as store:
            histories.extend(store, source, count)
            first = _without_fold(store)
            checkpoint.create(_task(store), NAME)
        soon = [_resume(path) for _ in range(sizes.resumes)]
        with closing(SqliteStore(path)) as store:
            histories.extend(store, source, count + FOLD_EVERY)  # one of them is the checkpoint
        late = [_resume(path) for _ in range(sizes.resumes)]
        table.add(f"{count:,}", median(soon), max(soon), median(late), first, "≤ 50 ms, not growing")
    return [table]


def _task(store: SqliteStore) -> Task:
    return Task(store, histories.TASK, clock=histories.clock, secret=histories.SECRET)


def _without_fold(store: SqliteStore) -> float:
    fold = f"fold/{histories.TASK}"
    store.swap(fold, None, expect=store.ref(fold))
    began = time.perf_counter()
    _task(store)
    return (time.perf_counter() - began) * 1e3


def _resume(path: str) -> float:
    began = time.perf_counter()
    with closing(SqliteStore(path)) as store:
        found = checkpoint.find(store, NAME)
        assert checkpoint.trusted_signer(found)
        checkpoint.document(store, found)
        told = to_json(hand_over(_task(store), found, Reader(os.path.dirname(path))))
        took = time.perf_counter() - began
    assert told["callsUsed"]
    return took * 1e3
