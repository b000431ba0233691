"""Versions of a record: hashes, what may follow what, and what verifying finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.model.documents import EncodedDocument, Tree, same, tree_of, view, without
from adjourn.knowledge.model.record import ContinuationRecord, CRAuthor, RecordContent
from adjourn.knowledge.records.versions import (
    ENVELOPE,
    Stored,
    ancestors,
    common_ancestor,
    empty_record,
    first_version,
    following,
    head_message,
    link_of,
    next_version,
    read_record,
    root_after,
    sealed,
    store_form,
    unsealed,
    updated,
    verify_sealed,
)
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.merkle import Frontier, root
from support.cases import for_each
from support.documents import ANN, NOW, record_of, sample
from support.strategies import records

AGENT = CRAuthor(id="agent-1", type="agent")
PERSON = view(ANN, CRAuthor)


def line_of(length: int, *, start: Tree | None = None) -> list[Stored]:
    """A line that holds: a first version, and versions in which the goal changes."""
    tree, line = Frontier(), list[Stored]()
    record = start or first_version(empty_record({"id": "t", "goal": "0"}), AGENT, NOW, new_id="cr")
    for number in range(length):
        content_hash, content = store_form(record)
        line.append(Stored(content_hash, content, root_after(tree, content_hash)))
        said = {**record, "task": {**record["task"], "goal": f"{number + 1}"}}
        made = next_version(sealed(line[-1]), said, AGENT, NOW + number + 1)
        assert made is not None
        record = made
    return line


LINE = line_of(6)


def test_a_version_follows_another() -> None:
    """Id, authorship and first time stay; sequence, parent and the last author move on; the root covers the line so far."""
    first, second = (sealed(stored) for stored in LINE[:2])
    assert (first["sequence"], second["sequence"]) == (0, 1)
    assert "parentCRHash" not in first
    assert second["parentCRHash"] == first["contentHash"]
    assert (second["id"], second["createdAt"], second["lastModifiedAt"]) == ("cr", NOW, NOW + 1)
    leaves = [bytes.fromhex(stored.hash) for stored in LINE]
    assert [stored.root for stored in LINE] == [root(leaves[: n + 1]).hex() for n in range(6)]
    view(second, ContinuationRecord)


@given(records)
def test_the_hash_covers_all_but_the_seal(record: Tree) -> None:
    """contentHash is the SHA-256 of the canonical record without contentHash and merkleRoot, unknown members included."""
    content_hash, content = store_form(record)
    assert content_hash == digest(canonical(without(record, "contentHash", "merkleRoot")))
    assert store_form({**record, "merkleRoot": "0" * 64}) == (content_hash, content)
    assert store_form({**record, "x-more": 1})[0] != content_hash
    back = sealed(Stored(content_hash, content, "0" * 64))
    assert unsealed(back) == Stored(content_hash, content, "0" * 64)


@given(records)
def test_the_quick_way_to_write_gives_the_same(record: Tree) -> None:
    """A version that follows another has the stored form that it has alone; what breaks a rule is refused the same."""
    head_hash, content = store_form(record)
    written = EncodedDocument(content, RecordContent)
    made = next_version(sealed(Stored(head_hash, content)), {**written.tree, "x-new": 1.0}, AGENT, NOW)
    assert made is not None
    stored, after = following(written, made)
    assert (stored.hash, stored.content) == store_form(made) == (digest(after.content), after.content)
    with pytest.raises(InvalidError, match="sequence 0 and parentCRHash do not agree"):
        following(after, {**after.tree, "sequence": 0})


def test_what_says_nothing_new_is_no_version() -> None:
    """The same content again makes no version, whatever its envelope says; a merge makes one all the same."""
    head = sealed(LINE[-1])
    turned = {name: head[name] for name in reversed(head)} | {"lastModifiedAt": 1, "sequence": 99, "id": "other"}
    assert next_version(head, turned, AGENT, NOW) is None
    merged = next_version(head, turned, AGENT, NOW, merged=["0" * 64])
    assert merged is not None
    assert (merged["id"], merged["sequence"], merged["mergeParentHashes"]) == ("cr", 6, ["0" * 64])


def test_a_fork_begins_another_line_and_goes_on_in_sequence() -> None:
    """A fork has a new id, names its parent in the other line and continues counting; the id of its parent is refused."""
    parent = sealed(LINE[2])
    fork = first_version(parent, PERSON, NOW + 50, new_id="fork", parent=parent)
    assert (fork["id"], fork["sequence"], fork["parentCRHash"]) == ("fork", 3, parent["contentHash"])
    assert fork["createdBy"] == ANN
    content_hash, content = store_form(fork)
    line = [*LINE[:3], Stored(content_hash, content)]
    assert verify_sealed(line).valid
    with pytest.raises(InvalidError, match="another id for the fork"):
        first_version(parent, PERSON, NOW, new_id="cr", parent=parent)


@for_each("name", [name for name in ENVELOPE if name != "version"])
def test_an_update_cannot_set_the_envelope(name: str) -> None:
    """Hashes, ids, sequence and authorship are refused in an update, unless they are what they were; None takes a member out."""
    head = {**sealed(LINE[2]), "mergeParentHashes": ["0" * 64], "x-later": 1}
    with pytest.raises(RefusedError, match=name):
        updated(head, {name: "1" * 64})
    assert same(updated(head, {name: head[name], "metadata": head["metadata"]}), head)
    assert "x-later" not in updated(head, {"x-later": None})


def test_a_record_that_does_not_hold_is_not_written() -> None:
    """What breaks a rule between parts raises InvalidError with path and remedy, and has no stored form."""
    record = sample()
    record["decisions"][0]["status"] = "contested"
    with pytest.raises(InvalidError, match=r"/decisions/d~11/variants: .*fewer than 2 variants") as caught:
        store_form(record)
    assert caught.value.remedy


def test_a_newer_major_version_is_refused_and_a_minor_one_kept() -> None:
    """What a newer writer of the same major version has written is read and written on under its version."""
    with pytest.raises(InvalidError, match=r"version 2\.0"):
        store_form({**sample(), "version": "2.0"})
    with pytest.raises(InvalidError, match=r"version 2\.0"):
        read_record(json.dumps({**sample(), "version": "2.0", "task": None}))
    newer = {**sample(), "version": "1.12"}
    assert read_record(json.dumps(newer))["version"] == "1.12"
    made = next_version(newer, {**newer, "x": 1}, AGENT, NOW)
    assert made is not None
    assert made["version"] == "1.12"


# --- verifying


def test_a_line_that_holds_is_valid() -> None:
    """A whole line holds, a part of it after a known version too, and the anchors from outside are met."""
    assert verify_sealed(LINE, expected_head=LINE[-1].hash, expected_root=LINE[-1].root) == (
        6,
        LINE[-1].hash,
        None,
        None,
    )
    tree = Frontier()
    for stored in LINE[:4]:
        tree.append(bytes.fromhex(stored.hash))
    assert verify_sealed(LINE[4:], tree=tree, after=LINE[3].hash).valid
    assert verify_sealed([]).valid


def _again(line: Sequence[Stored], position: int, **members: Any) -> list[Stored]:
    """The line with a version changed and hashed again, the others as they were."""
    record = {**sealed(line[position]), **members}
    content = canonical({k: v for k, v in record.items() if v is not None and k not in ("contentHash", "merkleRoot")})
    return [*line[:position], Stored(digest(content), content, line[position].root), *line[position + 1 :]]


BROKEN: list[tuple[str, list[Stored], int, str]] = [
    ("edited", [*LINE[:2], Stored(LINE[2].hash, LINE[2].content + b" ", LINE[2].root), *LINE[3:]], 2, "hash-mismatch"),
    ("edited and hashed again", _again(LINE, 2, x=1), 2, "merkle-mismatch"),
    ("edited, root dropped", [*LINE[:2], _again(LINE, 2, x=1)[2]._replace(root=""), *LINE[3:]], 3, "parent-mismatch"),
    ("dropped", [*LINE[:2], *LINE[3:]], 2, "parent-mismatch"),
    ("first dropped", LINE[1:], 0, "missing-parent"),
    ("reordered", [*LINE[:2], LINE[3], LINE[2], *LINE[4:]], 2, "parent-mismatch"),
    ("inserted twice", [*LINE[:3], LINE[2], *LINE[3:]], 3, "parent-mismatch"),
    ("parent cut", _again(LINE, 2, parentCRHash=None), 2, "missing-parent"),
    ("sequence skipped", _again(LINE, 2, sequence=3), 2, "sequence-gap"),
    ("sequence back to none", _again(LINE, 2, sequence=0), 2, "missing-parent"),
    ("root changed", [*LINE[:2], LINE[2]._replace(root="0" * 64), *LINE[3:]], 2, "merkle-mismatch"),
    ("newer version", [_again(LINE, 0, version="2.0")[0]._replace(root="")], 0, "version-unsupported"),
    ("newer version and root changed", _again(LINE, 0, version="2.0"), 0, "merkle-mismatch"),
    ("no record", [Stored(digest(b"no"), b"no")], 0, "version-unsupported"),
]


@for_each(("line", "at", "reason"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_is_broken_is_found_at_its_version(line: list[Stored], at: int, reason: str) -> None:
    """The stored hash of the first version that fails, the reason, and how many held before it."""
    found = verify_sealed(line)
    assert (found.broken_at, found.reason, found.checked, found.valid) == (line[at].hash, reason, at, False)


def test_a_missing_tail_needs_an_anchor_from_outside() -> None:
    """A cut line is a line; only the expected head or root tells."""
    cut = LINE[:4]
    assert verify_sealed(cut).valid
    for found in (verify_sealed(cut, expected_head=LINE[-1].hash), verify_sealed(cut, expected_root=LINE[-1].root)):
        assert (found.valid, found.reason, found.broken_at) == (False, "head-mismatch", cut[-1].hash)


@given(st.integers(0, 5), st.data())
def test_any_changed_byte_is_found_at_its_version(position: int, data: st.DataObject) -> None:
    """One byte other, anywhere in content, hash or root, and that version is the one that is named."""
    stored = LINE[position]
    fields = [stored.hash.encode(), stored.content, stored.root.encode()]
    which = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(0, len(fields[which]) - 1))
    changed = bytearray(fields[which])
    changed[at] ^= data.draw(st.integers(1, 127))
    fields[which] = bytes(changed)
    spoilt = Stored(fields[0].decode("latin-1"), fields[1], fields[2].decode("latin-1"))
    found = verify_sealed([*LINE[:position], spoilt, *LINE[position + 1 :]])
    assert (found.checked, found.broken_at) == (position, spoilt.hash)


# --- lines that part and meet

GRAPH = {
    "r": [],
    "a1": ["r"],
    "a2": ["a1"],
    "b1": ["r"],
    "b2": ["b1"],
    "m": ["a2", "b2"],
    "x": ["m"],
    "y": ["m"],
    "z": [],
}
SEQUENCE = {"r": 0, "a1": 1, "a2": 2, "b1": 11, "b2": 12, "m": 3, "x": 4, "y": 4, "z": 0}


def test_ancestors_come_nearest_first_and_once() -> None:
    """All parents outward, over merges too, without the start."""
    assert ancestors("x", GRAPH.__getitem__) == ["m", "a2", "b2", "a1", "b1", "r"]
    assert ancestors("r", GRAPH.__getitem__) == []
    loop = {"a": ["b"], "b": ["a"]}
    assert ancestors("a", loop.__getitem__) == ["b"]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("a2", "b2", "r"), ("a2", "a1", "a1"), ("x", "y", "m"), ("x", "a2", "a2"), ("x", "z", None), ("m", "m", "m")],
)
def test_the_nearest_common_version_is_found(a: str, b: str, expected: str | None) -> None:
    """No common version that another common one came from is taken, whatever its sequence."""
    assert common_ancestor(a, b, GRAPH.__getitem__, SEQUENCE.__getitem__) == expected
    assert common_ancestor(b, a, GRAPH.__getitem__, SEQUENCE.__getitem__) == expected


def test_of_several_nearest_ones_the_highest_sequence_counts() -> None:
    """Lines that crossed have two nearest common versions: the higher sequence, then the higher hash."""
    crossed = {**GRAPH, "m2": ["b2", "a2"]}
    assert common_ancestor("m", "m2", crossed.__getitem__, SEQUENCE.__getitem__) == "b2"
    assert common_ancestor("m", "m2", crossed.__getitem__, lambda _: 1) == "b2"


def test_what_is_signed_of_a_head() -> None:
    """The canonical JSON of id, sequence, contentHash and merkleRoot."""
    head = sealed(LINE[1])
    expected = {name: head[name] for name in ("id", "sequence", "contentHash", "merkleRoot")}
    assert json.loads(head_message(head)) == expected


def test_a_link_is_what_binds_a_version() -> None:
    """Reading only the link of a version gives its parents; what is no record is refused."""
    link = link_of(LINE[1].content)
    assert (link.sequence, link.parent_cr_hash) == (1, LINE[0].hash)
    with pytest.raises(InvalidError):
        link_of(b"[]")


def test_a_record_drawn_at_random_can_be_the_start_of_a_line() -> None:
    """Forks of any record verify after it."""
    record = record_of(Random(3))
    assert tree_of(AGENT) == {"id": "agent-1", "type": "agent"}
    fork = first_version(record, AGENT, NOW, new_id="new", parent={**record, "id": "old"})
    assert fork["sequence"] == record["sequence"] + 1
