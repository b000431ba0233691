"""The interactive inbox at work: what waits is read as it changes, and answers are recorded as they are given.

Owns: this loop. Must never: record an answer of a process that does not speak for a person, or end because the store cannot be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from adjourn.cli.records.inbox_keys import InboxKeys
from adjourn.cli.records.inbox_view import draw
from adjourn.cli.shared.context import CommandContext, check_person, user
from adjourn.cli.shared.drawing import drawn_line, live
from adjourn.cli.shared.keyboard import keyboard
from adjourn.cli.shared.terminal import height, width
from adjourn.clients import person
from adjourn.errors import AdjournError
from adjourn.handover import (
    Answerer,
    Inbox,
    ItemReply,
    ShownArguments,
    WaitingItem,
    arguments_of,
    record_answer,
)
from adjourn.host import pin as pins
from adjourn.host import secret
from adjourn.store import Head

LOOK_SECONDS = 0.25
"""How often the store is looked at."""
REDRAW_SECONDS = 5.0
"""How often times are drawn again, and what expired is left out, without a change."""
_SHARE = 4
"""A reading that took long is followed by a rest of so many times its length."""


class InboxSession:
    """One person at one terminal. `find` reads what waits."""

    def __init__(self, context: CommandContext, find: Callable[[], Inbox]) -> None:
        self._context = context
        self._find = find
        self._keys = InboxKeys()
        self._read: WaitingItem | None = None
        self._heads: Mapping[str, Head] | None = None
        self._unreadable: Sequence[str] = ()
        self._looked = self._rested = float("-inf")
        self.answered: list[str] = []
        """What was recorded, in words."""

    @property
    def unreadable(self) -> Sequence[str]:
        """The tasks and records that could not be read at the last look."""
        return self._unreadable

    def run(self) -> None:
        """Show what waits until the person quits."""
        shown: object = None
        with suppress(KeyboardInterrupt), keyboard() as keys, live() as redraw:
            while not (self._keys.is_over or keys.is_closed):
                self._look()
                self._read_arguments()
                lines = draw(self._keys, len(self._unreadable), self._context.clock(), width(), height())
                if lines != shown:
                    redraw([drawn_line(line) for line in lines])
                    shown = lines
                for key in keys.read(LOOK_SECONDS):
                    if key.name == "redraw":
                        shown = None
                    reply = self._keys.press(key)
                    if reply is not None:
                        self._record(reply, self._keys.take_pin())

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._rested:
            return
        try:
            heads = self._context.store.streams()
            if heads == self._heads and now - self._looked < REDRAW_SECONDS:
                return
            found = self._find()
        except AdjournError as error:
            self._keys.notice = f"cannot read the store: {error.message}"
            self._rested = now + REDRAW_SECONDS
            return
        self._heads, self._unreadable, self._looked = heads, list(found.unreadable), now
        self._keys.show(found.items)
        self._rested = now + _SHARE * (time.monotonic() - now)

    def _read_arguments(self) -> None:
        """Read the arguments of the selected item, once after each look."""
        item = self._keys.selected
        if item is self._read:
            return
        self._read = item
        self._keys.arguments = ShownArguments()
        if item is not None:
            self._keys.arguments = arguments_of(self._context.store, item, self._context.tree)

    def _record(self, reply: ItemReply, pin: str) -> None:
        context = self._context
        warning = ""
        try:
            if (state := person.needed_pin(context.store)) and not person.given_pin().covers(state):
                if not pin:
                    person.account_pin().check_wait()
                    self._keys.ask_pin(reply)
                    return
                before = person.give_pin(
                    pin, person.given_pin(), context.store, action="adjourn inbox", task=reply.task
                )
                warning = person.warning_of(before)
            check_person("inbox", context, attended=True, task=reply.task)
            by = Answerer(context.store, user(), "cli", context.clock, secret(), context.root, context.tree)
            said = record_answer(by, reply).text
        except AdjournError as error:
            if isinstance(error, pins.WrongPinError) and error.may_retry:
                self._keys.ask_pin(reply)
            said = f"Not recorded: {error.message}" + (f"; {error.remedy}" if error.remedy else "")
        else:
            self.answered.append(said)
        self._keys.notice = f"{said} {warning}".rstrip()
        self._heads, self._rested = None, 0.0
