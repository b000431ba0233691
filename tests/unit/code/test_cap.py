"""The size cap: every reply is valid JSON within its limit, and the rest can be had."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.code.server import text_replies
from adjourn.code.server.replies import MAX_REPLY, MAX_TEXT, MOST, capped, fitted, size, to_json
from adjourn.code.server.text_replies import to_text
from adjourn.errors import InvalidError

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=10), inner, max_size=8),
    max_leaves=60,
)


def _matches(count: int) -> list[dict[str, Any]]:
    return [
        {"file": f"src/é{i}.py", "line_number": i, "line_content": "x" * 80, "submatches": []} for i in range(count)
    ]


def test_a_small_reply_is_unchanged() -> None:
    """What fits is handed on as it is."""
    result = {"pattern": "a", "matches": _matches(3), "total_matches": 3}
    assert capped(result) is result


def test_a_large_reply_is_cut_at_whole_items() -> None:
    """What does not fit loses whole items, says how many, and is still JSON."""
    matches = _matches(7_644)
    result = {"pattern": "a", "matches": matches, "total_matches": 7_644}
    reply = capped(result)
    told = json.loads(to_json(reply))
    assert size(reply) <= MAX_REPLY
    assert size(reply) > MAX_REPLY * 0.8
    assert told["truncated"] is True
    assert told["total_matches"] == 7_644
    assert told["returned_matches"] == len(told["matches"]) > 500
    assert "Narrow" in told["message"]
    assert told["matches"] == matches[: len(told["matches"])]


def test_the_rest_comes_by_cursors() -> None:
    """Following the cursors brings every item once, in order."""
    matches = _matches(5_000)
    result = {"results": {"p": {"matches": matches, "total_matches": 5_000}}}
    got: list[dict[str, Any]] = []
    reply = capped(result, ["search_text", "p"])
    while True:
        got += reply["results"]["p"]["matches"]
        if "cursor" not in reply:
            break
        so_far = len(got)
        reply = capped(result, ["search_text", "p"], cursor=reply["cursor"])
        assert reply["results"]["p"]["matches"][0] == matches[so_far]
    assert got == matches


def test_a_long_list_comes_in_parts_though_it_fits() -> None:
    """A few hundred references are enough for one reply; cursors bring the others, and the first reply has the total."""
    uses = [{"file": "a.py", "line": i} for i in range(2 * MOST["references"] + 1)]
    result = {"references": uses, "total": 9_999}
    got: list[dict[str, Any]] = []
    reply = capped(result, "q")
    sizes = []
    while True:
        sizes.append(len(reply["references"]))
        got += reply["references"]
        if "cursor" not in reply:
            break
        assert (reply["truncated"], reply["total_matches"]) == (True, 9_999)
        assert reply["returned_matches"] == sizes[-1]
        reply = capped(result, "q", cursor=reply["cursor"])
    assert got == uses
    assert sizes == [MOST["references"], MOST["references"], 1]


def test_a_foreign_cursor_is_refused() -> None:
    """A cursor works for the question it came with only, and nothing made up works."""
    result = {"matches": _matches(5_000)}
    cursor = capped(result, "one")["cursor"]
    for foreign, question in ((cursor, "other"), ("AAAA", "one"), ("é", "one"), ("x" * 9_999, "one")):
        with pytest.raises(InvalidError, match="cursor"):
            capped(result, question, cursor=foreign)


@pytest.mark.parametrize(
    "result",
    [
        {"success": True, "content": "é" * 400_000},
        {"changes": [{"path": "a", "diff": "x" * 900_000}]},
        {"a": {"b": [["y" * 1000] * 500] * 3}, "total": 3},
        {f"key{i}": "z" * 100 for i in range(9_000)},
    ],
)
def test_any_shape_is_brought_under_the_limit(result: dict[str, Any]) -> None:
    """A long text, one giant item, lists in lists, thousands of keys: all end up within the limit."""
    reply = capped(result)
    assert size(reply) <= MAX_REPLY
    assert json.loads(to_json(reply))["truncated"] is True


@given(st.dictionaries(st.text(max_size=8), _json, max_size=8), st.integers(5_000, 9_000))
def test_the_limit_holds(result: dict[str, Any], limit: int) -> None:
    """Any reply of a tool is valid JSON of at most the limit."""
    reply = capped(result, limit=limit)
    assert size(reply) <= limit
    assert isinstance(json.loads(to_json(reply)), dict)


def test_what_is_not_text_can_be_sent() -> None:
    """A file name that is not UTF-8 does not break the reply."""
    assert json.loads(to_json({"file": "caf\udce9"}))["file"]


LINES = [
    {"file": f"src/m{number % 7}.py", "line": number, "content": f"value {number} " * 8, "match": "name"}
    for number in range(400)
]


def _render(reply: dict[str, Any]) -> str:
    return to_text(text_replies.find_references, reply)


def test_a_text_reply_fits_a_context() -> None:
    """A long list is sent in pages of 4 KiB, each item once, with the counts per file of what is not listed."""
    result = {"references": LINES, "total": len(LINES)}
    seen: list[str] = []
    cursor = None
    for _ in range(50):
        text = fitted(result, "q", cursor, _render)
        assert len(text.encode()) <= MAX_TEXT
        seen += [line for line in text.split("\n") if ":value " in line]
        last = text.rpartition(" with cursor ")
        if not last[1]:
            break
        assert "not listed: src/m" in text
        cursor = last[2]
    assert [int(line.partition(":")[0]) for line in seen] == list(range(400))


def test_a_short_text_reply_is_unchanged() -> None:
    """A reply that fits has no cursor and no counts."""
    result = {"references": LINES[:3], "total": 3}
    assert fitted(result, "q", None, _render) == _render(result)


def test_one_item_that_is_too_long_is_shortened() -> None:
    """A single item does not exceed the limit: its text is cut, and says how long it was."""
    result = {"references": [{**LINES[0], "content": "x" * 50_000}], "total": 1}
    text = fitted(result, "q", None, _render)
    assert len(text) < MAX_TEXT
    assert "50,000 characters" in text
