"""Records: what a long line of versions costs to open, and diff and merge of big ones.

Owns: these tables. Must never: measure what `stores` does beside a floor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import histories
import msgspec
from histories import AUTHOR, NOW, learning
from sizes import Sizes
from tables import Table, median

from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.records.merge import diff, merge
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.versions import empty_record, first_version
from adjourn.store.sqlite import SqliteStore

ITEMS = 10_000


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The tables of this section; files are made in `folder`."""
    return [_long_lines(sizes, folder), _merging(sizes)]


def _long_lines(sizes: Sizes, folder: str) -> Table:
    count = sizes.verified
    table = Table(
        "Records: a long line of versions",
        ["", "median, ms"],
        f"Processor time. A record of {count:,} small versions in a SQLite file. The head is opened by a new `RecordTrees`, as in a new process.",
    )
    with closing(SqliteStore(f"{folder}/line.db")) as store:
        histories.add_versions(store, "line", count)
        for name, work, times in (
            ("opening the head", lambda: RecordTrees(store).get("line"), 20),
            ("a consistency proof", lambda: RecordTrees(store).consistency_proof("line", 1), 3),
        ):
            table.add(name, median([_seconds(work) * 1e3 for _ in range(times)]))
    return table


def _merging(sizes: Sizes) -> Table:
    table = Table(
        "Diff and merge of two big records",
        ["operation", "median, ms"],
        f"Processor time. Records of {ITEMS:,} items; of each side 100 were changed and 100 added since they parted. Decoded apart, so that no part "
        "is shared. Target: 250 ms.",
    )
    old = {**_record(ITEMS), "contentHash": "0" * 64}
    base, a, b = (msgspec.json.decode(msgspec.json.encode(_side(old, side))) for side in ("", "a", "b"))
    work: dict[str, Callable[[], Any]] = {"diff": lambda: diff(a, b), "merge": lambda: merge(a, b, base, "manual")}
    for name, step in work.items():
        table.add(name, median([_seconds(step) * 1e3 for _ in range(max(1, sizes.repeats))]))
    return table


def _record(learnings: int) -> Tree:
    fields = {**empty_record({"id": "t1", "goal": "measure"}), "learnings": [learning(n) for n in range(learnings)]}
    return first_version(fields, AUTHOR, NOW, new_id="cr-1")


def _side(record: Tree, side: str) -> Tree:
    if not side:
        return record
    first = 0 if side == "a" else 5_000
    changed = {n: learning(n, f"seen anew by {side}; ") for n in range(first, first + 100)}
    added = [{**learning(n), "id": f"{side}{n}"} for n in range(100)]
    learnings = [changed.get(n, item) for n, item in enumerate(record["learnings"])]
    return {**record, "contentHash": side * 64, "learnings": learnings + added}


def _seconds(step: Callable[[], Any]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began
