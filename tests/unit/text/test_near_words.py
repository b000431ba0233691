"""Guessing which known word a mistyped one means."""

from __future__ import annotations

import time

from hypothesis import example, given
from hypothesis import strategies as st

from adjourn.text.near_words import _distance, did_you_mean, nearest
from support.cases import for_each

KNOWN = ["allow", "deny", "confirm", "budget", "checkpoint", "checkpoints", "git.status"]


@for_each(
    ("word", "meant"),
    [
        ("alow", "allow"),
        ("Allow", "allow"),
        ("dney", "deny"),
        ("bugdet", "budget"),
        ("chekpoint", "checkpoint"),
        ("checkpoint", "checkpoint"),
        ("git-status", "git.status"),
        ("conf", "confirm"),
        ("check", ""),
        ("zzz", ""),
        ("", ""),
        ("d", ""),
        ("x" * 10_000, ""),
    ],
)
def test_a_near_word_is_found(word: str, meant: str) -> None:
    """A few typing errors, another case or separator, or the beginning of one word only, lead to a word."""
    assert nearest(word, KNOWN) == meant


def test_a_synonym_counts_more_than_a_near_word() -> None:
    """A word of another tool leads to the known word of its meaning, whatever it looks like."""
    assert nearest("Block", ["lock", "deny"], {"block": "deny"}) == "deny"
    assert did_you_mean("forbid", ["deny"], {"forbid": "deny"}) == "did you mean deny?"
    assert did_you_mean("unlike", ["deny"]) == ""


def naive(left: str, right: str) -> int:
    """Optimal string alignment, by its whole table."""
    rows = [[max(i, j) for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i in range(1, len(left) + 1):
        for j in range(1, len(right) + 1):
            cost = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (left[i - 1] != right[j - 1]))
            if i > 1 and j > 1 and left[i - 1] == right[j - 2] and left[i - 2] == right[j - 1]:
                cost = min(cost, rows[i - 2][j - 2] + 1)
            rows[i][j] = cost
    return rows[-1][-1]


@example("bb", "aaaaaa", 4)
@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.integers(0, 4))
def test_the_distance_is_that_of_the_whole_table(left: str, right: str, most: int) -> None:
    """The part of the table that a few errors can reach gives the same distance as all of it, up to those few."""
    assert _distance(left, right, most) == min(naive(left, right), most + 1)


def test_many_long_words_take_a_bounded_time() -> None:
    """A hostile word among many known ones is compared in less than a second."""
    start = time.process_time()
    nearest("a" * 63 + "b", ("a" * 55 + f"{number:09}" for number in range(1_000_000)))
    assert time.process_time() - start < 5
