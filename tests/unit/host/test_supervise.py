"""The process above a program: it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.processes import is_running

PROGRAM = "sleep 600 & echo $$ $! >'{}'; setsid sleep 600"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_all_that_a_program_started_ends_however_often_the_end_is_asked_for(tmp_path: Path) -> None:
    """A process with threads that is killed sends a signal for each of them, within microseconds."""
    for number in range(10):
        mark = tmp_path / str(number)
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "adjourn.host.supervise", str(os.getpid()), "/bin/sh", "-c", PROGRAM.format(mark)],
            stdin=subprocess.DEVNULL,
        ) as supervisor:  # fmt: skip
            while not (mark.exists() and mark.read_text().endswith("\n")):
                time.sleep(0.005)
            while supervisor.poll() is None:
                supervisor.send_signal(signal.SIGTERM)
        left = [pid for pid in map(int, mark.read_text().split()) if is_running(pid)]
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        assert left == []
