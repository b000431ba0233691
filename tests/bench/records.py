"""Records: writing a version down, verifying a line of them, and diff and merge of big ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from sizes import Sizes
from tables import Table, median

from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import CRAuthor, RecordContent
from adjourn.knowledge.records.diff import diff
from adjourn.knowledge.records.encoding import EncodedDocument
from adjourn.knowledge.records.merge import merge
from adjourn.knowledge.records.updating import update_record
from adjourn.knowledge.records.versions import (
    SEAL,
    Stored,
    empty_record,
    first_version,
    following,
    next_version,
    root_after,
    sealed,
    store_form,
    verify_sealed,
)
from adjourn.log import canonical
from adjourn.log.merkle import Frontier

AGENT = CRAuthor(id="agent-1", type="agent")
NOW = 1_777_735_812_345
ITEMS = 10_000


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The tables of this section. Nothing is stored: what the disk costs is told elsewhere."""
    del folder
    return [_updates(sizes), _verifying(sizes), _merging(sizes)]


def _updates(sizes: Sizes) -> Table:
    table = Table(
        "A new version of a record",
        ["step", "10 KB, µs", "100 KB, µs"],
        "Median. An update that adds one learning: checked against the rules, made the next version, in canonical bytes, "
        "checked against the type and hashed. Floor: plain JSON encoding of the same record, sorted, by msgspec.",
    )
    heads = [_sealed(_next(_sealed(_record(count)))) for count in (25, 280)]
    written = {head["contentHash"]: EncodedDocument(store_form(head)[1], RecordContent) for head in heads}
    steps: dict[str, Callable[[Tree], Any]] = {
        "an update": lambda head: _update(head, written[head["contentHash"]]),
        "a version, all written anew": lambda head: store_form(_next(head)),
        "of which canonical, checked, hashed": store_form,
        "of which canonical": canonical,
        "floor: sorted JSON": msgspec.json.Encoder(order="sorted").encode,
    }
    for name, step in steps.items():
        table.add(name, *(_microseconds(step, head, sizes.rounds * 5) for head in heads))
    return table


def _verifying(sizes: Sizes) -> Table:
    table = Table(
        "Verifying a line of records",
        ["versions of", "root of each kept: versions/s", "root of the last kept: versions/s"],
        "Content hash, parent and sequence of each version, and the Merkle roots that are kept, from memory.",
    )
    for name, count in (("500 bytes", 0), ("8 KB", 25)):
        line = _line(count, max(10, sizes.verified // 20))
        light = [*(version._replace(root="") for version in line[:-1]), line[-1]]
        rates = [
            len(line) / min(_seconds(lambda kept=kept: verify_sealed(kept)) for _ in range(sizes.repeats))  # type: ignore[misc]
            for kept in (line, light)
        ]
        table.add(name, *rates)
    return table


def _merging(sizes: Sizes) -> Table:
    table = Table(
        "Diff and merge of two big records",
        ["operation", "median, ms"],
        f"Records of {ITEMS:,} items; of each side 100 were changed and 100 added since they parted. Decoded apart, so that no part "
        "is shared. Target: 250 ms.",
    )
    old = {**_record(ITEMS), "contentHash": "0" * 64}
    base, a, b = (msgspec.json.decode(msgspec.json.encode(_side(old, side))) for side in ("", "a", "b"))
    work: dict[str, Callable[[], Any]] = {
        "diff": lambda: diff(a, b),
        "merge": lambda: merge(a, b, base, "manual"),
    }
    for name, step in work.items():
        table.add(name, median([_seconds(step) * 1e3 for _ in range(max(1, sizes.repeats))]))
    return table


def _learning(number: int, text: str = "") -> Tree:
    return {
        "id": f"l{number}",
        "type": "insight",
        "source": "observation",
        "content": (text or f"what was seen at place {number}; ") * 4,
        "confidence": 0.9,
        "learnedBy": {"id": "agent-1", "type": "agent", "model": "some-model"},
        "learnedAt": NOW + number,
        "affects": ["n1", "n2"],
    }


def _record(learnings: int) -> Tree:
    fields = {
        **empty_record({"id": "t1", "goal": "measure"}),
        "learnings": [_learning(n) for n in range(learnings)],
    }
    return first_version(fields, AGENT, NOW, new_id="cr-1")


def _sealed(record: Tree) -> Tree:
    content_hash, content = store_form(record)
    return sealed(Stored(content_hash, content, root_after(Frontier(), content_hash)))


def _update(head: Tree, written: EncodedDocument) -> tuple[Stored, EncodedDocument]:
    seal = {name: head[name] for name in SEAL}
    updates = written.shared({"learnings": [*head["learnings"], _learning(len(head["learnings"]))]})
    return following(written, _next({**written.tree, **seal}, updates))


def _next(head: Tree, updates: Tree | None = None) -> Tree:
    change = updates or {"learnings": [*head["learnings"], _learning(len(head["learnings"]))]}
    version = next_version(head, update_record(head, change, AGENT, NOW).record, AGENT, NOW)
    assert version is not None
    return version


def _line(learnings: int, count: int) -> list[Stored]:
    record, tree, line = _record(learnings), Frontier(), list[Stored]()
    while len(line) < count:
        content_hash, content = store_form(record)
        line.append(Stored(content_hash, content, root_after(tree, content_hash)))
        record = {**record, "sequence": len(line), "parentCRHash": content_hash}
    return line


def _side(record: Tree, side: str) -> Tree:
    if not side:
        return record
    first = 0 if side == "a" else 5_000
    changed = {n: _learning(n, f"seen anew by {side}; ") for n in range(first, first + 100)}
    added = [{**_learning(n), "id": f"{side}{n}"} for n in range(100)]
    learnings = [changed.get(n, item) for n, item in enumerate(record["learnings"])]
    return {**record, "contentHash": side * 64, "learnings": learnings + added}


def _seconds(step: Callable[[], Any]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def _microseconds(step: Callable[[Tree], Any], head: Tree, rounds: int) -> float:
    return median([_seconds(lambda: step(head)) * 1e6 for _ in range(max(3, rounds))])
