"""Programs that a step runs, git and its patches among them: no shell, bounds on time and output, never outliving the step.

Must never: decide which program may be run.
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

from adjourn.errors import AdjournError, InvalidError, RefusedError
from adjourn.host.executables import find, for_others
from adjourn.host.git import GitCommand, distrusting

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
        raise ProgramError(f"cannot start {command[0]}: it is not on PATH", "install it, or fix PATH", started=False)
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
        raise ProgramError(f"cannot start {command[0]}: {reason}", "install it, or fix PATH", started=False) from error
    try:
        readers = [_OutputReader(stream) for stream in (process.stdout, process.stderr) if stream]
        _Given(process.stdin, given)
        process.wait(seconds)
    except subprocess.TimeoutExpired as error:
        raise ProgramError(
            f"{command[0]} did not end within {seconds:g} seconds, and was killed", "give it less to do", started=True
        ) from error
    finally:
        _kill_group(process)
    output, errors = (reader.text() for reader in readers)
    return Ended(process.returncode, output, errors, not any(reader.left_out for reader in readers))


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


# --- patches, as git itself reads them

MAX_PATCH = 20_000_000
SECONDS = 60.0
_LOOK = "check it: git config --list"


def git(root: str, *arguments: str, given: bytes = b"", outer: bool = True) -> Ended:
    """Run git in a workspace, and nothing that its repository names. Raises `ProgramError`, and as `distrusting` does."""

    def run(command: GitCommand, words: Sequence[str]) -> tuple[int, bytes]:
        ended = run_program([*command.words, *words], root, SECONDS, environment=command.environment)
        if not ended.whole or "\ufffd" in ended.output:  # a name that is not known cannot be switched off
            raise RefusedError(f"the repository in {root} has too many settings, or settings that are not UTF-8", _LOOK)
        return ended.code, ended.output.encode()

    command = distrusting(root, run, outer=outer)
    return run_program([*command.words, *arguments], root, SECONDS, given=given, environment=command.environment)


def touched(root: str, patch: str) -> list[str]:
    """The files that `git apply` would change, create or remove; of a rename, both. `InvalidError` for no patch."""
    files: dict[str, None] = {}
    for reading in ((), ("--reverse",)):  # backwards, the names are those before the change
        ended = _apply(root, patch, "--numstat", "-z", *reading)
        if ended.code:
            raise InvalidError(f"git cannot parse the patch: {_reason(ended)}", "give a unified diff with file headers")
        if not ended.whole or "\ufffd" in ended.output:
            raise InvalidError("the patch names too many files, or one that is not UTF-8", "split it")
        for line in ended.output.split("\0"):
            name = line.split("\t", 2)[-1]
            if name:
                files[name] = None
    return list(files)


def apply(root: str, patch: str) -> dict[str, object]:
    """`{applied, message?}`. A patch is applied whole, or not at all."""
    ended = _apply(root, patch, "--whitespace=nowarn")
    return {"applied": True} if not ended.code else {"applied": False, "message": _reason(ended)}


def _apply(root: str, patch: str, *options: str) -> Ended:
    data = patch.encode("utf-8", "surrogateescape")
    if len(data) > MAX_PATCH:
        raise InvalidError(f"the patch has more than {MAX_PATCH:,} bytes", "split it")
    if not data.endswith(b"\n"):
        data += b"\n"  # a text that came out of JSON or a model often lacks it; git then calls the patch corrupt
    return git(root, "apply", *options, "-", given=data, outer=False)


def _reason(ended: Ended) -> str:
    return ended.errors.strip()[:500] or f"git apply ended with {ended.code}"
