"""What a policy would have done with the calls that a store has recorded, of all its tasks.

Owns: `replay_calls`. Must never: write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from adjourn.aex import Policy
from adjourn.clients.listed_tools import known_tools
from adjourn.log import Event, decode
from adjourn.policy import call_paths
from adjourn.store import Store
from adjourn.tasks import ToolRequest, WhatIf, following, tasks_of


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
    return (decode(entry.data) for entry in following(store, task, 0, store.head(task)))
