"""What a policy would have done with the calls that a store has recorded: each is decided on again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

import msgspec

from adjourn.aex.match import NOTHING_KNOWN, KnownTools
from adjourn.aex.policy import Policy
from adjourn.clients.served_tools import known_tools
from adjourn.errors import InvalidError
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import Event, decode, milliseconds
from adjourn.log.kinds import tool_name
from adjourn.policy.calls import call_paths
from adjourn.store.base import Store
from adjourn.tasks.decision import Ask, Block, Forward, ToolRequest, decide
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.methods import is_vendors
from adjourn.tasks.task import tasks_of

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
            decision = decide(policy, ledger, self.place(policy, call), now=milliseconds(event.timestamp))
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
        found = self._stopped.setdefault(key, Stopped(decision=decision, rule=rule, recorded=recorded))
        found.tools[tool] += 1
        found.last = max(found.last, event.timestamp)


def recorded_arguments(data: kinds.ToolAllowed) -> Mapping[str, object] | None:
    """The arguments, where the record has them whole: of calls without effect it has none, unless there were none."""
    try:
        given: object = msgspec.json.decode(data.arguments or "{}")
        whole = isinstance(given, dict) and digest(canonical(given)) == data.digest
    except (msgspec.DecodeError, InvalidError, RecursionError):
        return None
    return given if whole and isinstance(given, dict) else None


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
    for task in sorted(tasks_of(store), reverse=True):  # ids begin with the day
        events = store.head(task).seq + 1
        if max_events and events > room:
            left += 1
            continue
        room -= events
        result.take(task, _events(store, task))
    return ReplayedCalls(result, left)


def _events(store: Store, task: str) -> Iterator[Event]:
    return (decode(entry.data) for entry in verified_entries_from(store, task, 0, store.head(task)))
