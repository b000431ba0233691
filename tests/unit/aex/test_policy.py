"""Permissions: verdicts with provenance, layers, the merge, discovery, reading files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import Policy, Rule, discover, effective, from_text, merge, not_granted
from adjourn.aex.files import load
from adjourn.aex.match import glob_text
from adjourn.aex.policy import CACHE_MAX
from support.cases import for_each
from support.policies import POLICY

SOURCE = ".aex/policy.aex"


def policy(*lines: str, source: str = "p.aex") -> Policy:
    found, findings = from_text("\n".join(["policy p v0", 'goal "g"', *lines]), source)
    assert not [finding for finding in findings if finding.severity == "error"], findings
    return found


def contract(*lines: str) -> Policy:
    found, findings = from_text("\n".join(["task c v0", 'goal "cg"', *lines, "return x"]), "c.aex")
    assert not [finding for finding in findings if finding.severity == "error"], findings
    return found


def patterns(rules: Sequence[Rule]) -> list[str]:
    return [rule.pattern for rule in rules]


def test_the_first_policy_judges_and_names_file_and_line() -> None:
    """Each verdict of a policy names the rule, the file and the line; a tool that no rule allows is closed."""
    first, findings = from_text(POLICY, SOURCE)
    assert findings == []
    assert (first.name, first.budget) == ("workspace", 100)
    assert str(first.judge("Network/fetch").rule) == "deny network.* (.aex/policy.aex:6)"
    assert str(first.budget_rule) == "budget calls=100 (.aex/policy.aex:8)"
    assert first.judge("git.commit").effect == "allow"
    assert first.judge("file.read").confirm is None
    write = first.judge("file.write")
    assert (write.effect, str(write.confirm)) == ("allow", "confirm file.write (.aex/policy.aex:10)")
    closed = first.judge("shell.exec")
    assert (closed.effect, closed.rule, closed.confirm) == ("closed", None, None)


def test_deny_wins_over_allow_and_allow_is_case_sensitive() -> None:
    """A refusal and a question are patterns, in any spelling; an allow is matched as written."""
    found = policy("allow *", "deny git.push", "confirm before GIT.*")
    assert found.judge("git_push").effect == "deny"
    assert found.judge("git.pull").confirm is not None
    assert policy("allow file.*").judge("File.read").effect == "closed"
    assert policy("allow file.*").judge("file/read").effect == "closed"


RULES = (
    "allow file.*, git.*",
    "deny file.delete",
    "confirm before file.write",
    "deny net.*",
    "allow net.get",
    "budget calls=3",
)
TOOLS = ("file.read", "file.write", "file.delete", "git.push", "net.get", "shell.exec")


@given(st.permutations(RULES))
def test_the_order_of_lines_decides_nothing(lines: Sequence[str]) -> None:
    """A policy gives each call the same verdict, question and budget in any order of its lines."""
    found, reference = policy(*lines), policy(*RULES)
    assert found.budget == reference.budget
    for tool in TOOLS:
        now, then = found.judge(tool), reference.judge(tool)
        assert (now.effect, now.confirm is None) == (then.effect, then.confirm is None)


def test_a_line_of_version_0_means_the_same_in_version_1() -> None:
    """Under `v1` in the header, lines of version 0 are the same rules."""
    newer, findings = from_text("\n".join(["policy p v1", 'goal "g"', *RULES]), "p.aex")
    assert (newer, findings) == (policy(*RULES), [])


def test_an_empty_allow_permits_nothing() -> None:
    """An empty or missing allow permits nothing, in a policy and in a contract."""
    assert Policy().judge("file.read").effect == "closed"
    assert policy("deny x").judge("file.read").effect == "closed"
    assert merge(policy("allow *"), contract()).judge("file.read").effect == "closed"


def test_the_first_rule_that_matches_is_the_one_named() -> None:
    """Of several rules that allow a tool, the verdict names the first one in the file."""
    found = policy("allow file.*", "allow file.read", "allow *")
    rule = found.judge("file.read").rule
    assert rule is not None
    assert rule.pattern == "file.*"


@for_each(
    ("lines", "name", "effect", "asked"),
    [
        ([], "mcp.resources.read", "allow", False),
        (["deny mcp.resources.*"], "mcp.resources.read", "deny", False),
        (["deny mcp.resources.*"], "mcp.prompts.get", "allow", False),
        (["deny MCP-resources.*"], "mcp.resources.read", "deny", False),
        (["deny *"], "aex.resume", "deny", False),
        (["deny aex.*"], "aex.checkpoint", "deny", False),
        (["confirm before aex.resume"], "aex.resume", "allow", True),
        (["confirm before *"], "aex.resume", "allow", False),
        (["confirm before *", "confirm before mcp.*"], "mcp.prompts.get", "allow", True),
        (["allow file.read"], "aex.list_tasks", "allow", False),
        (["deny adjourn.*"], "adjourn.note", "deny", False),
        (["confirm before adjourn.ask"], "adjourn.ask", "allow", True),
    ],
)
def test_requests_and_meta_tools_are_allowed_unless_named(
    lines: list[str], name: str, effect: str, asked: bool
) -> None:
    """A policy refuses or confirms MCP requests and meta-tools only where a rule names them or their family."""
    verdict = policy(*lines).judge_open(name)
    assert (verdict.effect, verdict.confirm is not None) == (effect, asked)
    assert (verdict.rule is None) is (effect == "allow")


def test_verdicts_are_kept_in_a_bounded_cache() -> None:
    """A policy returns the same verdict object for the same tool, and its cache never exceeds the limit."""
    found = policy("allow t.*")
    assert found.judge("t.a") is found.judge("t.a")
    assert found.judge_open("mcp.a") is found.judge_open("mcp.a")
    for number in range(CACHE_MAX + 10):
        found.judge(f"t.{number}")
    assert len(found.tools) <= CACHE_MAX


def test_policies_compare_by_what_they_say() -> None:
    """Two policies with the same rules are equal and have the same hash."""
    assert policy("allow a") == policy("allow a")
    assert policy("allow a") != policy("allow b")
    assert hash(policy("allow a")) == hash(policy("allow a"))
    assert policy() != 1
    assert "0 allow" in repr(policy())


def test_a_layer_takes_top_level_confirms_and_drops_repeated_patterns() -> None:
    """A contract's permissions hold each pattern once and leave out a `confirm` inside an `if`."""
    found = contract(
        "use a, b, a",
        "need x: str",
        "if x",
        "  confirm before a",
        "confirm before b",
        "deny z",
        "deny z",
        "budget calls=7",
    )
    assert patterns(found.allow) == ["a", "b"]
    assert patterns(found.confirm) == ["b"]
    assert patterns(found.deny) == ["z"]
    assert (found.budget, found.goal) == (7, "cg")


@for_each(
    ("text", "calls"),
    [
        ("5", 5),
        ("", 0),
        ("-3", 0),
        ("2.9", 2),
        ("1e2", 100),
        ("0x10", 16),
        ("Infinity", None),
        ("-Infinity", 0),
        ("1, calls=9", 9),
    ],
)
def test_a_budget_is_whole_calls_never_below_zero(text: str, calls: int | None) -> None:
    """A budget is rounded down to whole calls; a negative one is zero and an infinite one is no limit."""
    assert policy(f"budget calls={text}").budget == calls


@for_each(
    ("allowed", "used", "left"),
    [
        ("file.read", "file.read", ["file.read"]),
        ("file.*", "file.write, file.read", ["file.write", "file.read"]),
        ("file.read", "file.*", []),
        ("file.*", "*", []),
        ("*", "*, a.*", ["*", "a.*"]),
        ("a.*", "a.b.*", ["a.b.*"]),
        ("file.read", "File.read", []),
        ("file.read:src/**", "file.read, file.read:src/a.py", ["file.read", "file.read:src/a.py"]),
        ("file.read:src/**, file.read:docs/**", "file.read", ["file.read", "file.read"]),
        ("file.read", "file.read:src/**", ["file.read:src/**"]),
    ],
)
def test_a_contract_keeps_only_what_the_policy_grants_whole(allowed: str, used: str, left: list[str]) -> None:
    """A merge keeps a pattern of the contract only if the policy allows every call that it matches."""
    merged = merge(policy(f"allow {allowed}"), contract(f"use {used}"))
    assert patterns(merged.allow) == left
    assert all(rule.source == "c.aex" for rule in merged.allow)


def test_refusals_and_questions_are_united_policy_first() -> None:
    """A merge holds each deny and confirm of both sides once, those of the policy first."""
    own = policy("deny a, b", "confirm before x", "budget calls=9")
    task = contract("use x, y", "deny b, c", "confirm before y", "confirm before x", "budget calls=20")
    merged = merge(own, task)
    assert [str(rule) for rule in merged.deny] == ["deny a (p.aex:3)", "deny b (p.aex:3)", "deny c (c.aex:4)"]
    assert patterns(merged.confirm) == ["x", "y"]
    assert merged.budget == 9
    assert (merged.name, merged.goal) == ("c", "cg")


def test_the_smaller_budget_counts_and_one_is_enough() -> None:
    """A merge takes the smaller budget of both sides, or the only one there is."""
    some, none = policy("budget calls=5"), policy()
    assert merge(some, contract("budget calls=3")).budget == 3
    assert merge(some, contract()).budget == 5
    assert merge(none, contract("budget calls=3")).budget_rule is not None
    assert merge(none, contract()).budget is None


def test_one_layer_alone_is_the_effective_one() -> None:
    """A policy or a contract without the other is returned unchanged; with neither, every tool is closed."""
    own = policy("allow a")
    assert merge(own, None) is own
    assert merge(None, own) is own
    assert merge(None, None).judge("a").effect == "closed"


def test_scoped_rules_need_the_paths_of_the_call() -> None:
    """A scope on allow, deny and confirm is compared with the paths of the call; without them it is strict."""
    found = policy(
        "allow file.read:src/**, file.read:docs/*, x", "deny file.read:src/Secret/**", "confirm before x:a/*"
    )
    assert found.looks_at_arguments("file.read")
    assert found.looks_at_arguments("x")
    assert not found.looks_at_arguments("y")
    assert found.judge("file.read").effect == "deny"
    assert found.judge_call("file.read", {}, ["src/a.py"]).effect == "allow"
    assert found.judge_call("file.read", {}, ["src/a.py", "docs/b"]).effect == "allow"
    assert found.judge_call("file.read", {}, ["src/a.py", "etc/b"]).effect == "closed"
    assert found.judge_call("file.read", {}, ["src/secret/key"]).effect == "deny"
    assert found.judge_call("x", {}, ["b"]).confirm is None
    assert found.judge_call("x", {}, ["a/b"]).confirm is not None
    assert policy("allow f:src/**").judge("f").effect == "closed"
    assert policy("allow run:pytest*").judge_call("run", {}, ["pytest -q a/b"], glob_text).effect == "allow"


def test_a_listing_keeps_what_some_call_could_use() -> None:
    """A tool is listed if the policy permits at least one call of it."""
    found = policy("allow a, b:src/**, c, d.*", "deny c:x/**, d.e")
    assert [tool for tool in ("a", "b", "c", "d.e", "d.f", "z") if found.visible(tool)] == ["a", "b", "c", "d.f"]


def test_the_policy_is_found_in_the_folder_itself_only(tmp_path: Path) -> None:
    """`discover` prefers `.aex/policy.aex` to `aex.policy.aex` and does not look in parent folders."""
    assert discover(str(tmp_path)) is None
    (tmp_path / "aex.policy.aex").write_text(POLICY)
    assert discover(str(tmp_path)) == str(tmp_path / "aex.policy.aex")
    (tmp_path / ".aex").mkdir()
    (tmp_path / ".aex" / "policy.aex").write_text(POLICY)
    assert discover(str(tmp_path)) == str(tmp_path / ".aex" / "policy.aex")
    (tmp_path / "sub").mkdir()
    assert discover(str(tmp_path / "sub")) is None


def test_effective_reports_what_a_contract_loses(tmp_path: Path) -> None:
    """Each pattern of a contract that the policy does not grant is a warning at its line."""
    (tmp_path / "p.aex").write_text(POLICY)
    (tmp_path / "c.aex").write_text('task c v0\ngoal "g"\nuse file.read, file.*\nreturn 1\n')
    merged, findings = effective(
        str(tmp_path / "p.aex"), str(tmp_path / "c.aex"), policy_source=SOURCE, contract_source="c.aex"
    )
    assert patterns(merged.allow) == ["file.read"]
    assert [(found.code, found.severity, found.source, found.span.line) for found in findings] == [
        ("AEX134", "warning", "c.aex", 3)
    ]
    own, task = from_text(POLICY, SOURCE)[0], contract("use file.*")
    assert len(not_granted(own, task)) == 1


def test_an_error_in_either_file_is_reported(tmp_path: Path) -> None:
    """`effective` returns the errors of the policy and of the contract, each with its line."""
    (tmp_path / "p.aex").write_text(POLICY + "dney shell.*\n")
    (tmp_path / "c.aex").write_bytes(b'task c v0\ngoal "\xff"\n')
    _, findings = effective(str(tmp_path / "p.aex"), str(tmp_path / "c.aex"))
    assert [(found.code, found.span.line) for found in findings] == [("AEX100", 11), ("AEX132", 2)]
    assert all(found.severity == "error" for found in findings)


def test_a_file_is_read_strictly(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe, a file that is too large and one that is not UTF-8 each have a finding."""

    def code(path: Path) -> str:
        text, findings = load(str(path), source="x.aex")
        assert text is None
        assert findings[0].source == "x.aex"
        return findings[0].code

    assert code(tmp_path / "missing") == "AEX130"
    assert code(tmp_path) == "AEX130"
    assert code(tmp_path / "a\0b") == "AEX130"
    os.mkfifo(tmp_path / "pipe")
    assert code(tmp_path / "pipe") == "AEX130"
    (tmp_path / "large").write_bytes(b"#" * 10_000_001)
    assert code(tmp_path / "large") == "AEX131"
    (tmp_path / "latin").write_bytes("goal \xe9".encode("latin-1"))
    assert code(tmp_path / "latin") == "AEX132"
    (tmp_path / "fine").write_text("\ufefftask")
    assert load(str(tmp_path / "fine")) == ("\ufefftask", [])
