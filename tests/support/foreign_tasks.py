"""Tasks of other people in a store, by the hundred thousand: names, refs and one event each, which nothing here reads."""

from __future__ import annotations

from typing import Any, cast

from adjourn.policy.principal import Principal, space_of
from adjourn.store import Store
from adjourn.store.base import Entry
from adjourn.store.memory import MemoryStore
from adjourn.store.postgres import PostgresStore
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.work_index import EFFECTS, NAMED, WORK

HASH = "a" * 64
GATEWAY = "a:b:c/1/1"
"""The process, on another machine, of their sessions that are open."""
MOST_FILLED = 20_000


def _foreign(number: int) -> tuple[str, dict[str, str]]:
    """A task of somebody else, and its refs."""
    space = space_of(Principal(id=f"user:{number % 1000}", name="other", type="human"))
    task = space.named(f"20260501-{number:08}")
    key = space.own
    return task, {
        f"checkpoint/done-{number}@{key}": f"{task} 0 {HASH}",
        f"client/gateway/{key}/{number}@{key}": task,
        f"folder/done-{number}@{key}": HASH,
        f"fold/{task}": f"{HASH}:{{}}",
        f"{NAMED}{key}/{task}/done-{number}": f"0 {HASH}",
        f"lister/gateway/{number}@{key}": f"{GATEWAY} aex.resume",
        f"proxy/gateway/{number}/{GATEWAY}@{key}": f"{HASH}:[]",
        f"record/{task}": f"0 {HASH}",
        f"{WORK}{key}/{EFFECTS}79739487755/{task}": "2026-05-01T12:00:00.000Z ",
    }


def fill(store: Store, start: int, stop: int) -> None:
    """Put tasks of others into a store, past its methods: 10,000 appends would take seconds."""
    if stop - start > MOST_FILLED:  # a statement has its time
        fill(store, start, stop - MOST_FILLED)
        start = stop - MOST_FILLED
    tasks = [_foreign(number) for number in range(start, stop)]
    refs = [pair for _, of_task in tasks for pair in of_task.items()]
    if isinstance(store, MemoryStore):
        store._streams.update((task, [Entry(HASH, b"{}")]) for task, _ in tasks)
        store._refs.update(refs)
    elif isinstance(store, SqliteStore):
        assert store._cursor is not None
        with store._lock:
            store._cursor.execute("BEGIN")
            store._cursor.executemany(
                "INSERT INTO stream VALUES (?, ?)", ((1000 + n, task) for n, (task, _) in enumerate(tasks, start))
            )
            store._cursor.executemany(
                "INSERT INTO event VALUES (?, ?, ?)", (((1000 + n) << 40, HASH, b"{}") for n in range(start, stop))
            )
            store._cursor.executemany("INSERT INTO ref VALUES (?, ?)", refs)
            store._cursor.execute("COMMIT")
    else:

        def copy(connection: Any) -> None:
            with connection.cursor().copy("COPY adjourn_event (stream, seq, hash, data) FROM STDIN") as lines:
                for task, _ in tasks:
                    lines.write_row((task, 0, HASH, b"{}"))
            with connection.cursor().copy("COPY adjourn_ref FROM STDIN") as lines:
                for pair in refs:
                    lines.write_row(pair)
            connection.execute("ANALYZE")  # as autovacuum does within a minute

        cast("PostgresStore", store)._line.write(copy)
