"""Layers of permissions: a document's own, and what remains of a contract under a policy.

Owns: turning documents into `Policy` values, the merge, discovery of the policy file, `effective`.
Must never: judge a call (that is `rules`), let a contract widen a policy.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable

from adjourn.aex.ast import Document
from adjourn.aex.check import examine
from adjourn.aex.diagnostics import finding, quoted
from adjourn.aex.files import load
from adjourn.aex.rules import CLOSED, Policy, Rule, Verdict
from adjourn.aex.text import Word
from adjourn.findings import Finding, Span

__all__ = [
    "CLOSED",
    "Policy",
    "Rule",
    "Verdict",
    "discover",
    "effective",
    "from_text",
    "layer",
    "load",
    "merge",
    "not_granted",
]

PLACES = (os.path.join(".aex", "policy.aex"), "aex.policy.aex")


def layer(document: Document) -> Policy:
    """The permissions that one document states: `use`, `deny`, top-level `confirm before`, `budget calls`."""
    budget, budget_rule = _calls(document)
    return Policy(
        allow=_rules("allow", document.use, document.source),
        deny=_rules("deny", document.deny, document.source),
        confirm=_rules("confirm", document.confirm, document.source),
        budget=budget,
        budget_rule=budget_rule,
        goal=document.goal,
        name=document.name,
    )


def from_text(text: str, source: str) -> tuple[Policy, list[Finding]]:
    """The permissions that a text states, and every finding about it."""
    document = examine(text, source)
    return layer(document), document.findings


def merge(policy: Policy | None, contract: Policy | None) -> Policy:
    """The effective permissions. Never wider than the policy; the contract alone where there is no policy.

    A contract's pattern stays when the policy grants all that it names, and goes otherwise. Refusals and
    questions are united, policy first. The smaller budget counts. Name and goal are the contract's.
    """
    if policy is None or contract is None:
        return policy or contract or Policy()
    budget, budget_rule = policy.budget, policy.budget_rule
    if contract.budget is not None and (budget is None or contract.budget < budget):
        budget, budget_rule = contract.budget, contract.budget_rule
    return Policy(
        allow=[rule for rule in contract.allow if policy.grants(rule.pattern)],
        deny=_distinct((*policy.deny, *contract.deny)),
        confirm=_distinct((*policy.confirm, *contract.confirm)),
        budget=budget,
        budget_rule=budget_rule,
        goal=contract.goal,
        name=contract.name,
    )


def not_granted(policy: Policy, contract: Policy) -> list[Finding]:
    """A warning for each pattern of the contract that the merge drops."""
    found = []
    for rule in contract.allow:
        if not policy.grants(rule.pattern):
            message = f"the policy does not grant all of {quoted(rule.pattern)}, so none of it is permitted"
            found.append(finding("AEX134", message, Span(rule.line), source=rule.source))
    return found


def discover(directory: str) -> str | None:
    """The policy file of a directory (`.aex/policy.aex`, else `aex.policy.aex`); its parents are not searched."""
    for place in PLACES:
        path = os.path.join(directory, place)
        if os.path.lexists(path):
            return path
    return None


def effective(
    policy_path: str | None,
    contract_path: str | None,
    *,
    policy_source: str | None = None,
    contract_source: str | None = None,
) -> tuple[Policy, list[Finding]]:
    """The effective permissions of a policy file and a contract file, and every finding about both.

    Rules and findings name the file as `…_source`, or as its path. An error finding means that the permissions
    are not what somebody wrote: refuse to work with them.
    """
    policy, findings = _read(policy_path, policy_source, wanted="policy")
    contract, more = _read(contract_path, contract_source, wanted="contract")
    findings += more
    if policy is None and contract is None:
        findings.append(finding("AEX135", "there is neither a policy nor a contract", severity="error"))
    elif policy is None:
        findings.append(finding("AEX135", "there is no policy: the contract alone says what is permitted"))
    elif contract is not None:
        findings += not_granted(policy, contract)
    return merge(policy, contract), findings


def _read(path: str | None, source: str | None, *, wanted: str) -> tuple[Policy | None, list[Finding]]:
    if path is None:
        return None, []
    text, unreadable = load(path, source=source)
    if text is None:
        return Policy(), unreadable
    return read_layer(text, source or path, wanted)


def read_layer(text: str, source: str, wanted: str) -> tuple[Policy, list[Finding]]:
    """`from_text`, and a finding when the text is no `wanted`: "policy", or "contract" (a task)."""
    document = examine(text, source)
    if document.headers and document.is_policy != (wanted == "policy"):
        kind = "policy" if document.is_policy else "task"
        message = f"a {kind} is used as the {wanted}"
        document.findings.append(finding("AEX136", message, document.headers[-1].line.span, source=source))
    return layer(document), document.findings


def _rules(kind: str, words: Iterable[Word], source: str) -> list[Rule]:
    return _distinct(Rule(kind, word.text, source, word.line) for word in words)


def _distinct(rules: Iterable[Rule]) -> list[Rule]:
    """The first rule of each pattern."""
    first: dict[str, Rule] = {}
    for rule in rules:
        first.setdefault(rule.pattern, rule)
    return list(first.values())


def _calls(document: Document) -> tuple[int | None, Rule | None]:
    """The last `calls` budget: whole calls, never below 0; infinity is no limit."""
    for entry in reversed(document.budget):
        if entry.key.text == "calls":
            if entry.value == float("inf"):
                return None, None
            pattern = f"calls={entry.text.text}"
            rule = Rule("budget", pattern, document.source, entry.key.line)
            return int(max(entry.value, 0)), rule
    return None, None
