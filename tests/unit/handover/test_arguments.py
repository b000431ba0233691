"""Arguments as a person reads them: names and values, and a change of a file as a diff."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from adjourn.handover.answering import MAX_DIFF_LINES, ShownArguments, read_arguments


def read(given: Any, file: Callable[[str], str | None] = lambda _: None) -> ShownArguments:
    return read_arguments(json.dumps(given), file)


def diff(shown: ShownArguments) -> list[str]:
    marks = {"added": "+", "removed": "-", "same": " ", "gap": "~"}
    return [marks[line.kind] + line.text for line in shown.diff]


def test_values_are_shown_by_name_long_ones_as_text() -> None:
    """Each argument has its name; several lines, long texts and nested values are texts of their own."""
    shown = read({"version": "1.4", "notes": "a\nb", "deep": {"list": [1, True, None]}, "count": 3})
    assert [(row.name, row.is_text) for row in shown.rows] == [
        ("version", False), ("notes", True), ("deep", True), ("count", False),
    ]  # fmt: skip
    assert shown.rows[3].value == "3"
    assert '"list"' in shown.rows[2].value
    assert not shown.diff


@pytest.mark.parametrize(
    "given",
    [
        {"old_string": "a\nb\nc", "new_string": "a\nB\nc"},
        {"old_str": "a\nb\nc", "new_str": "a\nB\nc"},
        {"edits": [{"oldText": "a\nb\nc", "newText": "a\nB\nc"}]},
        {"edits": [{"old_string": "a\nb\nc", "new_string": "a\nB\nc", "replace_all": True}]},
    ],
)
def test_an_edit_is_shown_as_a_diff(given: dict[str, Any]) -> None:
    """The forms in which tools replace pieces of a file are shown as what is removed and added, and no longer as arguments."""
    shown = read({"path": "src/a.py", **given})
    assert diff(shown) == [" a", "-b", "+B", " c"]
    assert [row.name for row in shown.rows] == ["path"]


def test_several_edits_have_a_gap_between_them() -> None:
    """Two pieces of a file are shown one after the other."""
    edits = [{"oldText": "a", "newText": "b"}, {"oldText": "c", "newText": "d"}]
    assert diff(read({"path": "x", "edits": edits})) == ["-a", "+b", "~…", "-c", "+d"]


def test_a_file_that_is_written_is_compared_with_what_it_has_now() -> None:
    """The whole content of a call is shown as a change of the file; of a new file every line is added."""
    given = {"file_path": "a.txt", "content": "".join(f"{n}\n" for n in range(20)).replace("9\n", "nine\n", 1)}
    shown = read(given, lambda path: "".join(f"{n}\n" for n in range(20)) if path == "a.txt" else None)
    assert diff(shown) == [" 6", " 7", " 8", "-9", "+nine", " 10", " 11", " 12"]
    assert [row.name for row in shown.rows] == ["file_path"]
    assert diff(read({"path": "new", "text": "a\nb"}, lambda _: "")) == ["+a", "+b"]
    unread = read({"path": "/etc/passwd", "content": "x\ny"}, lambda _: None)
    assert not unread.diff
    assert [row.name for row in unread.rows] == ["path", "content"]


def test_a_text_that_is_cut_is_shown_as_it_is() -> None:
    """Of arguments that the record has only the beginning of, that beginning is shown."""
    shown = read_arguments('{"path":"a","text":"abc…', lambda _: None)
    assert (shown.raw, shown.is_cut) == ('{"path":"a","text":"abc…', True)


def test_hostile_texts_do_not_keep_the_page_busy() -> None:
    """Texts of many lines that are alike are compared in bounded time, and shown up to a bound."""
    before = "\n".join(f"{n % 7}" for n in range(30_000))
    after = "\n".join(f"{n % 5}" for n in range(30_000))
    started = time.monotonic()
    shown = read({"old_string": before, "new_string": after})
    assert time.monotonic() - started < 30  # seconds; a comparison of all lines takes many minutes
    assert len(shown.diff) == MAX_DIFF_LINES + 1
    assert shown.diff[-1].kind == "gap"


def test_the_same_text_has_no_diff() -> None:
    """A call that changes nothing shows no line as changed."""
    assert diff(read({"old_string": "a\nb", "new_string": "a\nb"})) == []
