"""What would happen to a call now: decided on as the proxy of its server would, in the present state of a task.

A tool goes by either form of its name: `inv.remove_item`, or `remove_item` for the servers that list such a tool.

Owns: `explain_call`. Must never: write, start a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from adjourn.aex.explanation import CallQuery, Explanation, explain
from adjourn.aex.match import OWN_TOOLS, KnownTools, canonical_server, names_own
from adjourn.aex.policy import Policy
from adjourn.clients.client import ClientContext
from adjourn.log.kinds import full_name
from adjourn.policy.calls import READING_VERBS, arguments_digest, call_paths, meta_tool
from adjourn.policy.protected.calls import protected_path
from adjourn.policy.tool_effects import reading_of, shared_words
from adjourn.tasks.decision import Ask, Block, Forward, ToolRequest, WorkspaceState, decide
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.methods import always_passes, is_vendors
from adjourn.text.near_words import did_you_mean

_BY_RULES = ("deny_list", "not_allowed")
_HEADS = frozenset(name.partition(".")[0] for name in OWN_TOOLS)


class ExplainedCall(NamedTuple):
    """The answer about the tool of one server. `permitted`: the call would pass, or a person be asked."""

    shown: str
    server: str
    explanation: Explanation
    permitted: bool
    notes: list[str]


class CallSetting(NamedTuple):
    """What a call is decided on with: the policy, the client with its protected places, the state of its task, what servers list, and what
    all tasks have spent of the budgets of the workspace.
    """

    policy: Policy
    client: ClientContext
    ledger: Ledger
    known: KnownTools
    workspace: Mapping[str, int]


def explain_call(setting: CallSetting, tool: str, given: Mapping[str, object]) -> list[ExplainedCall]:
    """What would happen to a call of the tool; one answer for each server that may be meant."""
    return [_answer(setting, tool, server, name, given) for server, name in _meant(tool, setting.known)]


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
    elif dot and rest and canonical_server(head) and not names_own(name):
        yield canonical_server(head), rest
    else:
        yield "", name


def _answer(
    setting: CallSetting, asked: str, server: str, tool: str, given: Mapping[str, object]
) -> ExplainedCall:
    _, client, ledger, known, workspace = setting
    policy = setting.policy.at_server(server, known)
    if always_passes(tool) and not server:
        return ExplainedCall(
            asked, "", Explanation("yes", "always passes: no session works without it"), True, []
        )
    listed = {one.name: one.read_only for one in known.servers.get(server, ())}
    is_verb, reading = (
        tool in READING_VERBS,
        reading_of(tool, shared_words(listed)) if listed.get(tool) else None,
    )
    own = bool(meta_tool(tool)) and not server
    is_request = tool.startswith("mcp.") and not server
    paths, matcher = call_paths(policy, tool, given, client.options.root)
    query = CallQuery(tool, given, paths, matcher, named_only=own or (is_request and not is_vendors(tool)))
    explanation = explain(policy, query)
    request = ToolRequest(
        server=server,
        tool=tool,
        digest=arguments_digest(given),
        effectful=not (own or is_verb or reading),
        named_only=own or is_request,
        vendor=is_request and is_vendors(tool),
        given=given,
        paths=paths,
        matcher=matcher,
        protected=""
        if own
        else _touched(client, tool, given, reads=is_verb or (reading is not None and reading.named)),
    )
    decision = decide(policy, ledger, request, now=client.clock(), workspace=WorkspaceState(spent=workspace))
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


def _touched(client: ClientContext, tool: str, given: Mapping[str, object], *, reads: bool) -> str:
    """The protected place that the call would touch, as the proxy looks for it."""
    return protected_path(dict(given), client.places, tool=tool, reads=reads) or ""


def _listing_notes(server: str, tool: str, known: KnownTools) -> Iterator[str]:
    """What the lists of the servers say about the name."""
    names = [one.name for one in known.servers.get(server, ())]
    if names and tool not in names:
        near = did_you_mean(tool, names)
        yield f"{server} lists no tool {tool}" + (f"; {near}" if near else "")
    elif known and not server and tool.partition(".")[0] not in _HEADS:
        yield f"no known server lists it: {', '.join(sorted(known.servers))}"
