"""What is written durably, and what is verified, beside the least that does the same to the same bytes.

The floor of writing is one INSERT of those bytes into SQLite (WAL, `synchronous=FULL`); of a folder, its files written and
flushed. The floor of verifying is reading the rows and hashing them. Each operation takes turns with its floor.

Owns: the operations and their floors. Must never: give a floor other bytes than its operation's.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import histories
from histories import AUTHOR, learning
from profiling import calls_of
from sizes import Sizes
from tables import Table, median
from turns import Rounds, median_ratio, take_turns

from adjourn.checkpoints import checkpoint
from adjourn.checkpoints import folder as checkpoint_folder
from adjourn.knowledge.model.documents import Tree, without
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.versions import SEAL
from adjourn.log.canonical_json import canonical
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.task import Task
from adjourn.verification.verify import verify_task

TITLE = "Stores: operations beside their floors"
RECORD_SIZES = {"10 KB": 30, "100 KB": 310}
"""Learnings in a record of that size."""
RECORD = "record"
WRITES = 10
"""At a turn."""


class Operation(NamedTuple):
    """Something that the product does, and its floor. Both go over `rows` rows, and run `times` times at a turn."""

    name: str
    work: Callable[[], object]
    floor: Callable[[], object]
    rows: int = 1
    times: int = WRITES
    is_peer: bool = False
    """It is another product that does it."""


class Turn(NamedTuple):
    """Microseconds of each run at a turn, and what the process computed for one; both by row."""

    times: list[float]
    processor: float


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    with ExitStack() as stack:
        operations = list(_operations(sizes, folder, stack))
        for operation in operations:
            for _ in range(3):  # keys, plans, caches
                operation.work()
                operation.floor()
        subjects = {
            (operation.name, side): partial(_turn, work, operation)
            for operation in operations
            for side, work in (("ours", operation.work), ("floor", operation.floor))
        }
        rounds = take_turns(subjects, sizes.store_rounds, sizes.idle_seconds)
        return [_table(operations, rounds)]


def _operations(sizes: Sizes, folder: str, stack: ExitStack) -> Iterator[Operation]:
    """`stack` closes what they work on."""

    def new_folder(name: str) -> str:
        path = Path(folder, name)
        path.mkdir()
        return str(path)

    for events in sizes.checkpoint_histories:
        yield from _checkpoints(events, new_folder(f"checkpoints-{events}"), stack)
    for size, learnings in RECORD_SIZES.items():
        yield from _updates(size, learnings, new_folder(f"record-{learnings}"), stack)
    yield from _verification(sizes.verified, new_folder("verified"), stack)


def _table(operations: list[Operation], rounds: Rounds[tuple[str, str], Turn]) -> Table:
    table = Table(
        TITLE,
        ["", "Python calls", "µs", "floor, µs", "floor = 1", "±", "CPU, floor = 1"],
        f"{rounds.note}. Medians; of verifying, by event or version.",
    )
    for operation in operations:
        ours, floors = (rounds.of((operation.name, side)) for side in ("ours", "floor"))
        pairs = list(zip(ours, floors, strict=True))
        ratio = median_ratio((median(our.times), median(floor.times)) for our, floor in pairs)
        processor = median_ratio((our.processor, floor.processor) for our, floor in pairs)
        table.add(
            operation.name,
            None if operation.is_peer else calls_of(operation.work) / operation.rows,
            *(median([time_ for turn in turns for time_ in turn.times]) for turns in (ours, floors)),
            ratio and ratio.median,
            ratio and ratio.error,
            processor and processor.median,
        )
    return table


def _turn(work: Callable[[], object], operation: Operation) -> Turn:
    computed = time.process_time()
    times = []
    for _ in range(operation.times):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e6 / operation.rows)
    return Turn(times, (time.process_time() - computed) * 1e6 / operation.times / operation.rows)


# --- writing


def _checkpoints(events: int, folder: str, stack: ExitStack) -> Iterator[Operation]:
    store = stack.enter_context(closing(SqliteStore(f"{folder}/store.db")))
    raw = stack.enter_context(closing(_raw(f"{folder}/raw.db")))
    histories.extend(store, histories.facts(), events)
    task = Task(store, histories.TASK, clock=histories.clock, secret=histories.SECRET)
    made = checkpoint.create(task, "first")
    numbers = count()

    def create() -> None:
        nonlocal made
        made = checkpoint.create(task, "checkpoint", description=f"step {next(numbers)}")

    def insert() -> None:
        raw.execute(_INSERT, (data,))

    def write_folder() -> None:
        checkpoint_folder.write(store, made, folder)

    written = Path(folder, checkpoint_folder.write(store, made, folder))
    contents = {path.name: path.read_bytes() for path in written.iterdir() if path.is_file()}
    document = store.get_blob(made.data.document)
    assert document is not None
    data = document + next(iter(store.read(task.id, made.event.seq))).data
    after = f"after {events:,} events"
    yield Operation(f"checkpoint, {after}", create, insert)
    yield Operation(f"checkpoint's folder, {after}", write_folder, partial(_write_files, folder, contents), times=1)


def _write_files(folder: str, contents: dict[str, bytes]) -> None:
    for name, data in contents.items():
        with open(f"{folder}/new", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{folder}/new", f"{folder}/{name}")


def _updates(size: str, learnings: int, folder: str, stack: ExitStack) -> Iterator[Operation]:
    store = stack.enter_context(closing(SqliteStore(f"{folder}/store.db")))
    raw = stack.enter_context(closing(_raw(f"{folder}/raw.db")))
    put = _langgraph(stack.enter_context(closing(_connection(f"{folder}/langgraph.db"))))
    records = RecordTrees(store)
    items = [learning(number) for number in range(learnings)]
    record = records.create({"task": {"id": "t1", "goal": "measure"}, "learnings": items}, author=AUTHOR)
    data = canonical(without(record, *SEAL))
    numbers = count()

    def update() -> None:
        nonlocal record
        changed = [*record["learnings"][:-1], {**items[-1], "id": f"new{next(numbers)}"}]
        record = records.update(record["id"], {"learnings": changed}, AUTHOR)

    def insert() -> None:
        raw.execute(_INSERT, (data,))

    yield Operation(f"update of a record of {size}", update, insert)
    yield Operation(f"LangGraph `SqliteSaver.put`, {size}", lambda: put(record), insert, is_peer=True)


def _langgraph(connection: sqlite3.Connection) -> Callable[[Tree], Any]:
    from langgraph.checkpoint.base import empty_checkpoint  # slow to import, and only here
    from langgraph.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous=FULL")
    config: Any = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}

    def put(record: Tree) -> None:
        one = empty_checkpoint()
        one["channel_values"] = {"record": record}
        saver.put(config, one, {"source": "loop", "step": 1, "parents": {}}, {})

    return put


# --- verifying


def _verification(events: int, folder: str, stack: ExitStack) -> Iterator[Operation]:
    store = stack.enter_context(closing(SqliteStore(f"{folder}/store.db")))
    versions = events // 2
    histories.extend(store, histories.facts(), events)
    histories.add_versions(store, RECORD, versions)
    hash_events, hash_versions = (
        partial(_read_and_hash, stack.enter_context(closing(_copied(store, stream, f"{folder}/{name}.db"))))
        for name, stream in (("events", histories.TASK), ("versions", f"record/{RECORD}"))
    )

    def verify(*, deep: bool) -> None:
        assert verify_task(store, histories.TASK, deep=deep).valid

    def verify_record() -> None:
        assert RecordTrees(store).verify_chain(RECORD).valid

    for name, work, floor, rows in (
        (f"`verify --chain`, {events:,} events", partial(verify, deep=False), hash_events, events),
        (f"`verify`, {events:,} events", partial(verify, deep=True), hash_events, events),
        (f"verifying a record, {versions:,} versions", verify_record, hash_versions, versions),
    ):
        yield Operation(name, work, floor, rows=rows, times=1)


def _copied(store: SqliteStore, stream: str, path: str) -> sqlite3.Connection:
    """The entries of a stream as rows of a table."""
    raw = _raw(path)
    raw.execute("BEGIN")
    raw.executemany(_INSERT, ((entry.data,) for entry in store.read(stream)))
    raw.execute("COMMIT")
    return raw


def _read_and_hash(raw: sqlite3.Connection) -> None:
    for (data,) in raw.execute("SELECT data FROM kept ORDER BY id"):
        sha256(data).hexdigest()


_INSERT = "INSERT INTO kept (data) VALUES (?)"


def _raw(path: str) -> sqlite3.Connection:
    connection = _connection(path)
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, data BLOB)")
    return connection


def _connection(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, check_same_thread=False)
