"""`adjourn effective --explain`: what would happen to a call now, and which rules say so.

A tool goes by either form of its name: `inv.remove_item`, or `remove_item` for the servers that list such a tool. The call is decided
on as the proxy of that server would, in the present state of the task: its budget, its calls in doubt, its approvals.

Owns: which servers are meant, and how the answer is shown. Must never: write, start a server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from adjourn import clients
from adjourn.aex import CallQuery, Explanation, KnownTools, Policy, Rule, canonical_server, explain
from adjourn.cli.shared.context import CommandContext
from adjourn.cli.shared.output import safe, say, say_json
from adjourn.cli.shared.rule_names import known_here
from adjourn.cli.shared.task_view import current_task
from adjourn.errors import AdjournError
from adjourn.log import full_name
from adjourn.policy import OWN_TOOLS, READING_VERBS, Contract, arguments_digest, call_paths, meta_tool
from adjourn.policy.protected import only_reads, protected_path
from adjourn.tasks import (
    Ask,
    Block,
    Forward,
    Ledger,
    ToolRequest,
    always_passes,
    decide,
    is_vendors,
    workspace_spent,
)
from adjourn.text import did_you_mean

_COLOURS = {"yes": "green", "ask": "yellow", "no": "red"}
_BY_RULES = ("deny_list", "not_allowed")
_HEADS = frozenset(name.partition(".")[0] for name in OWN_TOOLS)


class ExplainedCall(NamedTuple):
    """The answer about the tool of one server. `permitted`: the call would pass, or a person be asked."""

    shown: str
    server: str
    explanation: Explanation
    permitted: bool
    notes: list[str]


def answer(
    permissions: Policy, policy_path: str, tool: str, arguments: str, context: CommandContext
) -> list[ExplainedCall]:
    """What would happen to a call of the tool; one answer for each server that may be meant."""
    known, given = known_here(context), _decoded(arguments)
    options = clients.ClientOptions(
        root=os.path.realpath(context.root),
        contract=Contract(policy=permissions, policy_files=(policy_path,) if policy_path else ()),
    )
    setting = _Setting(
        permissions, clients.ClientContext(options), _ledger(context), known, _spent(permissions, context)
    )
    return [_answer(setting, tool, server, name, given) for server, name in _meant(tool, known)]


def _meant(tool: str, known: KnownTools) -> Iterator[tuple[str, str]]:
    """The servers that a name may be about, each with the name of the tool there; no server for what is of none."""
    name = meta_tool(tool) or tool
    if name.startswith("mcp__") and "__" in name.removeprefix("mcp__"):
        server, _, name = name.removeprefix("mcp__").partition("__")
        yield canonical_server(server), name
        return
    head, dot, rest = name.partition(".")
    if dot and canonical_server(head) in known.servers:
        yield canonical_server(head), rest
    elif servers := known.with_tool(name):
        if name in OWN_TOOLS:
            yield "", name
        yield from ((server, name) for server in servers)
    elif dot and rest and canonical_server(head) and head not in _HEADS:
        yield canonical_server(head), rest
    else:
        yield "", name


class _Setting(NamedTuple):
    """What a call is decided on with: the policy, the client with its protected places, the state of its task, what servers list, and what
    all tasks have spent of the budgets of the workspace.
    """

    policy: Policy
    client: clients.ClientContext
    ledger: Ledger
    known: KnownTools
    workspace: Mapping[int, int]


def _answer(
    setting: _Setting, asked: str, server: str, tool: str, given: Mapping[str, object]
) -> ExplainedCall:
    _, client, ledger, known, workspace = setting
    policy = setting.policy.at_server(server, known)
    if always_passes(tool) and not server:
        return ExplainedCall(
            asked, "", Explanation("yes", "always passes: no session works without it"), True, []
        )
    listed = next((one for one in known.servers.get(server, ()) if one.name == tool), None)
    reads = tool in READING_VERBS or (listed is not None and listed.read_only)
    own = bool(meta_tool(tool)) and not server
    is_request = tool.startswith("mcp.") and not server
    paths, matcher = call_paths(policy, tool, given, client.options.root)
    query = CallQuery(tool, given, paths, matcher, named_only=own or (is_request and not is_vendors(tool)))
    explanation = explain(policy, query)
    request = ToolRequest(
        server=server,
        tool=tool,
        digest=arguments_digest(given),
        effectful=not (own or reads),
        named_only=own or is_request,
        vendor=is_request and is_vendors(tool),
        given=given,
        paths=paths,
        matcher=matcher,
        protected="" if own else _touched(client, tool, given, reads=reads),
    )
    decision = decide(policy, ledger, request, now=client.clock(), workspace=workspace)
    notes = list(_listing_notes(server, tool, known))
    permitted = explanation.answer != "no" or policy.observe
    if isinstance(decision, Block) and decision.reason not in _BY_RULES:
        explanation = Explanation("no", f"would be refused: {decision.message}", explanation.parts)
        notes.append(decision.remedy)
        permitted = False
    elif isinstance(decision, Ask) and decision.doubt:
        explanation = Explanation(
            "ask", f"may be called once a person approves it: {decision.cause}", explanation.parts
        )
    elif isinstance(decision, Forward) and decision.approval:
        explanation = Explanation(
            "yes", f"may be called once: a person has approved it ({decision.approval})", explanation.parts
        )
    elif policy.observe and explanation.answer != "yes":
        notes.append("mode observe blocks nothing: the decision is only recorded")
    return ExplainedCall(full_name(server, tool) if server else asked, server, explanation, permitted, notes)


def _touched(client: clients.ClientContext, tool: str, given: Mapping[str, object], *, reads: bool) -> str:
    """The protected place that the call would touch, as the proxy looks for it."""
    harmless = tool in READING_VERBS or (reads and only_reads(tool))
    return protected_path(dict(given), client.places, tool=tool, reads=harmless) or ""


def _ledger(context: CommandContext) -> Ledger:
    """The state of the task that a call would be made in; an empty one, where there is none yet."""
    try:
        if context.store_or_none() is not None:
            return current_task(context).ledger
    except AdjournError:
        pass
    return Ledger(task="")


def _spent(permissions: Policy, context: CommandContext) -> Mapping[int, int]:
    """What all tasks have spent of the budgets of the workspace; nothing, where there is no store yet."""
    if not permissions.workspace_budgets or context.store_or_none() is None:
        return {}
    return workspace_spent(context.store, permissions.workspace_budgets, context.now)


def _listing_notes(server: str, tool: str, known: KnownTools) -> Iterator[str]:
    """What the lists of the servers say about the name."""
    names = [one.name for one in known.servers.get(server, ())]
    if names and tool not in names:
        near = did_you_mean(tool, names)
        yield f"{server} lists no tool {tool}" + (f"; {near}" if near else "")
    elif known and not server and tool.partition(".")[0] not in _HEADS:
        yield f"no known server lists it: {', '.join(sorted(known.servers))}"


def _decoded(arguments: str) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, object])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise click.UsageError(f"--args is not a JSON object: {error}") from error


# --- showing it


def show(
    answers: Sequence[ExplainedCall], permissions: Policy, *, tool: str, unlooked: bool, as_json: bool
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


def _print(one: ExplainedCall, *, unlooked: bool) -> None:
    found = one.explanation
    say(f"{found.answer}: {safe(one.shown)} {safe(found.why)}", _COLOURS[found.answer])
    for note in one.notes:
        say(f"  {safe(note)}")
    if unlooked:
        say("  this is the answer for a call without arguments; give them with --args JSON")
    for part in found.parts:
        say(f"\n  {part.rule.kind} {safe(part.rule.text)}  {place(part.rule)}")
        say(f"    {safe(part.why)}")


def _print_json(answers: Sequence[ExplainedCall], permissions: Policy, tool: str) -> None:
    told = [_to_json(one, permissions) for one in answers]
    if len(told) == 1:
        say_json({"tool": tool} | told[0])
        return
    strictest = min(told, key=lambda one: ("no", "ask", "yes").index(one["answer"]))
    say_json({"tool": tool} | strictest | {"servers": told})


def _to_json(one: ExplainedCall, permissions: Policy) -> dict[str, Any]:
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
    told |= {"source": rule.source, "line": rule.line}
    return told | ({"under": rule_json(rule.under)} if rule.under else {})


def place(rule: Rule) -> str:
    """Where a rule is written, for people."""
    under = f", under {safe(rule.under.text)}  {place(rule.under)}" if rule.under else ""
    return f"{safe(rule.source)}:{rule.line}{under}"
