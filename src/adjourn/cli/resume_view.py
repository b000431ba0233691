"""What `adjourn resume` prints, and its start without the command-line framework.

This module and what it imports at its top do not import click.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjourn.cli.output import (
    complain,
    counted,
    cut,
    described,
    facts,
    imported_line,
    safe,
    say,
    say_facts,
    say_json,
    say_prose,
)
from adjourn.cli.start import StoreContext, run_plain
from adjourn.cli.terminal import width
from adjourn.errors import UsageError
from adjourn.handover.rendering import MAX_ROOM, MIN_ROOM, ROOM
from adjourn.host.keys import reading_secret
from adjourn.text.fitting import fit_text
from adjourn.text.times import ago

if TYPE_CHECKING:
    from adjourn.handover.rendering import Handover
    from adjourn.tasks.task import Task

LINES_BESIDE = 200
"""Bytes of the first line and the last one, at the most."""


def run(arguments: list[str]) -> int | None:
    """Run `adjourn resume` and return its exit code; None if only the framework can read the arguments."""

    def work(context: StoreContext, values: dict[str, str]) -> int | None:
        return show(
            context,
            values[""],
            more=values["--more"],
            room=int(values["--brief-bytes"] or ROOM),
            verdict=bool(values["--verdict"]),
            as_json=bool(values["--json"]),
        )

    def is_plain(values: dict[str, str]) -> bool:
        size = values["--brief-bytes"]
        return not size or (size.isascii() and size.isdecimal() and MIN_ROOM <= int(size) <= MAX_ROOM)

    return run_plain(arguments, ("--more", "--brief-bytes"), ("--verdict",), work, is_plain)


def show(context: StoreContext, name: str, *, more: str, room: int, verdict: bool, as_json: bool) -> int | None:
    """Print what a session that resumes the checkpoint `name` receives, in at most `room` bytes; returns the exit code of a `verdict`.

    `more` is the cursor of older history, "" for the hand-over.
    """
    if verdict:
        if name:
            raise UsageError("--verdict is about the whole workspace", "leave out NAME")
        return _print_verdict(context, as_json=as_json)
    from adjourn.handover.resumption import Preview
    from adjourn.handover.resumption import resume as handover_resume

    reader = Preview(lambda: context.store, context.root, context.clock, reading_secret(), context.tree)
    if not name and context.store_or_none() is not None:
        from adjourn.handover.pending import open_work

        listed = open_work(context.store, context.clock, reading_secret(), context.tree)
        if len(listed) > 1 or (listed and not listed[0][1]):
            _print_open(listed, as_json=as_json)
            return None
        name = listed[0][1] if listed else ""
    if not name:
        from adjourn.cli.lookup import only_checkpoint  # says what can be named

        name = only_checkpoint(context)
    resumed = handover_resume(reader, name)
    if as_json:
        say_json(resumed.to_json(more, room))
    elif more:
        _print_history(resumed.to_json(more, room))
    else:
        _print(resumed.handover(), context.now, room)

    sessions = resumed.task.ledger.sessions
    if holders := resumed.holders():
        from adjourn.cli.task_view import who

        names = list(dict.fromkeys(who(sessions[holder]) for holder in holders))
        complain(
            f"task {resumed.task.id} is held by {safe(' and by '.join(names))}",
            f"another client's resume is refused until {'those sessions end' if names[1:] else 'that session ends'}, "
            "or it starts with --take-over",
        )
    return None


VERDICTS = {"resume": 0, "nothing": 4, "wait": 5, "settle": 6, "ask": 7}
"""The exit code of each verdict."""


def _print_verdict(context: StoreContext, *, as_json: bool) -> int:
    from adjourn.handover.inbox import find_waiting
    from adjourn.handover.pending import WorkVerdict, verdict_of

    found = WorkVerdict("nothing", "no session has run here yet")
    if (store := context.store_or_none()) is not None:
        secret = reading_secret()
        waiting = find_waiting(store, clock=context.clock, secret=secret)
        found = verdict_of(store, context.clock, secret, context.tree, waiting.items)
    if as_json:
        say_json({name: value for name, value in found._asdict().items() if value})
    else:
        say(f"{found.verdict}: {safe(found.why)}")
        if found.command:
            say(f"  {safe(found.command)}")
    return VERDICTS[found.verdict]


def _print(handover: Handover, now: int, room: int) -> None:
    from adjourn.handover.rendering import to_lines

    left_over = "" if handover.calls_left is None else f", {handover.calls_left} left"
    unsure = f"; {handover.doubts} in doubt" if handover.doubts else ""
    say_prose(
        f"{handover.name}: task {safe(handover.task)}, {counted(handover.calls_used, 'call')} used{left_over}{unsure}",
        "bold",
    )
    key = handover.untrusted_signer
    rows = (
        ("state", handover.state),
        ("last session", handover.worked),
        ("as of", handover.as_of),
        ("goal", handover.goal),
        ("asked", handover.asked),
        ("policy goal", handover.policy_goal),
        ("mission", handover.mission),
        ("description", described(fit_text(handover.description, room // 10), "" if key else "trusted", key)),
        ("made", ago(handover.made, now)),
        ("imported", imported_line(dict(handover.imported) if handover.imported else None)),
    )
    for note in handover.notes:
        complain(safe(note))
    say_facts(*rows)
    left = room - len(facts(rows).encode()) - LINES_BESIDE
    for line in to_lines(handover, left, lambda text: facts([("-", text)])):
        title = line.removeprefix("## ")
        if title != line:
            say("")
        say_prose(title, "bold") if title != line else say(line)
    say("")
    say(f"history: adjourn resume {handover.name} --more {handover.events}")


def _print_open(listed: list[tuple[Task, str]], *, as_json: bool) -> None:
    from adjourn.handover.pending import RANKS, open_line, rank_of

    if as_json:
        say_json(
            open=[
                {
                    "name": name,
                    "task": task.id,
                    "goal": task.ledger.goal,
                    "why": RANKS[rank_of(task)],
                    "touched": task.ledger.touched,
                }
                for task, name in listed
            ]
        )
        return
    say_prose(counted(len(listed), "open task") + ", the most important first", "bold")
    for task, name in listed:
        say(cut(f"  {safe(open_line(task, name))}", width()))
    say("resume one: adjourn resume NAME")


def _print_history(answer: dict[str, Any]) -> None:
    say("what happened")
    for entry in answer["auditSummary"]:
        about = " ".join(f"{value}" for value in entry["data"].values())
        say(cut(f"  {safe(entry['event']):<18} {safe(about)}", width()))
    if "more" in answer:
        say(f"  older: adjourn resume {answer['name']} --more {answer['more']}")
