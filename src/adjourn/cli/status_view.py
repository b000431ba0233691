"""What `adjourn status` prints, and its start without the command-line framework.

This module and what it imports at its top do not import click.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from adjourn.cli import task_view
from adjourn.cli.output import safe, say, say_facts, say_json
from adjourn.cli.start import StoreContext, run_plain
from adjourn.cli.terminal import fancy, shown_amount
from adjourn.errors import AdjournError
from adjourn.handover.inbox import WaitingItem, waiting_in_record
from adjourn.log.kinds import tool_name
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.troubles import OpenTrouble, open_troubles
from adjourn.text.times import ago, left, period

if TYPE_CHECKING:
    from rich.console import RenderableType


_Row = tuple[str, str]
FIRST_STEP = "start a client behind `adjourn proxy`, or set one up with `adjourn init`"

MAX_NOTED = 10
"""Things of a record that are shown; `adjourn inbox` shows all."""


def run(arguments: list[str]) -> int | None:
    """Run `adjourn status` and return its exit code; None if only the framework can read the arguments."""

    def work(context: StoreContext, values: dict[str, str]) -> None:
        show(context, values[""], as_json=bool(values["--json"]))

    return run_plain(arguments, (), (), work)


def show(context: StoreContext, task: str, *, as_json: bool) -> None:
    """Print the status of a task, named by an id or a prefix of one, or else chosen as `current_task` does."""
    if not task and not context.named and context.store_or_none() is None:
        if as_json:
            say_json({"task": None, "next": FIRST_STEP})
        else:
            say(f"no session has run here yet: {FIRST_STEP}")
        return
    view = StatusView(context, task_view.current_task(context, task).ledger)
    if as_json:
        say_json(view.to_json())
    elif fancy():
        from adjourn.cli.drawing import print_drawn  # rich takes 50 ms, only for a terminal

        print_drawn(view.panel())
    else:
        view.say()


class StatusView:
    """The status of a task for a person: lines of text, or a panel of the same."""

    def __init__(self, context: StoreContext, ledger: Ledger) -> None:
        self._context = context
        self._ledger = ledger
        self._sessions = task_view.holders(context, ledger)
        self._unsure = task_view.doubts(ledger, self._sessions)
        self._waiting = task_view.questions(ledger, context.now)
        self._noted: list[WaitingItem] = []
        self._unreadable = ""
        try:
            self._noted = waiting_in_record(context.store, ledger, context.now)
        except AdjournError as error:
            self._unreadable = error.message
        self._wrong = self._troubles()
        self._spent = task_view.budgets(context.store, ledger, context.now)

    def _troubles(self) -> list[OpenTrouble]:
        if self._ledger.checkpoint_seq < 0:
            return open_troubles(self._ledger)
        from adjourn.checkpoints.plans import gone_results  # few tasks have no checkpoint, but the start is measured

        return open_troubles(self._ledger, gone_results(self._context.tree, self._ledger))

    def to_json(self) -> dict[str, Any]:
        """The document of `--json`."""
        noted = [msgspec.to_builtins(item) for item in self._noted]
        troubles = [trouble._asdict() for trouble in self._wrong]
        members = {"waitingInRecord": noted, "next": self._next_step(), "troubles": troubles}
        return (
            task_view.task_json(self._context, self._ledger)
            | members
            | ({"recordUnreadable": self._unreadable} if self._unreadable else {})
        )

    def say(self) -> None:
        """Print the lines."""
        ledger = self._ledger
        remaining = "" if ledger.budget is None else f", {ledger.remaining(ledger.budget)} left"
        state = ", ".join(self._state()) or "nothing in doubt"
        say(f"{safe(ledger.task)}: {task_view.budget(ledger)} calls used{remaining}; {state}")
        spent = [("spent", f"{amount.used:,.10g} of {amount.limit:,.10g} {amount.title}") for amount in self._spent]
        say_facts(*self._goal(), *self._held(), *spent, *self._counts(), *self._point(), *self._open(), *self._next())

    def panel(self) -> RenderableType:
        """The panel, for a terminal."""
        from adjourn.cli.drawing import Bar, panel  # as above

        ledger = self._ledger
        bars = [Bar(spent.title, spent.used, spent.limit, _left(spent.limit - spent.used)) for spent in self._spent]
        counts = list(self._counts())
        if ledger.budget is None:
            counts.insert(0, ("calls", f"{ledger.calls_used} used, no limit"))
        else:
            remaining = ledger.remaining(ledger.budget) or 0
            bars.insert(0, Bar("calls", ledger.calls_used, ledger.budget, _left(remaining)))
        state = ", ".join(self._state()) or "nothing waits"
        sections = [_plain(self._goal()), _plain([*self._held(), *counts, *self._point()])]
        sections += [[(name, safe(text), "yellow") for name, text in self._open()]]
        sections += [[(name, safe(text), "bold green") for name, text in self._next()]]
        return panel(safe(ledger.task), state, bars, sections)

    def _state(self) -> list[str]:
        ledger = self._ledger
        count = len(self._waiting) + len(self._noted)
        words = [f"{count} waiting"] * bool(count) + [f"{len(self._unsure)} in doubt"] * bool(self._unsure)
        if ledger.finished:
            later = ledger.calls_used - ledger.calls_at_finish
            words.insert(0, f"finished, {later} call{'s' * (later != 1)} since" if later else "finished")
        return words

    def _goal(self) -> list[_Row]:
        ledger, now = self._ledger, self._context.now
        rows = [("goal", ledger.goal)]
        if self._unreadable:
            rows.append(("record", f"cannot be read: {self._unreadable}; `adjourn verify` tells more"))
        if ledger.finished:
            rows.append(("finished", f"{ago(ledger.finished, now)}: {ledger.finish_note}".removesuffix(": ")))
        return [*rows, ("touched", ago(ledger.touched, now))]

    def _held(self) -> list[_Row]:
        rows = [
            f"{task_view.who(holder.session)}, since {ago(holder.session.since, self._context.now)}"
            + (f" ({how})" if (how := task_view.state(holder)) else "")
            for holder in self._sessions
        ]
        return [("held by", text) for text in rows] or [("held by", "nobody")]

    def _counts(self) -> list[_Row]:
        ledger = self._ledger
        rows = []
        if ledger.tokens and not any(spent.what == "tokens" for spent in self._spent):
            rows.append(("spent", f"{ledger.tokens:,} tokens"))
        rows += [
            ("rate", f"{spent.what}: {spent.used} of {spent.limit:.0f} calls in the last {period(spent.seconds)}")
            for spent in task_view.rates(ledger, self._context.now)
        ]
        rows.append(("refused", str(ledger.calls_refused or "")))
        for given in task_view.answers(ledger)[-MAX_NOTED:]:
            reason = f": {given.reason}" if given.reason else ""
            rows.append((given.answer, f"{given.tool} {given.arguments}"[:300] + f", by {given.by}{reason}"))
        return rows

    def _point(self) -> list[_Row]:
        ledger = self._ledger
        since = ledger.calls_used - ledger.calls_at_checkpoint
        text = f"{ledger.checkpoint}, {since} call{'s' * (since != 1)} ago" if ledger.checkpoint else "none"
        return [("checkpoint", text)]

    def _open(self) -> list[_Row]:
        """What waits for a person, and what is wrong beside the next step."""
        rows = [("in doubt", f"{call.call} {tool_name(call)} {call.arguments}"[:300]) for call in self._unsure]
        rows += [
            (
                "waiting",
                f"{question.id} {tool_name(question)} {question.arguments}"[:300]
                + f", {left(question.expires, self._context.now)}",
            )
            for question in self._waiting
        ]
        rows += [("waiting", f"{item.kind} {item.id}: {item.title}"[:300]) for item in self._noted[:MAX_NOTED]]
        shown = self._next_step()
        wrong = [trouble.text for trouble in self._wrong if trouble.kind != "in doubt" and trouble.text != shown]
        rows += [("wrong", text[:400]) for text in wrong[:MAX_NOTED]]
        if len(self._noted) > MAX_NOTED:
            rows.append(("waiting", f"and {len(self._noted) - MAX_NOTED:,} more: adjourn inbox"))
        return rows

    def _next(self) -> list[_Row]:
        return [("next", self._next_step())]

    def _next_step(self) -> str:
        return task_view.next_step(self._context, self._ledger, self._sessions, self._wrong)


def _plain(rows: Sequence[_Row]) -> list[tuple[str, str, str]]:
    return [(name, safe(text), "") for name, text in rows if text]


def _left(amount: float) -> str:
    return f"{shown_amount(max(0.0, amount))} left"
