"""What both forms of a report say in the same words.

Owns: these sentences. Must never: read anything.
"""

from __future__ import annotations

from adjourn.cli.shared.output import counted
from adjourn.cli.working.report_value import WorkReport

_LEFT_OUT = {
    "events": "older events, from which calls and approvals are not shown",
    "entries": "older calls and events are not shown",
    "approvals": "older approvals are not shown",
    "checkpoints": "older checkpoints are not shown",
    "decisions": "older decisions are not shown",
    "waiting": "newer things that wait are not shown",
    "findings": "more findings are not shown",
}


def when(stamp: str) -> str:
    """`2026-05-02 17:30:12`, in UTC, since reports are read elsewhere."""
    return stamp[:19].replace("T", " ")


def verdict(report: WorkReport) -> str:
    """Whether the history is what was written."""
    check = report.check
    what = f"{counted(check.events, 'event')}, {counted(check.checkpoints, 'signed checkpoint')}"
    return f"Valid: {what}." if check.valid else f"BROKEN: {what} are valid. See the findings."


def left_out(report: WorkReport) -> list[str]:
    """What the report does not contain."""
    return [f"{count:,} {_LEFT_OUT[name]}" for name, count in report.left_out.items()]
