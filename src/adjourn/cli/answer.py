"""`adjourn approve` and `adjourn deny`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from adjourn.cli.output import facts, safe, say, say_json
from adjourn.cli.place import Place, at_store, example, for_machines, person
from adjourn.errors import AdjournError, NotFoundError

if TYPE_CHECKING:
    from adjourn.state.ledger import Approval


@click.command(epilog=example("adjourn approve", "adjourn approve k3f9q2"))
@click.argument("question", default="")
@at_store
@for_machines
def approve(place: Place, question: str, *, as_json: bool) -> None:
    """Say yes to a call that waits for a person; without QUESTION, list what waits.

    QUESTION is its id or a beginning of it. A yes counts once, for this tool with these arguments, until the time shown. A call
    that still waits goes on at once; one that was given up passes when the agent repeats it.
    """
    _answer(place, question, yes=True, as_json=as_json)


@click.command(epilog=example("adjourn deny k3f9q2"))
@click.argument("question", default="")
@at_store
@for_machines
def deny(place: Place, question: str, *, as_json: bool) -> None:
    """Say no to a call that waits for a person; without QUESTION, list what waits.

    Takes back a yes that was not used yet, too.
    """
    _answer(place, question, yes=False, as_json=as_json)


def _answer(place: Place, start: str, *, yes: bool, as_json: bool) -> None:
    from adjourn.cli.view import question as as_told  # noqa: PLC0415  # not for --help
    from adjourn.cli.when import left  # noqa: PLC0415
    from adjourn.engine.session import answer  # noqa: PLC0415

    waiting = _open(place)
    if not start:
        _list([(task, asked) for task, asked in waiting if not asked.approved], place.now, as_json=as_json)
        return
    task, asked = _one(waiting, start)
    answer(place.writable(task), asked.id, yes=yes, via="cli", by=person())
    if as_json:
        say_json(as_told(asked, task) | {"answer": "approved" if yes else "denied"})
        return
    what = f"{safe(asked.tool)} {safe(asked.arguments)}".rstrip()
    say(f"{'approved' if yes else 'denied'}: {what}", "green" if yes else "red")
    if yes:
        say(f"  task {task}; counts once, {left(asked.expires, place.now)}")


def _open(place: Place) -> list[tuple[str, Approval]]:
    """Questions of all tasks that can still be answered, the newest last."""
    from adjourn.cli.view import each_task  # noqa: PLC0415
    from adjourn.log.event import timestamp  # noqa: PLC0415

    stamp = timestamp(place.now)
    found = []
    for name, task in each_task(place):
        if not isinstance(task, AdjournError):
            found += [(name, asked) for asked in task.ledger.approvals.values() if asked.expires > stamp]
    return sorted(found, key=lambda pair: pair[1].asked)


def _one(waiting: list[tuple[str, Approval]], start: str) -> tuple[str, Approval]:
    found = [pair for pair in waiting if pair[1].id == start] or [
        pair for pair in waiting if pair[1].id.startswith(start)
    ]
    if len(found) != 1:
        count = f"{len(found)} questions begin with {start!r}" if found else f"no open question is {start!r}"
        raise NotFoundError(
            count, "`adjourn approve` lists them; an expired one is asked anew when the call is repeated"
        )
    return found[0]


def _list(waiting: list[tuple[str, Approval]], now: int, *, as_json: bool) -> None:
    from adjourn.cli.view import question as as_told  # noqa: PLC0415
    from adjourn.cli.when import left  # noqa: PLC0415

    if as_json:
        say_json({"questions": [as_told(asked, task) for task, asked in waiting]})
        return
    if not waiting:
        say("nothing waits for an answer")
        return
    say(f"{len(waiting)} waiting: `adjourn approve ID`, or `adjourn deny ID`")
    for task, asked in waiting:
        say(f"\n{asked.id}  {safe(asked.tool)}")
        refused = (
            f", given up ({safe(asked.refused)}): a yes counts when it is repeated" if asked.refused else ""
        )
        say(
            facts(
                [
                    ("  arguments", asked.arguments),
                    ("  why", asked.cause),
                    ("  task", task),
                    ("  time", left(asked.expires, now) + refused),
                ]
            )
        )
