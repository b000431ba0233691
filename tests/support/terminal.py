"""A person's terminal: what is started there descends from no test, and has a terminal that is its own.

Owns: `at_terminal`, and `serving_at_terminal` for what runs until it is told to end. Must never: waive a check of the program under test.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_RUN = """
exec {own}<>"$0"  # a shell that leads a session takes the first terminal that it opens as its own
told=$1; shift
echo $$ >&"$told"
(exec {own}>&- {told}>&-; exec "$@")
echo $? >&"$told"
"""
_SETSID, _BASH = shutil.which("setsid") or "", shutil.which("bash") or ""
SECONDS = 120.0


def command_apart(terminal: str, status: int, command: Sequence[str]) -> list[str]:
    """What starts a command at a terminal, as a child of nobody here; its process and exit code come through the pipe `status`."""
    return [_SETSID, "--fork", _BASH, "-c", _RUN, terminal, str(status), *command]


def at_terminal(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    given: str | None = None,
    seconds: float = SECONDS,
    apart: bool = True,
    terminal: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, by default with a terminal of its own that nobody types into; its standard streams are the caller's.

    `apart`: as a child of nobody here, as from another window.
    """
    other_end, name = os.openpty()
    report, status = os.pipe()
    try:
        with subprocess.Popen(
            [_SETSID, *["--fork"][:apart], _BASH, "-c", _RUN, os.ttyname(name) if terminal else os.devnull, str(status), *command],
            cwd=cwd, env=env, pass_fds=(status,), stdin=stdin if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as started, os.fdopen(os.dup(report), encoding="ascii") as told:  # fmt: skip
            os.close(status)  # so that the report ends when its writers are gone
            session = int(told.readline())
            try:
                out, errors = started.communicate(given, timeout=seconds)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(session, signal.SIGKILL)
                raise
            return subprocess.CompletedProcess(command, int(told.readline()), out, errors)
    finally:
        for descriptor in (other_end, name, report):
            os.close(descriptor)


@contextmanager
def serving_at_terminal(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Start a server at a terminal of its own, as a child of nobody here; it is ended as by Ctrl-C, and must then exit with 0."""
    other_end, name = os.openpty()
    report, status = os.pipe()
    try:
        with subprocess.Popen(
            command_apart(os.ttyname(name), status, command), cwd=cwd, env=env, pass_fds=(status,), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as started, os.fdopen(os.dup(report), encoding="ascii") as told:  # fmt: skip
            os.close(status)
            session = int(told.readline())
            try:
                yield started
                os.killpg(session, signal.SIGTERM)
                started.communicate(timeout=SECONDS)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(session, signal.SIGKILL)
    finally:
        for descriptor in (other_end, name, report):
            os.close(descriptor)
