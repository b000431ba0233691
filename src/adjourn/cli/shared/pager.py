"""A person's pager, for what is longer than their screen. As git does it: $PAGER, else less.

Owns: whether there is one, and how it is started. Must never: start a program that lies in the workspace, or start one for a pipe.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from typing import Final, TextIO

from adjourn.cli.shared.terminal import fancy
from adjourn.host import find, outside

PAGER: Final = "less"
DEFAULTS: Final = {"LESS": "FRX", "LV": "-c"}
"""How pagers behave if the environment does not say: end if all fits, show colours, leave the screen as it is."""


@contextmanager
def paged() -> Iterator[None]:
    """Show what is printed to a terminal through the pager if it is longer than the screen.

    ADJOURN_PAGER comes before PAGER; `cat` or nothing turns the pager off.
    """
    command = _command() if fancy() and sys.stdin.isatty() else []
    if not command:
        yield
        return
    kept = _Kept(sys.stdout)
    try:
        with redirect_stdout(kept):
            yield
    finally:
        _show(command, kept.getvalue())


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
    try:
        words = shlex.split(os.environ.get("ADJOURN_PAGER", os.environ.get("PAGER", PAGER)))
    except ValueError:
        return []
    program = find(words[0], os.getcwd()) if words and words[0] != "cat" else None
    return [program, *words[1:]] if program else []


def _show(command: list[str], text: str) -> None:
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
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
