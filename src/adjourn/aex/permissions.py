"""The permissions that documents state: texts turned into `Policy` values, with every finding about them.

What is merged of them, and holds for whom, is said by `layers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjourn.aex.ast import CheckpointRule, ConfirmStep, Document, LimitRule, OnceRule, Permission, Where
from adjourn.aex.check import examine
from adjourn.aex.clauses import SESSION
from adjourn.aex.diagnostics import finding, quoted
from adjourn.aex.expr import BLANK, DIGITS, Constant, Text, Value, only
from adjourn.aex.files import load
from adjourn.aex.layers import UNKNOWN, distinct, divided, for_whom, merge, narrowings
from adjourn.aex.policy import Part, Policy
from adjourn.aex.rule import EACH, SESSION_CALLS, Rule, Test
from adjourn.findings import Finding, Span


def layer(document: Document) -> Policy:
    """The permissions that one document states. Where nobody is known, they are as they stand; see `narrowed`."""
    parts = [for_whom(_layer(block.rules), [word.text for word in block.whom]) for block in document.blocks]
    return divided([Part((), _layer(document)), *parts])


def _layer(document: Document) -> Policy:
    """The rules for all, those of `confirm before` from the top level only."""
    source = document.source
    budgets = _budgets(document)
    calls = budgets.pop("calls", None)
    return Policy(
        allow=_permissions("allow", document),
        deny=_permissions("deny", document),
        confirm=distinct(_confirms(document)),
        budget=None if calls is None else int(calls.amount),
        budget_rule=calls,
        budgets=budgets,
        workspace_budgets=_workspace_budgets(document),
        limits=distinct(
            rule
            for line in document.limits
            for rule in _rules("limit", line, source, amount=line.calls, per_seconds=line.per_seconds)
        ),
        once=distinct(rule for line in document.once for rule in _rules("once", line, source, by=line.by.text)),
        checkpoints=distinct(rule for line in document.checkpoints for rule in _rules("checkpoint", line, source)),
        percents=[percent.value for line in document.checkpoints for percent in line.percents],
        observe=bool(document.modes) and all(mode.value.text == "observe" for mode in document.modes),
        require=distinct(
            Rule("require", word.text, source, word.line) for line in document.requires for word in line.signers
        ),
        goal=document.goal,
        name=document.name,
    )


def from_text(text: str, source: str) -> tuple[Policy, list[Finding]]:
    r"""The permissions that a text states, and every finding about it.

    >>> policy, findings = from_text('policy p v0\ngoal "Read only"\nallow file.read\n', "policy.aex")
    >>> findings, policy.visible("file.read"), policy.visible("file.write")
    ([], True, False)
    """
    document = examine(text, source)
    return layer(document), document.findings


def effective(
    policy_path: str | None,
    contract_path: str | None,
    *,
    policy_source: str | None = None,
    contract_source: str | None = None,
    root: str = ".",
) -> tuple[Policy, list[Finding]]:
    """The effective permissions of a policy file (`.aex`, or JSON) and a contract file, and every finding about both.

    Rules and findings name the file as `…_source`, or as its path. An error finding means that the permissions
    are not what somebody wrote: refuse to work with them. No link in the workspace `root` is followed.
    """
    policy, findings = _read(policy_path, policy_source, root, wanted="policy")
    contract, more = _read(contract_path, contract_source, root, wanted="contract")
    findings += more
    if policy is None and contract is None:
        findings.append(finding("AEX135", "there is neither a policy nor a contract", severity="error"))
    elif policy is None:
        findings.append(finding("AEX135", "there is no policy: the contract alone says what is permitted"))
    elif contract is not None:
        findings += not_granted(policy, contract)
    return merge(policy, contract), findings


def _read(path: str | None, source: str | None, root: str, *, wanted: str) -> tuple[Policy | None, list[Finding]]:
    if path is None:
        return None, []
    if wanted == "policy" and path.endswith(".json"):
        from adjourn.aex.json_policy import read_json_policy

        reading = read_json_policy(path, root, source or path)
        return reading.policy, reading.findings
    text, unreadable = load(path, source=source, root=root)
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


def not_granted(policy: Policy, contract: Policy) -> list[Finding]:
    """A warning for each pattern of the contract that the merge drops."""
    missing = []
    policies = [part.rules for part in policy.parts] or [policy]
    granted = [[rules for _, rules in narrowings(each, contract)] for each in policies]
    for rule, *remains in zip(contract.allow, *granted, strict=True):
        if not any(remains):
            message = f"the policy does not grant all of {quoted(rule.pattern)}, so none of it is permitted"
            missing.append(finding("AEX134", message, Span(rule.line), source=rule.source))
    return missing


def _permissions(kind: str, document: Document) -> list[Rule]:
    return distinct(
        rule
        for line in document.permissions
        if (line.keyword == "deny") == (kind == "deny")
        for rule in _rules(kind, line, document.source, where=_tests(line.where))
    )


def _rules(
    kind: str, line: Permission | ConfirmStep | LimitRule | OnceRule | CheckpointRule, source: str, **fields: Any
) -> Iterator[Rule]:
    """A rule for each pattern of a line; its clauses follow the last of them."""
    if not line.patterns:
        return
    last = line.patterns[-1]
    clauses = line.word.text[last.column - line.word.column + len(last.text) :].strip(BLANK + ",")
    for pattern in line.patterns:
        yield Rule(kind, pattern.text, source, pattern.line, clauses, **fields)


def _tests(where: Where | None) -> tuple[Test, ...]:
    if where is None:
        return ()
    return tuple(
        Test(test.path.text, test.operator.text, tuple(_plain(value) for value in test.values)) for test in where.tests
    )


def _plain(value: Value) -> str | float | bool:
    """A text or constant; a number that was written whole stays exact."""
    if isinstance(value, Constant) and not isinstance(value.value, bool):
        return int(value.word.text) if only(value.word.text, DIGITS) else value.value
    return value.value if isinstance(value, Text | Constant) else ""


def _confirms(document: Document) -> Iterator[Rule]:
    for step in document.steps:
        if isinstance(step, ConfirmStep):
            yield from _rules(
                "confirm",
                step,
                document.source,
                where=_tests(step.where),
                by=step.by.text if step.by else "",
                within_seconds=step.within.seconds if step.within else None,
                otherwise=step.otherwise.text if step.otherwise else "deny",
            )


def _budgets(document: Document) -> dict[str, Rule]:
    """The task's last budget of each key that is counted: never below 0, whole calls; infinity is no limit."""
    budgets: dict[str, Rule] = {}
    for entry in document.budget:
        key = entry.key.text
        if key not in document.budget_keys or entry.per_seconds or (entry.is_of_session and key != "calls"):
            continue
        pattern = f"{key}={entry.text.text}"
        if entry.is_of_session:
            key = SESSION_CALLS
        if entry.value == float("inf"):
            budgets.pop(key, None)
            continue
        amount = max(entry.value, 0.0)
        budgets[key] = Rule(
            "budget",
            pattern,
            document.source,
            entry.key.line,
            clauses=f"per {SESSION}" if key == SESSION_CALLS else "",
            amount=amount // 1 if entry.key.text == "calls" else amount,
        )
    return budgets


def _workspace_budgets(document: Document) -> list[Rule]:
    """The last number of calls for each unit of time, of all and of each principal, as above."""
    budgets: dict[tuple[int, bool], Rule] = {}
    for entry in document.budget:
        if entry.unit is None or not entry.per_seconds or entry.key.text != "calls":
            continue
        budgets.pop((entry.per_seconds, entry.each), None)
        if entry.value < float("inf"):
            budgets[entry.per_seconds, entry.each] = Rule(
                "budget",
                f"calls={entry.text.text}",
                document.source,
                entry.key.line,
                clauses=f"per {entry.unit.text}{EACH if entry.each else ''}",
                amount=max(entry.value, 0.0) // 1,
                per_seconds=entry.per_seconds,
                each=entry.each,
                counter=f"{entry.per_seconds}/each" if entry.each else str(entry.per_seconds),
                owner=UNKNOWN if entry.each else "",
            )
    return list(budgets.values())
