"""What a client has done and submitted: commands that the journal has of it, and the plan, its tasks, and the verdict of a phase."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import Any

import msgspec

from adjourn.checkpoints.plans import gone_by_task
from adjourn.code.deadline import Deadline
from adjourn.code.session_state import CheckRun, Phase, PlanTask, SessionState
from adjourn.code.workflow import checks, evidence, payloads, phases
from adjourn.code.workflow.phases import FlowError, StepOutcome, mismatch, proceed, stay
from adjourn.code.workflow.request import PLANNING, RecordedCommand, Worktree
from adjourn.errors import AdjournError, InvalidError
from adjourn.host.clock import now
from adjourn.host.keys import reading_secret
from adjourn.log import kinds
from adjourn.log.event import decode, milliseconds
from adjourn.store.base import Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task, tasks_of
from adjourn.tasks.troubles import open_troubles
from adjourn.text.command_lines import is_shell

_OF_HOOKS = ("shell.exec", "file.write")
_RECENT = 1_000
"""Events of a task that are read, the newest."""
_HOOKED_CLIENTS = {".claude/": "claude", ".codex/": "codex"}
_KEYS = ("command", "cmd", "script")
_BACKGROUND = ("run_in_background", "is_background", "background")
_CUT = re.compile(
    r'\{(?:"\w+":\s*(?:"(?:[^"\\]|\\.)*"|[\w.+-]+),\s*){0,9}"(?:command|cmd|script)":\s*"((?:[^"\\]|\\.)*)("?)'
)
"""A command in arguments that were cut: a member of the object itself, not of one within it, which an agent may write."""

_TASKS, _TROUBLES = 20, 10
"""How many tasks are looked at for troubles, and how many troubles are shown."""


def recorded_commands(store: Store, root: str, client: str, since: str) -> list[RecordedCommand] | None:
    """The commands that were recorded in a workspace since a time, in order; None if no client of this kind is recorded.

    A client is recorded if the workspace has hooks for it, or if the journal has such calls.
    """
    from adjourn.setup.checks import hook_commands  # a fifth of what a server imports, for verdicts alone

    is_recorded = any(
        relative.startswith(folder) and name in client.casefold()
        for relative, _ in hook_commands(root)
        for folder, name in _HOOKED_CLIENTS.items()
    )
    began = _milliseconds(since)
    commands: list[RecordedCommand] = []
    for task, head in tasks_of(store).items():
        if head.seq < 0 or _milliseconds(decode(next(store.read(task, head.seq)).data).timestamp) < began:
            continue
        running: dict[str, str] = {}
        for entry in verified_entries_from(store, task, head.seq - _RECENT, head):
            event = decode(entry.data)
            data = kinds.data_of(event)
            if (
                isinstance(data, kinds.ToolAllowed)
                and data.effectful
                and (is_shell(data.tool) or data.tool in _OF_HOOKS)
            ):
                command = command_in(data.arguments)
                is_recorded |= bool(command or data.tool in _OF_HOOKS) and _milliseconds(event.timestamp) >= began
                running[data.call] = command
            elif isinstance(data, kinds.ToolSettled) and (command := running.pop(data.call, "")):
                if data.outcome == "ok" and not data.answer:
                    continue  # nobody saw how it ended: the client's turn was over
                commands.append(RecordedCommand(command, data.outcome == "ok", _milliseconds(event.timestamp)))
    recent = [command for command in commands if command.ended_ms >= began]
    return sorted(recent, key=lambda command: command.ended_ms) if is_recorded else None


def known_troubles(store: Store, root: str) -> list[str]:
    """What is known to be wrong with the newest open tasks of a workspace, one line each with its next step, as the hand-over has it."""
    ledgers, lines = list[Ledger](), list[str]()
    for name in list(reversed(tasks_of(store)))[:_TASKS]:
        with suppress(AdjournError):  # one that cannot be read hides no other
            ledgers.append(Task(store, name, clock=now, secret=reading_secret()).ledger)
    gone = gone_by_task(root, {ledger.task: ledger.gone for ledger in ledgers})
    for ledger in ledgers:
        lines += (f"{ledger.task}: {trouble.text}" for trouble in open_troubles(ledger, gone.get(ledger.task, ())))
    more = len(lines) - _TROUBLES
    return lines if more <= 0 else [*lines[:_TROUBLES], f"and {more} more: `adjourn inbox` lists them"]


def command_in(arguments: str) -> str:
    """The command line in the recorded arguments of a shell, "" for none. If they were cut, so may it be: it ends with an ellipsis."""
    with suppress(msgspec.DecodeError, RecursionError):
        members = msgspec.json.decode(arguments)
        return _command_line(members) if isinstance(members, dict) else ""
    if (match := _CUT.match(arguments)) is None:
        return ""
    text = match[1].removesuffix("…")
    try:
        command: str = msgspec.json.decode(f'"{text}"', type=str)
    except msgspec.DecodeError:  # cut inside an escape
        command = text
    return command if match[2] else f"{command}…"


def _command_line(members: dict[str, Any]) -> str:
    """A command is a text, or a list of words, or a program with a list `args`."""
    if any(members.get(key) for key in _BACKGROUND):
        return ""  # the answer comes before its end
    value = next((members[key] for key in _KEYS if key in members), "")
    words = members.get("args", []) if isinstance(value, str) else value
    if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        return ""
    return " ".join(filter(None, (value, shlex.join(words)))) if isinstance(value, str) else shlex.join(words)


def _milliseconds(stamp: str) -> int:
    try:
        return milliseconds(stamp)
    except InvalidError:  # a checkpoint of another make
        return 0


# --- submissions of the work phases: the plan, its tasks, the verdict, and what follows a failure

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
    guide = worktree.prompt(PLANNING)[:MAX_GUIDE]
    extras = {
        "tasks_registered": len(state.tasks),
        "pending": len(state.pending),
        "completed": len(state.finished),
        "next_task": _task_members(state.pending[0]),
        **({"planning_guide": guide} if guide else {}),
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
    judged = checks.judge(worktree, state, payload, deadline)
    payload, runs = judged.verdict, {"evidence": [_shown(run) for run in state.check_runs]}
    if payload.passed:
        unchanged = checks.is_unchanged(worktree, state)
        state.outcome = "nothing_changed" if unchanged else "proved" if judged.proved else "unproved"
        warnings = [*judged.warnings, *([checks.NOTHING_CHANGED] if unchanged else [])]
        told = {"warnings": warnings} if warnings else {}
        return proceed(
            state,
            {"verified": not unchanged or state.strictness == "lenient", "outcome": state.outcome, **told, **runs},
        )
    state.outcome = "failed"
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


def _shown(run: CheckRun) -> dict[str, Any]:
    """A run as the reply has it: of the client's own, what the client does not know."""
    members: dict[str, Any] = msgspec.to_builtins(run)
    return members if run.ran_by == "server" else {name: members[name] for name in ("command", "exit_code", "proved")}


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
