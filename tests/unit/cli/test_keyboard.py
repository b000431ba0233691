"""The terminal's modes while its keys are read."""

from __future__ import annotations

import os
import subprocess
import sys
import termios
from contextlib import closing

import pytest

READS_KEYS = """
import os, signal, sys, termios
from adjourn.cli.inbox_keys import keyboard

change = termios.tcsetattr

def told_to_end_again(*arguments):
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    change(*arguments)

with keyboard():
    termios.tcsetattr = told_to_end_again
    if sys.argv[1] != "none":
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [("none", "SIGTERM", 0), ("SIGTERM", "SIGTERM", 143), ("SIGHUP", "SIGTERM", 129), ("SIGTERM", "SIGINT", 143)],
)
def test_a_signal_does_not_keep_the_terminal_from_being_put_back(first: str, second: str, code: int) -> None:
    """A signal that comes while the modes are put back leaves them as they were before, and the exit code that of the first signal."""
    end, terminal = os.openpty()
    with closing(os.fdopen(end, "rb", buffering=0)), closing(os.fdopen(terminal, "rb", buffering=0)) as stdin:
        before = termios.tcgetattr(stdin)
        done = subprocess.run(
            [sys.executable, "-c", READS_KEYS, first, second],
            stdin=stdin, stdout=stdin, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, termios.tcgetattr(stdin)) == (code, before), done.stderr
