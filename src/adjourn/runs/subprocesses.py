"""Running a program for a step: without a shell, with bounds on its time and output, and never outliving the step.

Owns: `run_program`. Must never: decide which program may be run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

import msgspec

from adjourn.errors import AdjournError
from adjourn.host import find, for_others

MAX_OUTPUT = 1_000_000
"""Bytes kept of each of a program's two outputs: half from the beginning, half from the end."""
_DRAIN_SECONDS = 2.0


class ProgramError(AdjournError):
    """A program could not be started, or took too long. `started`: it may have had an effect."""

    def __init__(self, message: str, remedy: str, *, started: bool) -> None:
        super().__init__(message, remedy)
        self.started = started


class Ended(msgspec.Struct, frozen=True):
    """The result of a program. Bytes that are no UTF-8 are replaced; `whole` is whether nothing was left out."""

    code: int
    output: str
    errors: str
    whole: bool = True


def run_program(
    command: Sequence[str],
    folder: str,
    seconds: float,
    *,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program to its end in `folder`. Its whole process group is killed when time is up, or this is interrupted.

    A name is looked up in the absolute entries of PATH: a relative one is a folder of the workspace.
    """
    program = find(command[0])
    if program is None:
        raise ProgramError(
            f"cannot start {command[0]}: it is not on PATH", "install it, or fix PATH", started=False
        )
    try:
        process = subprocess.Popen(
            list(command),
            executable=program,
            cwd=folder,
            env=for_others(os.environ if environment is None else environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ProgramError(
            f"cannot start {command[0]}: {reason}", "install it, or fix PATH", started=False
        ) from error
    try:
        kept = [_OutputReader(stream) for stream in (process.stdout, process.stderr) if stream]
        _Given(process.stdin, given)
        process.wait(seconds)
    except subprocess.TimeoutExpired as error:
        raise ProgramError(
            f"{command[0]} did not end within {seconds:g} seconds, and was killed",
            "give it less to do",
            started=True,
        ) from error
    finally:
        _kill_group(process)
    output, errors = (one.text() for one in kept)
    return Ended(process.returncode, output, errors, not any(one.left_out for one in kept))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the remaining processes of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Given(threading.Thread):
    """Feeds a program's input, so that it cannot wait for us while we wait for it."""

    def __init__(self, stream: IO[bytes] | None, data: bytes) -> None:
        super().__init__(daemon=True)
        self._stream, self._data = stream, data
        self.start()

    def run(self) -> None:
        if self._stream is not None:
            with suppress(OSError):  # it does not want to read
                self._stream.write(self._data)
                self._stream.flush()
            with suppress(OSError):
                self._stream.close()


class _OutputReader(threading.Thread):
    """Reads one output to its end, and keeps its first and last bytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._first, self._last, self._size = b"", b"", 0
        self.start()

    def run(self) -> None:
        half = MAX_OUTPUT // 2
        with suppress(OSError, ValueError), self._stream:
            while data := os.read(self._stream.fileno(), 65_536):
                self._size += len(data)
                room = half - len(self._first)
                self._first += data[:room]
                self._last = (self._last + data[room:])[-half:]

    @property
    def left_out(self) -> int:
        return self._size - len(self._first) - len(self._last)

    def text(self) -> str:
        self.join(_DRAIN_SECONDS)
        gap = f"\n[{self.left_out:,} bytes left out]\n".encode() if self.left_out else b""
        return (self._first + gap + self._last).decode(errors="replace")
