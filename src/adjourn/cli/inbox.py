"""`adjourn inbox`."""

from __future__ import annotations

import click
import msgspec

from adjourn.cli.context import TASK_NAME, CommandContext, at_store, example, for_machines
from adjourn.cli.output import complain, cut, safe, say, say_facts, say_json
from adjourn.cli.terminal import Spinner, interactive, width
from adjourn.errors import NotFoundError
from adjourn.handover.inbox import Inbox, KnownStream, WaitingItem, find_waiting
from adjourn.host.keys import reading_secret
from adjourn.knowledge.records.task_record import record_of
from adjourn.text.times import ago, left

_KINDS = {"resume-point": "resume point", "in-doubt": "call in doubt"}
_OPTIONS = {"decision": "variant"}


@click.command(epilog=example("adjourn inbox", "adjourn inbox --task 20261121 --json"))
@click.option("--task", metavar="TASK", type=TASK_NAME, default="", help="Show only what waits in this task.")
@click.option("--list", "as_list", is_flag=True, help="Print a list on a terminal, too.")
@at_store
@for_machines
def inbox(context: CommandContext, *, task: str, as_list: bool, as_json: bool) -> int:
    """Show everything that waits for a person, oldest first; on a terminal, answer it with a few keys.

    Approvals of calls, questions, resume points, calls in doubt, contested decisions and blockers, of all tasks in the store. TASK is
    an id or a beginning of one. On a terminal: arrow keys or j and k select, a and d answer, ? shows all keys, q quits. Elsewhere, and
    with --list, each item is printed with the commands that answer it. Exit code 1 when a task or record cannot be read.
    """
    name, missing = _task(context, task)
    with Spinner("reading tasks"):
        found = _find(context, name)
    if missing and not (found.items or found.unreadable or record_of(context.store, name)):
        raise missing
    if interactive() and not (as_json or as_list):
        from adjourn.cli.inbox_session import InboxSession  # only for a terminal

        known: dict[str, KnownStream] = {}
        session = InboxSession(context, lambda: _find(context, name, known))
        session.run()
        for said in session.answered:
            say(safe(said))
        return 1 if session.unreadable else 0
    if as_json:
        unreadable = [{"name": name, "reason": str(error)} for name, error in found.unreadable.items()]
        say_json(waiting=[msgspec.to_builtins(one) for one in found.items], unreadable=unreadable)
    else:
        say(counted(len(found.items)))
        for one in found.items:
            _say(one, context.now)
    for name, error in found.unreadable.items():
        complain(f"{safe(name)} cannot be read: {error.message}", "`adjourn verify` tells more")
    return 1 if found.unreadable else 0


def _find(context: CommandContext, task: str, known: dict[str, KnownStream] | None = None) -> Inbox:
    return find_waiting(context.store, clock=context.clock, secret=reading_secret(), task=task, known=known)


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


def _say(one: WaitingItem, now: int) -> None:
    kind = _KINDS.get(one.kind, one.kind)
    say(cut(f"\n{kind} {safe(one.id)}  {safe(one.title)}", width() + 1), "bold")
    options = [
        (f"  {_OPTIONS.get(one.kind, 'option')} {number}", option)
        for number, option in enumerate(one.options)
    ]
    say_facts(
        ("  arguments" if one.kind in ("approval", "in-doubt") else "  context", one.context),
        ("  because", one.cause),
        *options,
        ("  then", "; ".join(one.steps)),
        ("  task", one.task),
        ("  since", ago(one.since, now) + (f", {left(one.until, now)}" if one.until else "")),
    )
    for number, command in enumerate(one.commands):
        say(f"  {'answer' if not number else '    or'}: {safe(command)}")
