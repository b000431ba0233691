"""How two records differ can be computed, shown and applied."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given

from adjourn.errors import InvalidError
from adjourn.knowledge.model.documents import Tree, accept, same, tree_of
from adjourn.knowledge.model.record import COLLECTIONS, CRChange, CRDiff
from adjourn.knowledge.records.merge import apply, changes_between, diff
from support.strategies import forks, records

Fork = tuple[Tree, Tree, Tree]


@given(forks)
def test_applying_the_changes_gives_what_the_other_says(fork: Fork) -> None:
    """apply(a, changes_between(a, b)) says what b says, but for the order of items; nothing is changed in place."""
    _, a, b = fork
    before = copy.deepcopy((a, b))
    changes = list(changes_between(a, b))
    result = apply(a, changes)
    assert not list(changes_between(result, b))
    for name in COLLECTIONS:
        assert {item["id"] for item in result[name]} == {item["id"] for item in b[name]}
    assert (a, b) == before


@given(records)
def test_a_record_is_identical_to_itself(record: Tree) -> None:
    """diff(x, x) is identical, whatever the order of keys and items, and whichever version it is."""
    turned = {name: record[name] for name in reversed(record)}
    turned |= {name: record[name][::-1] for name in COLLECTIONS}
    turned["metadata"] = {**record["metadata"], "tags": record["metadata"]["tags"][::-1]}
    turned |= {"sequence": 7, "lastModifiedAt": 1, "parentCRHash": "0" * 64, "contentHash": "1" * 64}
    told = diff(record, turned)
    assert told.identical
    assert (told.changes, told.summary) == ((), {})


@given(forks)
def test_what_is_told_of_two_records_is_a_document(fork: Fork) -> None:
    """A diff fits its published type, counts each item once, and says which versions it is between."""
    _, a, b = fork
    told = diff(a, b, base_hash="0" * 64)
    assert same(accept(told, CRDiff), tree_of(told))
    assert (told.hash_a, told.hash_b, told.base_hash) == (a["contentHash"], b["contentHash"], "0" * 64)
    for name in COLLECTIONS:
        old, new = ({item["id"]: item for item in side[name]} for side in (a, b))
        counts = told.summary.get(name)
        modified = sum(not same(old[key], new[key]) for key in old.keys() & new.keys())
        expected = (len(new.keys() - old.keys()), len(old.keys() - new.keys()), modified)
        assert ((counts.added, counts.removed, counts.modified) if counts else (0, 0, 0)) == expected


def test_paths_name_items_by_id(record: Tree) -> None:
    """A changed member of an item has the path /collection/id/member; tags are a set, actions a multiset."""
    other = copy.deepcopy(record)
    other["decisions"][0]["status"] = "rejected"
    other["metadata"] |= {"tags": ["new"], "priority": "high"}
    action = {"description": "d", "timestamp": 1, "outcome": "success"}
    other["executionSummary"]["actions"] = [action, action]
    other["x/later"] = {"deep": 1}
    told = [(change.path, change.kind) for change in diff(record, other).changes]
    assert told == [
        ("/executionSummary/actions", "added"),
        ("/executionSummary/actions", "added"),
        ("/decisions/d~11/status", "modified"),
        ("/metadata/tags", "removed"),
        ("/metadata/tags", "added"),
        ("/metadata/priority", "modified"),
        ("/x~1later", "added"),
    ]


def test_true_is_not_one(record: Tree) -> None:
    """Values that Python takes for equal and JSON does not are distinguished; numbers that JSON takes for equal are not."""
    one, true, real = (copy.deepcopy(record) for _ in range(3))
    one["x"], true["x"], real["x"] = {"n": [1]}, {"n": [True]}, {"n": [1.0]}
    assert [change.path for change in diff(one, true).changes] == ["/x"]
    assert diff(one, real).identical


@pytest.mark.parametrize(
    "path", ["/decisions/none/status", "/metadata/tags", "decisions", "/learnings/none/content", "/id/deep"]
)
def test_changes_are_applied_where_they_were_made(record: Tree, path: str) -> None:
    """A change whose item or element is not there raises InvalidError."""
    with pytest.raises(InvalidError):
        apply(record, [CRChange(path=path, kind="removed" if "tags" in path else "modified", before="?", after=1)])
