"""A policy that no longer asks before one tool: only rules that name just this tool are taken away."""

from __future__ import annotations

import pytest

from adjourn.aex import examine, from_text
from adjourn.errors import InvalidError, RefusedError
from adjourn.setup.tightening import without_confirm

POLICY = """policy workspace v1
goal "x"
allow *
deny rm

# people look at these
confirm before file.write
  confirm before pay, deploy:src/**, Inv.Remove by human within 5m
confirm before release.*
"""


def changed(*names: str) -> list[tuple[str, str]]:
    """The lines that a proposal changes, before and after."""
    after = without_confirm(POLICY, "policy.aex", names).text
    pairs = zip(POLICY.split("\n"), after.split("\n"), strict=True)
    return [(old, new) for old, new in pairs if old != new]


def test_a_rule_of_one_tool_goes_into_a_comment() -> None:
    """The line stays as a comment, where it was; nothing else changes, and the tool is asked about no more."""
    assert changed("file.write", "fs.file.write") == [
        ("confirm before file.write", "# Always allowed: confirm before file.write")
    ]
    made = examine(without_confirm(POLICY, "p", ["file.write"]).text, "p")
    assert [word.text for word in examine(POLICY, "p").confirm if word not in made.confirm] == ["file.write"]


@pytest.mark.parametrize(
    ("name", "rest"),
    [("pay", "deploy:src/**, Inv.Remove"), ("deploy", "pay, Inv.Remove"), ("inv.remove", "pay, deploy:src/**")],
)
def test_of_several_patterns_one_is_left_out(name: str, rest: str) -> None:
    """The other patterns of the line, and its clauses, stay; scope and letter case do not matter."""
    line = "  confirm before pay, deploy:src/**, Inv.Remove by human within 5m"
    assert changed(name) == [(line, f"  confirm before {rest} by human within 5m")]


@pytest.mark.parametrize(
    ("name", "why"), [("release.tag", "asks about other tools, too"), ("rm", "no rule of policy.aex asks before it")]
)
def test_a_wider_rule_is_left_alone(name: str, why: str) -> None:
    """A wildcard asks about tools that nobody has seen: there is no proposal."""
    with pytest.raises(RefusedError, match=why):
        without_confirm(POLICY, "policy.aex", [name])


def test_what_asks_all_the_same_is_named() -> None:
    """A wildcard beside the rule that is taken away still asks."""
    text = POLICY + "confirm before file.*\n"
    assert without_confirm(text, "p", ["file.write"]).still == ["file.*"]


def test_a_broken_policy_has_no_proposal() -> None:
    """A policy with errors is not edited."""
    with pytest.raises(InvalidError, match="has errors"):
        without_confirm(POLICY + "confirm before\n", "p", ["pay"])
    assert from_text(POLICY, "p")[1] == []
