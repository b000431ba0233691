"""Asking a person for a secret at the controlling terminal, which shows nothing of it.

Owns: that dialog. Must never: read from anything but the terminal, or leave it without echo.
"""

from __future__ import annotations

import os
import select
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from adjourn.errors import RefusedError

TERMINAL: Final = "/dev/tty"
ANSWER_SECONDS: Final = 180.0
_MAX_BYTES = 1024


def ask(prompt: str) -> str:
    """The line that a person types. Raises `RefusedError` without a terminal, without a line, and where nobody answers in time."""
    with _terminal() as handle:
        _drop_typed(handle)
        return _asked(handle, prompt)


def _asked(handle: int, prompt: str) -> str:
    with _silent(handle):
        os.write(handle, prompt.encode(errors="replace"))
        try:
            return _line(handle).decode(errors="surrogateescape")
        finally:
            os.write(handle, b"\n")


def tell(text: str) -> None:
    """Write a line to the terminal, if there is one."""
    with _terminal() as handle:
        os.write(handle, text.encode(errors="replace") + b"\n")


@contextmanager
def _terminal() -> Iterator[int]:
    try:
        handle = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise RefusedError(f"there is no terminal: {error.strerror}", "run it in a terminal") from error
    try:
        yield handle
    except termios.error as error:
        raise RefusedError("the terminal was closed", "run it in a terminal") from error
    finally:
        os.close(handle)


def _drop_typed(handle: int) -> None:
    """Forget what was typed before it was asked for. Raises `RefusedError` where the input has ended: nobody types there."""
    while select.select([handle], [], [], 0)[0]:
        if not os.read(handle, _MAX_BYTES):
            raise RefusedError("the input of the terminal has ended", "run it in a terminal")


@contextmanager
def _silent(handle: int) -> Iterator[None]:
    before = termios.tcgetattr(handle)
    quiet = termios.tcgetattr(handle)
    quiet[3] = quiet[3] & ~termios.ECHO | termios.ICANON | termios.ISIG
    try:
        termios.tcsetattr(handle, termios.TCSAFLUSH, quiet)
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSAFLUSH, before)


def _line(handle: int) -> bytes:
    end, line = time.monotonic() + ANSWER_SECONDS, b""
    while not line.endswith(b"\n"):
        remaining = end - time.monotonic()
        if remaining <= 0 or not select.select([handle], [], [], remaining)[0]:
            raise RefusedError(f"nothing was typed within {ANSWER_SECONDS:g} s", "run the command again")
        part = os.read(handle, _MAX_BYTES)
        line += part
        if not part or len(line) > _MAX_BYTES:
            raise RefusedError("nothing was typed that can be used", "run the command again")
    return line[:-1]
