"""Conditions on arguments: what holds surely, what possibly, what is unknown; scopes beside them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import Policy, from_text
from adjourn.aex.match import glob_text
from adjourn.aex.rule import values_at
from support import strategies
from support.cases import for_each


def policy(*lines: str) -> Policy:
    found, findings = from_text("\n".join(["policy p v1", 'goal "g"', *lines]), "p.aex")
    assert not [finding for finding in findings if finding.severity == "error"], findings
    return found


def effects(condition: str, arguments: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Whether an allow, a deny and a confirm with this condition apply to the call."""
    where = f"where {condition}"
    allowed = policy(f"allow t {where}").judge_call("t", arguments)
    denied = policy("allow t", f"deny t {where}").judge_call("t", arguments)
    asked = policy("allow t", f"confirm before t {where}").judge_call("t", arguments)
    return allowed.effect == "allow", denied.effect == "deny", asked.confirm is not None


HOLDS, FAILS, UNTOLD = (True, True, True), (False, False, False), (False, True, True)
OTHER_CASE = (False, True, True)


@for_each(
    ("condition", "arguments", "expected"),
    [
        ('a is "x"', {"a": "x"}, HOLDS),
        ('a is "x"', {"a": "y"}, FAILS),
        ('a is "x"', {"a": "X"}, OTHER_CASE),
        ('a is "x"', {"a": 1}, UNTOLD),
        ('a is "x"', {"a": None}, UNTOLD),
        ('a is "x"', {}, UNTOLD),
        ('a is "x"', {"a": {"b": "x"}}, UNTOLD),
        ("a is 1", {"a": 1}, HOLDS),
        ("a is 1", {"a": 1.0}, HOLDS),
        ("a is 1", {"a": True}, UNTOLD),
        ("a is 1", {"a": "1"}, UNTOLD),
        ("a is true", {"a": True}, HOLDS),
        ("a is true", {"a": False}, FAILS),
        ("a is true", {"a": 1}, UNTOLD),
        ("a is 9007199254740991", {"a": 9007199254740991}, HOLDS),
        ("a is 9007199254740991", {"a": 9007199254740990}, FAILS),
        ("a is 9007199254740993", {"a": 9007199254740993}, UNTOLD),
        ("a is 9007199254740993", {"a": 9007199254740992}, UNTOLD),
        ("a is 9007199254740992", {"a": 9007199254740993}, UNTOLD),
        ("a is 1", {"a": 2**70}, UNTOLD),
        ("a > 1", {"a": 2**70}, UNTOLD),
        ("a < 1", {"a": -1e300}, UNTOLD),
        ("a is 0", {"a": -0.0}, HOLDS),
        ("amount > 100", {"Amount": 1000}, UNTOLD),
        ("amount > 100", {"\uff41mount": 1000}, UNTOLD),
        ("amount > 100", {" amount": 1000}, UNTOLD),
        ('a in ["x", "y"]', {"a": "y"}, HOLDS),
        ('a in ["x", "y"]', {"a": "z"}, FAILS),
        ('a in ["x", "y"]', {"a": "Y"}, OTHER_CASE),
        ('a in ["x", 1]', {"a": 2}, FAILS),
        ('a in ["x", 1]', {"a": False}, UNTOLD),
        ('a matches "git *"', {"a": "git status\n-s"}, HOLDS),
        ('a matches "git *"', {"a": "cd; git x"}, FAILS),
        ('a matches "git *"', {"a": "GIT x"}, OTHER_CASE),
        ('a matches "?"', {"a": 1}, UNTOLD),
        ('a ~ "^git [a-z]+$"', {"a": "git status"}, HOLDS),
        ('a ~ "^git [a-z]+$"', {"a": "git status\nrm"}, FAILS),
        ('a ~ "^git [a-z]+$"', {"a": "GIT status"}, FAILS),
        ('a ~ "^.$"', {"a": "\N{GRINNING FACE}"}, HOLDS),
        ('a ~ "^.$"', {"a": "\ud800"}, UNTOLD),
        ('a ~ "^.$"', {"a": 1}, UNTOLD),
        ("a <= 3", {"a": 3}, HOLDS),
        ("a < 3", {"a": 3}, FAILS),
        ("a >= -1.5", {"a": -1.5}, HOLDS),
        ("a > 3", {"a": 10**400}, UNTOLD),
        ("a < 3", {"a": "2"}, UNTOLD),
        ("a < 3", {"a": True}, UNTOLD),
        ("a.b.c is 1", {"a": {"b": {"c": 1}}}, HOLDS),
        ("a.b.c is 1", {"a": {"b": {}}}, UNTOLD),
        ("a.b.c is 1", {"a": {"b": 1}}, UNTOLD),
        ("a.b is 1", {"a.b": 1}, UNTOLD),
        ("a is 1 and b is 2", {"a": 1, "b": 2}, HOLDS),
        ("a is 1 and b is 2", {"a": 1, "b": 3}, FAILS),
        ("a is 1 and b is 2", {"a": 1}, UNTOLD),
        ("a is 1 and b is 2", {"b": 3}, FAILS),
        ("a is 1", {"a": [1, 1]}, HOLDS),
        ("a is 1", {"a": [1, 2]}, (False, True, True)),
        ("a is 1", {"a": [2, 3]}, FAILS),
        ("a is 1", {"a": [2, "x"]}, UNTOLD),
        ("a is 1", {"a": []}, UNTOLD),
        ("a is 1", {"a": [[1], [[1]]]}, HOLDS),
        ("a is 1", {"a": [[1], []]}, (False, True, True)),
        ("a.b is 1", {"a": [{"b": 1}, {"b": [1]}]}, HOLDS),
        ("a.b is 1", {"a": [{"b": 2}, {}]}, UNTOLD),
        ("a.b is 1", {"a": [{"b": 2}, {"b": 3}]}, FAILS),
    ],
)  # fmt: skip
def test_a_condition_on_each_kind_of_rule(
    condition: str, arguments: dict[str, Any], expected: tuple[bool, bool, bool]
) -> None:
    """An allow wants every value to hold; a deny and a confirm want one that holds or is unknown."""
    assert effects(condition, arguments) == expected


def test_an_expression_that_cannot_be_used_permits_nothing_and_refuses_everything() -> None:
    """Whoever ignores the error finding still fails closed."""
    text = 'policy p v1\ngoal "g"\nallow a where x ~ "("\nallow b\ndeny b where x ~ "("'
    broken, findings = from_text(text, "p")
    assert {found.code for found in findings} == {"AEX142"}
    assert broken.judge_call("a", {"x": "("}).effect == "closed"
    assert broken.judge_call("b", {"x": "("}).effect == "deny"


@pytest.mark.parametrize(
    ("line", "effect"), [("allow t where a == 1", "closed"), ("allow t\ndeny t where a == 1", "deny")]
)
def test_a_condition_that_cannot_be_read_fails_closed(line: str, effect: str) -> None:
    """An allow whose condition is broken permits nothing; such a deny denies the whole tool."""
    broken, findings = from_text(f'policy p v1\ngoal "g"\n{line}', "p")
    assert {found.code for found in findings} == {"AEX140"}
    assert broken.judge_call("t", {"a": 2}).effect == effect


def test_scope_and_condition_have_to_hold_together() -> None:
    """A rule with a scope and a condition applies only where both hold."""
    found = policy(
        "allow file.write:src/** where size <= 10",
        "deny file.write:src/keys/** where force is true",
        "confirm before file.write:src/* where size > 5 by human",
    )
    assert found.judge_call("file.write", {"size": 3}, ["src/a"]).effect == "allow"
    assert found.judge_call("file.write", {"size": 30}, ["src/a"]).effect == "closed"
    assert found.judge_call("file.write", {"size": 3}, ["etc/a"]).effect == "closed"
    assert found.judge_call("file.write", {"size": 3, "force": True}, ["src/keys/a"]).effect == "deny"
    assert found.judge_call("file.write", {"size": 3, "force": False}, ["src/keys/a"]).effect == "allow"
    asked = found.judge_call("file.write", {"size": 6, "force": False}, ["src/a"])
    assert asked.confirm is not None
    assert asked.confirm.by == "human"


def test_commands_are_matched_as_text() -> None:
    """With `glob_text` a scope is a command, in which `*` is any run of characters."""
    found = policy("allow tests.run:pytest*")
    assert found.judge_call("tests.run", {}, ["pytest -q a/b"], glob_text).effect == "allow"
    assert found.judge_call("tests.run", {}, ["sh -c pytest"], glob_text).effect == "closed"


def test_requests_of_the_protocol_can_be_refused_by_their_arguments() -> None:
    """What is allowed unless a rule names it is judged by conditions, too."""
    found = policy('deny mcp.resources.read where uri matches "file://*"', "confirm before aex.resume where n > 1")
    assert found.judge_call("mcp.resources.read", {"uri": "https://x"}, named_only=True).effect == "allow"
    assert found.judge_call("mcp.resources.read", {"uri": "FILE://x"}, named_only=True).effect == "deny"
    assert found.judge_open("mcp.resources.read").effect == "deny"
    assert found.judge_call("aex.resume", {"n": 1}, named_only=True).confirm is None
    assert found.judge_call("aex.resume", {"n": 2}, named_only=True).confirm is not None


@given(strategies.call_arguments, strategies.wheres)
def test_what_holds_surely_holds_possibly(arguments: dict[str, Any], where: str) -> None:
    """A refusal with a condition covers every call that an allow with it covers."""
    if policy(f"allow t {where}").judge_call("t", arguments).effect == "allow":
        assert policy("allow t", f"deny t {where}").judge_call("t", arguments).effect == "deny"


@given(strategies.call_arguments, st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3))
def test_a_path_always_has_a_value(arguments: dict[str, Any], path: list[str]) -> None:
    """What is not there is None, and no list is left over."""
    found = values_at(arguments, path)
    assert found
    assert not any(isinstance(value, list) for value in found)


def test_hostile_arguments_take_linear_time() -> None:
    """Deep nesting, long lists and long texts are judged in one pass each."""
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    found = policy(
        'allow t where a matches "*a*b*c*d*" and a ~ "^(a|aa)+$"',
        'deny t where b.c is "x"',
        'deny t where a ~ "(x+x+)+y"',
    )
    began = time.process_time()
    for value in ("a" * 1_000_000, "x" * 1_000_000, deep, ["a"] * 100_000, [{"c": "y"}] * 100_000):
        found.judge_call("t", {"a": value, "b": value})
    assert time.process_time() - began < 20
