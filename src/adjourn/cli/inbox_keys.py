"""The keys that a person presses at a terminal, and what they do in the interactive inbox."""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, MappingProxyType
from typing import NamedTuple

from adjourn.handover.answering import MAX_ANSWER, ItemReply, ShownArguments
from adjourn.handover.held import HeldAnswer
from adjourn.handover.inbox import WaitingItem

MAX_PASTE = 10_000
"""Characters of a pasted text that are kept."""
_ESCAPE_SECONDS = 0.05
"""How long the rest of a key's sequence may take; a lone Escape is known after it."""
_PASTE_ON, _PASTE_OFF = b"\x1b[?2004h", b"\x1b[?2004l"
_KEY = re.compile(
    r"\x1b\[200~(?P<paste>.*?)\x1b\[201~|(?P<sequence>\x1b(?:\[[0-9;?]*[A-Za-z~]|O[A-Za-z]))|(?P<one>.)", re.DOTALL
)
_OPEN_PASTE = "\x1b[200~"
_NAMES = {
    "\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b[5~": "page-up", "\x1b[6~": "page-down",
    "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end",
    "\r": "enter", "\t": "tab", "\n": "enter", "\x1b": "escape", "\x7f": "backspace", "\x08": "backspace", "\x15": "erase", "\x17": "erase-word",
    "\x04": "end-of-input", "\x0c": "redraw",
}  # fmt: skip


class Key(NamedTuple):
    """A key: `text` for a character, `paste` for a pasted text, else its name."""

    name: str
    text: str = ""


def keys_of(sent: str) -> Iterator[Key]:
    """The keys in what a terminal sent. Those without a name here are left out."""
    for match in _KEY.finditer(sent):
        char = match["sequence"] or match["one"]
        if char is None:
            yield Key("paste", match["paste"][:MAX_PASTE])
        elif char in _NAMES:
            yield Key(_NAMES[char])
        elif char.isprintable():
            yield Key("text", char)


class Keyboard:
    """The keys of a terminal whose modes are set."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.is_closed = False

    def read(self, seconds: float) -> list[Key]:
        """The keys that are pressed until at least one is, or the time is over."""
        sent = self._read(seconds)
        while sent.endswith("\x1b") or (_OPEN_PASTE in sent and not self._is_whole(sent)):
            more = self._read(_ESCAPE_SECONDS)
            if not more or len(sent) > 2 * MAX_PASTE:
                break
            sent += more
        return list(keys_of(sent)) if self._is_whole(sent) else []

    @staticmethod
    def _is_whole(sent: str) -> bool:
        return sent.count(_OPEN_PASTE) <= sent.count("\x1b[201~")

    def _read(self, seconds: float) -> str:
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return ""
        sent = os.read(self._descriptor, 4096)
        self.is_closed = not sent
        return self._decoder.decode(sent)


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """The keys of stdin, a terminal. Ctrl-C still interrupts; Ctrl-Z does nothing; SIGTERM and SIGHUP end the command in order."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    end = _ending()
    handlers = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    handlers[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    try:
        tty.setcbreak(descriptor)
        modes = termios.tcgetattr(descriptor)
        modes[6][termios.VSUSP] = os.fpathconf(descriptor, "PC_VDISABLE").to_bytes()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
        os.write(sys.stdout.fileno(), _PASTE_ON)
        yield Keyboard(descriptor)
    finally:
        try:
            for number in handlers:
                signal.signal(number, signal.SIG_IGN)
        finally:  # a signal may come just before it is ignored
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
            os.write(sys.stdout.fileno(), _PASTE_OFF)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _ending() -> Callable[[int, FrameType | None], None]:
    """A handler that ends the command, once: a second signal must not break off what the first one began."""
    is_ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        del frame
        if not is_ending:
            is_ending = True
            raise SystemExit(128 + number)

    return end


# --- what the keys of the interactive inbox do: which item is selected, what is written, which answer that is. An
# answer takes two keys: one that names it, and Enter, beside the item's title; so no single key approves a call.
# Where the account has a PIN, it is asked for then. Nothing here reads a store or a clock, records, or draws

MAX_PIN = 200


class Action(NamedTuple):
    """An answer: its name in a reply, how it is called, and what is asked for beside it. `chooses`: it needs an option."""

    name: str
    label: str
    prompt: str
    is_required: bool = False
    chooses: bool = False


_REASON = "reason (optional)"
_APPROVAL = (
    Action("approve", "approve once", _REASON),
    Action("deny", "deny", "reason (optional; the agent reads it)"),
)
_REVOKE = Action("revoke", "revoke the approval", "")
_SNOOZE = Action("snooze", "snooze for 1 h", "")
_UNDO = Action("undo", "undo the answer to", "")
_RECORD = Action("record", "record now the answer to", "")
MAX_FILTER = 200
_SKIP = Action("skip", "skip", "reason", is_required=True)
_ACTIONS: Mapping[str, tuple[Action, ...]] = {
    "approval": _APPROVAL,
    "resume-point": (Action("approve", "approve", _REASON), Action("deny", "deny", _REASON)),
    "in-doubt": (
        Action("done", "it took effect", "how you know (optional)"),
        Action("not-done", "it did not", "how you know (optional)"),
    ),
    "blocker": (Action("resolve", "resolved", "how", is_required=True),),
}


def actions_of(item: WaitingItem) -> Sequence[Action]:
    """The answers of an item, for the keys `a` and `d`."""
    chooses = bool(item.options)
    if item.kind == "question":
        answer = Action("answer", "answer", "" if chooses else "answer", is_required=not chooses, chooses=chooses)
        return answer, _SKIP
    if item.kind == "decision":
        accept = Action("accept", "accept", "", chooses=chooses)
        return accept, Action("override", "decide otherwise", "decision", is_required=True)
    return _ACTIONS[item.kind]


def key_of(item: WaitingItem) -> tuple[str, ...]:
    """What stays the same of an item while others come and go."""
    return item.kind, item.task, item.record, item.id


class DraftedReply(NamedTuple):
    """An answer that is being written; with `is_for_all` it is for the `equal` items, too."""

    item: WaitingItem
    action: Action
    text: str = ""
    option: int | None = None
    equal: tuple[WaitingItem, ...] = ()
    is_for_all: bool = False


class PinDraft(NamedTuple):
    """An answer that waits for the PIN, as far as that is typed."""

    reply: ItemReply
    title: str
    pin: str = ""


class InboxKeys:
    """The state: items, the selected one, its chosen option and arguments, the draft, the lines scrolled in the preview."""

    def __init__(self) -> None:
        self.items: Sequence[WaitingItem] = ()
        self.all: Sequence[WaitingItem] = ()
        """The items, also those that the filter leaves out."""
        self.filter = ""
        self.is_filtering = False
        self.at = 0
        self.option: int | None = None
        self.arguments = ShownArguments()
        self.draft: DraftedReply | None = None
        self.unproven: PinDraft | None = None
        self.given_pin = ""
        self.also: tuple[WaitingItem, ...] = ()
        """The equal items that the answer is for which was returned last."""
        self.held: Sequence[tuple[WaitingItem, HeldAnswer]] = ()
        """The answers that can be undone, the newest last, each with its first item."""
        self.granted: WaitingItem | None = None
        """The call that was approved last, which can be revoked until the agent makes it."""
        self.scrolled = 0
        self.helps = False
        self.is_over = False
        self.notice = ""

    @property
    def selected(self) -> WaitingItem | None:
        """The item that the keys are about."""
        return self.items[self.at] if self.items else None

    def show(self, items: Sequence[WaitingItem]) -> None:
        """Take the items as they are now. The selection stays with its item, else at its place."""
        before = self.selected and key_of(self.selected)
        self.all = items
        self.items = [item for item in items if item.has(self.filter.casefold())]
        places = {key_of(item): number for number, item in enumerate(self.items)}
        at = places.get(before) if before else 0
        if at is None:
            self.scrolled, self.option = 0, None
            at = min(self.at, len(self.items) - 1)
        self.at = max(0, at)

    def press(self, key: Key) -> ItemReply | None:
        """Do what a key does. Returns an answer that is to be recorded."""
        if key.name == "end-of-input":
            self.is_over = True
        elif self.helps:
            self.helps = False
        elif self.unproven is not None:
            return self._write_pin(self.unproven, key)
        elif self.draft is not None:
            return self._write(self.draft, key)
        elif self.is_filtering:
            self._write_filter(key)
        else:
            self._browse(key)
        return None

    def _write_filter(self, key: Key) -> None:
        """Show only the items that have what is typed, as it is typed."""
        if key.name in ("enter", "escape"):
            self.is_filtering = False
        text = "" if key.name == "escape" else _edited(self.filter, key)[:MAX_FILTER]
        if text != self.filter:
            self.filter = text
            self.show(self.all)

    def _browse(self, key: Key) -> None:
        name = key.text if key.name == "text" else key.name
        if name.isdecimal() and name.isascii():
            self.choose(int(name) - 1)
        elif name in _BROWSING:
            _BROWSING[name](self)

    def move(self, to: int) -> None:
        """Select the item at a place, or the nearest."""
        at = max(0, min(to, len(self.items) - 1))
        if at != self.at:
            self.scrolled, self.option = 0, None
        self.at = at
        self.notice = ""

    def scroll(self, lines: int) -> None:
        """Scroll the item in full; the view knows where it ends."""
        self.scrolled = max(0, self.scrolled + lines)

    def escape(self) -> None:
        """Scroll back; where nothing is scrolled, show all items again."""
        if self.scrolled or not self.filter:
            self.scrolled = 0
        else:
            self.filter = ""
            self.show(self.all)

    def choose(self, option: int) -> None:
        """Choose an option of the selected item, if it has that."""
        if self.selected and 0 <= option < len(self.selected.options):
            self.option = option
            self.notice = ""

    def begin(self, number: int) -> None:
        """Start one of the answers of the selected item."""
        item = self.selected
        actions = actions_of(item) if item else ()
        if item is None or number >= len(actions):
            return
        action = actions[number]
        if action.chooses and self.option is None:
            self.notice = f"choose first: 1 to {len(item.options)}"
            return
        self.notice = ""
        self.also = ()
        equal = tuple(each for each in self.all if each is not item and each.sameness == item.sameness)
        self.draft = DraftedReply(item, action, option=self.option if action.chooses else None, equal=equal)

    def begin_snoozing(self) -> None:
        """Start to put the selected item off, unless it expires soon."""
        if self.selected is None:
            return
        if self.selected.urgency == "soon":
            self.notice = "it expires soon"
            return
        self.notice = ""
        self.draft = DraftedReply(self.selected, _SNOOZE)

    def begin_filtering(self) -> None:
        """Start to type what items must have."""
        self.is_filtering, self.notice = True, ""

    def begin_recording(self) -> None:
        """Start to record the last answer now, which else can be undone for some seconds."""
        if not self.held:
            self.notice = "every answer is recorded"
            return
        self.notice = ""
        self.draft = DraftedReply(self.held[-1][0], _RECORD)

    def begin_undoing(self) -> None:
        """Start to undo the last answer; one that is recorded already can be revoked, if it approved a call."""
        if self.held:
            self.notice = ""
            self.draft = DraftedReply(self.held[-1][0], _UNDO)
            return
        if self.granted is None:
            self.notice = "you have approved nothing here yet"
            return
        self.notice = ""
        self.draft = DraftedReply(self.granted, _REVOKE)

    def _write(self, draft: DraftedReply, key: Key) -> ItemReply | None:
        text = draft.text
        if key.name == "escape":
            self.draft = None
            return None
        if key.name == "enter":
            if draft.action.is_required and not text.strip():
                self.notice = f"write the {draft.action.prompt} first"
                return None
            self.draft = None
            item = draft.item
            self.also = draft.equal if draft.is_for_all else ()
            return ItemReply(item.kind, item.id, draft.action.name, item.task, item.record, text.strip(), draft.option)
        self.notice = ""
        if key.name == "tab":
            self.draft = draft._replace(is_for_all=not draft.is_for_all and bool(draft.equal))
        elif draft.action.prompt:
            self.draft = draft._replace(text=_edited(text, key)[:MAX_ANSWER])
        return None

    def ask_pin(self, reply: ItemReply) -> None:
        """Have the person type the PIN before an answer is recorded."""
        titles = (item.title for item in self.items if (item.kind, item.id) == (reply.kind, reply.id))
        self.unproven = PinDraft(reply, next(titles, reply.id))

    def take_pin(self) -> str:
        """The PIN that was typed for the answer that was just returned; it is not kept."""
        pin, self.given_pin = self.given_pin, ""
        return pin

    def _write_pin(self, draft: PinDraft, key: Key) -> ItemReply | None:
        if key.name in ("escape", "enter"):
            self.unproven, self.notice = None, ""
        if key.name == "enter" and draft.pin:
            self.given_pin = draft.pin
            return draft.reply
        if self.unproven is not None:
            self.notice = ""
            self.unproven = draft._replace(pin=_edited(draft.pin, key)[:MAX_PIN])
        return None


def _edited(text: str, key: Key) -> str:
    if key.name == "backspace":
        return text[:-1]
    if key.name == "erase":
        return ""
    if key.name == "erase-word":
        return text.rstrip()[: text.rstrip().rfind(" ") + 1]
    return text + (" ".join(key.text.split("\n")) if key.name in ("text", "paste") else "")


_PAGE = 8
_BROWSING: Mapping[str, Callable[[InboxKeys], None]] = MappingProxyType({
    "up": lambda state: state.move(state.at - 1),
    "k": lambda state: state.move(state.at - 1),
    "down": lambda state: state.move(state.at + 1),
    "j": lambda state: state.move(state.at + 1),
    "home": lambda state: state.move(0),
    "g": lambda state: state.move(0),
    "end": lambda state: state.move(len(state.items) - 1),
    "G": lambda state: state.move(len(state.items) - 1),
    "page-down": lambda state: state.scroll(_PAGE),
    " ": lambda state: state.scroll(_PAGE),
    "J": lambda state: state.scroll(1),
    "page-up": lambda state: state.scroll(-_PAGE),
    "b": lambda state: state.scroll(-_PAGE),
    "K": lambda state: state.scroll(-1),
    "a": lambda state: state.begin(0),
    "d": lambda state: state.begin(1),
    "u": lambda state: state.begin_undoing(),
    "n": lambda state: state.begin_recording(),
    "/": lambda state: state.begin_filtering(),
    "z": lambda state: state.begin_snoozing(),
    "?": lambda state: setattr(state, "helps", True),
    "q": lambda state: setattr(state, "is_over", True),
    "escape": lambda state: state.escape(),
})  # fmt: skip
