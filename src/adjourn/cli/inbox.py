"""`adjourn inbox`."""

from __future__ import annotations

from itertools import groupby

import click
import msgspec

from adjourn.cli.context import TASK_NAME, CommandContext, at_store, example, flag, for_machines, text_option
from adjourn.cli.output import complain, cut, safe, say, say_facts, say_json
from adjourn.cli.terminal import Spinner, interactive, width
from adjourn.errors import NotFoundError
from adjourn.handover.inbox import URGENCIES, Inbox, KnownStream, WaitingItem, find_waiting
from adjourn.host.keys import reading_secret
from adjourn.knowledge.records.task_record import record_of
from adjourn.text.times import ago, left

_KINDS = {"resume-point": "resume point", "in-doubt": "call in doubt"}
_OPTIONS = {"decision": "variant"}


@click.command(epilog=example("adjourn inbox", "adjourn inbox --task 20261121 --json"))
@text_option("--task TASK", "Show only what waits in this task.", kind=TASK_NAME)
@flag("--list", "Print a list on a terminal, too.", dest="as_list")
@at_store
@for_machines
def inbox(context: CommandContext, *, task: str, as_list: bool, as_json: bool) -> int:
    """Show everything that waits for a person, the most urgent first; on a terminal, answer it with a few keys.

    Approvals of calls, questions, resume points, calls in doubt, contested decisions and blockers, of all tasks in the store: first what
    expires soon, then what a living session waits for. Below, what is wrong with tasks: failed steps, tests and
    builds, edits without a test, spent budgets, results that are gone. TASK is an id or a prefix
    of one. On a terminal: arrow keys or j and k select, a and d answer, ? shows all keys, q quits. Elsewhere, and with --list, each item
    is printed with the commands that answer it. Exit code 1 when a task or record cannot be read.
    """
    name, missing = _task(context, task)
    with Spinner("reading tasks"):
        waiting = _find(context, name)
    if missing and not (waiting.items or waiting.unreadable or record_of(context.store, name)):
        raise missing
    if interactive() and not (as_json or as_list):
        from adjourn.cli.inbox_session import InboxSession  # only for a terminal

        streams: dict[str, KnownStream] = {}
        session = InboxSession(context, lambda: _find(context, name, streams))
        session.run()
        for line in session.answered:
            say(safe(line))
        return 1 if session.unreadable else 0
    if as_json:
        unreadable = [{"name": name, "reason": str(error)} for name, error in waiting.unreadable.items()]
        troubles = [
            {"task": trouble.task, "goal": trouble.goal, **trouble.trouble._asdict()} for trouble in waiting.troubles
        ]
        say_json(
            waiting=[msgspec.to_builtins(item) for item in waiting.items], troubles=troubles, unreadable=unreadable
        )
    else:
        say(counted(len(waiting.items)))
        for urgency, items in groupby(waiting.items, lambda item: item.urgency):
            say(f"\n{URGENCIES[urgency]}")
            for item in items:
                _say(item, context.now)
        if waiting.troubles:
            say("\nWrong, until it is put right")
        for trouble in waiting.troubles:
            say(f"  {safe(trouble.trouble.text)} (task {trouble.task})")
    for name, error in waiting.unreadable.items():
        complain(f"{safe(name)} cannot be read: {error.message}", "`adjourn verify` tells more")
    return 1 if waiting.unreadable else 0


def _find(context: CommandContext, task: str, streams: dict[str, KnownStream] | None = None) -> Inbox:
    secret = reading_secret()
    return find_waiting(context.store, clock=context.clock, secret=secret, task=task, known=streams, tree=context.tree)


def counted(count: int) -> str:
    """`2 things wait for you`."""
    if not count:
        return "nothing waits"
    return f"{count:,} things wait for you" if count > 1 else "1 thing waits for you"


def _task(context: CommandContext, start: str) -> tuple[str, NotFoundError | None]:
    """The id of a task ("" without one), and that no task has it: a record may be of a task whose history is not here."""
    try:
        return (context.task(start).id if start else ""), None
    except NotFoundError as error:
        return start, error


def _say(item: WaitingItem, now: int) -> None:
    kind = _KINDS.get(item.kind, item.kind)
    say(cut(f"\n{kind} {safe(item.id)}  {safe(item.title)}", width() + 1), "bold")
    options = [
        (f"  {_OPTIONS.get(item.kind, 'option')} {number}", option) for number, option in enumerate(item.options)
    ]
    say_facts(
        ("  arguments" if item.kind in ("approval", "in-doubt") else "  context", item.context),
        ("  because", item.cause),
        *options,
        ("  then", "; ".join(item.steps)),
        ("  task", item.task),
        ("  since", ago(item.since, now) + (f", {left(item.until, now)}" if item.until else "")),
    )
    for number, command in enumerate(item.commands):
        say(f"  {'answer' if not number else '    or'}: {safe(command)}")
