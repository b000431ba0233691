"""The keys that a person presses at a terminal, one at a time."""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

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
