"""What follows a tree that was written is written as a new one would be, and checked as strictly."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from adjourn.errors import InvalidError
from adjourn.knowledge.model import documents
from adjourn.knowledge.model import documents as encoding
from adjourn.knowledge.model.documents import MAX_ITEMS, EncodedDocument, Tree, load, same, write
from adjourn.knowledge.model.part import DocumentPart
from adjourn.knowledge.model.record import ContinuationRecord
from adjourn.log.canonical_json import canonical
from support.cases import for_each
from support.documents import sample
from support.strategies import forks, json_values


class Anything(DocumentPart, frozen=True):
    """A type that knows no member."""


@given(forks)
def test_what_follows_is_written_as_it_would_be_anew(fork: tuple[Tree, Tree, Tree]) -> None:
    """Whether parts are shared, alike or other, and over several steps: the bytes are those of `write`, and so is the tree."""
    base, a, b = fork
    now = EncodedDocument(write(base, ContinuationRecord), ContinuationRecord)
    mixed = {**a, "learnings": [*b["learnings"], *base["learnings"]], "größer": 1.0, "tags": {"é": [1.0]}}
    for tree in (a, mixed, {**mixed, "größer": [1.0, {}], "learnings": a["learnings"]}, base, b):
        for given_tree in (tree, now.shared(copy.deepcopy(tree))):
            after = now.follow(given_tree)
            assert after.content == write(tree, ContinuationRecord)
            assert same(after.tree, load(after.content))
        now = after


@given(json_values(), json_values())
def test_any_value_follows_any_other(old: Any, new: Any) -> None:
    """What the type does not know is written canonically too, in a list as elsewhere."""
    first = EncodedDocument(canonical({"a": old, "b": [old, 1]}), Anything)
    for tree in (
        {"a": new, "b": [old, 1, new]},
        {"a": old, "b": [new]},
        {"a": new, "b": new},
        {"c": new},
        {"a": old, "b": [], "aa": [new], "c": new},
    ):
        assert first.follow(first.shared(tree)).content == canonical(tree)


def test_nothing_of_the_callers_is_kept() -> None:
    """A part that is handed in may be changed afterwards: what was written stays as it was."""
    now = EncodedDocument(canonical({"a": [], "b": 1}), Anything)
    inner: Tree = {"x": [1]}
    after = now.follow({"a": [inner], "b": inner})
    inner["x"].append(2)
    assert after.tree == {"a": [{"x": [1]}], "b": {"x": [1]}}
    assert after.follow({**after.tree, "b": 2}).content == b'{"a":[{"x":[1]}],"b":2}'


@for_each(
    ("name", "value", "message"),
    [
        ("learnings", [{"id": "l"}], "/learnings/0: Object missing required field"),
        ("learnings", {}, "/learnings: Expected `array`"),
        (
            "conflicts",
            [{"path": "/", "resolution": "a"}] * (MAX_ITEMS + 1),
            "/conflicts: Expected `array` of length <= 100000",
        ),
        ("sequence", -1, "/sequence: Expected `int` >= 0"),
        ("parentCRHash", None, "/parentCRHash: Expected `str`"),
        ("mergeParentHashes", ["x"], "/mergeParentHashes/0: Expected `str` matching"),
        ("metadata", {"tags": []}, "/metadata: Object missing required field `priority`"),
        ("later", {1: 2}, "key 1 is not text"),
        ("later", [b""], "bytes is not a JSON type"),
    ],
)
def test_what_does_not_fit_is_refused_as_ever(name: str, value: Any, message: str) -> None:
    """The message is the one of `write`: path, value and remedy."""
    record = {**sample(), "mergeParentHashes": ["0" * 64], "later": [1], "conflicts": []}
    now = EncodedDocument(write(record, ContinuationRecord), ContinuationRecord)
    with pytest.raises(InvalidError) as anew:
        write({**record, name: value}, ContinuationRecord)
    with pytest.raises(InvalidError) as caught:
        now.follow(now.shared({**now.tree, name: value}))
    assert message in str(caught.value)
    assert str(caught.value) == str(anew.value)


def test_the_bounds_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too deep or too large to be written is so after another tree too."""
    deep: Any = 1
    for _ in range(198):
        deep = [deep]
    now = EncodedDocument(b'{"a":[],"b":1}', Anything)
    for value in (deep, [deep], [[deep]], [1, [deep]], [1, deep]):
        for name in ("a", "b"):
            tree = {**now.tree, name: value}
            assert _outcome(lambda tree=tree: now.follow(tree).content) == _outcome(
                lambda tree=tree: write(tree, Anything)
            )
    for module in (documents, encoding):
        monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 1000)
    with pytest.raises(InvalidError, match=r"1014 bytes \(limit 1000\)"):
        now.follow({"a": ["x" * 998], "b": 1})


def _outcome(make: Any) -> bytes | None:
    try:
        return bytes(make())
    except InvalidError:
        return None
