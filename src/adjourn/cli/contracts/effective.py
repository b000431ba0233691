"""`adjourn effective`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from adjourn.aex import discover, effective, narrowed, render
from adjourn.cli.contracts.explain import answer, place, rule_json, show
from adjourn.cli.contracts.what_if import show_replay
from adjourn.cli.shared.context import CommandContext, example, for_machines, in_folder, with_policy
from adjourn.cli.shared.output import finding_json, safe, say, say_finding, say_json
from adjourn.cli.shared.rule_names import rule_findings
from adjourn.cli.shared.terminal import cells
from adjourn.host import workspace_of
from adjourn.policy import Principal

if TYPE_CHECKING:
    from adjourn.aex import Policy, Rule

_TITLES = {
    "allow": "Allowed:",
    "deny": "Denied:",
    "confirm": "Confirmation required:",
    "limit": "Limits:",
    "once": "At most once:",
    "checkpoint": "Checkpoint before:",
    "require": "Signed by one of:",
}
_ALWAYS_TOLD = ("allow", "deny", "confirm")
_WIDEST = 40


@click.command(
    "effective",
    epilog=example(
        "adjourn effective",
        "adjourn effective --contract tasks/fix-test.aex",
        """adjourn effective --explain file.write --args '{"path": "src/a.py"}'""",
        "adjourn effective --as user:ann,group:ops",
        "adjourn effective --replay",
    ),
)
@with_policy
@click.option("--contract", default="", metavar="FILE", help="Contract of a task, which narrows the policy.")
@click.option(
    "--as",
    "names",
    default="",
    metavar="NAMES",
    help="Show what holds for somebody: user:ann, service:ci or group:ops; several with commas.",
)
@click.option("--explain", default="", metavar="TOOL", help="Explain whether TOOL may be called, and why.")
@click.option(
    "--args", "arguments", default="", metavar="JSON", help="Arguments of the call that --explain looks at."
)
@click.option("--replay", is_flag=True, help="Show which recorded calls this policy would have refused.")
@in_folder
@for_machines
def effective_(
    *, policy: str, contract: str, names: str, explain: str, arguments: str, replay: bool, as_json: bool
) -> int:
    """Show what is permitted here: the policy, or what remains of a contract under it; each rule with its file and line.

    Findings go to stderr. Exit code 1 when there is an error: a proxy would not start with it. With --explain the first
    line begins with yes, ask (a person has to approve) or no, and the rules that name the tool follow; no is exit code 3. TOOL is
    SERVER.TOOL, or TOOL for every server that lists one: the answer is that of the server's proxy, in the present state of the task.
    Rules behind `for` are shown with whom they hold for. With --as only those that hold for these names count, as for a client that
    logged in at `adjourn serve`; else what is asked about is a call of a client without a login.

    With --replay the calls of every task in $ADJOURN_STORE, else .aex/adjourn.db, are evaluated again, and what a policy in
    mode observe recorded is listed.
    """
    if arguments and not explain:
        raise click.UsageError("--args goes with --explain TOOL")
    root = workspace_of().root
    found = "" if policy else discover(root)
    path = policy or (os.path.relpath(found) if found else "")
    permissions, findings = effective(path or None, contract or None, root=root)
    context = CommandContext()
    findings += rule_findings(permissions, context)
    if names:
        permissions = narrowed(permissions, _somebody(names))
    valid = all(finding.severity != "error" for finding in findings)
    if not as_json or ((explain or replay) and not valid):
        for finding in findings:
            say_finding(render(finding), err=True)
    if explain:
        if not valid:
            return 1
        answers = answer(permissions, path, explain, arguments, context)
        unlooked = not arguments and permissions.looks_at_arguments(explain)
        return show(answers, permissions, tool=explain, unlooked=unlooked, as_json=as_json)
    if replay:
        return show_replay(permissions, as_json=as_json) if valid else 1
    if as_json:
        _print_json(permissions, path, contract, findings)
    elif path or contract:
        _print(permissions, path, contract)
    return 0 if valid else 1


def _somebody(names: str) -> Principal:
    """Who has these names."""
    found = [(kind, name) for kind, _, name in (each.strip().partition(":") for each in names.split(","))]
    if wrong := [kind for kind, name in found if kind not in ("user", "service", "group") or not name]:
        raise click.UsageError(f"--as takes user:NAME, service:NAME or group:NAME, not {wrong[0][:40]!r}")
    who = [each for each in found if each[0] != "group"]
    if len(who) > 1:
        raise click.UsageError("--as takes one user or service, and groups")
    kind, name = who[0] if who else ("user", "")
    groups = tuple(name for kind, name in found if kind == "group")
    return Principal(id="", name=name, type="service" if kind == "service" else "human", groups=groups)


def _sections(permissions: Policy) -> dict[str, Sequence[Rule]]:
    return {
        "allow": permissions.allow_of_anybody,
        "deny": permissions.deny,
        "confirm": permissions.confirm,
        "limit": permissions.limits,
        "once": permissions.once,
        "checkpoint": permissions.checkpoints,
        "require": permissions.require,
    }


def _print_json(permissions: Policy, path: str, contract: str, findings: Sequence[Any]) -> None:
    valid = all(finding.severity != "error" for finding in findings)
    told: dict[str, Any] = {"valid": valid, "policy": path, "contract": contract, "goal": permissions.goal}
    for name, rules in _sections(permissions).items():
        if rules or name in _ALWAYS_TOLD:
            told[name] = [rule_json(rule) for rule in rules]
    if permissions.budgets:
        told["budgets"] = {key: rule.amount for key, rule in permissions.budgets.items()}
    if permissions.workspace_budgets:
        told["workspaceBudgets"] = [
            {"calls": int(rule.amount), "perSeconds": rule.per_seconds}
            | ({"for": list(rule.whom)} if rule.whom else {})
            | ({"each": "principal"} if rule.each else {})
            for rule in permissions.workspace_budgets
        ]
    if permissions.observe:
        told["mode"] = "observe"
    say_json(
        told | {"budget": permissions.budget, "findings": [finding_json(finding) for finding in findings]}
    )


def _print(permissions: Policy, path: str, contract: str) -> None:
    if path:
        say(f"Policy:   {safe(path)}")
    if contract:
        say(f"Contract: {safe(contract)}")
    if permissions.observe:
        say("Mode:     observe; nothing is blocked")
    sections = _sections(permissions)
    widest = max((cells(safe(rule.text)) for rules in sections.values() for rule in rules), default=0)
    for name, rules in sections.items():
        if rules:
            say(f"\n{_TITLES[name]}")
        for rule in rules:
            text = safe(rule.text)
            say(f"  {text}{' ' * (min(widest, _WIDEST) - cells(text))}  {place(rule)}")
    _print_budget(permissions)


def _print_budget(permissions: Policy) -> None:
    lines = []
    if permissions.budget is not None:
        rule = permissions.budget_rule
        lines.append(f"calls={permissions.budget}" + (f"  {place(rule)}" if rule else ""))
    lines += [
        f"{safe(rule.text)}  {place(rule)}"
        for rule in (*permissions.budgets.values(), *permissions.workspace_budgets)
    ]
    if lines:
        say("\nBudget:")
    for line in lines:
        say(f"  {line}")
