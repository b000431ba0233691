"""The checks that a verdict rests on: commands that this server ran, or that the client reports.

The user names the project's test commands when the server is started (`--test-command`). Nothing in the repository can.

Owns: running those commands, and what a verdict needs. Must never: run another command, or let one outlive the server.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Sequence

import msgspec

from adjourn.code.model.deadline import Deadline
from adjourn.code.model.session_state import CheckRun, SessionState, stamp
from adjourn.code.workflow.outcome import mismatch
from adjourn.code.workflow.payloads import ReportedCheck, VerifierVerdict
from adjourn.host import find, outside, python
from adjourn.log import digest
from adjourn.runs import ProgramError, run_program
from adjourn.text import without_secrets

MAX_SECONDS = 1_800.0
"""How long a command may run."""
MAX_REPORTED = 50
_SHOWN = 2_000
_LOOK_SECONDS = 0.5
_NOT_RUN = 127


def judged(
    commands: Sequence[tuple[str, ...]],
    folder: str,
    state: SessionState,
    verdict: VerifierVerdict,
    deadline: Deadline,
) -> VerifierVerdict:
    """The verdict, now that its checks are recorded in `state`: a failure if a command of the user's fails.

    Raises `FlowError` if it says `passed` and nothing was run, or something that failed.
    """
    if len(verdict.evidence) > MAX_REPORTED:
        raise mismatch(f"`evidence` has {len(verdict.evidence)} commands: name at most {MAX_REPORTED}")
    state.check_runs = [_reported(one) for one in verdict.evidence]
    if not verdict.passed:
        return verdict
    if failed := [one for one in state.check_runs if one.exit_code]:
        raise mismatch(
            f"`passed` is true, but {failed[0].command} exited with {failed[0].exit_code}: submit `passed` as false,"
            " with the ids of the failed tasks"
        )
    if not (commands or state.check_runs) and state.strictness != "lenient":
        raise mismatch(
            "`passed` is true, and nothing was run: run the project's tests and the checks of the verifier, and submit"
            " each command in `evidence`, as {command, exit_code, output}"
        )
    for number, words in enumerate(commands):
        run = _run(words, folder, deadline, number, len(commands))
        state.check_runs.append(run)
        if run.exit_code:
            details = f"{run.command} exited with {run.exit_code}:\n{run.output_end}"
            return msgspec.structs.replace(verdict, passed=False, details=details)
    return verdict


def _reported(one: ReportedCheck) -> CheckRun:
    if not one.command.strip():
        raise mismatch("a `command` in `evidence` is empty: name what was run")
    return _recorded(one.command, one.exit_code, one.output, ran_by="client")


def _run(words: tuple[str, ...], folder: str, deadline: Deadline, number: int, total: int) -> CheckRun:
    """Run a command to its end. It ends with this server, whatever way that ends."""
    began = time.monotonic()
    ended: list[tuple[int, str]] = []
    worker = threading.Thread(target=lambda: ended.append(_ended(words, folder)), daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(_LOOK_SECONDS)
        part = min((time.monotonic() - began) / MAX_SECONDS, 1)
        deadline.report(int(1_000 * (number + part)), 1_000 * total)
    code, output = ended[0]
    seconds = round(time.monotonic() - began, 3)
    return _recorded(shlex.join(words), code, output, ran_by="server", seconds=seconds)


def _ended(words: tuple[str, ...], folder: str) -> tuple[int, str]:
    """Exit code and output."""
    program = find(words[0])
    if program is None:
        return _NOT_RUN, f"{words[0]} is not on PATH"
    supervised = python.command("-m", "adjourn.host.supervise", str(os.getpid()), program, *words[1:])
    try:
        done = run_program(supervised, folder, MAX_SECONDS, environment=outside(os.environ, folder))
    except ProgramError as error:
        return _NOT_RUN, error.message
    return done.code, done.output + done.errors


def _recorded(command: str, code: int, output: str, *, ran_by: str, seconds: float = 0.0) -> CheckRun:
    return CheckRun(
        command=without_secrets(command)[:_SHOWN],
        exit_code=code,
        output_digest=digest(output.encode("utf-8", "replace")),
        output_end=without_secrets(output)[-_SHOWN:],
        seconds=seconds,
        ran_by=ran_by,  # type: ignore[arg-type]
        at=stamp(),
    )
