"""`adjourn report`: a task as Markdown, or as the page that it has in `adjourn ui`, in one file that needs nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from adjourn import __version__
from adjourn.cli.context import TASK_NAME, CommandContext, at_store, example, flag, for_machines, text_option
from adjourn.cli.output import counted, safe, say, say_json, shown_bytes
from adjourn.cli.task_view import current_task
from adjourn.cli.terminal import ProgressLine
from adjourn.cli.work_report import MAX_EVENTS, MAX_ROWS, ReportSource, WorkReport, collect
from adjourn.errors import UsageError
from adjourn.handover.lanes import session_lanes
from adjourn.handover.task_view import TaskReader, view_of
from adjourn.host.workspace import write_file
from adjourn.log.event import decode
from adjourn.store.base import Head
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.task import Task
from adjourn.text.plot import budget_plot, sparkline
from adjourn.text.redact import visible_line, visible_lines
from adjourn.text.times import utc

MAX_SHOWN_EVENTS = 1_000
"""Events, from the end, that open in the HTML file."""
_HTML = (".html", ".htm")


@click.command(
    epilog=example(
        "adjourn report",
        "adjourn report 20261121 --html --out report.html",
        "adjourn report --md | gh pr comment --body-file -",
    )
)
@click.argument("task", default="", type=TASK_NAME)
@flag("--html", "Write one HTML file that needs nothing else.", dest="as_html")
@flag("--md", "Write Markdown (the default, unless FILE ends with .html).", dest="as_markdown")
@text_option("--out FILE", "Write to FILE, which is replaced (default: print).")
@at_store
@for_machines
def report(context: CommandContext, *, task: str, as_html: bool, as_markdown: bool, out: str, as_json: bool) -> int:
    """Report a task for a pull request or an incident: what it was to do, what was done, and who approved it.

    Goal, budget over time, calls with their outcome, approvals, decisions, checkpoints, what is in doubt, contract and policy, and
    whether the history passes verification. Secrets are replaced, texts of agents are shown as text, and long lists are cut, which is
    said. Without TASK, the same task as `adjourn status`. Exit code 1 when the history fails verification.
    """
    if as_html + as_markdown + as_json > 1:
        raise UsageError("--html, --md and --json exclude each other", "give one of them")
    with ProgressLine("verifying") as progress:
        opened = current_task(context, task)
        work_report = collect(ReportSource(context, opened, progress))
    code = 0 if work_report.check.valid else 1
    if as_json:
        say_json(msgspec.to_builtins(work_report))
        return code
    is_html = as_html or (not as_markdown and out.lower().endswith(_HTML))
    text = as_page(work_report, opened, context.tree) if is_html else render_markdown(work_report)
    if not out:
        say(text.rstrip("\n"))
        return code
    folder, name = os.path.split(os.path.abspath(out))
    data = text.encode()
    write_file(folder, name, data)
    say(f"wrote {safe(out)}: {shown_bytes(len(data))}. {verdict(work_report)}")
    return code


# --- what the templates are given

_LEFT_OUT = {
    "events": "older events, from which calls and approvals are not shown",
    "entries": "older calls and events are not shown",
    "approvals": "older approvals are not shown",
    "checkpoints": "older checkpoints are not shown",
    "decisions": "older decisions are not shown",
    "waiting": "newer things that wait are not shown",
    "findings": "more findings are not shown",
    "unlisted": "older events, from which calls are not listed",
}
_BACKTICKS = re.compile("`+")


class ReportTable(NamedTuple):
    """A table of a report, which is left out without rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def as_page(report: WorkReport, task: Task, tree: str) -> str:
    """The report as one HTML file that needs nothing else: the page of the task, with approvals, decisions and documents."""
    from markupsafe import Markup

    from adjourn.handover.drawing import STYLES, renderer

    store, ledger = task.store, task.ledger
    head = Head(ledger.seq, ledger.hash)
    start, first = max(0, head.seq + 1 - MAX_EVENTS), max(0, head.seq + 1 - MAX_SHOWN_EVENTS)
    events = {entry.hash: decode(entry.data) for entry in verified_entries_from(store, task.id, first, head)}
    view = view_of(store, ledger, events, TaskReader(report.made, tree), is_last=True)
    doubts = [item.id for item in report.waiting if item.kind == "in-doubt"]
    plot = budget_plot("Calls spent over time", report.plotted, report.limit, report.marks)
    moments = view["moments"]
    left_out = report.left_out | {"entries": len(moments) - MAX_ROWS, "unlisted": first}
    values = view | _common(report, left_out) | {
        "served": (),
        "spans": {},
        "is_filtered": False,
        "moments": moments[:MAX_ROWS],
        "plot": Markup(plot),  # noqa: S704  # it escapes every text
        "sessions": session_lanes(verified_entries_from(store, task.id, start, head), doubts),
        "styles": Markup("\n".join(STYLES.values())),  # noqa: S704  # our own
        "tables": _tables(report),
    }  # fmt: skip
    return renderer("adjourn.cli", "file.html")("task.html", values)


def render_markdown(report: WorkReport) -> str:
    """The report as Markdown, for a pull request or a ticket."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 50 ms

    environment = Environment(
        loader=PackageLoader("adjourn.cli"),
        autoescape=False,  # noqa: S701  # `code` and `fenced` leave nothing that counts in Markdown
        undefined=StrictUndefined,
        finalize=lambda value: visible_lines(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"code": _code, "fenced": _fenced}
    return environment.get_template("report.md").render(
        goal=report.goal,
        facts=[
            ("task", report.task),
            ("state", report.state),
            ("clients", ", ".join(report.clients)),
            ("began (UTC)", utc(report.opened)),
            ("last event (UTC)", utc(report.touched)),
            ("calls spent", report.spent),
        ],
        tables=[*_tables(report), *_listed(report)],
        sparkline=sparkline(report.plotted, report.limit),
        **_common(report, report.left_out),
    )


def _common(report: WorkReport, left_out: Mapping[str, int]) -> dict[str, Any]:
    """What both forms say."""
    return {
        "report": report,
        "verdict": verdict(report),
        "documents": [("Contract", report.contract), ("Policy", report.policy)],
        "notes": [*report.notes, *(f"{count:,} {_LEFT_OUT[name]}" for name, count in left_out.items() if count > 0)],
        "version": __version__,
        "made": utc(report.made),
    }


def _tables(report: WorkReport) -> list[ReportTable]:
    return [
        ReportTable(
            "In doubt or waiting for a person",
            ("Since (UTC)", "What", "Title", "About", "Answer"),
            [
                (utc(item.since), item.kind, item.title, item.context, item.commands[0] if item.commands else "")
                for item in report.waiting
            ],
        ),
        ReportTable(
            "Decisions",
            ("Status", "Decision", "By", "Why"),
            [(entry.status, entry.decision, entry.by, entry.rationale) for entry in report.decisions],
        ),
        ReportTable(
            "Approvals",
            ("When (UTC)", "Call", "Answer", "By", "Reason"),
            [
                (
                    utc(approval.at),
                    f"{approval.tool} {approval.argument}".rstrip(),
                    approval.answer,
                    f"{approval.by} ({approval.via})" if approval.by else "",
                    approval.reason,
                )
                for approval in report.approvals
            ],
        ),
    ]


def _listed(report: WorkReport) -> list[ReportTable]:
    """The tables of the Markdown form alone: the HTML form shows these as the page does."""
    return [
        ReportTable(
            "Checkpoints",
            ("When (UTC)", "Name", "Calls", "Description"),
            [
                (
                    utc(checkpoint.at),
                    checkpoint.name,
                    str(checkpoint.calls),
                    checkpoint.description or checkpoint.trigger,
                )
                for checkpoint in report.checkpoints
            ],
        ),
        ReportTable(
            "Calls and events",
            ("When (UTC)", "Outcome", "What", "About", "Note"),
            [(utc(entry.timestamp), entry.label, entry.what, entry.about, entry.note) for entry in report.entries],
        ),
    ]


def verdict(report: WorkReport) -> str:
    """Whether the history is what was written."""
    check = report.check
    counts = f"{counted(check.events, 'event')}, {counted(check.checkpoints, 'signed checkpoint')}"
    return f"Valid: {counts}." if check.valid else f"BROKEN: {counts} are valid. See the findings."


def _code(text: str) -> str:
    """A text on one line as Markdown's code; "" for an empty one."""
    line = " ".join(visible_line(text).replace("`", "'").split())
    return f"`{line}`" if line else ""


def _fenced(text: str) -> str:
    """Lines as Markdown's code: the fence is longer than any in them."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence}text\n{text.rstrip()}\n{fence}"
