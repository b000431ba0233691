"""What a stream is: a terminal, how wide, with colours or without; lines that are painted, and progress on it.

Plain text is the same for a pipe, for `NO_COLOR` and for `TERM=dumb`; a terminal, and a pipe with `FORCE_COLOR`, gets the same words in a
better layout, which `drawing` makes.

A pipe gets nothing that only a terminal understands, and rich is not imported for it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from typing import Final, Self, TextIO
from unicodedata import combining, east_asian_width

from adjourn.text.redact import visible_lines

WIDTH: Final = 80
HEIGHT: Final = 24
MIN_WIDTH: Final = 40
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_DIFF = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_PROGRESS_AFTER = 1.0
_PROGRESS_EVERY = 0.1
_BAR = 24
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

Spans = Sequence[tuple[str, str]]
"""One line: texts, each with its style (a colour of rich, or ""). As plain text the styles are left out."""


# --- what a stream is


def fancy(stream: TextIO | None = None) -> bool:
    """Whether a stream (stdout) shows colours and boxes, and its user wants them."""
    stream = stream or sys.stdout
    return _coloured(stream, "dumb") and (stream.encoding or "utf-8").lower().replace("-", "") == "utf8"


def _coloured(stream: TextIO, unknown: str = "") -> bool:
    """Whether a stream takes colours. `unknown` is the terminal where $TERM is not set."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return os.environ.get("TERM", unknown) != "dumb" and stream.isatty()


def interactive() -> bool:
    """Whether a person can be shown a screen that is redrawn, and press keys."""
    return sys.stdin.isatty() and can_be_redrawn()


def can_be_redrawn() -> bool:
    """Whether stdout is a terminal whose screen can be replaced."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def width() -> int:
    """Columns to write in: those of $COLUMNS or of the terminal, else 80."""
    if not sys.stdout.isatty():
        return WIDTH
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return max(MIN_WIDTH, int(named))
    try:
        return max(MIN_WIDTH, os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH)
    except (OSError, ValueError):  # a stream of another kind
        return WIDTH


def cells(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def paint(text: str, colour: str, stream: TextIO) -> str:
    """Coloured on a terminal, unless NO_COLOR is set; elsewhere with FORCE_COLOR."""
    if not colour or not _coloured(stream):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def shown_amount(amount: float) -> str:
    """`1,200`, `0.1`, `4.25`: rounded as far as a person wants to know."""
    return f"{round(amount, 2 if amount < 10 else 1):,.10g}"


def height() -> int:
    """Lines of the terminal, else 24."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or HEIGHT
    except (OSError, ValueError):
        return HEIGHT


def print_diff(diff: str) -> None:
    """Print a difference in the unified format, coloured on a terminal."""
    for line in visible_lines(diff).split("\n"):
        colour = next((colour for mark, colour in _DIFF if line.startswith(mark)), "")
        print(paint(line, colour, sys.stdout))


# --- what takes time


class ProgressLine:
    """A bar on stderr for what takes more than a second, on a terminal only. Call it with how much is done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _PROGRESS_AFTER
        self._shown = False
        self._on = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._on and time.monotonic() >= self._next:
            share = f" {100 * done // total}%" if total else ""
            bar = _drawn(done / total) if total and fancy(sys.stderr) else ""
            sys.stderr.write(f"\r{self._what}:{bar} {done:,} of {total:,}{share} ")
            sys.stderr.flush()
            self._shown = True
            self._next = time.monotonic() + _PROGRESS_EVERY

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._shown:
            _clear()


def _drawn(share: float) -> str:
    full = round(min(1.0, share) * _BAR)
    return f" \x1b[32m{'━' * full}\x1b[90m{'━' * (_BAR - full)}\x1b[0m"


class Spinner:
    """The same for what cannot be counted: a line that says what is done, and for how long already.

    Inside of another one it shows nothing.
    """

    _one_spins = False

    def __init__(self, what: str) -> None:
        self._what = what
        self._over = threading.Event()
        self._shown = False
        self._thread: threading.Thread | None = None

    def _tell(self) -> None:
        began, pretty, frame = time.monotonic(), fancy(sys.stderr), 0
        wait = _PROGRESS_AFTER
        while not self._over.wait(wait):
            mark = f"\x1b[36m{_FRAMES[frame % len(_FRAMES)]}\x1b[0m " if pretty else ""
            sys.stderr.write(f"\r{mark}{self._what}: {time.monotonic() - began:.0f} s ")
            sys.stderr.flush()
            self._shown = True
            frame += 1
            wait = _PROGRESS_EVERY if pretty else _PROGRESS_AFTER

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not Spinner._one_spins:
            Spinner._one_spins = True
            self._thread = threading.Thread(target=self._tell, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()
            Spinner._one_spins = False
        if self._shown:
            _clear()


def _clear() -> None:
    sys.stderr.write("\r\x1b[K" if os.environ.get("TERM", "dumb") != "dumb" else "\n")
    sys.stderr.flush()


# --- the pager, for what is longer than the screen

PAGER: Final = "less"
DEFAULTS: Final = {"LESS": "FRX", "LV": "-c"}
"""How pagers behave if the environment does not say: end if all fits, show colours, leave the screen as it is."""


@contextmanager
def paged() -> Iterator[None]:
    """Show what is printed to a terminal through the pager if it is longer than the screen.

    ADJOURN_PAGER comes before PAGER; `cat` or nothing turns the pager off.
    """
    command = _command() if fancy() and sys.stdin.isatty() and sys.stdout.isatty() else []
    if not command:
        yield
        return
    buffer = _Kept(sys.stdout)
    try:
        with redirect_stdout(buffer):
            yield
    finally:
        _show(command, buffer.getvalue())


class _Kept(StringIO):
    """Text on its way to a terminal: it is drawn as for that terminal."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a text has none of its own
        return self._terminal.encoding


def _command() -> list[str]:
    """The words of the pager; none if it is turned off, or cannot be found."""
    import shlex

    from adjourn.host.executables import find

    try:
        words = shlex.split(os.environ.get("ADJOURN_PAGER", os.environ.get("PAGER", PAGER)))
    except ValueError:
        return []
    program = find(words[0], os.getcwd()) if words and words[0] != "cat" else None
    return [program, *words[1:]] if program else []


def _show(command: list[str], text: str) -> None:
    import subprocess

    from adjourn.host.executables import outside

    try:
        rows = os.get_terminal_size(sys.stdout.fileno()).lines
    except (OSError, ValueError):
        rows = 0
    if text.count("\n") < rows or not rows:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    environment = DEFAULTS | outside(os.environ, os.getcwd())
    with (
        _interrupts_are_the_pagers(),
        subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8", errors="replace"
        ) as pager,
        suppress(BrokenPipeError),  # the reader has seen enough
    ):
        pager.communicate(text)


@contextmanager
def _interrupts_are_the_pagers() -> Iterator[None]:
    """Ctrl-C reaches both processes; the pager decides what it means."""
    import signal

    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
