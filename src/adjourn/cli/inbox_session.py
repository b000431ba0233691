"""The interactive inbox at work: what waits is read as it changes, and answers are recorded as they are given.

An answer is recorded only of a process that speaks for a person. A store that cannot be read does not end the session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from adjourn.cli.context import CommandContext, check_person, user
from adjourn.cli.drawing import drawn_line, live
from adjourn.cli.inbox_keys import InboxKeys, key_of, keyboard
from adjourn.cli.inbox_lines import draw
from adjourn.cli.terminal import height, width
from adjourn.clients import person
from adjourn.errors import AdjournError
from adjourn.handover.answered import snooze, snoozed_items
from adjourn.handover.answering import (
    Answerer,
    ItemReply,
    ReplyOutcome,
    ShownArguments,
    arguments_of,
    check_reply,
    record_answer,
    revoke_approval,
)
from adjourn.handover.held import UNDO_SECONDS, HeldAnswers, reply_in_words, same_replies, seconds_until_due
from adjourn.handover.inbox import Inbox, WaitingItem
from adjourn.host import pin as pins
from adjourn.host.keys import secret
from adjourn.log.event import timestamp
from adjourn.store.base import Head
from adjourn.tasks.work_index import waiting_heads

LOOK_SECONDS = 0.25
"""How often the store is looked at."""
REDRAW_SECONDS = 5.0
"""How often times are drawn again, and what expired is left out, without a change."""
SNOOZED_MS = 3_600_000
_SHARE = 4
"""A reading that took long is followed by a rest of so many times its length."""


class _Kept(NamedTuple):
    """An answer whose time was over; the screen says what it came to."""

    tone: str = "plain"


def _place(reply: ItemReply) -> tuple[str, ...]:
    """The key of the item that an answer is for."""
    return reply.kind, reply.task, reply.record, reply.id


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
        self._held: HeldAnswers[_Kept] = HeldAnswers(context.clock, UNDO_SECONDS)
        self._first: dict[str, WaitingItem] = {}
        """The item of each answer that was kept, by the answer's id."""
        self.answered: list[str] = []
        """What was recorded, in words."""

    @property
    def unreadable(self) -> Sequence[str]:
        """The tasks and records that could not be read at the last look."""
        return self._unreadable

    def run(self) -> None:
        """Show what waits until the person quits."""
        try:
            self._run()
        finally:
            self._end_kept(records=self._keys.is_over)

    def _run(self) -> None:
        drawn: object = None
        with suppress(KeyboardInterrupt), keyboard() as keys, live() as redraw:
            while not (self._keys.is_over or keys.is_closed):
                self._look()
                self._note_kept()
                self._read_arguments()
                lines = draw(self._keys, len(self._unreadable), self._context.clock(), width(), height())
                if lines != drawn:
                    redraw([drawn_line(line) for line in lines])
                    drawn = lines
                for key in keys.read(LOOK_SECONDS):
                    if key.name == "redraw":
                        drawn = None
                    reply = self._keys.press(key)
                    if reply is not None and reply.action == "snooze":
                        self._snooze(reply)
                    elif reply is not None and reply.action in ("undo", "record"):
                        self._change_kept(reply)
                    elif reply is not None:
                        self._record(reply, self._keys.take_pin())
                    if reply is not None:
                        self._note_kept()  # the next key may be about it

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._rested:
            return
        try:
            heads = waiting_heads(self._context.store, timestamp(self._context.clock()))
            if heads == self._heads and now - self._looked < REDRAW_SECONDS:
                return
            inbox = self._find()
        except AdjournError as error:
            self._keys.notice = f"cannot read the store: {error.message}"
            self._rested = now + REDRAW_SECONDS
            return
        self._heads, self._unreadable, self._looked = heads, list(inbox.unreadable), now
        kept = {key for answer in self._held.held for key in answer.keys}
        items = [item for item in inbox.items if item.key not in kept]
        self._keys.show(sorted(items, key=self._is_snoozed(items)))
        self._rested = now + _SHARE * (time.monotonic() - now)

    def _is_snoozed(self, items: Sequence[WaitingItem]) -> Callable[[WaitingItem], bool]:
        """Whether the person put an item off: such items come last until they become more urgent."""
        context = self._context
        put_off = snoozed_items(context.store, user().id, timestamp(context.clock())) if items else {}
        return lambda item: bool(put_off) and item.key in put_off and put_off[item.key].hides(item)

    def _snooze(self, reply: ItemReply) -> None:
        """Put an item off for an hour; that is no answer, and needs no PIN."""
        context = self._context
        now = context.clock()
        item = next((item for item in self._keys.all if key_of(item) == _place(reply)), None)
        if item is None:
            return
        try:
            snooze(context.store, user().id, item, timestamp(now + SNOOZED_MS), timestamp(now))
        except AdjournError as error:
            self._keys.notice = f"not snoozed: {error.message}"
            return
        self._keys.notice = "Snoozed for 1 h: it comes last."
        self._heads, self._rested = None, 0.0

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
            outcome = self._revoke(reply) if reply.action == "revoke" else self._hold(reply)
        except AdjournError as error:
            if isinstance(error, pins.WrongPinError) and error.may_retry:
                self._keys.ask_pin(reply)
            outcome = f"Not recorded: {error.message}" + (f"; {error.remedy}" if error.remedy else "")
        self._keys.notice = f"{outcome} {warning}".strip()
        self._heads, self._rested = None, 0.0

    def _revoke(self, reply: ItemReply) -> str:
        outcome = revoke_approval(self._answerer(), reply.task, reply.id).text
        self._keys.granted = None
        self.answered.append(outcome)
        return outcome

    def _hold(self, reply: ItemReply) -> str:
        """Keep an answer until it can be undone no more, then record it."""
        first = next((item for item in self._keys.all if key_of(item) == _place(reply)), None)
        items = [first, *self._keys.also] if first is not None else []
        for item in items:
            check_reply(item, reply)
        replies = same_replies(reply, items) if items else [reply]
        if first is None or first.who not in ("", user().id):
            return self._record_all(replies, first).text
        now = self._context.clock()
        text, keys = reply_in_words(reply, items), frozenset(item.key for item in items)
        kept = self._held.hold(text, keys, lambda: self._record_kept(replies, first), seconds_until_due(items, now))
        if kept is None:
            return self._record_all(replies, first).text
        self._first[kept.id] = first
        return ""  # the screen says how long it can be undone

    def _record_all(self, replies: Sequence[ItemReply], item: WaitingItem | None) -> ReplyOutcome:
        """Record an answer for each of some equal items. Raises `AdjournError` for the first that cannot be recorded."""
        by = self._answerer()
        outcomes = [record_answer(by, reply) for reply in replies]
        self.answered += [outcome.text for outcome in outcomes]
        if item is not None and (item.kind, replies[0].action) == ("approval", "approve"):
            self._keys.granted = item
        return outcomes[-1]

    def _record_kept(self, replies: Sequence[ItemReply], item: WaitingItem) -> _Kept:
        """Record an answer at the end of its time: in a thread of its own, so nothing that goes wrong may be lost."""
        try:
            text = self._record_all(replies, item).text
        except AdjournError as error:
            text = f"Not recorded: {error.message}"
            self.answered.append(text)
        self._keys.notice = text
        self._heads, self._rested = None, 0.0
        return _Kept()

    def _answerer(self) -> Answerer:
        context = self._context
        return Answerer(context.store, user(), "cli", context.clock, secret(), context.root, context.tree)

    def _change_kept(self, reply: ItemReply) -> None:
        """Undo the answer to an item, or record it now."""
        held = next((answer for item, answer in self._keys.held if key_of(item) == _place(reply)), None)
        if held is None:
            self._keys.notice = "the answer was recorded before"
        elif reply.action == "record":
            self._held.record(held.id)
        else:
            text = self._held.undo(held.id)
            self._keys.notice = f"Undone: {text}. It waits again." if text else "the answer was recorded before"
        self._heads, self._rested = None, 0.0

    def _note_kept(self) -> None:
        """Tell the keys which answers can be undone."""
        self._keys.held = [(self._first[kept.id], kept) for kept in self._held.held if kept.id in self._first]

    def _end_kept(self, *, records: bool) -> None:
        """Record what can be undone when the person quits; forget it when the command is interrupted."""
        for answer in self._held.held:
            if records:
                self._held.record(answer.id)
            elif text := self._held.undo(answer.id):
                self.answered.append(f"Not recorded: {text}. It still waits.")
