"""Texts and lists cut to a size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.attachments import shown_size
from adjourn.cli.terminal import cells
from adjourn.text.fitting import fit_items, fit_text

MARK = "\n… cut here\n"


@given(st.text(), st.integers(0, 60))
def test_a_text_is_cut_to_a_number_of_characters(text: str, limit: int) -> None:
    """A text that fits stays whole; a longer one is its beginning and an ellipsis, as long as the limit."""
    shown = fit_text(text, limit)
    if len(text) <= limit:
        assert shown == text
    else:
        assert len(shown) == limit
        assert shown == (text[: limit - 1] + "…" if limit else "")


@given(st.text(), st.integers(0, 400))
def test_a_text_is_cut_to_the_bytes_of_an_answer(text: str, room: int) -> None:
    """What is shown fits; it is whole, or says that it is cut, or is empty where not even that fits."""
    shown = fit_text(text, room, measure=shown_size, mark=MARK)
    assert shown == "" or shown_size(shown) <= room
    assert shown in ("", text) or shown.endswith(MARK)


@given(st.text(), st.integers(1, 40))
def test_the_longest_beginning_is_kept(text: str, room: int) -> None:
    """With any measure, one character more would not fit."""
    shown = fit_text(text, room, measure=cells)
    assert cells(shown) <= room
    if shown != text:
        kept = len(shown) - 1
        assert text.startswith(shown[:kept])
        assert kept + 1 == len(text) or cells(text[: kept + 1]) > room - 1


def test_white_space_before_the_mark_can_be_removed() -> None:
    """`trim` removes blanks at the cut, and none of a text that fits."""
    assert fit_text("one  two", 6, trim=True) == "one…"
    assert fit_text("one  ", 6, trim=True) == "one  "


@pytest.mark.parametrize(
    ("room", "kept"), [(0, []), (2, []), (3, ["abc"]), (5, ["abc"]), (6, ["abc", "def"]), (99, ["abc", "def", "g"])]
)
def test_items_are_kept_from_the_first_on(room: int, kept: list[str]) -> None:
    """The first items whose sizes add up to no more than the room, also where a later one is small."""
    assert fit_items(["abc", "def", "g"], room, len) == kept
