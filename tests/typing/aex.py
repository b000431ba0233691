"""Types of `adjourn.aex`, as their users see them. mypy checks this file (`make lint`); nothing runs it."""

from __future__ import annotations

from typing import assert_type

from adjourn.aex import (
    DIAGNOSTICS,
    Diagnostic,
    Document,
    Policy,
    Rule,
    RuleVerdict,
    check_inputs,
    discover,
    effective,
    examine,
    formatted,
    from_text,
    glob_path,
    glob_text,
    load,
    merge,
    parse,
    render,
    split_scope,
    tool_name_ok,
    unparse,
)
from adjourn.findings import Finding


def texts(text: str) -> None:
    """A text is a document with findings, and a document is a text again."""
    assert_type(parse(text), Document)
    assert_type(examine(text, "p.aex"), Document)
    assert_type(examine(text).findings, list[Finding])
    assert_type(formatted(parse(text)), str)
    assert_type(unparse(parse(text).tree), str)
    assert_type(load("p.aex"), tuple[str | None, list[Finding]])
    assert_type(discover("."), str | None)


def permissions(policy: Policy, contract: Policy) -> None:
    """Policies are merged, and asked about tools."""
    assert_type(from_text("", "p.aex"), tuple[Policy, list[Finding]])
    assert_type(effective("p.aex", None), tuple[Policy, list[Finding]])
    assert_type(merge(policy, contract), Policy)
    assert_type(merge(policy, None), Policy)
    verdict = policy.judge("file.read")
    assert_type(verdict, RuleVerdict)
    assert_type(verdict.rule, Rule | None)
    assert_type(verdict.confirm, Rule | None)
    assert_type(policy.budget, int | None)
    assert_type(policy.limits_of("deploy"), tuple[Rule, ...])
    assert_type(policy.checkpoint_before("deploy"), Rule | None)


def findings(document: Document, finding: Finding) -> None:
    assert_type(check_inputs(document, {"n": 1}), list[Finding])
    assert_type(render(finding, "text"), str)
    assert_type(finding.code, str)
    assert_type(DIAGNOSTICS, dict[str, Diagnostic])


def patterns() -> None:
    assert_type(tool_name_ok("file.read"), bool)
    assert_type(glob_path("src/**", "src/a"), bool)
    assert_type(glob_text("git *", "git status"), bool)
    assert_type(split_scope("file.read:src/**"), tuple[str, str])
