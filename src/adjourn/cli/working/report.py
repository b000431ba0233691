"""`adjourn report`."""

from __future__ import annotations

import os

import click
import msgspec

from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import safe, say, say_json, shown_bytes
from adjourn.cli.shared.task_view import current_task
from adjourn.cli.shared.terminal import ProgressLine
from adjourn.cli.working.report_html import to_html
from adjourn.cli.working.report_markdown import to_markdown
from adjourn.cli.working.report_value import ReportSource, collect
from adjourn.cli.working.report_words import verdict
from adjourn.errors import UsageError
from adjourn.host import write_file

_HTML = (".html", ".htm")


@click.command(
    epilog=example(
        "adjourn report",
        "adjourn report 20261121 --html --out report.html",
        "adjourn report --md | gh pr comment --body-file -",
    )
)
@click.argument("task", default="")
@click.option("--html", "as_html", is_flag=True, help="Write one HTML file that needs nothing else.")
@click.option(
    "--md", "as_markdown", is_flag=True, help="Write Markdown (the default, unless FILE ends with .html)."
)
@click.option("--out", metavar="FILE", default="", help="Write to FILE, which is replaced (default: print).")
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
