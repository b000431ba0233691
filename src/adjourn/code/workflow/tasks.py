"""Submissions of the work phases: the plan, its tasks, the verdict, and what follows a failure.

Must never: trust a client's failure counts.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.session_state import CheckRun, Phase, PlanTask, SessionState, stamp
from adjourn.code.workflow import evidence, payloads, phases
from adjourn.code.workflow.payloads import VerifierVerdict
from adjourn.code.workflow.phases import FlowError, StepOutcome, mismatch, proceed, stay
from adjourn.code.workflow.request import PLANNING, Worktree
from adjourn.host import executables
from adjourn.host.executables import find, outside
from adjourn.log.canonical_json import digest
from adjourn.runs.subprocesses import ProgramError, run_program
from adjourn.text.redact import without_secrets

MAX_FAILURES = 3
MAX_INTERVENTIONS = 2
MAX_GUIDE = 2_000
MAX_FILES = 1_000
_MAX_HISTORY = 50


def plan(worktree: Worktree, state: SessionState, payload: payloads.TaskPlan) -> StepOutcome:
    """Replace the task list. Failure counts are the server's own."""
    if not payload.tasks:
        raise FlowError("empty_tasks", "the task list is empty: add at least one pending task")
    ids = [task.id for task in payload.tasks]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise FlowError("duplicate_task_ids", f"duplicate task ids: {', '.join(twice)}", duplicates=twice)
    registered = {task.id: task for task in state.tasks}
    state.tasks = [_plan_task(submitted, registered.get(submitted.id)) for submitted in payload.tasks]
    if not state.pending:
        raise FlowError("no_pending_tasks", "the task list has no pending task: add the remaining work")
    if state.strictness != "lenient":
        _check_files(worktree, state)
    state.ready_substep = "implement"
    extras = {
        "tasks_registered": len(state.tasks),
        "pending": len(state.pending),
        "completed": len(state.finished),
        "next_task": _task_members(state.pending[0]),
        "planning_guide": worktree.prompt(PLANNING)[:MAX_GUIDE],
    }
    return stay(extras)


def _check_files(worktree: Worktree, state: SessionState) -> None:
    """Raise `FlowError` unless every file of a pending task may be written."""
    files = list(dict.fromkeys(name for task in state.pending for name in task.files))
    if len(files) > MAX_FILES:
        raise mismatch(f"the tasks name {len(files)} files: name at most {MAX_FILES}")
    answers = [evidence.check_target(state, worktree, name, allow_new_files=True) for name in files]
    if refused := [answer for answer in answers if not answer["allowed"]]:
        raise mismatch(
            "the tasks name files that may not be changed",
            refused_files={answer["file_path"]: answer["error"] for answer in refused},
            recovery_options=refused[0]["recovery_options"],
        )


def done(worktree: Worktree, state: SessionState, payload: payloads.TaskDone) -> StepOutcome:
    """Complete a task, which must be the first pending one."""
    if not state.tasks:
        raise FlowError("no_tasks", "no tasks are registered: submit the plan first")
    task = next((each for each in state.tasks if each.id == payload.task_id), None)
    if task is None:
        ids = [each.id for each in state.tasks]
        raise FlowError("unknown_task", f"unknown task id {payload.task_id!r}", registered_tasks=ids)
    if task.status == "completed":
        raise FlowError("already_completed", f"task {task.id} is already completed", next_task=_next_task(state))
    if task is not state.pending[0]:
        first = state.pending[0].id
        raise FlowError("wrong_order", f"task {first} comes before {task.id}", expected_task=first)
    if state.strictness != "lenient" and task.checklist:
        evidence.checklist(worktree.repository, task, payload.checklist)
    task.status = "completed"
    state.phase_payloads[f"task_{task.id}"] = {"summary": payload.summary[:400]}
    extras: dict[str, Any] = {"progress": progress(state), "next_task": _next_task(state)}
    if not state.pending:
        extras["all_complete"] = True
        state.ready_substep = "complete"
    return stay(extras)


def complete(state: SessionState) -> StepOutcome:
    """Finish READY. Raises `FlowError` while a task is pending."""
    if not state.tasks:
        raise FlowError("no_tasks_registered", "no tasks are registered: submit the plan first")
    if state.pending:
        raise FlowError(
            "incomplete_tasks",
            "some tasks are still pending",
            pending_tasks=[_task_members(task) for task in state.pending],
        )
    return proceed(state, {})


def verdict(
    worktree: Worktree, state: SessionState, payload: payloads.VerifierVerdict, deadline: Deadline
) -> StepOutcome:
    """Apply the verifier's verdict. A failure without task ids counts for every task."""
    commands, folder = worktree.test_commands, worktree.repository.root
    payload = judge(commands, folder, state, payload, deadline)
    runs = {"evidence": msgspec.to_builtins(state.check_runs)}
    if payload.passed:
        return proceed(state, {"verified": True, **runs})
    ids = [task.id for task in state.tasks]
    unknown = [name for name in payload.failed_tasks if name not in ids]
    if unknown:
        raise mismatch(f"unknown task ids: {', '.join(unknown)}", registered_tasks=ids)
    failed = payload.failed_tasks or ids
    state.verification_failure_count += 1
    state.failure_history.append({"failed_tasks": failed, "details": payload.details[:2000]})
    del state.failure_history[:-_MAX_HISTORY]
    for task in state.tasks:
        if task.id in failed:
            task.failure_count += 1
            task.revert_reason = payload.details[:2000] or "verification failed"
            task.status = "pending"
    high = [task.id for task in state.tasks if task.failure_count >= MAX_FAILURES]
    if high and not (state.no_intervention or state.quick_mode):
        extras = {
            **runs,
            "failure_details": payload.details,
            "failed_tasks": failed,
            "high_failure_tasks": high,
            "verified": False,
        }
        if state.intervention_count >= MAX_INTERVENTIONS:
            state.escalated = True
            extras["user_escalation"] = True
        return StepOutcome(Phase.VERIFY_INTERVENTION, extras, "failed several times")
    return revert(state, payload.details or "verification failed", {**runs, "verified": False, "failed_tasks": failed})


def intervention(_worktree: Worktree, state: SessionState, _payload: payloads.Intervention) -> StepOutcome:
    """Record an intervention and reset the failure counts. After `MAX_INTERVENTIONS`, ask the user."""
    state.intervention_count += 1
    _forget_failures(state)
    extras = {"intervention_count": state.intervention_count, "failure_counts_reset": True}
    if state.intervention_count >= MAX_INTERVENTIONS:
        state.escalated = True
        return stay({**extras, "user_escalation": True})
    return revert(state, "after an intervention", extras)


def user_decision(_worktree: Worktree, state: SessionState, payload: payloads.UserDecision) -> StepOutcome:
    """Apply the user's decision after failed interventions."""
    state.escalated = False
    state.intervention_count = 0
    extras = {"user_decision": payload.user_decision}
    if payload.user_decision == "stop":
        message = f"the session ended; the work stays on {state.task_branch_name or 'the branch that is checked out'}"
        return StepOutcome(None, {**extras, "stopped": True, "message": message}, over=True)
    if payload.user_decision == "accept":
        for task in state.tasks:
            task.status = "completed"
        return StepOutcome(
            phases.following(state, Phase.POST_IMPL_VERIFY), {**extras, "verified": False}, "accepted by the user"
        )
    _forget_failures(state)
    return revert(state, "the user wants another attempt", extras)


def revert(state: SessionState, reason: str, extras: dict[str, Any]) -> StepOutcome:
    """Return to the plan; the client submits the whole list again, with finished tasks as completed."""
    members = {
        **extras,
        "revert_to": "READY",
        "reason": reason,
        "existing_tasks": [_task_members(task) for task in state.tasks],
    }
    return StepOutcome(Phase.READY, members, reason)


def progress(state: SessionState) -> dict[str, Any]:
    return {
        "total": len(state.tasks),
        "completed": len(state.finished),
        "pending": len(state.pending),
        "next_task": _next_task(state),
        "tasks": [_task_members(task) for task in state.tasks],
    }


def _forget_failures(state: SessionState) -> None:
    for task in state.tasks:
        task.failure_count = 0


def _plan_task(submitted: payloads.SubmittedTask, registered: PlanTask | None) -> PlanTask:
    return PlanTask(
        id=submitted.id,
        description=submitted.description,
        status=submitted.status,
        failure_count=registered.failure_count if registered else 0,
        revert_reason=submitted.revert_reason,
        checklist=submitted.checklist,
        files=submitted.files,
    )


def _next_task(state: SessionState) -> dict[str, Any] | None:
    return _task_members(state.pending[0]) if state.pending else None


def _task_members(task: PlanTask) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(task)
    return members


# --- the checks that a verdict rests on

MAX_SECONDS = 1_800.0
"""How long a command may run."""
MAX_REPORTED = 50
_SHOWN = 2_000
_LOOK_SECONDS = 0.5
_NOT_RUN = 127


def judge(
    commands: Sequence[tuple[str, ...]], folder: str, state: SessionState, verdict: VerifierVerdict, deadline: Deadline
) -> VerifierVerdict:
    """The verdict, now that its checks are recorded in `state`: a failure if a command of the user's fails.

    Raises `FlowError` if it says `passed` and nothing was run, or something that failed.
    """
    if len(verdict.evidence) > MAX_REPORTED:
        raise mismatch(f"`evidence` has {len(verdict.evidence)} commands: name at most {MAX_REPORTED}")
    if not all(check.command.strip() for check in verdict.evidence):
        raise mismatch("a `command` in `evidence` is empty: name what was run")
    state.check_runs = [
        _check_run(check.command, check.exit_code, check.output, ran_by="client") for check in verdict.evidence
    ]
    if not verdict.passed:
        return verdict
    if failed := [check for check in state.check_runs if check.exit_code]:
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
        run = _run_check(words, folder, deadline, number, len(commands))
        state.check_runs.append(run)
        if run.exit_code:
            details = f"{run.command} exited with {run.exit_code}:\n{run.output_end}"
            return msgspec.structs.replace(verdict, passed=False, details=details)
    return verdict


def _run_check(words: tuple[str, ...], folder: str, deadline: Deadline, number: int, total: int) -> CheckRun:
    """Run a command to its end. It ends with this server, whatever way that ends."""
    began = time.monotonic()
    ended: list[tuple[int, str]] = []
    worker = threading.Thread(target=lambda: ended.append(_run_program(words, folder)), daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(_LOOK_SECONDS)
        part = min((time.monotonic() - began) / MAX_SECONDS, 1)
        deadline.report(int(1_000 * (number + part)), 1_000 * total)
    code, output = ended[0]
    seconds = round(time.monotonic() - began, 3)
    return _check_run(shlex.join(words), code, output, ran_by="server", seconds=seconds)


def _run_program(words: tuple[str, ...], folder: str) -> tuple[int, str]:
    """Exit code and output."""
    program = find(words[0])
    if program is None:
        return _NOT_RUN, f"{words[0]} is not on PATH"
    supervised = executables.python_command("-m", "adjourn.host.supervise", str(os.getpid()), program, *words[1:])
    try:
        done = run_program(supervised, folder, MAX_SECONDS, environment=outside(os.environ, folder))
    except ProgramError as error:
        return _NOT_RUN, error.message
    return done.code, done.output + done.errors


def _check_run(command: str, code: int, output: str, *, ran_by: str, seconds: float = 0.0) -> CheckRun:
    return CheckRun(
        command=without_secrets(command)[:_SHOWN],
        exit_code=code,
        output_digest=digest(output.encode("utf-8", "replace")),
        output_end=without_secrets(output)[-_SHOWN:],
        seconds=seconds,
        ran_by=ran_by,  # type: ignore[arg-type]
        at=stamp(),
    )
