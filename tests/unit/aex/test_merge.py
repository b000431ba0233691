"""The merge: a contract under a policy is never wider than the policy, whatever both say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import Policy, Rule, from_text, layers, merge, not_granted
from support import strategies


def layer(lines: list[str], kind: str = "policy", source: str = "p.aex") -> Policy:
    found, findings = from_text(
        "\n".join([f"{kind} x v1", 'goal "g"', *lines, *(["return 1"] * (kind == "task"))]), source
    )
    assert not [finding for finding in findings if finding.severity == "error"], findings
    return found


def contract(*lines: str) -> Policy:
    return layer(list(lines), "task", "c.aex")


def policy(*lines: str) -> Policy:
    return layer(list(lines))


calls = st.tuples(strategies.call_tools, strategies.call_arguments, strategies.call_paths)
Call = tuple[str, dict[str, Any], list[str]]


@given(strategies.rule_lines, strategies.rule_lines, calls)
def test_a_merge_allows_no_call_that_a_side_refuses(own: list[str], asked: list[str], call: Call) -> None:
    """What the merge allows, the policy alone allows, and the contract alone allows; what it asks of, it still asks of."""
    above, below = layer(own), layer(asked, "task", "c")
    merged = merge(above, below)
    verdict = merged.judge_call(*call)
    if verdict.effect == "allow":
        sides = [above.judge_call(*call), below.judge_call(*call)]
        assert [side.effect for side in sides] == ["allow", "allow"]
        asking = [side.confirm for side in sides if side.confirm]
        assert (verdict.confirm is not None) is bool(asking)
        for rule in asking:
            assert verdict.confirm is not None
            assert rule.otherwise == "allow" or verdict.confirm.otherwise == "deny"
            assert (verdict.confirm.within_seconds or 0) <= (rule.within_seconds or 10**9)
    if merged.judge(call[0]).effect == "allow":
        assert above.judge(call[0]).effect == "allow"
    if merged.visible(call[0]):
        assert above.visible(call[0])
    assert_united(merged, above, call[0])
    assert_united(merged, below, call[0])


def assert_united(merged: Policy, side: Policy, tool: str) -> None:
    """Every limit, `once`, checkpoint and budget of a side is in the merge, or something stricter."""
    said = {rule.meaning for rule in merged.limits_of(tool)}
    assert said >= {rule.meaning for rule in side.limits_of(tool)}
    assert {rule.by for rule in merged.once_of(tool)} >= {rule.by for rule in side.once_of(tool)}
    assert merged.checkpoint_before(tool) or not side.checkpoint_before(tool)
    assert set(merged.percents) >= set(side.percents)
    assert side.budget is None or (merged.budget is not None and merged.budget <= side.budget)
    assert all(merged.budgets[key].amount <= rule.amount for key, rule in side.budgets.items())


@given(strategies.rule_lines, strategies.rule_lines, strategies.rule_lines, calls)
def test_a_merge_of_a_merge_stays_within_both(own: list[str], first: list[str], second: list[str], call: Call) -> None:
    """A resumed task's contract under a policy already narrowed by another contract is within all three."""
    base = merge(layer(own), layer(first, "task"))
    if merge(base, layer(second, "task")).judge_call(*call).effect == "allow":
        assert base.judge_call(*call).effect == "allow"
        assert layer(second, "task").judge_call(*call).effect == "allow"


@given(strategies.rule_lines, calls, st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_change_the_effect(lines: list[str], call: Call, random: Any) -> None:
    """Rules can be written in any order: the effect, and whether and how strictly a person is asked, are the same."""
    shuffled = list(lines)
    random.shuffle(shuffled)
    one, other = (
        layer([line for line in each if "budget" not in line]).judge_call(*call) for each in (lines, shuffled)
    )
    assert one.effect == other.effect
    assert (one.confirm is None) is (other.confirm is None)
    if one.confirm and other.confirm:
        assert one.confirm.otherwise == other.confirm.otherwise
        assert one.confirm.within_seconds == other.confirm.within_seconds
        assert one.confirm.by == other.confirm.by


@given(strategies.rule_lines, calls)
def test_a_deny_wins_over_everything(lines: list[str], call: Call) -> None:
    """With one more deny of the tool no call of it is allowed, in any spelling and whatever its arguments are."""
    denied = layer([*lines, f"deny {call[0].upper()}"])
    assert denied.judge_call(*call).effect == "deny"
    assert not denied.visible(call[0])


@given(strategies.rule_lines, calls)
def test_a_verdict_without_arguments_is_the_strictest(lines: list[str], call: Call) -> None:
    """What `judge` allows is allowed whatever the arguments are, and what is never visible is never allowed."""
    found = layer(lines)
    verdict = found.judge_call(*call)
    if found.judge(call[0]).effect == "allow":
        assert verdict.effect == "allow"
    if verdict.effect == "allow":
        assert found.visible(call[0])
    if not found.looks_at_arguments(call[0]):
        assert verdict == found.judge(call[0])


def test_a_contract_is_narrowed_by_the_policys_scope_and_condition() -> None:
    """Both sides' scopes and conditions have to hold, and the rule names both places."""
    merged = merge(
        policy("allow file.write:src/**", 'allow file.write:docs/* where mode is "add"'),
        contract("use file.write:**/*.md where size <= 10"),
    )
    assert [str(rule) for rule in merged.allow] == [
        "allow file.write:**/*.md where size <= 10 (c.aex:3) under allow file.write:src/** (p.aex:3)",
        'allow file.write:**/*.md where size <= 10 (c.aex:3) under allow file.write:docs/* where mode is "add" (p.aex:4)',
    ]

    def effect(path: str, **arguments: object) -> str:
        return merged.judge_call("file.write", arguments, [path]).effect

    assert effect("src/a.md", size=3) == "allow"
    assert effect("src/a.py", size=3) == "closed"
    assert effect("src/a.md", size=30) == "closed"
    assert effect("docs/a.md", size=3) == "closed"
    assert effect("docs/a.md", size=3, mode="add") == "allow"
    assert merged.judge_call("file.write", {"size": 3, "mode": "add"}, ["src/a.md", "docs/a.md"]).effect == "allow"


def test_a_contract_keeps_its_own_rule_where_the_policy_allows_without_a_condition() -> None:
    """A plain allow grants all; conditional ones beside it take nothing away."""
    merged = merge(policy("allow t where a is 1", "allow t.*", "allow t"), contract("use t where b is 2", "use t.x"))
    assert [str(rule) for rule in merged.allow] == ["allow t where b is 2 (c.aex:3)", "allow t.x (c.aex:4)"]


def test_what_no_allow_names_whole_vanishes_with_a_warning() -> None:
    """A contract's wider pattern is dropped, as ever."""
    own, task = policy("allow file.read:src/**"), contract("use file.*", "use file.read")
    assert [rule.pattern for rule in merge(own, task).allow] == ["file.read"]
    assert [(found.code, found.span.line) for found in not_granted(own, task)] == [("AEX134", 3)]


def test_pairs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract cannot make the merge grow without bound; what is beyond the bound is not granted, and said so."""
    monkeypatch.setattr(layers, "MAX_NARROWED", 5)
    own = policy(*(f"allow t where a is {number}" for number in range(3)))
    task = contract(*(f"use t where b is {number}" for number in range(3)), "use t where c is 1")
    assert len(merge(own, task).allow) == 3
    assert [found.span.line for found in not_granted(own, task)] == [4, 5, 6]


def test_what_only_the_policy_says_and_what_is_united() -> None:
    """Mode and signers are the policy's; limits, `once` and checkpoints add up; each budget is the smaller one."""
    own = policy(
        "mode observe", "require signed by alice, bob", "limit a 5 per minute", "once a by x", "checkpoint before d.*, at 50%",
        "budget calls=10, usd=5, minutes=9",
    )  # fmt: skip
    task = contract(
        "limit a 5 per minute", "limit a 9 per day", "once a by y", "checkpoint before e, at 75%, 50%",
        "budget calls=20, usd=2, tokens=7",
    )  # fmt: skip
    merged = merge(own, task)
    assert merged.observe
    assert merged.signers == ("alice", "bob")
    assert not merge(task, own).observe
    assert [(rule.amount, rule.per_seconds, rule.source) for rule in merged.limits_of("A")] == [
        (5, 60, "p.aex"), (9, 86_400, "c.aex"),
    ]  # fmt: skip
    assert [rule.by for rule in merged.once_of("a")] == ["x", "y"]
    assert str(merged.checkpoint_before("d/prod")) == "checkpoint d.* at 50% (p.aex:7)"
    assert str(merged.checkpoint_before("e")) == "checkpoint e at 75%, 50% (c.aex:6)"
    assert merged.checkpoint_before("f") is None
    assert list(merged.percents) == [50, 75]
    assert merged.budget == 10
    assert {key: (rule.amount, rule.source) for key, rule in merged.budgets.items()} == {
        "usd": (2, "c.aex"), "minutes": (9, "p.aex"), "tokens": (7, "c.aex"),
    }  # fmt: skip


def test_several_questions_make_one_with_the_strictest_clauses() -> None:
    """The first rule is named, with the shortest time, the first name, and silence that refuses if any says so."""
    found = policy("allow t", "confirm before t by human within 1h else allow", "confirm before * by alice within 5m")
    asked = found.judge("t").confirm
    assert asked is not None
    assert (asked.line, asked.by, asked.within_seconds, asked.otherwise) == (4, "alice", 300, "deny")
    assert [rule.line for rule in found.judge("t").confirms] == [4, 5]


def test_rules_that_are_made_by_hand_judge_as_ever() -> None:
    """A rule needs kind, pattern, source and line only."""
    found = Policy(allow=[Rule("allow", "t:src/**", "x", 1)], confirm=[Rule("confirm", "t", "x", 2)])
    asked = found.judge_call("t", {}, ["src/a"]).confirm
    assert asked is not None
    assert (asked.by, asked.within_seconds, asked.otherwise) == ("", None, "deny")
