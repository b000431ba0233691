"""Records kept: a new version beside the least that keeps the same bytes, and beside LangGraph's checkpointer; old and long lines."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from typing import Any

import msgspec
from sizes import Sizes
from tables import Table, median, percentile, ratio

from adjourn.knowledge.model.documents import Tree, without
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records import CRStore
from adjourn.knowledge.records.version_log import VersionStore
from adjourn.knowledge.records.versions import SEAL, Stored, store_form
from adjourn.log import canonical
from adjourn.log.merkle import Frontier
from adjourn.store.base import EMPTY, Entry
from adjourn.store.sqlite import SqliteStore

AGENT = CRAuthor(id="agent-1", type="agent")
NOW = 1_777_735_812_345
SIZES = {"10 KB": 30, "100 KB": 310}


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The tables of this section; files are made in `folder`."""
    return [_updates(sizes, folder), _long_lines(sizes, folder)]


def _updates(sizes: Sizes, folder: str) -> Table:
    table = Table(
        "Records: a durable version",
        ["", "p50 µs", "p90 µs", "bytes", "raw insert = 1", "target"],
        "Taking turns, each in a file of its own, all with `synchronous=FULL` in WAL mode. The raw insert writes the bytes of the "
        "version that `CRStore.update` has just made; LangGraph's `SqliteSaver.put` the same record as a channel's value. An update reads the "
        "head, checks the change against the rules, writes canonical JSON, checks types and hashes, and gives a copy. `SqliteStore.append` "
        "writes the very bytes; *hash and copy* is what no store of hashed versions can leave out: SHA-256, and decoding what is returned.",
    )
    for name, count in SIZES.items():
        place = os.path.join(folder, name.replace(" ", ""))
        os.mkdir(place)
        _measure(table, sizes.checkpoints, name, count, place)
    return table


def _measure(table: Table, rounds: int, name: str, count: int, folder: str) -> None:
    times: dict[str, list[float]] = {
        "raw insert": [],
        "`SqliteStore.append`": [],
        "hash and copy": [],
        "`CRStore.update`": [],
        "LangGraph `SqliteSaver.put`": [],
    }
    size = 0
    with (
        closing(_raw(f"{folder}/raw.db")) as raw,
        closing(SqliteStore(f"{folder}/store.db")) as store,
        closing(SqliteStore(f"{folder}/entries.db")) as entries,
        closing(_connection(f"{folder}/langgraph.db")) as other,
    ):
        records, put = CRStore(store), _langgraph(other)
        record = records.create(
            {"task": {"id": "t1", "goal": "measure"}, "learnings": _learnings(count)}, author=AGENT
        )
        at = EMPTY
        for number in range(rounds + 5):
            learnings = [*record["learnings"][:-1], {**_learnings(1)[0], "id": f"new{number}"}]
            began = time.perf_counter()
            record = records.update(record["id"], {"learnings": learnings}, AGENT)
            updated = time.perf_counter()
            data = canonical(without(record, *SEAL))
            insert = time.perf_counter()
            raw.execute("INSERT INTO kept (data) VALUES (?)", (data,))
            inserted = time.perf_counter()
            entry = Entry(sha256(data).hexdigest(), data)
            msgspec.json.decode(data)
            hashed = time.perf_counter()
            at = entries.append("records", [entry], expect=at)
            appended = time.perf_counter()
            put(record)
            ended = time.perf_counter()
            if number >= 5:  # the first ones make files and plans
                times["raw insert"].append((inserted - insert) * 1e6)
                times["hash and copy"].append((hashed - inserted) * 1e6)
                times["`SqliteStore.append`"].append((appended - hashed) * 1e6)
                times["`CRStore.update`"].append((updated - began) * 1e6)
                times["LangGraph `SqliteSaver.put`"].append((ended - appended) * 1e6)
        size = len(data)
    floor = median(times["raw insert"])
    for step, values in times.items():
        target = "≤ 1.3" if step == "`CRStore.update`" and name == "10 KB" else ""
        table.add(
            f"{step}, {name}",
            median(values),
            percentile(values, 0.9),
            size,
            ratio(median(values), floor),
            target,
        )


def _long_lines(sizes: Sizes, folder: str) -> Table:
    table = Table(
        "Records: old and long lines",
        ["", "versions", "value", "unit", "target"],
        "A line of small versions in a SQLite file. The head is opened by a new `CRStore`, as in a new process. Verifying reads "
        "every version and compares its hash, parent, sequence and the Merkle root.",
    )
    count = sizes.verified // 2
    with closing(SqliteStore(f"{folder}/line.db")) as store:
        size = _line(store, count)
        opened = [_seconds(lambda: CRStore(store).get("line")) * 1e3 for _ in range(20)]
        best = min(_seconds(lambda: CRStore(store).verify_chain("line")) for _ in range(sizes.repeats))
        floor = min(_seconds(lambda: _read_and_hashed(store)) for _ in range(sizes.repeats))
        proved = median([_seconds(lambda: CRStore(store).consistency_proof("line", 1)) for _ in range(3)])
    table.add("opening the head", count, median(opened), "ms", "≤ 20")
    table.add(f"verifying versions of {size} bytes", count, count / best, "versions/s", "≥ 100,000")
    table.add("floor: reading and hashing them, no more", count, count / floor, "versions/s", "")
    table.add("a consistency proof", count, proved * 1e3, "ms", "")
    return table


def _line(store: SqliteStore, count: int) -> int:
    """A line written in chunks, as an import does."""
    record = CRStore(store).create({"task": {"id": "t1", "goal": "measure"}}, author=AGENT, cr_id="seed")
    record = {**without(record, *SEAL), "id": "line"}
    lines, at, tree, size = VersionStore(store), EMPTY, Frontier(), 0
    while at.seq + 1 < count:
        chunk: list[Stored] = []
        for number in range(at.seq + 1, min(at.seq + 5001, count)):
            record = {**record, "sequence": number, "lastModifiedAt": NOW + number}
            stored = Stored(*store_form(record))
            record["parentCRHash"], size = stored.hash, len(stored.content)
            chunk.append(stored)
        at = lines.copy("line", chunk, at, tree)
    return size


def _read_and_hashed(store: SqliteStore) -> None:
    for entry in store.read("record/line"):
        sha256(entry.data).hexdigest()


def _langgraph(connection: sqlite3.Connection) -> Callable[[Tree], Any]:
    from langgraph.checkpoint.base import empty_checkpoint  # noqa: PLC0415  # slow to import, and only here
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415

    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous=FULL")
    config: Any = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}

    def put(record: Tree) -> None:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"record": record}
        saver.put(config, checkpoint, {"source": "loop", "step": 1, "parents": {}}, {})

    return put


def _raw(path: str) -> sqlite3.Connection:
    connection = _connection(path)
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, data BLOB)")
    return connection


def _connection(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, check_same_thread=False)


def _learnings(count: int) -> list[Tree]:
    return [
        {
            "id": f"l{number}",
            "type": "insight",
            "source": "observation",
            "content": f"what was seen at place {number}; " * 4,
            "confidence": 0.9,
            "learnedBy": {"id": "agent-1", "type": "agent", "model": "some-model"},
            "learnedAt": NOW + number,
            "affects": ["n1", "n2"],
        }
        for number in range(count)
    ]


def _seconds(step: Callable[[], Any]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began
