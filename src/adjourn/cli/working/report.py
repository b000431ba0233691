"""`adjourn report`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from html import escape

import click
import msgspec

from adjourn import __version__
from adjourn.cli.shared.context import FILE_PATH, TASK_NAME, CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import counted, safe, say, say_json, shown_bytes
from adjourn.cli.shared.task_view import current_task
from adjourn.cli.shared.terminal import ProgressLine
from adjourn.cli.working.report_value import ReportSource, WorkReport, collect
from adjourn.errors import UsageError
from adjourn.handover.inbox import WaitingItem
from adjourn.host.workspace import write_file
from adjourn.text.plot import PLOT_STYLE, budget_plot, sparkline
from adjourn.text.redact import visible_line, visible_lines

_HTML = (".html", ".htm")


@click.command(
    epilog=example(
        "adjourn report",
        "adjourn report 20261121 --html --out report.html",
        "adjourn report --md | gh pr comment --body-file -",
    )
)
@click.argument("task", default="", type=TASK_NAME)
@click.option("--html", "as_html", is_flag=True, help="Write one HTML file that needs nothing else.")
@click.option(
    "--md", "as_markdown", is_flag=True, help="Write Markdown (the default, unless FILE ends with .html)."
)
@click.option(
    "--out",
    metavar="FILE",
    type=FILE_PATH,
    default="",
    help="Write to FILE, which is replaced (default: print).",
)
@at_store
@for_machines
def report(
    context: CommandContext, *, task: str, as_html: bool, as_markdown: bool, out: str, as_json: bool
) -> int:
    """Report a task for a pull request or an incident: what it was to do, what was done, and who approved it.

    Goal, budget over time, calls with their outcome, approvals, decisions, checkpoints, what is in doubt, contract and policy, and
    whether the history passes verification. Secrets are replaced, texts of agents are shown as text, and long lists are cut, which is
    said. Without TASK, the same task as `adjourn status`. Exit code 1 when the history fails verification.
    """
    if as_html + as_markdown + as_json > 1:
        raise UsageError("--html, --md and --json exclude each other", "give one of them")
    with ProgressLine("verifying") as progress:
        made = collect(ReportSource(context, current_task(context, task), progress))
    code = 0 if made.check.valid else 1
    if as_json:
        say_json(msgspec.to_builtins(made))
        return code
    is_html = as_html or (not as_markdown and out.lower().endswith(_HTML))
    text = to_html(made) if is_html else to_markdown(made)
    if not out:
        say(text.rstrip("\n"))
        return code
    folder, name = os.path.split(os.path.abspath(out))
    data = text.encode()
    write_file(folder, name, data)
    say(f"wrote {safe(out)}: {shown_bytes(len(data))}. {verdict(made)}")
    return code


# --- A report as Markdown, for a pull request or a ticket

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


# --- A report as one HTML file

_STYLE = """\
:root { color-scheme: light dark; --page: #fff; --text: #1c1d1f; --muted: #63666c; --line: #dcdcd6; --sunk: #f5f5f2; --accent: #3355d1;
  --good: #17713f; --bad: #b3261e; --amber: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --page: #131417; --text: #e8e9eb; --muted: #9a9ea6; --line: #2e3036; --sunk: #1b1c20;
  --accent: #8aa4ff; --good: #6fd39a; --bad: #ff9c93; --amber: #f0c063; } }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; white-space: pre-wrap; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; }
pre { background: var(--sunk); padding: .75rem; border-radius: 6px; overflow: auto; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; } dt, .muted { color: var(--muted); } dd { margin: 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 500; } th, td:first-child { white-space: nowrap; } td { overflow-wrap: break-word; } .when { white-space: nowrap; color: var(--muted); } td.label { white-space: nowrap; font-weight: 600; }
.green { color: var(--good); } .red { color: var(--bad); } .yellow { color: var(--amber); } .cyan { color: var(--accent); }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
@media print { body { max-width: none; } }
"""


def to_html(report: WorkReport) -> str:
    """The file."""
    plot = budget_plot("Calls spent over time", report.plotted, report.limit, report.marks)
    check = report.check
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">',
        f"<title>{_shown(report.task)}</title>",
        f"<style>\n{_STYLE}{PLOT_STYLE}</style></head><body>",
        f"<h1>{_shown(report.goal) or 'Task'}</h1>",
        _facts(report),
        f'<h2>Verification</h2><p class="{"green" if check.valid else "red"}">{_shown(verdict(report))}</p>',
        _report_html_list(check.findings),
        _waiting(report.waiting),
        "<h2>Budget</h2>",
        f"<p>{_shown(report.spent)} calls spent.</p>{plot}",
        _report_html_table(
            "Decisions",
            ("Status", "Decision", "By", "Why"),
            [(one.status, one.decision, one.by, one.rationale) for one in report.decisions],
        ),
        _report_html_table(
            "Approvals",
            ("When (UTC)", "Call", "Answer", "By", "Reason"),
            [
                (
                    when(one.at),
                    f"{one.tool} {one.argument}".rstrip(),
                    one.answer,
                    f"{one.by} ({one.via})" if one.by else "",
                    one.reason,
                )
                for one in report.approvals
            ],
        ),
        _report_html_table(
            "Checkpoints",
            ("When (UTC)", "Name", "Calls", "Description"),
            [
                (when(one.at), one.name, str(one.calls), one.description or one.trigger)
                for one in report.checkpoints
            ],
        ),
        _entries(report),
        _report_html_document("Contract", report.contract),
        _report_html_document("Policy", report.policy),
        _report_html_list([*report.notes, *left_out(report)]),
        f'<p class="muted">adjourn {__version__}, {_shown(when(report.made))} UTC</p></body></html>',
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _facts(report: WorkReport) -> str:
    rows = (
        ("Task", report.task), ("State", report.state), ("Clients", ", ".join(report.clients)),
        ("Began (UTC)", when(report.opened)), ("Last event (UTC)", when(report.touched)),
    )  # fmt: skip
    return (
        "<dl>"
        + "".join(f"<dt>{name}</dt><dd>{_shown(value)}</dd>" for name, value in rows if value)
        + "</dl>"
    )


def _waiting(items: Sequence[WaitingItem]) -> str:
    rows = [
        (when(one.since), one.kind, one.title, one.context, one.commands[0] if one.commands else "")
        for one in items
    ]
    return _report_html_table(
        "In doubt or waiting for a person", ("Since (UTC)", "What", "Title", "About", "Answer"), rows
    )


def _entries(report: WorkReport) -> str:
    from adjourn.cli.working.log import STYLES

    rows = "".join(
        f'<tr><td class="when">{_shown(when(one.timestamp))}</td>'
        f'<td class="label {STYLES.get(one.label, "").rpartition(" ")[2] or "muted"}">{_shown(one.label)}</td>'
        f'<td><code>{_shown(one.what)}</code></td><td>{_shown(one.about)}</td><td class="muted">{_shown(one.note)}</td></tr>\n'
        for one in report.entries
    )
    return (
        f'<h2>Calls and events</h2><div class="wide" role="region" aria-label="Calls and events" tabindex="0"><table><tbody>\n{rows}</tbody></table></div>'
        if rows
        else ""
    )


def _report_html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    names = "".join(f"<th>{name}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row) + "</tr>\n" for row in rows)
    return f'<h2>{title}</h2><div class="wide" role="region" aria-label="{title}" tabindex="0"><table><thead><tr>{names}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _report_html_document(title: str, text: str) -> str:
    return f"<h2>{title}</h2><pre>{_shown(text)}</pre>" if text else ""


def _report_html_list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_shown(line)}</li>" for line in lines) + "</ul>" if lines else ""


def _shown(text: str) -> str:
    return escape(visible_lines(text))


# --- what both forms of a report say in the same words

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
