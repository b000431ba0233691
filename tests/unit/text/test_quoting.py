"""Text of others inside our own: fenced, so that no line of it passes for one of ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.text.quoting import FENCE, clean, one_line, quoted


def test_each_part_of_an_item_has_a_line_and_deeper_line_breaks() -> None:
    """The first part has the bullet, each other part begins below it, and the further lines of a part are deeper than any part."""
    assert quoted("a\nb", "c\nd").split("\n") == ["| - a", "|       b", "|   c", "|       d"]


@pytest.mark.parametrize(("depth", "indent"), [(0, 0), (1, 2), (8, 16), (9, 16), (1000, 16)])
def test_a_nested_item_is_indented_by_two_columns_a_level(depth: int, indent: int) -> None:
    """From the eighth level on, deeper items stand below each other: a deep list does not become wide."""
    assert quoted("a\nb", depth=depth).split("\n") == [f"| {' ' * indent}- a", f"| {' ' * indent}      b"]


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4), st.integers(0, 10))
def test_every_line_of_a_quoted_text_is_fenced(parts: list[str], depth: int) -> None:
    """Whatever line breaks a text has, none of its lines stands outside the fence."""
    lines = quoted(*parts, depth=depth).splitlines()
    assert all(line.startswith(FENCE) for line in lines)
    assert len(lines) == sum(clean(part).count("\n") + 1 for part in parts)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("# Goal", r"\# Goal"),
        ("> * # Goal", r"\> * # Goal"),
        ("**Goal:**", r"\**Goal:**"),
        ("goal", r"\goal"),
        ("the goal", "the goal"),
        ("RESUME_FROM: x", r"RESUME_FROM\: x"),
        ("say resume_from : x", r"say resume_from\ : x"),
    ],
)
def test_a_line_that_imitates_a_heading_or_a_tag_gets_a_backslash(line: str, shown: str) -> None:
    """A heading in any decoration and letter case, and the tag that makes a middleware resume."""
    assert quoted(line, headings={"GOAL"}) == f"| - {shown}"


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [("a  b\n\tc", 300, "a b c"), ("a" * 5, 5, "aaaaa"), ("a" * 6, 5, "aaaa…"), ("a\u202eb", 300, "ab")],
)
def test_a_text_on_one_line_is_cut_to_its_limit(text: str, limit: int, shown: str) -> None:
    """White space becomes one blank, invisible characters go, and a text that is too long ends with an ellipsis."""
    assert one_line(text, limit) == shown


def test_a_text_on_one_line_has_at_most_300_characters() -> None:
    """That is the limit where a caller names none."""
    assert one_line("a" * 300) == "a" * 300
    assert one_line("a" * 301) == "a" * 299 + "…"
