"""`adjourn effective --replay`: what the policy would have stopped, of all that was recorded.

Owns: how that is shown. Must never: write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from adjourn.cli.shared.context import CommandContext
from adjourn.cli.shared.output import say, say_json, say_table
from adjourn.cli.shared.terminal import Spinner
from adjourn.clients import known_tools
from adjourn.log import decode
from adjourn.policy import call_paths
from adjourn.tasks import WhatIf, following, tasks_of
from adjourn.text import ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adjourn.aex import Policy
    from adjourn.log import Event
    from adjourn.store import Store
    from adjourn.tasks import Stopped, ToolRequest

_WORDS = {"block": "refuse", "ask": "ask", "replay": "replay"}
MAX_TOOLS = 4


def show_replay(policy: Policy, *, as_json: bool) -> int:
    """Show which recorded calls of all tasks in the workspace's store the policy would have stopped. Returns the exit code."""
    context = CommandContext()
    result = _replayed(policy, context)
    rows = sorted(result.stopped, key=lambda row: (row.recorded, -row.calls, row.rule))
    if as_json:
        say_json(judged=result.judged, untold=result.untold, rules=[_to_json(row) for row in rows])
        return 0
    would = [row for row in rows if not row.recorded]
    refused = sum(row.calls for row in would if row.decision == "block")
    asked = sum(row.calls for row in would if row.decision == "ask")
    say(f"of {result.judged} recorded calls this policy would refuse {refused}, and ask about {asked}")
    _section("", would, context.now)
    _section("\nRecorded by a policy in mode observe:", [row for row in rows if row.recorded], context.now)
    if result.untold:
        say(
            f"\n{result.untold.total()} could not be evaluated, because their arguments were not recorded in full:"
        )
        say("  " + _tools(result.untold.most_common()))
    return 0


def _replayed(policy: Policy, context: CommandContext) -> WhatIf:
    root = context.tree

    def placed(at_server: Policy, call: ToolRequest) -> ToolRequest:
        paths, matcher = call_paths(at_server, call.tool, call.given, root)
        return msgspec.structs.replace(call, paths=paths, matcher=matcher)

    result = WhatIf(policy, placed, known_tools(context.store))
    with Spinner("judging the recorded calls"):
        for task in sorted(tasks_of(context.store)):
            result.take(task, _events(context.store, task))
    return result


def _events(store: Store, task: str) -> Iterator[Event]:
    return (decode(entry.data) for entry in following(store, task, 0, store.head(task)))


def _section(title: str, rows: Sequence[Stopped], now: int) -> None:
    if not rows:
        return
    if title:
        say(title)
    shown = [
        (_WORDS[row.decision], str(row.calls), ago(row.last, now), _tools(row.tools.most_common()), row.rule)
        for row in rows
    ]
    say_table(("", "calls", "last", "tools", "rule"), shown)


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
