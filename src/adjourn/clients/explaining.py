"""What a policy would do: to a call that is made now, decided on as the proxy of its server would, and to the calls that are recorded.

A tool goes by either form of its name: `inv.remove_item`, or `remove_item` for the servers that list such a tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

import msgspec

from adjourn.aex.explanation import CallQuery, Explanation, explain
from adjourn.aex.match import NOTHING_KNOWN, OWN_TOOLS, KnownTools, canonical_server, meta_tool, names_own
from adjourn.aex.policy import Policy
from adjourn.clients.client_process import ClientOptions
from adjourn.clients.served_tools import known_tools
from adjourn.errors import InvalidError
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import Event, decode, milliseconds
from adjourn.log.kinds import full_name, tool_name
from adjourn.policy.calls import READING_VERBS, arguments_digest, call_paths
from adjourn.policy.protected.calls import protected_path
from adjourn.policy.tool_effects import reading_of, shared_words
from adjourn.store.base import Store
from adjourn.tasks.decision import Ask, Block, Circumstances, Forward, ToolRequest, WorkspaceState, decide
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.methods import always_passes, is_vendors
from adjourn.tasks.task import tasks_of
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
    """What a call is decided on with: the policy, the client's settings with its protected places, the time in milliseconds, the state of
    its task, what servers list, and what all tasks have spent of the budgets of the workspace.
    """

    policy: Policy
    options: ClientOptions
    now: int
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
    head, dot, text = name.partition(".")
    if dot and canonical_server(head) in known.servers:
        yield canonical_server(head), text
    elif servers := known.with_tool(name):
        if name in OWN_TOOLS:
            yield "", name
        yield from ((server, name) for server in servers)
    elif dot and text and canonical_server(head) and not names_own(name):
        yield canonical_server(head), text
    else:
        yield "", name


def _answer(setting: CallSetting, text: str, server: str, tool: str, given: Mapping[str, object]) -> ExplainedCall:
    _, options, now, ledger, tools, workspace = setting
    policy = setting.policy.at_server(server, tools)
    if always_passes(tool) and not server:
        return ExplainedCall(text, "", Explanation("yes", "always passes: no session works without it"), True, [])
    listed = {known_tool.name: known_tool.read_only for known_tool in tools.servers.get(server, ())}
    is_verb, reading = (tool in READING_VERBS, reading_of(tool, shared_words(listed)) if listed.get(tool) else None)
    own = bool(meta_tool(tool)) and not server
    is_request = tool.startswith("mcp.") and not server
    paths, matcher = call_paths(policy, tool, given, options.root)
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
        else _touched(options, tool, given, reads=is_verb or (reading is not None and reading.named)),
    )
    decision = decide(policy, ledger, request, Circumstances(now=now, workspace=WorkspaceState(spent=workspace)))
    notes = list(_listing_notes(server, tool, tools))
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
    return ExplainedCall(full_name(server, tool) if server else text, server, explanation, permitted, notes)


def _touched(options: ClientOptions, tool: str, given: Mapping[str, object], *, reads: bool) -> str:
    """The protected place that the call would touch, as the proxy looks for it."""
    return protected_path(dict(given), options.places_under(options.contract), tool=tool, reads=reads) or ""


def _listing_notes(server: str, tool: str, known: KnownTools) -> Iterator[str]:
    """What the lists of the servers say about the name."""
    names = [known_tool.name for known_tool in known.servers.get(server, ())]
    if names and tool not in names:
        near = did_you_mean(tool, names)
        yield f"{server} lists no tool {tool}" + (f"; {near}" if near else "")
    elif known and not server and tool.partition(".")[0] not in _HEADS:
        yield f"no known server lists it: {', '.join(sorted(known.servers))}"


# --- what a policy would have done with the calls that a store has recorded

Place = Callable[[Policy, ToolRequest], ToolRequest]
"""Adds the places that a call leads to, where the policy wants to know them (`policy.call_paths`)."""


class Stopped(msgspec.Struct, kw_only=True):
    """What one rule would have stopped (`recorded` false), or was seen to while it observed. `last` is a time stamp."""

    decision: str
    rule: str
    recorded: bool
    tools: Counter[str] = msgspec.field(default_factory=Counter)
    last: str = ""

    @property
    def calls(self) -> int:
        return self.tools.total()


class WhatIf:
    """The calls of any number of tasks under one policy.

    `judged` could be decided on again; `untold` are those that could not, by tool; `stopped` is what each rule would have
    stopped.
    """

    def __init__(self, policy: Policy, place: Place, known: KnownTools = NOTHING_KNOWN) -> None:
        self.policy = policy
        self.place = place
        self.judged = 0
        self.untold: Counter[str] = Counter()
        self._at = cache(partial(policy.at_server, known=known))
        self._stopped: dict[tuple[str, str, bool], Stopped] = {}

    @property
    def stopped(self) -> list[Stopped]:
        return list(self._stopped.values())

    def count(self, decision: str) -> int:
        """How many calls the policy would have met with a decision (`block`, `ask`), beside what was recorded of one that observed."""
        return sum(row.calls for row in self.stopped if row.decision == decision and not row.recorded)

    def take(self, task: str, events: Iterable[Event]) -> None:
        """Decide again on the calls of one task, in their order."""
        ledger = Ledger(task=task)
        for event in events:
            data = kinds.data_of(event)
            if isinstance(data, kinds.PolicyObserved):
                self._count(event, data.decision, data.rule or data.reason, tool_name(data), recorded=True)
            if isinstance(data, kinds.ToolAllowed):
                data = self._again(ledger, event, data)
            ledger.seq, ledger.hash = event.seq - 1, event.after  # whether it is a chain is for others to say
            ledger.apply(event, event.after, data)

    def _again(self, ledger: Ledger, event: Event, data: kinds.ToolAllowed) -> kinds.ToolAllowed:
        """The intent as it would have been under the policy: counted for its limits, or not at all."""
        given, name = recorded_arguments(data), tool_name(data)
        policy = self._at(data.server)
        if given is None and policy.looks_at_arguments(data.tool) and policy.visible(data.tool):
            self.untold[name] += 1
            return msgspec.structs.replace(data, limits=[])
        call = ToolRequest(
            server=data.server,
            tool=data.tool,
            digest=data.digest,
            effectful=False,
            named_only=data.uncounted,
            vendor=data.uncounted and is_vendors(data.tool),
            given=given or {},
        )
        try:
            decision = decide(
                policy, ledger, self.place(policy, call), Circumstances(now=milliseconds(event.timestamp))
            )
        except InvalidError:  # an event made elsewhere, at no time
            self.untold[name] += 1
            return data
        self.judged += 1
        found = decision.observed if isinstance(decision, Forward) and decision.observed else decision
        if isinstance(found, Block):
            self._count(event, "block", found.rule or found.reason, name)
            return msgspec.structs.replace(data, limits=[], uncounted=True)
        if isinstance(found, Ask) and not data.approval:
            self._count(event, "ask", found.cause, name)
        limits = list(decision.limits) if isinstance(decision, Forward) else []
        return msgspec.structs.replace(data, limits=limits)

    def _count(self, event: Event, decision: str, rule: str, tool: str, *, recorded: bool = False) -> None:
        key = (decision, rule, recorded)
        setdefault = self._stopped.setdefault(key, Stopped(decision=decision, rule=rule, recorded=recorded))
        setdefault.tools[tool] += 1
        setdefault.last = max(setdefault.last, event.timestamp)


def recorded_arguments(data: kinds.ToolAllowed) -> Mapping[str, object] | None:
    """The arguments, where the record has them whole: of calls without effect it has none, unless there were none."""
    try:
        value: object = msgspec.json.decode(data.arguments or "{}")
        whole = isinstance(value, dict) and digest(canonical(value)) == data.digest
    except (msgspec.DecodeError, InvalidError, RecursionError):
        return None
    return value if whole and isinstance(value, dict) else None


class ReplayedCalls(NamedTuple):
    """The outcome, and how many tasks were left out, because they have too many events."""

    outcome: WhatIf
    left: int


def replay_calls(store: Store, policy: Policy, tree: str, *, max_events: int = 0) -> ReplayedCalls:
    """Decide again on the recorded calls; paths in them are of the work tree `tree`.

    `max_events` bounds what is read, whole tasks at a time, those that were begun last first; 0: everything. Raises `StoreError`.
    """

    def placed(at_server: Policy, call: ToolRequest) -> ToolRequest:
        paths, matcher = call_paths(at_server, call.tool, call.given, tree)
        return msgspec.structs.replace(call, paths=paths, matcher=matcher)

    result, left, room = WhatIf(policy, placed, known_tools(store)), 0, max_events
    for task in sorted(tasks_of(store), reverse=True):  # ids start with the day
        events = store.head(task).seq + 1
        if max_events and events > room:
            left += 1
            continue
        room -= events
        result.take(task, _events(store, task))
    return ReplayedCalls(result, left)


def _events(store: Store, task: str) -> Iterator[Event]:
    for entry in verified_entries_from(store, task, 0, store.head(task)):
        yield from kinds.facts_of(decode(entry.data))
