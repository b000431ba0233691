"""A report as Markdown, for a pull request or a ticket.

Texts of agents, servers and people stand in code, where no mention, link, picture or HTML counts.

Owns: that text. Must never: contain a text of others outside of code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from adjourn import __version__
from adjourn.cli.working.report_value import WorkReport
from adjourn.cli.working.report_words import left_out, verdict, when
from adjourn.text import sparkline, visible_line

_TICKS = re.compile("`+")


def to_markdown(report: WorkReport) -> str:
    """The text."""
    goal, *more = report.goal.split("\n")
    rows = (
        ("task", report.task), ("state", report.state), ("clients", ", ".join(report.clients)),
        ("began (UTC)", when(report.opened)), ("last event (UTC)", when(report.touched)),
        ("calls spent", report.spent), ("over time", sparkline(report.plotted, report.limit)),
    )  # fmt: skip
    parts = [
        f"# {_code(goal) or 'Task'}",
        _fenced("\n".join(more)),
        "\n".join(f"- {name}: {_code(value)}" for name, value in rows if value),
        f"**{verdict(report)}**",
        _list(report.check.findings),
        _table(
            "In doubt or waiting for a person",
            ("what", "title", "answer"),
            [(one.kind, one.title, one.commands[0] if one.commands else "") for one in report.waiting],
        ),
        _table(
            "Decisions",
            ("decision", "status", "by", "why"),
            [(one.decision, one.status, one.by, one.rationale) for one in report.decisions],
        ),
        _table(
            "Approvals",
            ("when (UTC)", "call", "answer", "by", "reason"),
            [
                (when(one.at), f"{one.tool} {one.argument}".rstrip(), one.answer, one.by, one.reason)
                for one in report.approvals
            ],
        ),
        _table(
            "Checkpoints",
            ("when (UTC)", "name", "calls", "description"),
            [
                (when(one.at), one.name, str(one.calls), one.description or one.trigger)
                for one in report.checkpoints
            ],
        ),
        _table(
            "Calls and events",
            ("when (UTC)", "outcome", "what", "about", "note"),
            [(when(one.timestamp), one.label, one.what, one.about, one.note) for one in report.entries],
        ),
        _document("Contract", report.contract),
        _document("Policy", report.policy),
        _list([*report.notes, *left_out(report)]),
        f"Made by adjourn {__version__}, {when(report.made)} UTC.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [
        " | ".join(head),
        " | ".join("---" for _ in head),
        *(" | ".join(map(_cell, row)) for row in rows),
    ]
    return f"## {title}\n\n" + "\n".join(f"| {line} |" for line in lines)


def _cell(text: str) -> str:
    return _code(text.replace("|", "¦"))


def _code(text: str) -> str:
    """A text on one line as code; "" for an empty one."""
    line = " ".join(visible_line(text).replace("`", "'").split())
    return f"`{line}`" if line else ""


def _fenced(text: str) -> str:
    """Lines as code: the fence is longer than any in them."""
    if not text.strip():
        return ""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def _document(title: str, text: str) -> str:
    return f"## {title}\n\n{_fenced(text)}" if text.strip() else ""


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_code(line)}" for line in lines)
