"""`adjourn policy explain`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn.aex.diagnostics import render
from adjourn.aex.layers import discover, narrowed
from adjourn.aex.permissions import effective
from adjourn.aex.policy import Policy
from adjourn.aex.rule import Rule
from adjourn.cli.context import CommandContext, example, flag, for_machines, in_folder, text_option, with_policy
from adjourn.cli.output import finding_json, safe, say, say_finding, say_json, say_table
from adjourn.cli.task_view import current_task
from adjourn.cli.terminal import Spinner, cells
from adjourn.clients.explaining import replay_calls
from adjourn.errors import AdjournError
from adjourn.host.finding import workspace_of
from adjourn.policy.contract import Contract
from adjourn.policy.principal import Principal
from adjourn.tasks.budgets import workspace_spent
from adjourn.tasks.ledger import Ledger
from adjourn.text.times import ago

if TYPE_CHECKING:
    from adjourn.clients.explaining import ExplainedCall, Stopped


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
        "adjourn policy explain",
        "adjourn policy explain --contract tasks/fix-test.aex",
        """adjourn policy explain file.write --args '{"path": "src/a.py"}'""",
        "adjourn policy explain --as user:ann,group:ops",
        "adjourn policy explain --replay",
    ),
)
@click.argument("tool", default="")
@with_policy
@text_option("--contract FILE", "Contract of a task, which narrows the policy.")
@text_option(
    "--as NAMES",
    "Show what holds for somebody: user:ann, service:ci, group:ops, client:codex; several with commas.",
    dest="names",
)
@text_option("--explain TOOL", "The published spelling of TOOL.", hidden=True)
@text_option("--args JSON", "Arguments of the call of TOOL.", dest="arguments")
@flag("--replay", "Show which recorded calls this policy would have refused.")
@in_folder
@for_machines
def effective_(  # noqa: PLR0913  # the options of one command
    *, tool: str, policy: str, contract: str, names: str, explain: str, arguments: str, replay: bool, as_json: bool
) -> int:
    """Show what is permitted here: the policy, or what remains of a contract under it; each rule with its file and line.

    Findings go to stderr. Exit code 1 when there is an error: a proxy would not start with it. With TOOL, which is SERVER.TOOL, or
    TOOL for every server that lists one, the first line starts with yes, ask (a person has to approve) or no, as the server's proxy would
    answer in the present state of the task, and the rules that name the tool follow; no is exit code 3.
    Rules behind `for` show whom they are for. --as evaluates as a user or group that logged in at `adjourn serve`, or as the hook of a
    client; without it, as a client without a login.

    With --replay the calls of every task in $ADJOURN_STORE, else .aex/adjourn.db, are evaluated again, and what a policy in
    mode observe recorded is listed.
    """
    from adjourn.cli.check import rule_findings

    explain = tool or explain
    if arguments and not explain:
        raise click.UsageError("--args needs TOOL")
    root = workspace_of().root
    discovered = "" if policy else discover(root)
    path = policy or (os.path.relpath(discovered) if discovered else "")
    permissions, findings = effective(path or None, contract or None, root=root)
    context = CommandContext()
    findings += rule_findings(permissions, context)
    if names:
        permissions = narrowed(permissions, *_somebody(names))
    valid = all(finding.severity != "error" for finding in findings)
    if not as_json:
        for finding in findings:
            say_finding(render(finding), err=True)
    if explain and valid:
        answers = answer(permissions, path, explain, arguments, context)
        unlooked = not arguments and permissions.looks_at_arguments(explain)
        return show(answers, permissions, tool=explain, unlooked=unlooked, as_json=as_json)
    if replay and valid:
        return show_replay(permissions, as_json=as_json)
    if as_json:
        _print_json(permissions, path, contract, findings)
    elif (path or contract) and not (explain or replay):
        _print(permissions, path, contract)
    return 0 if valid else 1


def _somebody(names: str) -> tuple[Principal | None, str]:
    """Who has these names, and behind which client."""
    principals = [(kind, name) for kind, _, name in (each.strip().partition(":") for each in names.split(","))]
    if wrong := [kind for kind, name in principals if kind not in ("user", "service", "group", "client") or not name]:
        raise click.UsageError(f"--as takes user:NAME, service:NAME, group:NAME or client:NAME, not {wrong[0][:40]!r}")
    who = [each for each in principals if each[0] in ("user", "service")]
    clients = [name for kind, name in principals if kind == "client"]
    if len(who) > 1 or len(clients) > 1:
        raise click.UsageError("--as takes one user or service, one client, and groups")
    kind, name = who[0] if who else ("user", "")
    groups = tuple(name for kind, name in principals if kind == "group")
    is_known = bool(who or groups)
    principal = Principal(id="", name=name, type="service" if kind == "service" else "human", groups=groups)
    return principal if is_known else None, "".join(clients)


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
    document: dict[str, Any] = {"valid": valid, "policy": path, "contract": contract, "goal": permissions.goal}
    for name, rules in _sections(permissions).items():
        if rules or name in _ALWAYS_TOLD:
            document[name] = [rule_json(rule) for rule in rules]
    if permissions.budgets:
        document["budgets"] = {key: rule.amount for key, rule in permissions.budgets.items()}
    if permissions.workspace_budgets:
        document["workspaceBudgets"] = [
            {"calls": int(rule.amount), "perSeconds": rule.per_seconds}
            | ({"for": list(rule.whom)} if rule.whom else {})
            | ({"each": "principal"} if rule.each else {})
            for rule in permissions.workspace_budgets
        ]
    if permissions.observe:
        document["mode"] = "observe"
    say_json(document | {"budget": permissions.budget, "findings": [finding_json(finding) for finding in findings]})


def _print(permissions: Policy, path: str, contract: str) -> None:
    if path:
        say(f"Policy:   {safe(path)}")
    if contract:
        say(f"Contract: {safe(contract)}")
    if permissions.observe:
        say("Mode:     observe; nothing is blocked")
    sections = {_TITLES[name]: _rows(rules) for name, rules in _sections(permissions).items()}
    sections["Budget:"] = _rows([*permissions.budgets.values(), *permissions.workspace_budgets])
    if permissions.budget is not None:
        rule = permissions.budget_rule
        sections["Budget:"].insert(0, (f"calls={permissions.budget}", place(rule) if rule else ""))
    widest = min(max((cells(text) for rows in sections.values() for text, _ in rows), default=0), _WIDEST)
    for title, rows in sections.items():
        if rows:
            say(f"\n{title}", "bold")
        for text, where in rows:
            say(f"  {text}{' ' * (widest - cells(text))}  {where}".rstrip())


def _rows(rules: Iterable[Rule]) -> list[tuple[str, str]]:
    return [(safe(rule.text), place(rule)) for rule in rules]


# --- `adjourn policy explain --replay`

_WORDS = {"block": "refuse", "ask": "ask", "replay": "replay"}
MAX_TOOLS = 4


def show_replay(policy: Policy, *, as_json: bool) -> int:
    """Show which recorded calls of all tasks in the workspace's store the policy would have stopped. Returns the exit code."""
    context = CommandContext()
    with Spinner("judging the recorded calls"):
        result = replay_calls(context.store, policy, context.tree).outcome
    rows = sorted(result.stopped, key=lambda row: (row.recorded, -row.calls, row.rule))
    if as_json:
        say_json(judged=result.judged, untold=result.untold, rules=[_to_json(row) for row in rows])
        return 0
    would = [row for row in rows if not row.recorded]
    say(
        f"of {result.judged} recorded calls this policy would refuse {result.count('block')}, and ask about {result.count('ask')}"
    )
    _section("", would, context.now)
    _section("\nRecorded by a policy in mode observe:", [row for row in rows if row.recorded], context.now)
    if result.untold:
        say(f"\n{result.untold.total()} could not be evaluated, because their arguments were not recorded in full:")
        say("  " + _tools(result.untold.most_common()))
    return 0


def _section(title: str, rows: Sequence[Stopped], now: int) -> None:
    if not rows:
        return
    if title:
        say(title)
    lines = [
        (_WORDS[row.decision], str(row.calls), ago(row.last, now), _tools(row.tools.most_common()), row.rule)
        for row in rows
    ]
    say_table(("", "calls", "last", "tools", "rule"), lines)


def _tools(counted: Sequence[tuple[str, int]]) -> str:
    named = [f"{tool} ({calls})" if calls > 1 else tool for tool, calls in counted[:MAX_TOOLS]]
    return ", ".join(named) + (f" and {len(counted) - MAX_TOOLS} more" if len(counted) > MAX_TOOLS else "")


def _to_json(row: Stopped) -> dict[str, Any]:
    return {
        "decision": row.decision,
        "rule": row.rule,
        "recorded": row.recorded,
        "calls": row.calls,
        "tools": row.tools,
        "last": row.last,
    }


# --- `adjourn policy explain`

_COLOURS = {"yes": "green", "ask": "yellow", "no": "red"}


def answer(
    permissions: Policy, policy_path: str, tool: str, arguments: str, context: CommandContext
) -> list[ExplainedCall]:
    """What would happen to a call of the tool; one answer for each server that may be meant."""
    from adjourn.cli.check import known_here
    from adjourn.clients.client_process import ClientOptions
    from adjourn.clients.explaining import CallSetting, explain_call

    tools, call_arguments = known_here(context), _decoded(arguments)
    options = ClientOptions(
        root=os.path.realpath(context.root),
        contract=Contract(policy=permissions, policy_files=(policy_path,) if policy_path else ()),
    )
    setting = CallSetting(permissions, options, context.now, _ledger(context), tools, _spent(permissions, context))
    return explain_call(setting, tool, call_arguments)


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


def show(answers: Sequence[ExplainedCall], permissions: Policy, *, tool: str, unlooked: bool, as_json: bool) -> int:
    """Print the answers. Returns the exit code: 3 if a call would be refused."""
    if as_json:
        _explain_print_json(answers, permissions, tool)
    else:
        for number, explained in enumerate(answers):
            if number:
                say("")
            _explain_print(explained, unlooked=unlooked)
    return 0 if all(explained.permitted for explained in answers) else 3


def _explain_print(explained: ExplainedCall, *, unlooked: bool) -> None:
    explanation = explained.explanation
    say(f"{explanation.answer}: {safe(explained.shown)} {safe(explanation.why)}", _COLOURS[explanation.answer])
    for note in explained.notes:
        say(f"  {safe(note)}")
    if unlooked:
        say("  this is the answer for a call without arguments; give them with --args JSON")
    for part in explanation.parts:
        say(f"\n  {part.rule.kind} {safe(part.rule.text)}  {place(part.rule)}")
        say(f"    {safe(part.why)}")


def _explain_print_json(answers: Sequence[ExplainedCall], permissions: Policy, tool: str) -> None:
    answers_json = [_explain_to_json(explained, permissions) for explained in answers]
    if len(answers_json) == 1:
        say_json({"tool": tool} | answers_json[0])
        return
    strictest = min(answers_json, key=lambda explained: ("no", "ask", "yes").index(explained["answer"]))
    say_json({"tool": tool} | strictest | {"servers": answers_json})


def _explain_to_json(explained: ExplainedCall, permissions: Policy) -> dict[str, Any]:
    explanation = explained.explanation
    rules = [
        {"kind": part.rule.kind} | rule_json(part.rule) | {"decides": part.decides, "why": part.why}
        for part in explanation.parts
    ]
    return (
        {"answer": explanation.answer, "why": explanation.why, "mode": "observe" if permissions.observe else "enforce", "rules": rules}
        | ({"server": explained.server} if explained.server else {})
        | ({"notes": explained.notes} if explained.notes else {})
    )  # fmt: skip


def rule_json(rule: Rule) -> dict[str, Any]:
    """A rule for machines."""
    document: dict[str, Any] = {"pattern": rule.pattern}
    if rule.clauses:
        document["clauses"] = rule.clauses
    if rule.whom:
        document["for"] = list(rule.whom)
    document |= {"source": rule.source, "line": rule.line}
    return document | ({"under": rule_json(rule.under)} if rule.under else {})


def place(rule: Rule) -> str:
    """Where a rule is written, for people."""
    under = f", under {safe(rule.under.text)}  {place(rule.under)}" if rule.under else ""
    return f"{safe(rule.source)}:{rule.line}{under}"
