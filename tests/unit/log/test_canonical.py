"""Canonical JSON is RFC 8785, and what has no canonical form is refused."""

from __future__ import annotations

import json
import math
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import InvalidError
from adjourn.log.canonical_json import MAX_DEPTH, canonical, digest
from support.cases import for_each
from support.strategies import ascii_texts, json_values, scalars


@given(json_values())
def test_canonical_is_what_rfc8785_writes(value: Any) -> None:
    """Any JSON value has the bytes that the reference implementation gives it."""
    assert canonical(value) == rfc8785.dumps(value)


@given(json_values(leaves=scalars, keys=ascii_texts))
def test_the_fast_way_is_what_rfc8785_writes(value: Any) -> None:
    """Values without floats and with ASCII keys, which msgspec encodes, have the same bytes too."""
    assert canonical(value) == rfc8785.dumps(value)


@given(
    st.floats(min_value=0, max_value=1e18)
    | st.floats(0, 2)
    | st.tuples(st.integers(1, 10**17), st.integers(0, 22)).map(lambda pair: pair[0] / 10 ** pair[1])
)
def test_fractions_of_any_size_are_written_as_rfc8785_does(number: float) -> None:
    """Around the bounds of the fast path, and inside it, numbers have the digits of RFC 8785, whatever their sign."""
    for value in (number, -number, {"confidence": [number]}):
        assert canonical(value) == rfc8785.dumps(value)


@given(json_values())
def test_canonical_text_is_its_own_canonical_form(value: Any) -> None:
    """Decoding canonical bytes and encoding them again changes nothing."""
    text = canonical(value)
    if not any(isinstance(number, int) and abs(number) >= 2**53 for number in _numbers(json.loads(text))):
        assert canonical(json.loads(text)) == text


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    if isinstance(value, dict):
        return _numbers(list(value.values()))
    return [value]


@given(json_values(keys=ascii_texts))
def test_the_order_of_members_does_not_matter(value: Any) -> None:
    """Two objects that differ in the order of their members have one digest."""
    pairs = {"b": value, "a": 1, "é": 2}
    assert canonical(pairs) == canonical(dict(reversed(pairs.items())))


@for_each(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**53,
        -(2**53),
        10**5000,
        "\ud800",
        "a\udfff",
        b"bytes",
        object(),
        {1, 2},
        complex(1, 1),
        {1: "a"},
        {None: "a"},
        {"\ud800": 1},
        {b"a": 1},
    ],
    ids=lambda value: type(value).__name__,
)
@for_each("wrap", [lambda v: v, lambda v: [0.5, v], lambda v: {"é": {"a": [v]}}])
def test_what_json_cannot_say_is_refused(value: object, wrap: Any) -> None:
    """NaN, infinities, big integers, lone surrogates, other types and other keys raise InvalidError at any depth."""
    with pytest.raises(InvalidError, match="cannot be canonical JSON"):
        canonical(wrap(value))


@pytest.mark.parametrize("leaf", [1, 0.5, "a", None, True])
def test_nesting_of_200_is_kept_and_201_refused(leaf: object) -> None:
    """The bound on depth is the same whatever lies at the bottom."""
    value = leaf
    for _ in range(MAX_DEPTH):
        value = [value]
    assert canonical(value) == b"[" * MAX_DEPTH + canonical(leaf) + b"]" * MAX_DEPTH
    with pytest.raises(InvalidError, match="nested deeper than 200"):
        canonical({"a": value})


def test_a_value_that_holds_itself_is_refused() -> None:
    """A circle is nested too deeply; it does not hang."""
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(InvalidError, match="nested deeper"):
        canonical(circle)


def test_tuples_are_arrays() -> None:
    """A tuple has the bytes of a list, on both ways."""
    assert canonical((1, (2,))) == b"[1,[2]]"
    assert canonical((0.5, ())) == b"[0.5,[]]"


def test_digest_is_lower_case_hex_sha256() -> None:
    """A digest is that of the bytes as they are."""
    assert digest(b"abc") == sha256(b"abc").hexdigest()
    assert digest(b"abc") == digest(b"abc").lower()
