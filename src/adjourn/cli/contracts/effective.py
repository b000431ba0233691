"""`adjourn effective`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn.aex import CallQuery, discover, effective, explain, render
from adjourn.cli.contracts.what_if import show_replay
from adjourn.cli.shared.context import CommandContext, example, for_machines, in_folder, with_policy
from adjourn.cli.shared.output import finding_json, safe, say, say_json
from adjourn.cli.shared.rule_names import rule_findings
from adjourn.cli.shared.terminal import cells
from adjourn.host import workspace_of
from adjourn.policy import call_paths, meta_tool
from adjourn.tasks import is_vendors

if TYPE_CHECKING:
    from adjourn.aex import Explanation, Policy, Rule

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
_COLOURS = {"yes": "green", "ask": "yellow", "no": "red"}


@click.command(
    "effective",
    epilog=example(
        "adjourn effective",
        "adjourn effective --contract tasks/fix-test.aex",
        """adjourn effective --explain file.write --args '{"path": "src/a.py"}'""",
        "adjourn effective --replay",
    ),
)
@with_policy
@click.option("--contract", default="", metavar="FILE", help="Contract of a task, which narrows the policy.")
@click.option("--explain", default="", metavar="TOOL", help="Explain whether TOOL may be called, and why.")
@click.option(
    "--args", "arguments", default="", metavar="JSON", help="Arguments of the call that --explain looks at."
)
@click.option("--replay", is_flag=True, help="Show which recorded calls this policy would have refused.")
@in_folder
@for_machines
def effective_(
    *, policy: str, contract: str, explain: str, arguments: str, replay: bool, as_json: bool
) -> int:
    """Show what is permitted here: the policy, or what remains of a contract under it; each rule with its file and line.

    Findings go to stderr. Exit code 1 when there is an error: a proxy would not start with it. With --explain the first
    line begins with yes, ask (a person has to approve) or no, and the rules that name the tool follow; no is exit code 3.
    With --replay the calls of every task in $ADJOURN_STORE, else .aex/adjourn.db, are evaluated again, and what a policy in
    mode observe recorded is listed.
    """
    if arguments and not explain:
        raise click.UsageError("--args goes with --explain TOOL")
    found = "" if policy else discover(workspace_of().root)
    path = policy or (os.path.relpath(found) if found else "")
    permissions, findings = effective(path or None, contract or None)
    context = CommandContext()
    findings += rule_findings(permissions, context)
    valid = all(finding.severity != "error" for finding in findings)
    if not as_json or ((explain or replay) and not valid):
        for finding in findings:
            click.echo(render(finding), err=True)
    if explain:
        return _explain(permissions, explain, arguments, as_json=as_json) if valid else 1
    if replay:
        return show_replay(permissions, as_json=as_json) if valid else 1
    if as_json:
        _print_json(permissions, path, contract, findings)
    elif path or contract:
        _print(permissions, path, contract)
    return 0 if valid else 1


def _sections(permissions: Policy) -> dict[str, Sequence[Rule]]:
    return {
        "allow": permissions.allow,
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
            told[name] = [_rule(rule) for rule in rules]
    if permissions.budgets:
        told["budgets"] = {key: rule.amount for key, rule in permissions.budgets.items()}
    if permissions.observe:
        told["mode"] = "observe"
    say_json(
        told | {"budget": permissions.budget, "findings": [finding_json(finding) for finding in findings]}
    )


def _rule(rule: Rule) -> dict[str, Any]:
    told: dict[str, Any] = {"pattern": rule.pattern}
    if rule.clauses:
        told["clauses"] = rule.clauses
    told |= {"source": rule.source, "line": rule.line}
    return told | ({"under": _rule(rule.under)} if rule.under else {})


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
            say(f"  {text}{' ' * (min(widest, _WIDEST) - cells(text))}  {_place(rule)}")
    _print_budget(permissions)


def _print_budget(permissions: Policy) -> None:
    lines = []
    if permissions.budget is not None:
        rule = permissions.budget_rule
        lines.append(f"calls={permissions.budget}" + (f"  {_place(rule)}" if rule else ""))
    lines += [f"{safe(rule.pattern)}  {_place(rule)}" for rule in permissions.budgets.values()]
    if lines:
        say("\nBudget:")
    for line in lines:
        say(f"  {line}")


def _place(rule: Rule) -> str:
    under = f", under {safe(rule.under.text)}  {_place(rule.under)}" if rule.under else ""
    return f"{safe(rule.source)}:{rule.line}{under}"


# --- may this be called?


def _explain(permissions: Policy, tool: str, arguments: str, *, as_json: bool) -> int:
    explanation = _explained(permissions, tool, _decoded(arguments))
    unlooked = not arguments and permissions.looks_at_arguments(tool)
    allowed = explanation.answer != "no" or permissions.observe
    if as_json:
        say_json(_to_json(explanation, tool, permissions))
        return 0 if allowed else 3
    say(f"{explanation.answer}: {safe(tool)} {explanation.why}", _COLOURS[explanation.answer])
    if permissions.observe and explanation.answer != "yes":
        say("  but mode observe blocks nothing: the decision is only recorded")
    if unlooked:
        say("  this is the answer for a call without arguments; give them with --args JSON")
    for part in explanation.parts:
        say(f"\n  {part.rule.kind} {safe(part.rule.text)}  {_place(part.rule)}")
        say(f"    {safe(part.why)}")
    return 0 if allowed else 3


def _explained(permissions: Policy, tool: str, arguments: Mapping[str, object]) -> Explanation:
    paths, matcher = call_paths(permissions, tool, arguments, workspace_of().tree)
    is_request = tool.startswith("mcp.") and not is_vendors(tool)
    call = CallQuery(tool, arguments, paths, matcher, named_only=is_request or bool(meta_tool(tool)))
    return explain(permissions, call)


def _decoded(arguments: str) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, object])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise click.UsageError(f"--args is not a JSON object: {error}") from error


def _to_json(explanation: Explanation, tool: str, permissions: Policy) -> dict[str, Any]:
    rules = [
        {"kind": part.rule.kind} | _rule(part.rule) | {"decides": part.decides, "why": part.why}
        for part in explanation.parts
    ]
    return {
        "tool": tool,
        "answer": explanation.answer,
        "why": explanation.why,
        "mode": "observe" if permissions.observe else "enforce",
        "rules": rules,
    }
