"""The names of tools in a hand-over: those that the reader's `tools/list` shows.

Histories and policies name a tool SERVER.TOOL. A client knows it as TOOL, unless two servers of the task have a tool of that name, or
one address serves several servers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from adjourn.handover.calls import RecentCalls
from adjourn.log.kinds import HasTool, tool_name
from adjourn.tasks.ledger import Ledger


class ToolNames:
    """Full name → the name that the reader can call."""

    def __init__(self, ledger: Ledger, seen: Mapping[str, str], *, are_joined: bool = False) -> None:
        """`seen` has full names of tools and their own names. `are_joined`: the reader's list has full names."""
        own = dict(seen)
        known = {key.partition(" ")[2] for key in ledger.definitions}
        for full in ledger.tools:
            tool = full.partition(".")[2]
            if full not in own and full not in known and tool in known:  # a call from before those that were read
                own[full] = tool
        for about in _open(ledger):
            own[tool_name(about)] = about.tool
        names = {*own, *ledger.tools}
        count = Counter(own.get(full, full) for full in names)
        self._own = {full: tool for full, tool in own.items() if count[tool] == 1 and not are_joined}

    def __call__(self, full: str) -> str:
        return self._own.get(full, full)

    def of(self, about: HasTool) -> str:
        """The name of the tool that something is about."""
        return self(tool_name(about))


def _open(ledger: Ledger) -> Iterable[HasTool]:
    for about in (ledger.doubts, ledger.unseen, ledger.approvals, ledger.notable, ledger.open_calls):
        yield from about.values()
    for step in (*ledger.failed.values(), *ledger.red.values()):
        yield step.call


def renamed(recent: RecentCalls, names: ToolNames) -> RecentCalls:
    """The same calls, by the names that the reader can call."""
    own = {full: names(full) for full in {report.tool for report in recent.made.values()}}
    return msgspec.structs.replace(
        recent,
        made={
            key: report if own[report.tool] == report.tool else msgspec.structs.replace(report, tool=own[report.tool])
            for key, report in recent.made.items()
        },
        refused=[msgspec.structs.replace(refusal, tool=names(refusal.tool)) for refusal in recent.refused],
        consents=[msgspec.structs.replace(consent, tool=names(consent.tool)) for consent in recent.consents],
    )
