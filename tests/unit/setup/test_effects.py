"""What a tool does, told by its name and by what its server says."""

from __future__ import annotations

import pytest

from adjourn.setup.effects import DESTROYS, READS, WRITES, effect_of
from adjourn.setup.probe import ProbedTool


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("get_item", "reads"), ("listUsers", "reads"), ("git.status", "reads"), ("issues-search", "reads"),
        ("get_commit", "reads"), ("list_orders_to_send", "reads"),
        ("create_issue", "writes"), ("git_commit", "writes"), ("runQuery", "writes"), ("get_or_create_user", "writes"),
        ("read-and-update", "writes"), ("sequential_thinking", "writes"), ("x", "writes"),
        ("delete_file", "destroys"), ("removeUser", "destroys"), ("list_and_drop", "destroys"), ("git_reset", "destroys"),
        ("DROP_TABLE", "destroys"), ("push_force", "destroys"), ("HTTPDelete", "destroys"),
    ],
)  # fmt: skip
def test_the_name_decides(name: str, kind: str) -> None:
    """The first verb, and one after `and` or `or`; a destroying word wherever it stands; nothing known is taken for a write."""
    assert effect_of(ProbedTool(name)).kind == kind


@pytest.mark.parametrize("name", ["delete_item", "create_item", "get_or_create_item", "drop"])
def test_no_annotation_makes_a_tool_harmless_that_is_named_otherwise(name: str) -> None:
    """A server may lie: what its tool's name says counts."""
    said = effect_of(ProbedTool(name, read_only=True, destructive=False))
    assert said == effect_of(ProbedTool(name))
    assert said.kind != "reads"


def test_annotations_make_a_tool_worse_and_decide_where_the_name_says_nothing() -> None:
    """What the server alone calls destructive is not `named`; read-only counts for a name without a verb."""
    assert effect_of(ProbedTool("write_file", destructive=True))[::2] == ("destroys", False)
    assert effect_of(ProbedTool("get_file", destructive=True)).kind == "destroys"
    assert effect_of(ProbedTool("get_file", read_only=False)).kind == "writes"
    assert effect_of(ProbedTool("thoughts", read_only=True)) == ("reads", "annotation: read-only", False)


def test_no_verb_stands_in_two_columns() -> None:
    """Each word has one meaning."""
    assert len(READS | WRITES | DESTROYS) == len(READS) + len(WRITES) + len(DESTROYS)
