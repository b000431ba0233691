"""Which checkpoint or cognitive session a name means: in the store, or in a folder of the workspace that is verified in memory."""

from __future__ import annotations

import os
from typing import Any, Literal, NamedTuple

from adjourn.checkpoints import folder_verification
from adjourn.checkpoints.checkpoint import TaskCheckpoint, as_checkpoint
from adjourn.cli.context import CommandContext
from adjourn.cli.output import safe, say, say_facts
from adjourn.cli.task_view import each_task
from adjourn.errors import AdjournError, InvalidError, NotFoundError, UsageError
from adjourn.host.keys import reading_secret
from adjourn.host.workspace import CHECKPOINTS, resolve_inside
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.log.kinds import CheckpointCreated
from adjourn.store.base import Store
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import Task, tasks_of
from adjourn.text.near_words import did_you_mean

MIN_HASH = 6
_SHOWN = 5
_MARK = b'"event":"' + CheckpointCreated.KIND.encode() + b'"'


class FoundCheckpoint(NamedTuple):
    """A checkpoint, where it was found, and the store that has its history: the workspace's, or one in memory."""

    checkpoint: TaskCheckpoint
    source: Literal["store", "folder"]
    store: Store

    def task(self, context: CommandContext) -> Task:
        """The task it is of, as it is now."""
        return Task(self.store, self.checkpoint.event.task, clock=context.clock, secret=reading_secret())


def find_checkpoint(context: CommandContext, name: str) -> FoundCheckpoint:
    """A checkpoint by its name, by `TASK/NAME`, by six digits or more of its hash, or the last one of a task."""
    from adjourn.checkpoints.checkpoint import find as checkpoints_find

    if "/" in name:
        return FoundCheckpoint(checkpoints_find(context.store, name), "store", context.store)
    try:
        return _by_name(context, name)
    except (NotFoundError, InvalidError) as error:
        if not isinstance(error, NotFoundError) and "not a checkpoint name" not in error.message:
            raise
    store = context.store
    found = _by_hash(store, name.lower()) if len(name) >= MIN_HASH and _is_hex(name) else None
    if found is not None:
        return FoundCheckpoint(found, "store", store)
    try:
        ledger = context.task(name).ledger
    except (NotFoundError, InvalidError):
        known = [ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/")]
        near = did_you_mean(name, [*known, *tasks_of(store)])
        raise NotFoundError(
            f"no checkpoint or task is named {name[:80]!r}", near or "list them: adjourn checkpoints"
        ) from None
    if not ledger.checkpoint:
        raise NotFoundError(f"task {name} has no checkpoint", "save one: adjourn checkpoint write")
    own = checkpoints_find(context.store, f"{ledger.task}/{ledger.checkpoint}")
    return FoundCheckpoint(own, "store", context.store)


def only_checkpoint(context: CommandContext) -> str:
    """The newest checkpoint of the only unfinished task that has one; without a store, the only folder. Raises `UsageError`."""
    if context.store_or_none() is None and (names := checkpoint_folders(context.root)):
        found = names
    else:
        ledgers = [task.ledger for _, task in each_task(context) if not isinstance(task, AdjournError)]
        ledgers.sort(key=lambda ledger: ledger.touched, reverse=True)
        found = [ledger.checkpoint for ledger in ledgers if ledger.checkpoint and not ledger.finished]
    if not found:
        raise NotFoundError(
            "no unfinished task has a checkpoint", "list all checkpoints: adjourn checkpoints"
        )
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        raise UsageError(
            f"{len(found)} checkpoints can be meant: {shown}", "name one; `adjourn checkpoints` lists them"
        )
    return found[0]


def checkpoint_folders(root: str) -> list[str]:
    """The names of the checkpoints that have a folder in the workspace."""
    try:
        return sorted(os.listdir(resolve_inside(root, CHECKPOINTS)))
    except (OSError, AdjournError):
        return []


def _by_name(context: CommandContext, name: str) -> FoundCheckpoint:
    from adjourn.checkpoints.checkpoint import find as checkpoints_find

    kept = context.store_or_none()
    if kept is not None:
        try:
            return FoundCheckpoint(checkpoints_find(kept, name), "store", kept)
        except NotFoundError:
            pass
    brought = folder_verification.verify_named(context.root, name)
    scratch = MemoryStore()
    scratch.append(brought.extra.task, list(brought.audit.entries()), expect=scratch.head(brought.extra.task))
    for text in (brought.extra.contract, brought.extra.policy):
        if text:
            scratch.put_blob(text.encode())
    return FoundCheckpoint(brought.checkpoint, "folder", scratch)


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdef" for char in text.lower())


def _by_hash(store: Store, start: str) -> TaskCheckpoint | None:
    """Any version of any checkpoint: reads every event, but decodes only those."""
    found = [
        entry
        for task in tasks_of(store)
        for entry in store.read(task)
        if entry.hash.startswith(start) and _MARK in entry.data and digest(entry.data) == entry.hash
    ]
    if len(found) > 1:
        raise NotFoundError(
            f"{len(found)} checkpoints have a hash that begins with {start}", "give more digits"
        )
    return as_checkpoint(found[0]) if found else None


# --- cognitive sessions of programs

_STREAM = "cognition/"


def session_ids(store: Store) -> list[str]:
    """The ids of the sessions that programs keep in a store, without the states of mind of its tasks."""
    streams = store.streams()
    names = [name.removeprefix(_STREAM) for name in streams if name.startswith(_STREAM)]
    return sorted(set(names).difference(streams)) if names else []


def session_facts(store: Store, session_id: str) -> dict[str, Any]:
    """What `--json` prints of a session. Raises `IntegrityError` where a page or a checkpoint of it was changed in the store."""
    from adjourn.knowledge.cognition.repository import SessionRepository, head_of

    sessions = SessionRepository(store)
    found = sessions.open(session_id)
    if found is None:
        raise NotFoundError(f"there is no session {session_id}", "see `adjourn checkpoints`")
    session, made = found.session, list(sessions.made(session_id))
    goals = {goal["id"]: goal["description"] for goal in session["workingState"]["intentGraph"]["goals"]}
    return {
        "session": session_id,
        "goal": goals.get(session["workingState"]["intentGraph"]["rootIntentId"], ""),
        "timestamp": timestamp(session["lastModifiedAt"]),
        "branch": session["currentBranchId"],
        "head": head_of(session),
        "checkpoints": made,
        "facts": len(session["workingState"]["epistemicState"]["facts"]),
        "openQuestions": len(session["workingState"]["epistemicState"]["openQuestions"]),
        "metrics": session["totalMetrics"],
    }


def all_sessions(store: Store) -> tuple[list[dict[str, Any]], list[tuple[str, AdjournError]]]:
    """The facts of all sessions of programs, and those that cannot be read."""
    told, broken = [], []
    for name in session_ids(store):
        try:
            told.append(session_facts(store, name))
        except AdjournError as error:
            broken.append((name, error))
    return told, broken


def verify_sessions(store: Store) -> list[dict[str, Any]]:
    """Read every session and every checkpoint of it as a resume would. `reason` says why one is not valid."""
    checked = []
    for name in session_ids(store):
        made, reason = 0, ""
        try:
            made = _read_all(store, name)
        except AdjournError as error:
            reason = error.message
        checked.append({"session": name, "checkpoints": made, "valid": not reason, "reason": reason})
    return checked


def _read_all(store: Store, session_id: str) -> int:
    from adjourn.knowledge.cognition.repository import SessionRepository

    sessions = SessionRepository(store)
    sessions.open(session_id)
    made = list(sessions.made(session_id))
    for name in made:  # a deleted one is None, and no defect
        sessions.checkpoint(name)
    return len(made)


def show_session(facts: dict[str, Any]) -> None:
    """Print a session in full."""
    say(f"{safe(facts['session'])}: cognitive session of a program")
    metrics = facts["metrics"]
    say_facts(
        ("goal", safe(facts["goal"])),
        ("changed", facts["timestamp"]),
        ("branch", safe(facts["branch"])),
        ("checkpoints", f"{len(facts['checkpoints'])}, the last one {facts['head'] or 'not made yet'}"),
        ("knows", f"{facts['facts']} facts, {facts['openQuestions']} open questions"),
        ("replies", f"{metrics['requestCount']}, {metrics['tokensConsumed']} tokens"),
    )
