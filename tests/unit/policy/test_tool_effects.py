"""What a tool does, told by its name and by what its server says."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.policy.tool_effects import DESTROYS, READS, WRITES, effect_of, reading_of, shared_words
from support.cases import for_each

TABLE = Path(__file__).resolve().parents[2] / "data" / "tool_effects.tsv"
"""Tools of real servers as they list them, with the verdict that a person came to by reading what each does."""
READ_ONLY = {"read-only": True, "writes": False, "destructive": False}
DESTRUCTIVE = ("destructive", "destructive-only")
SAYS_OTHERWISE = {("playwright", "browser_storage_state")}
"""Annotated as read-only, although it writes a file, by a name that says nothing of it: the one kind of mistake that is left."""


class Row(NamedTuple):
    """A line of the table."""

    server: str
    tool: str
    hint: str
    right: str


def table() -> list[Row]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [Row(*row) for row in list(csv.reader(file, delimiter="\t"))[1:]]


def ruling(name: str, hint: str = "-", shared: int = 0) -> str:
    """What a first policy does with the tool."""
    destructive = True if hint in DESTRUCTIVE else None
    effect = effect_of(name, read_only=READ_ONLY.get(hint), destructive=destructive, shared=shared)
    if effect.kind == "reads":
        return "allow"
    return "deny" if effect.kind == "destroys" and effect.named else "ask"


def test_the_tools_of_real_servers_are_ruled_on_safely() -> None:
    """Of tools that real servers list, none that writes is allowed, none that reads is denied, and few that read are asked about."""
    rows = table()
    names: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        names[row.server].append(row.tool)
    assert (len(rows) >= 1200, len(names) >= 40) == (True, True)
    found = {row: ruling(row.tool, row.hint, shared_words(names[row.server])) for row in rows}
    count = Counter((row.right, is_now) for row, is_now in found.items())
    print("right, ruled:", {f"{right}, {is_now}": number for (right, is_now), number in sorted(count.items())})
    wrong = {row for row, is_now in found.items() if is_now == "allow" != row.right}
    assert {row[:2] for row in wrong} == SAYS_OTHERWISE
    assert not [row for row, is_now in found.items() if is_now == "deny" and row.right == "allow"]
    assert count["allow", "ask"] <= 85
    assert count["ask", "deny"] <= 15
    assert count["deny", "ask"] <= 8


@for_each(
    ("name", "expected"),
    [
        ("get_item", "allow"), ("listUsers", "allow"), ("read-file", "allow"), ("get_commit", "allow"), ("find", "allow"),
        ("list_pull_requests", "allow"), ("get_deleted_items", "allow"), ("is_ready", "allow"), ("searchCode", "allow"),
        ("query", "ask"), ("resolve", "ask"), ("log", "ask"), ("watch", "ask"), ("snapshot", "ask"), ("download_file", "ask"),
        ("convert", "ask"), ("load_data", "ask"), ("status_set", "ask"), ("info_update", "ask"), ("show_dialog", "ask"),
        ("get_or_create_user", "ask"), ("read-and-update", "ask"), ("get_set_value", "ask"), ("list_append", "ask"),
        ("list_archive", "ask"), ("view_publish", "ask"), ("search_replace", "ask"), ("find_and_replace", "ask"),
        ("getAndIncrement", "ask"), ("count_reset", "ask"), ("git_commit", "ask"), ("runQuery", "ask"), ("x", "ask"), ("", "ask"),
        ("42", "ask"), ("demote_status", "ask"), ("users_list", "ask"), ("drag_and_drop", "ask"), ("remove_background", "ask"),
        ("format_code", "ask"), ("undelete_item", "ask"),
        ("delete_file", "deny"), ("removeUser", "deny"), ("list_and_drop", "deny"), ("git_reset", "deny"), ("DROP_TABLE", "deny"),
        ("push_force", "deny"), ("HTTPDelete", "deny"), ("bulkdelete", "deny"), ("flushall", "deny"), ("removefile", "deny"),
        ("dropdatabase", "deny"), ("empty_trash", "deny"), ("format_disk", "deny"), ("obliterate", "deny"),
    ],
)  # fmt: skip
def test_without_an_annotation_the_name_decides(name: str, expected: str) -> None:
    """A tool is allowed only if its name begins with a verb that has no writing sense, and no other word writes."""
    assert ruling(name) == expected


@pytest.mark.parametrize(
    "name", ["delete_item", "drop", "create_item", "send_report", "status_update", "get_or_create_item", "post_message"]
)
def test_no_annotation_makes_a_tool_harmless_that_is_named_otherwise(name: str) -> None:
    """A server may lie: where the name says that the tool writes, it is not allowed, and the proxy takes it for one that writes."""
    assert ruling(name, "read-only") != "allow"
    assert reading_of(name, 0) is None


@for_each(
    "name",
    ["get_deploy", "list_trash", "preview_delete", "is_reset", "get_or_drop", "clear_cache_status", "deploy_status", "delete_history"],
)  # fmt: skip
def test_a_destroying_word_of_what_only_reads_never_denies(name: str) -> None:
    """Where the name begins with a reading verb, or ends in what is shown, and the server says that it reads, it is allowed or asked."""
    assert ruling(name, "read-only") in ("allow", "ask")


@for_each(
    "name",
    ["commit_history", "comment_list", "pull_request_read", "post_details", "change_log", "open_nodes", "network_request",
     "query", "resolve", "thoughts", "get_terms_and_conditions", "request_details"],
)  # fmt: skip
def test_a_writing_word_that_is_a_thing_does_not_outweigh_the_annotation(name: str) -> None:
    """Name and annotation agree."""
    assert ruling(name, "read-only") == "allow"


def test_annotations_make_a_tool_worse() -> None:
    """What the server alone calls destructive, or not read-only, is asked about, whatever its name."""
    assert effect_of("write_file", destructive=True)[::2] == ("destroys", False)
    assert ruling("get_file", "destructive-only") == "ask"
    assert ruling("get_file", "writes") == "ask"


def test_a_prefix_that_all_tools_share_says_nothing() -> None:
    """Words that all names begin with are left out, but never a verb, a whole name, or those of a single tool."""
    browser = ["browser_click", "browser_get_config", "browser_read"]
    assert [ruling(name, shared=shared_words(browser)) for name in browser] == ["ask", "allow", "allow"]
    assert shared_words(["google_sheets_list", "google_sheets_get"]) == 2
    assert shared_words(["delete_get_a", "delete_get_b"]) == 0
    assert shared_words(["git_status"]) == shared_words([]) == shared_words(["a_b", "c_d"]) == 0
    assert shared_words(["git", "git_status"]) == 0


def test_no_verb_stands_in_two_columns() -> None:
    """Each word has one meaning."""
    assert len(READS | WRITES | DESTROYS) == len(READS) + len(WRITES) + len(DESTROYS)


@given(
    st.sampled_from(sorted(READS)),
    st.sampled_from(sorted(WRITES | DESTROYS)),
    st.sampled_from(("_", "-", ".", "_and_", "_or_")),
)
def test_a_reading_verb_does_not_hide_a_writing_one(first: str, second: str, between: str) -> None:
    """A name with both is never allowed by itself, in either order."""
    assert ruling(f"{first}{between}{second}") != "allow"
    assert ruling(f"{second}{between}{first}") != "allow"


@given(st.text(max_size=60), st.sampled_from((None, True, False)), st.sampled_from((None, True)), st.integers(0, 5))
def test_any_name_has_an_effect(name: str, read_only: bool | None, destructive: bool | None, shared: int) -> None:
    """No name, and no prefix, is an error; what is not known is taken for a write."""
    effect = effect_of(name, read_only=read_only, destructive=destructive, shared=shared)
    assert effect.kind in ("reads", "writes", "destroys")
