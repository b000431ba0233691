"""`adjourn tighten`."""

from __future__ import annotations

import os

import click

from adjourn.aex import discover
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import counted, safe_lines, say, say_json, say_table, unified_diff
from adjourn.cli.shared.terminal import Spinner, print_diff
from adjourn.errors import NotFoundError
from adjourn.log import decode, kinds
from adjourn.policy import paths_of
from adjourn.setup import ToolUse, files, tightened
from adjourn.tasks import following, recorded_arguments, tasks_of


@click.command(
    epilog=example("adjourn tighten", "adjourn tighten --write"),
)
@click.option("--write", is_flag=True, help="Write the proposed policy.")
@at_store
@for_machines
def tighten(*, context: CommandContext, write: bool, as_json: bool) -> int:
    """Propose a narrower policy from the calls that were recorded, as a diff.

    What was never called is no longer allowed, a wildcard becomes the names of the tools that were called, and a tool whose calls
    stayed in one folder gets that folder as its scope. Under `mode observe`, tools that no rule allows are added: with a confirm if
    they write, not at all if their name says that they destroy. Comments and order of the policy stay. Nothing counts as never called
    before 20 calls are recorded.
    """
    path = discover(context.root)
    if path is None:
        raise NotFoundError("there is no policy to tighten", "write one: adjourn init")
    shown = os.path.relpath(path, context.root)
    text = files.read_plain(path, context.root)
    tasks, uses = _recorded(context)
    found = tightened(text, shown, uses)
    diff = unified_diff(text.splitlines(True), found.text.splitlines(True), shown, shown)
    calls = sum(use.calls for use in uses)
    is_written = write and found.text != text
    if is_written:
        files.replace(path, context.root, found.text.encode(), expect=text.encode())
    if as_json:
        changes = [
            {"line": one.line, "rule": one.rule, "calls": one.calls, "proposal": one.text}
            for one in found.proposals
        ]
        say_json(policy=shown, tasks=tasks, calls=calls, changes=changes, diff=diff, written=is_written)
        return 0
    say(
        f"{counted(calls, 'recorded call')} of {counted(tasks, 'task')}: {counted(len(found.proposals), 'proposal')} for {shown}"
    )
    unused = [one for one in found.proposals if one.line and not one.calls]
    rows = [(one.rule, str(one.calls), one.text) for one in found.proposals if one not in unused]
    if unused:
        rows.append((counted(len(unused), "pattern"), "0", unused[0].text))
    if rows:
        say_table(("RULE", "CALLS", "PROPOSAL"), rows)
    if diff:
        say("")
        print_diff(safe_lines(diff))
        say(
            f"\nwritten: {shown}"
            if is_written
            else "\nnothing was changed; write it: adjourn tighten --write"
        )
    return 0


def _recorded(context: CommandContext) -> tuple[int, list[ToolUse]]:
    """How many tasks there are, and the calls of all of them, by tool."""
    uses: dict[tuple[str, str], ToolUse] = {}
    names = sorted(tasks_of(context.store))
    with Spinner("reading the history"):
        for name in names:
            for entry in following(context.store, name, 0, context.store.head(name)):
                data = kinds.data_of(decode(entry.data))
                if isinstance(data, kinds.ToolAllowed) and not data.uncounted:
                    use = uses.setdefault((data.server, data.tool), ToolUse(data.server, data.tool))
                    given = recorded_arguments(data)
                    use.count(paths_of(given, context.tree) if given else ())
    return len(names), list(uses.values())
