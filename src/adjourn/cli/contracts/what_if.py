"""`adjourn effective --replay`: what the policy would have stopped, of all that was recorded.

Owns: how that is shown. Must never: write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjourn.cli.shared.context import CommandContext
from adjourn.cli.shared.output import say, say_json, say_table
from adjourn.cli.shared.terminal import Spinner
from adjourn.clients import replay_calls
from adjourn.text import ago

if TYPE_CHECKING:
    from adjourn.aex import Policy
    from adjourn.tasks import Stopped

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
        say(
            f"\n{result.untold.total()} could not be evaluated, because their arguments were not recorded in full:"
        )
        say("  " + _tools(result.untold.most_common()))
    return 0


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
