"""What is kept of arguments is short, says what was done, and has no secret of a known name or shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjourn.state.redact import HIDDEN, MAX_PREVIEW, preview
from strategies import json_values

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "db_password",
        "Passwd",
        "pass-phrase",
        "client_secret",
        "token",
        "accessToken",
        "api_key",
        "X-API-Key",
        "apiKey",
        "aws_access_key_id",
        "Authorization",
        "Set-Cookie",
        "private_key",
        "credentials",
    ],
)
@pytest.mark.parametrize("value", [SECRET, [SECRET], {"value": SECRET}, {"a": [{"b": SECRET}]}])
def test_secrets_are_hidden_by_name(name: str, value: object) -> None:
    """Whatever a member with a telling name holds, at any depth, is replaced."""
    assert SECRET not in preview({name: value})
    assert SECRET not in preview({"outer": [{"inner": {name: value}}]})
    assert HIDDEN in preview({name: value})


@pytest.mark.parametrize(
    "value",
    [
        "sk-" + SECRET,
        "sk_live_" + SECRET,
        "ghp_" + SECRET,
        "github_pat_" + SECRET,
        "glpat-" + SECRET,
        "xoxb-" + SECRET,
        "AKIA" + SECRET,
        "AIza" + SECRET,
        "eyJhbGciOi" + SECRET,
        "npm_" + SECRET,
        "pypi-" + SECRET,
        "Bearer " + SECRET,
        "Basic " + SECRET,
        "-----BEGIN PRIVATE KEY-----\n" + SECRET,
    ],
)
def test_secrets_are_hidden_by_prefix(value: str) -> None:
    """A text that begins like a key is replaced, wherever it is."""
    for arguments in (value, [value], {"x": value}, {"x": [{"y": value}]}):
        text = preview(arguments)
        assert SECRET not in text
        assert HIDDEN in text


def test_the_rest_is_kept_as_it_is() -> None:
    """Arguments without secrets are their compact JSON."""
    arguments = {"path": "src/größe.py", "line": 3, "flags": [True, None, 1.5], "nested": {"a": "b"}}
    assert preview(arguments) == (
        '{"path":"src/größe.py","line":3,"flags":[true,null,1.5],"nested":{"a":"b"}}'
    )


@settings(max_examples=60)
@given(json_values(), st.integers(10, 60))
def test_a_preview_is_bounded(arguments: Any, limit: int) -> None:
    """No preview is longer than its limit, and one that was cut ends with an ellipsis."""
    text = preview(arguments, limit)
    whole = preview(arguments, 10**6)
    assert len(text) <= limit
    assert text == whole or text == whole[: limit - 1] + "…"


@pytest.mark.parametrize(
    "arguments",
    [
        {"a": "x" * 10_000},
        {"x" * 10_000: 1},
        list(range(10_000)),
        {str(number): number for number in range(10_000)},
        [[]] * 10_000,
        [""] * 10_000,
        ["\0" * 100] * 100,
        "é" * 10_000,
    ],
    ids=["text", "name", "list", "dict", "lists", "texts", "control", "umlauts"],
)
def test_what_does_not_fit_is_seen_to_be_cut(arguments: object) -> None:
    """Long arguments of any shape fill the limit, and end with an ellipsis."""
    text = preview(arguments)
    assert len(text) == MAX_PREVIEW
    assert text.endswith("…")


class Counted(list[Any]):
    """A list that counts how many of its items were looked at."""

    looked = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            Counted.looked += 1
            yield item


@pytest.mark.parametrize("key", ["a", "password"])
def test_only_what_fits_is_looked_at(key: str) -> None:
    """Arguments of a million values cost no more than the few that are shown."""
    Counted.looked = 0
    preview({key: Counted([Counted(["x"] * 1000)] * 1000), "b": "x" * 10_000_000, "c": Counted(range(1000))})
    assert Counted.looked <= 2 * MAX_PREVIEW


def test_bottomless_arguments_are_cut_at_a_depth() -> None:
    """Nesting far beyond what Python could follow is shown down to a few levels."""
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    assert preview(deep) == "[" * 9 + '"…"' + "]" * 9
    while isinstance(deep, list):  # take it apart level by level: freeing it whole would recurse
        deep = deep.pop()


def test_deep_arguments_are_cut_at_a_depth() -> None:
    """Below a few levels an ellipsis stands for the rest, secrets included."""
    deep: Any = {"password": SECRET, "plain": "bottom"}
    for _ in range(20):
        deep = {"a": deep}
    assert "bottom" not in preview(deep)
    assert "…" in preview(deep)


def test_the_arguments_are_left_as_they_were() -> None:
    """Making a preview changes nothing in the arguments."""
    arguments = {"token": SECRET, "list": ["sk-" + SECRET]}
    preview(arguments)
    assert arguments == {"token": SECRET, "list": ["sk-" + SECRET]}
