"""`adjourn effective`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from adjourn.cli.output import cells, safe, say, say_json
from adjourn.cli.place import example, for_machines, in_folder

if TYPE_CHECKING:
    from adjourn.aex.rules import Rule


@click.command(epilog=example("adjourn effective", "adjourn effective --contract tasks/fix-test.aex"))
@click.option(
    "--policy", default="", metavar="FILE", help="Policy (default: .aex/policy.aex, then aex.policy.aex)."
)
@click.option("--contract", default="", metavar="FILE", help="Contract of a task, which narrows the policy.")
@in_folder
@for_machines
def effective(*, policy: str, contract: str, as_json: bool) -> int:
    """Show what is permitted here: the policy, or what remains of a contract under it; each rule with its file and line.

    Findings go to stderr. Exit code 1 when there is an error: a proxy would not start with it.
    """
    from adjourn.aex.diagnostics import render  # noqa: PLC0415  # not for --help
    from adjourn.aex.policy import discover  # noqa: PLC0415
    from adjourn.aex.policy import effective as merged  # noqa: PLC0415
    from adjourn.cli.check import as_told  # noqa: PLC0415

    path = policy or os.path.normpath(discover(".") or "")
    path = "" if path == "." else path
    permissions, findings = merged(path or None, contract or None)
    valid = all(finding.severity != "error" for finding in findings)
    sections = {"allow": permissions.allow, "deny": permissions.deny, "confirm": permissions.confirm}
    if as_json:
        told: dict[str, Any] = {
            "valid": valid,
            "policy": path,
            "contract": contract,
            "goal": permissions.goal,
        }
        told |= {name: [_rule(rule) for rule in rules] for name, rules in sections.items()}
        say_json(
            told | {"budget": permissions.budget, "findings": [as_told(finding) for finding in findings]}
        )
    elif path or contract:
        _print(path, contract, sections, permissions.budget, permissions.budget_rule)
    for finding in findings:
        if not as_json:
            click.echo(render(finding), err=True)
    return 0 if valid else 1


def _rule(rule: Rule) -> dict[str, Any]:
    return {"pattern": rule.pattern, "source": rule.source, "line": rule.line}


def _print(
    path: str,
    contract: str,
    sections: Mapping[str, Sequence[Rule]],
    budget: int | None,
    budget_rule: Rule | None,
) -> None:
    if path:
        say(f"Policy:   {safe(path)}")
    if contract:
        say(f"Contract: {safe(contract)}")
    titles = {"allow": "Allowed:", "deny": "Denied:", "confirm": "Confirmation required:"}
    widest = max((cells(safe(rule.pattern)) for rules in sections.values() for rule in rules), default=0)
    for name, rules in sections.items():
        if rules:
            say(f"\n{titles[name]}")
        for rule in rules:
            pattern = safe(rule.pattern)
            say(f"  {pattern}{' ' * (min(widest, 40) - cells(pattern))}  {safe(rule.source)}:{rule.line}")
    if budget is not None:
        place = f"  {safe(budget_rule.source)}:{budget_rule.line}" if budget_rule else ""
        say(f"\nBudget:\n  calls={budget}{place}")
