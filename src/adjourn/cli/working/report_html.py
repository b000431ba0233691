"""A report as one HTML file: it needs nothing from elsewhere, runs nothing, and its policy forbids both.

Owns: that file. Must never: contain a text of others that is not escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from adjourn import __version__
from adjourn.cli.shared.timeline_view import STYLES
from adjourn.cli.working.report_value import WorkReport
from adjourn.cli.working.report_words import left_out, verdict, when
from adjourn.handover import WaitingItem
from adjourn.text import PLOT_STYLE, budget_plot, visible_lines

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
        _list(check.findings),
        _waiting(report.waiting),
        "<h2>Budget</h2>",
        f"<p>{_shown(report.spent)} calls spent.</p>{plot}",
        _table(
            "Decisions",
            ("Status", "Decision", "By", "Why"),
            [(one.status, one.decision, one.by, one.rationale) for one in report.decisions],
        ),
        _table(
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
        _table(
            "Checkpoints",
            ("When (UTC)", "Name", "Calls", "Description"),
            [
                (when(one.at), one.name, str(one.calls), one.description or one.trigger)
                for one in report.checkpoints
            ],
        ),
        _entries(report),
        _document("Contract", report.contract),
        _document("Policy", report.policy),
        _list([*report.notes, *left_out(report)]),
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
    return _table(
        "In doubt or waiting for a person", ("Since (UTC)", "What", "Title", "About", "Answer"), rows
    )


def _entries(report: WorkReport) -> str:
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


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    names = "".join(f"<th>{name}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row) + "</tr>\n" for row in rows)
    return f'<h2>{title}</h2><div class="wide" role="region" aria-label="{title}" tabindex="0"><table><thead><tr>{names}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _document(title: str, text: str) -> str:
    return f"<h2>{title}</h2><pre>{_shown(text)}</pre>" if text else ""


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_shown(line)}</li>" for line in lines) + "</ul>" if lines else ""


def _shown(text: str) -> str:
    return escape(visible_lines(text))
