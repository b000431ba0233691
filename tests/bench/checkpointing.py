"""A checkpoint beside the least that keeps the same bytes durably: one insert into SQLite (WAL, `synchronous=FULL`)."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import histories
from sizes import Sizes
from tables import Table, median, percentile, ratio

from adjourn.checkpoints import checkpoint, folder_writing
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks import Task

NAME = "bench"


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    table = Table(
        "Checkpoints",
        ["", "p50 µs", "p90 µs", "bytes", "raw insert = 1", "target"],
        f"{sizes.checkpoints} checkpoints of a task that has called {histories.TOOLS} tools: created and signed in the "
        "store (`checkpoint.create`), then written as a folder (`folder.write`, whose audit.jsonl is the whole history, so "
        "it grows with it). The raw insert writes the bytes of the document and of its event in one transaction, taking "
        "turns with `checkpoint.create`.",
    )
    for count in sizes.checkpoint_histories:
        workspace = Path(folder, f"checkpoints-{count}")
        workspace.mkdir()
        _measure(table, sizes.checkpoints, count, str(workspace))
    return [table]


def _measure(table: Table, rounds: int, count: int, workspace: str) -> None:
    raw = _raw(f"{workspace}/raw.db")
    inserted: list[float] = []
    created: list[float] = []
    written: list[float] = []
    path = ""
    with closing(raw), closing(SqliteStore(f"{workspace}/store.db")) as store:
        histories.extend(store, histories.facts(), count)
        task = Task(store, histories.TASK, clock=histories.clock, secret=histories.SECRET)
        size = 0
        for number in range(rounds + 1):
            began = time.perf_counter()
            made = checkpoint.create(task, NAME, description=f"step {number}")
            ended = time.perf_counter()
            document = store.get_blob(made.data.document)
            assert document is not None
            data = document + next(iter(store.read(task.id, made.event.seq))).data
            size = len(data)
            insert = time.perf_counter()
            raw.execute("INSERT INTO kept (data) VALUES (?)", (data,))
            if number:  # the first one makes the keys
                inserted.append((time.perf_counter() - insert) * 1e6)
                created.append((ended - began) * 1e6)
        for _ in range(max(1, rounds // 5)):
            began = time.perf_counter()
            path = folder_writing.write(store, made, workspace)
            written.append((time.perf_counter() - began) * 1e6)
    files = sum(entry.stat().st_size for entry in os.scandir(f"{workspace}/{path}"))
    floor, of = median(inserted), f", {count:,} events"
    for name, times, bytes_, target in (
        (f"raw insert{of}", inserted, size, ""),
        (f"`checkpoint.create`{of}", created, size, "≤ 1.3"),
        (f"`folder.write`{of}", written, files, ""),
    ):
        table.add(name, median(times), percentile(times, 0.9), bytes_, ratio(median(times), floor), target)


def _raw(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, data BLOB)")
    return connection
