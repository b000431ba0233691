"""Replies as text: small, complete, and without lines that a file name or an odd line could forge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import matching_languages
from adjourn.code.index.outline import KINDS
from adjourn.code.search.definitions import find_definitions, get_symbols
from adjourn.code.search.references import find_references
from adjourn.code.search.structure import analyze_structure, outline_files
from adjourn.code.search.text import TextOptions, search_files, search_text
from adjourn.code.server import text_replies
from adjourn.code.server.replies import MAX_TEXT, capped, fitted
from adjourn.code.server.text_replies import to_text
from adjourn.errors import InvalidError

QUERIES = Path(__file__).parents[3] / "src" / "adjourn" / "code" / "queries"
CART = '''"""A cart."""

import os
from json import loads


class Cart:
    """Items and their prices."""

    def total(self, prices):
        return sum(prices)


def discount(price, share):
    # take it off
    return price * (1 - share)


RATE = discount(100, 0.2)
'''


@pytest.fixture
def codebase(tmp_path: Path) -> Codebase:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "cart.py").write_text(CART)
    (tmp_path / "shop.py").write_text("from app.cart import discount\n\nprint(discount(5, 0.1))\n")
    found = Codebase(str(tmp_path))
    found.sync()
    return found


def test_text_matches_are_those_of_ripgrep(codebase: Codebase) -> None:
    """Each path once, above its lines; the first line counts."""
    found = search_text(codebase.repository, "discount")
    assert to_text(text_replies.search_text, found) == (
        "4 matches\napp/cart.py\n14:def discount(price, share):\n19:RATE = discount(100, 0.2)\n"
        "shop.py\n1:from app.cart import discount\n3:print(discount(5, 0.1))"
    )


def test_context_is_marked_and_shown_once(codebase: Codebase) -> None:
    """Lines around a match have a dash; a gap is a line of two dashes."""
    found = search_text(codebase.repository, "price|import os|RATE", "app", TextOptions(context_lines=1))
    lines = to_text(text_replies.search_text, found).split("\n")
    numbers = [line.replace(":", "-").split("-")[0] for line in lines[2:] if line != "--"]
    assert numbers == sorted(set(numbers), key=int)
    assert "--" in lines
    assert "15-    # take it off" in lines


def test_several_patterns_are_told_apart(codebase: Codebase) -> None:
    """Each pattern is named above its matches, also one without any."""
    found = search_text(codebase.repository, ["RATE", "nothing"])
    assert to_text(text_replies.search_text, found) == (
        "pattern RATE\n1 match\napp/cart.py\n19:RATE = discount(100, 0.2)\npattern nothing\n0 matches"
    )


def test_a_limit_is_said(codebase: Codebase) -> None:
    """Of more matches than were asked for, the first line says how many there are."""
    found = search_text(codebase.repository, "discount", options=TextOptions(max_results=1))
    assert to_text(text_replies.search_text, found).startswith("4 matches, the first 1\n")


def test_files_and_symbols(codebase: Codebase) -> None:
    """Files are listed; symbols have their lines, and the scope that they are in."""
    assert (
        to_text(text_replies.search_files, search_files(codebase.repository, "*.py")) == "2 files\napp/cart.py\nshop.py"
    )
    assert "10-11 def total(self, prices) in Cart" in to_text(
        text_replies.find_definitions, find_definitions(codebase, "total")
    )
    assert "10-11 method total in Cart" in to_text(text_replies.get_symbols, get_symbols(codebase, "app"))


def test_references_are_grouped_by_their_certainty(codebase: Codebase) -> None:
    """How certain they are is said once, above those that are."""
    text = to_text(text_replies.find_references, find_references(codebase, "discount"))
    assert text.startswith("3 references\nscoped:\napp/cart.py\n19:RATE = discount(100, 0.2)\nshop.py\n1:from")


def test_a_structure_is_an_outline(codebase: Codebase) -> None:
    """Definitions in the order of the file, then the imports."""
    text = to_text(text_replies.analyze_structure, analyze_structure(codebase.repository, "app/cart.py"))
    lines = text.split("\n")
    assert lines[0] == "app/cart.py: python, 19 lines"
    assert [line.split(" ")[0] for line in lines[1:5]] == ["7-11", "10-11", "14-16", "19"]
    assert lines[5:] == ["imports:", "3 import os", "4 from json import loads"]


def test_an_outline_of_a_long_file_comes_in_parts(codebase: Codebase) -> None:
    """A file with many symbols has no text over 4 KiB: it is named once in a part, and the cursor continues within it."""
    names = [f"compute_the_sum_of_{number:03}" for number in range(200)]
    Path(codebase.repository.root, "long.py").write_text("".join(f"def {name}(): pass\n" for name in names))
    codebase.sync()
    result = outline_files(codebase, "long.py")
    given, cursor = list[str](), None
    while True:
        text = fitted(result, "q", cursor, lambda reply: to_text(text_replies.outline, reply))
        assert len(text.encode()) <= MAX_TEXT
        lines = text.split("\n")
        assert lines.count("long.py") == 1
        given += [line.split()[-1] for line in lines if " function " in line]
        if not lines[-1].startswith("truncated"):
            break
        cursor = lines[-1].split()[-1]
    assert given == names


def test_what_is_cut_is_said_with_its_cursor() -> None:
    """The last line says how many are missing, and how to get them."""
    found = {"files": [f"file-{number}" for number in range(2000)], "total_files": 2000}
    text = to_text(text_replies.search_files, capped(found, "q", limit=6_000))
    assert text.split("\n")[-1].startswith("truncated: ")
    assert " of 2,000; for the rest, the same call with cursor " in text


def test_an_index_that_is_not_ready_is_said() -> None:
    """Whoever reads the reply learns that there may be more."""
    state = {"state": "building", "done": 3, "total": 9}
    found = {"symbols": [], "total": 0, "index_state": state}
    assert to_text(text_replies.get_symbols, found) == "0 symbols\nindex building, 3 of 9 files: there may be more"
    found = {"symbols": [], "total": 0, "index_state": {"state": "stale", "stale_files": 2}}
    assert to_text(text_replies.get_symbols, found) == "0 symbols\nindex stale (2 files): there may be more"


def test_cursors_advance_through_several_lists() -> None:
    """Each reply of a series has items that none before had, however many lists there are, and all come once."""
    found: dict[str, Any] = {
        "results": {name: {"matches": [f"{name}{number}" * 20 for number in range(200)]} for name in "abc"}
    }
    seen: list[str] = []
    reply = capped(found, "q", limit=9_000)
    for _ in range(100):
        new = [item for each in reply["results"].values() for item in each["matches"]]
        assert new
        seen += new
        if "cursor" not in reply:
            break
        reply = capped(found, "q", cursor=reply["cursor"], limit=9_000)
    assert sorted(seen) == sorted(item for each in found["results"].values() for item in each["matches"])


def test_a_cursor_leaves_other_lists_alone() -> None:
    """What the reply says beside the list that is continued stays whole, and may come and go."""
    about = {"index_state": {"state": "ready", "ready": ["text", "symbols"]}}
    found: dict[str, Any] = {"files": [f"file-{number}" for number in range(900)], "warnings": ["w"], **about}
    reply = capped(found, "q", limit=6_000)
    del found["warnings"]
    rest = capped(found, "q", cursor=reply["cursor"], limit=6_000)
    assert rest["index_state"] == about["index_state"]
    assert rest["files"][0] == f"file-{len(reply['files'])}"


def test_a_cursor_advances_past_an_item_that_does_not_fit() -> None:
    """One item larger than a reply is shortened; it does not stop the series."""
    found = {"results": [{"text": "x" * 50_000}, {"text": "y"}]}
    reply = capped(found, "q", limit=8_000)
    assert len(reply["results"]) == 1
    assert capped(found, "q", cursor=reply["cursor"], limit=8_000)["results"] == [{"text": "y"}]


def test_unknown_words_are_errors(codebase: Codebase) -> None:
    """A kind or a language that does not exist is not taken for one without symbols."""
    with pytest.raises(InvalidError, match=r"unknown kind 'functon' \(did you mean function"):
        get_symbols(codebase, "app", kind="functon")
    assert get_symbols(codebase, "app", kind="trait")["total"] == 0
    for search in (find_definitions, find_references, get_symbols):
        with pytest.raises(InvalidError, match=r"unknown language 'pyton' \(did you mean python"):
            search(codebase, "app", language="pyton")
    assert matching_languages("text") == frozenset({"text"})


def test_the_kinds_are_those_of_the_queries() -> None:
    """The kinds that are known without looking are those that the grammars' queries name."""
    named = {
        word.split(".")[1].rstrip(")]")
        for path in QUERIES.iterdir()
        for word in path.read_text().split()
        if word.startswith("@definition.")
    }
    assert named == KINDS
