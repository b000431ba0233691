"""What is shown is safe, fits the line, and tells times as people do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.cli import output, terminal
from adjourn.log.event import timestamp
from adjourn.text.times import ago, left, local
from support.cases import for_each

NOON = 1_777_735_812_345

anything = st.text(st.characters(), max_size=60)
"""Every character, lone surrogates and controls included."""


@given(anything)
def test_safe_text_is_one_printable_line(text: str) -> None:
    """Any text is shown as one line of printable characters."""
    assert output.safe(text).isprintable()


@given(anything)
def test_safe_lines_keep_their_count_and_are_printable(text: str) -> None:
    """Any text of several lines is shown as as many lines of printable characters."""
    shown = output.safe_lines(text)
    assert shown.count("\n") == text.count("\n")
    assert shown.replace("\n", "").isprintable()


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60), st.integers(1, 40))
def test_a_cut_text_takes_no_more_columns_than_there_are(text: str, room: int) -> None:
    """A text that is too wide is cut to the columns there are; one that fits is not changed."""
    shown = output.cut(text, room)
    assert terminal.cells(shown) <= max(room, 1)
    if terminal.cells(text) <= room:
        assert shown == text


@given(st.lists(st.tuples(anything, anything, anything), max_size=5))
def test_a_table_has_one_line_a_row(rows: list[tuple[str, str, str]]) -> None:
    """A table has a head and one printable line for each row, whatever is in the cells."""
    lines = output.table(("A", "B", "C"), rows).split("\n")
    assert len(lines) == len(rows) + 1
    assert all(line.isprintable() for line in lines)


def test_wide_characters_take_two_columns() -> None:
    """Widths are counted in terminal columns: two for a wide character, none for a combining one."""
    assert terminal.cells("測る") == 4
    assert terminal.cells("e\u0301") == 1
    assert output.cut("測る測る", 5) == "測る…"


def test_numbers_stand_to_the_right_and_the_last_column_gives_way() -> None:
    """A table aligns numbers to the right and cuts the last column at 80 columns."""
    lines = output.table(("NAME", "N", "TEXT"), [("a", "7", "x" * 100), ("bb", "1200", "y")]).split("\n")
    assert lines[1].startswith("a        7  xxx")
    assert lines[1].endswith("…")
    assert max(map(len, lines)) == 80


def test_the_last_column_has_room_for_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide columns before it get narrower, at most to twelve columns, and the first one stays whole."""
    monkeypatch.setenv("COLUMNS", "80")
    row = ("20261127-t7ptytq7", "1", "just now", "codex-mcp-client 0.171.0 on this machine", "Ship the release")
    head, line = output.table(("TASK", "USED", "TOUCHED", "CLIENT", "GOAL"), [row]).splitlines()
    assert line.endswith("Ship the release")
    assert line.startswith("20261127-t7ptytq7")
    assert "codex-mcp-client 0." in line
    assert max(map(len, (head, line))) <= 80
    monkeypatch.setenv("COLUMNS", "40")
    assert line.startswith("20261127-t7ptytq7")
    assert "Ship the re" in output.table(("TASK", "USED", "TOUCHED", "CLIENT", "GOAL"), [row])


def test_long_facts_go_on_below_themselves() -> None:
    """A long value wraps below its beginning, and a fact without a value is left out."""
    lines = output.facts([("goal", "word " * 30), ("empty", ""), ("x", "1")]).split("\n")
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("goal  word")
    assert lines[1].startswith("      word")
    assert lines[-1] == "x     1"


@for_each(
    ("seconds", "text"),
    [
        (0, "just now"), (9, "just now"), (59, "59 s ago"), (60, "1 min ago"), (3600, "1 h ago"), (86_400, "1 day ago"),
        (200_000, "2 days ago"), (-120, "in 2 min"),
    ],
)  # fmt: skip
def test_times_are_told_as_people_do(seconds: int, text: str) -> None:
    """A time is shown as its distance from now in the largest unit that fits."""
    assert ago(timestamp(NOON - seconds * 1000), NOON) == text


def test_what_is_left_is_told() -> None:
    """A deadline is shown as the time that is left, or as over."""
    assert left(timestamp(NOON + 240_000), NOON) == "4 min left"
    assert left(timestamp(NOON), NOON) == "over"


@pytest.mark.parametrize("text", ["", "yesterday", "\x1b[2J", "2026-13-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"])
def test_what_is_no_time_is_shown_safely(text: str) -> None:
    """A text that is no timestamp is shown with printable characters only."""
    assert ago(text, NOON).isprintable()
    assert left(text, NOON).isprintable()
    assert local(text).isprintable()
