"""Expressions and conditions: look-up, truth, and the six forms, against tables and properties."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex.check_steps import parse_condition
from adjourn.aex.expr import Word, parse_value
from adjourn.errors import InvalidError
from adjourn.runs.interpreter import Names, as_text, evaluate, files_of, holds, truthy
from support.cases import for_each
from support.strategies import json_values


def names(**variables: Any) -> Names:
    found = Names({"input": "given", "both": "input"}, ["input", "both", "absent"])
    found.variables.update({"both": "variable", "a.b": "dotted", "a": {"b": 1, "c": {"d": [2]}, "x-y": 3}} | variables)
    return found


@for_each(
    ("text", "value"),
    [
        ("input", "given"), ("both", "variable"), ('"input"', "input"), ("'input'", "input"), ("unknown", "unknown"),
        ("absent", None), ("a.b", "dotted"), ("a.c.d", [2]), ("a.x-y", 3), ("a.c.d.0", None), ("a.no", None),
        ("input.length", None), ("unknown.part", "unknown.part"), ("true", True), ("false", False), ("null", "null"),
        ("5", 5), ("-2.50", -2.5), ("1e3", 1000), ("1e400", "1e400"), ("0x10", 16), ("9007199254740993", 9007199254740992.0),
        ("two words", "two words"), ("it's", "it's"), ("", ""), ("[]", []), ('[input, [a.c, ], "x, y"]', ["given", [{"d": [2]}], "x, y"]),
        ("{k: input, 'q r': {n: 1}\n e}", {"k": "given", "q r": {"n": 1}, "e": ""}), ("[x", "[x"),
    ],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    """What a piece of source comes to; whole numbers are integers, and a name that is none is a text."""
    found = evaluate(parse_value(Word(text, 1, 1)), names())
    assert found == value
    assert type(found) is type(value)


@for_each(
    ("value", "true"),
    [
        (None, False), (False, False), (0, False), (0.0, False), ("", False), ([], False),
        (True, True), (-1, True), ("0", True), (" ", True), ([0], True), ({}, True), ({"a": 1}, True),
    ],
)  # fmt: skip
def test_truth(value: Any, true: bool) -> None:
    """Truth is as in JavaScript, except that an empty list is false."""
    assert truthy(value) is true


def condition_holds(text: str, touched: Any = None, **variables: Any) -> bool:
    condition = parse_condition(Word(text, 1, 1))
    assert condition is not None
    return not holds(condition, names(**variables), touched or (lambda _patch: ["p.txt"]))


@for_each(
    ("text", "variables", "expected"),
    [
        ("x", {"x": 1}, True), ("x", {"x": []}, False), ("x.y.z", {"x": {"y": {"z": "a"}}}, True),
        ("x.0", {"x": [1]}, False), ("missing", {}, False), ("input", {}, True),
        ('x has "b c"', {"x": "a b c"}, True), ('x has "B"', {"x": "b"}, False), ('x has ""', {}, True),
        ('x has "a"', {}, False), ('x has "\\"k\\":[1,"', {}, False), ('x has "k":[1,2]"', {"x": {"k": [1, 2]}}, True),
        ('x has "[1,2]"', {"x": {"k": [1, 2]}}, True), ('x has "ü"', {"x": ["ü"]}, True), ('x has "true"', {"x": True}, True),
        ("x has citations", {"x": "see [a](b)"}, True), ("x has citations", {"x": "see [12]"}, True),
        ("x has citations", {"x": "see https://x"}, True), ("x has citations", {"x": "see [a] (b), http://"}, False),
        ("x has citations", {}, False), ("x has citations", {"x": [12]}, True),
        ('x does not include "a"', {"x": "b"}, True), ('x does not include "a"', {"x": "ab"}, False),
        ('x does not include "a"', {}, True), ("x does not include y", {"x": "ab", "y": "b"}, False),
        ("x does not include y", {"x": "ab", "y": "c"}, True), ("x does not include y", {"x": "ab"}, False),
        ("x touches only y", {"x": "patch", "y": ["p.txt"]}, True), ("x touches only y", {"x": "patch", "y": []}, False),
        ("x touches only y", {"x": "patch", "y": "p.txt"}, False), ("x touches only y", {"y": []}, True),
        ("x touches only y", {"x": " \n", "y": []}, True),
        ("x touches only y", {"x": ["./a", {"path": "b"}, {"file": "c"}, {"newPath": "d"}], "y": ["a", "b", "./c", "d"]}, True),
        ("x touches only y", {"x": {"files": ["a", {"path": "z"}]}, "y": ["a"]}, False),
        ("x touches only y", {"x": {"path": "a"}, "y": ["a"]}, True),
        ("x is valid diff", {"x": "patch"}, True), ("x has valid diff", {"x": "patch"}, True), ("x is valid diff", {}, False),
        ("x is valid diff", {"x": ""}, False), ("x is valid diff", {"x": []}, True), ("x is valid diff", {"x": [{"path": "a"}]}, True),
        ("x is valid diff", {"x": [5]}, False), ("x is valid diff", {"x": {"files": []}}, False), ("x is valid diff", {"x": 5}, False),
    ],
)  # fmt: skip
def test_conditions(text: str, variables: dict[str, Any], expected: bool) -> None:
    """Each form of condition is evaluated with values of each shape."""
    assert condition_holds(text, **variables) is expected


@pytest.mark.parametrize("changes", [[5], [{"path": 5}], [{}], [""], 5, True, {"files": [None]}])
def test_changes_that_name_no_file_fail_the_check(changes: Any) -> None:
    """An unknown value does not count as absent."""
    with pytest.raises(InvalidError):
        condition_holds("x touches only y", x=changes, y=[])


@given(json_values())
def test_any_value_can_be_looked_at(value: Any) -> None:
    """No value of a tool makes a condition raise anything but that it is unknown."""
    for text in ("x", 'x has "a"', "x has citations", "x does not include y", "x is valid diff", "x touches only y"):
        try:
            condition_holds(text, x=value, y=value)
        except InvalidError:
            assert "touches" in text


@given(json_values(), st.text(max_size=5))
def test_texts_are_found_where_they_stand(value: Any, part: str) -> None:
    """A value's text is itself for texts, JSON for others; a part of it is found in it."""
    text = as_text(value)
    assert as_text(text) == text
    assert ("" in text) is True
    assert (
        (part in text) == condition_holds(f'x has "{part}"', x=value) or '"' in part or "\n" in part or not part.strip()
    )


def test_citations_are_looked_for_in_linear_time() -> None:
    """Text that nearly has one, all over, costs no more than its length."""
    for text in ("[" * 200_000, "[a](" * 100_000, "[1" * 100_000, "http://" * 100_000, "[" + "1" * 200_000):
        began = time.process_time()
        condition_holds("x has citations", x=text)
        assert time.process_time() - began < 2


def test_a_patch_is_read_by_the_function_that_is_handed_in() -> None:
    """Once, and only for texts that are not blank."""
    asked: list[str] = []

    def touched(patch: str) -> list[str]:
        asked.append(patch)
        return ["./a", "b"]

    assert files_of("x", touched) == ["a", "b"]
    assert files_of(" ", touched) == files_of(None, touched) == []
    assert asked == ["x"]
