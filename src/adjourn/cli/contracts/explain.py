"""`adjourn effective --explain`: what would happen to a call now, and which rules say so.

Owns: how the answer is shown, and the task and the tools that it is about. Must never: write, start a server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from adjourn import clients
from adjourn.aex import Policy, Rule
from adjourn.cli.shared.context import CommandContext
from adjourn.cli.shared.output import safe, say, say_json
from adjourn.cli.shared.rule_names import known_here
from adjourn.cli.shared.task_view import current_task
from adjourn.errors import AdjournError
from adjourn.policy import Contract
from adjourn.tasks import Ledger, workspace_spent

_COLOURS = {"yes": "green", "ask": "yellow", "no": "red"}


def answer(
    permissions: Policy, policy_path: str, tool: str, arguments: str, context: CommandContext
) -> list[clients.ExplainedCall]:
    """What would happen to a call of the tool; one answer for each server that may be meant."""
    known, given = known_here(context), _decoded(arguments)
    options = clients.ClientOptions(
        root=os.path.realpath(context.root),
        contract=Contract(policy=permissions, policy_files=(policy_path,) if policy_path else ()),
    )
    setting = clients.CallSetting(
        permissions, clients.ClientContext(options), _ledger(context), known, _spent(permissions, context)
    )
    return clients.explain_call(setting, tool, given)


def _ledger(context: CommandContext) -> Ledger:
    """The state of the task that a call would be made in; an empty one, where there is none yet."""
    try:
        if context.store_or_none() is not None:
            return current_task(context).ledger
    except AdjournError:
        pass
    return Ledger(task="")


def _spent(permissions: Policy, context: CommandContext) -> Mapping[str, int]:
    """What all tasks have spent of the budgets of the workspace; nothing, where there is no store yet."""
    if not permissions.workspace_budgets or context.store_or_none() is None:
        return {}
    return workspace_spent(context.store, permissions.workspace_budgets, context.now)


def _decoded(arguments: str) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, object])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise click.UsageError(f"--args is not a JSON object: {error}") from error


# --- showing it


def show(
    answers: Sequence[clients.ExplainedCall], permissions: Policy, *, tool: str, unlooked: bool, as_json: bool
) -> int:
    """Print the answers. Returns the exit code: 3 if a call would be refused."""
    if as_json:
        _print_json(answers, permissions, tool)
    else:
        for number, one in enumerate(answers):
            if number:
                say("")
            _print(one, unlooked=unlooked)
    return 0 if all(one.permitted for one in answers) else 3


def _print(one: clients.ExplainedCall, *, unlooked: bool) -> None:
    found = one.explanation
    say(f"{found.answer}: {safe(one.shown)} {safe(found.why)}", _COLOURS[found.answer])
    for note in one.notes:
        say(f"  {safe(note)}")
    if unlooked:
        say("  this is the answer for a call without arguments; give them with --args JSON")
    for part in found.parts:
        say(f"\n  {part.rule.kind} {safe(part.rule.text)}  {place(part.rule)}")
        say(f"    {safe(part.why)}")


def _print_json(answers: Sequence[clients.ExplainedCall], permissions: Policy, tool: str) -> None:
    told = [_to_json(one, permissions) for one in answers]
    if len(told) == 1:
        say_json({"tool": tool} | told[0])
        return
    strictest = min(told, key=lambda one: ("no", "ask", "yes").index(one["answer"]))
    say_json({"tool": tool} | strictest | {"servers": told})


def _to_json(one: clients.ExplainedCall, permissions: Policy) -> dict[str, Any]:
    found = one.explanation
    rules = [
        {"kind": part.rule.kind} | rule_json(part.rule) | {"decides": part.decides, "why": part.why}
        for part in found.parts
    ]
    return (
        {"answer": found.answer, "why": found.why, "mode": "observe" if permissions.observe else "enforce", "rules": rules}
        | ({"server": one.server} if one.server else {})
        | ({"notes": one.notes} if one.notes else {})
    )  # fmt: skip


def rule_json(rule: Rule) -> dict[str, Any]:
    """A rule for machines."""
    told: dict[str, Any] = {"pattern": rule.pattern}
    if rule.clauses:
        told["clauses"] = rule.clauses
    if rule.whom:
        told["for"] = list(rule.whom)
    told |= {"source": rule.source, "line": rule.line}
    return told | ({"under": rule_json(rule.under)} if rule.under else {})


def place(rule: Rule) -> str:
    """Where a rule is written, for people."""
    under = f", under {safe(rule.under.text)}  {place(rule.under)}" if rule.under else ""
    return f"{safe(rule.source)}:{rule.line}{under}"
