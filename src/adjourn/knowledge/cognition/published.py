"""The functions of the published design on typed values: creating, checking, restoring and comparing checkpoints, and moving a goal.

Each takes typed values or dicts, and changes neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args
from uuid import uuid4

from adjourn.knowledge.cognition import checkpoints, deltas, transitions
from adjourn.knowledge.cognition.checkpoints import Validity
from adjourn.knowledge.model.cognition import (
    CheckpointDiff,
    CognitiveCheckpoint,
    CognitiveSession,
    GoalStatus,
    WorkingState,
)
from adjourn.knowledge.model.documents import accept, require_one_of, tree_of, view
from adjourn.knowledge.model.drafts import checked
from adjourn.knowledge.model.record import ContinuationRecord

Json = Mapping[str, Any]


class RestoredSession(NamedTuple):
    """The session restored from a checkpoint, and warnings about what to check first."""

    success: bool
    session: CognitiveSession
    warnings: list[str]
    forked: str = ""
    """The id of the branch that the restore created, if it did."""


class CreatedCheckpoint(NamedTuple):
    """A new checkpoint, and the session that has it."""

    checkpoint: CognitiveCheckpoint
    session: CognitiveSession


@checked
def create_checkpoint(
    session: CognitiveSession | Json,
    label: str,
    now: int | None = None,
    *,
    new_id: str | Callable[[], str] = lambda: str(uuid4()),
    description: str = "",
    tokenizer: Callable[[str], int] | None = None,
) -> CreatedCheckpoint:
    """Create a checkpoint of a session at `now` (milliseconds; None: the present time). The session that comes with it has it as the head
    of its branch. `new_id` is its id, or makes it. Raises `NotFoundError` without a current branch, `InvalidError` if the id is taken.

    >>> memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
    >>> session = memory.update_from_response("FACT: the port is 8080")
    >>> checkpoint, session = create_checkpoint(session, "begun")
    >>> checkpoint.label
    'begun'
    """
    created = checkpoints.create_checkpoint(
        accept(tree_of(session), CognitiveSession),
        label,
        _milliseconds(now),
        new_id=new_id,
        description=description,
        tokenizer=tokenizer,
    )
    return CreatedCheckpoint(view(created.checkpoint, CognitiveCheckpoint), view(created.session, CognitiveSession))


@checked
def validate_checkpoint(checkpoint: CognitiveCheckpoint | Json, *, expected_hash: str = "") -> Validity:
    """Check a checkpoint. Errors prevent a restore, warnings do not. `expected_hash` is the SHA-256 of its canonical form.

    >>> memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
    >>> validate_checkpoint(memory.create_checkpoint("begun")).valid
    True
    """
    return checkpoints.validate_checkpoint(tree_of(checkpoint), expected_hash=expected_hash)


@checked
def restore_checkpoint(
    checkpoint: CognitiveCheckpoint | Json,
    now: int | None = None,
    *,
    session: CognitiveSession | Json | None = None,
    record: ContinuationRecord | Json | None = None,
    new_session_id: str = "",
    move_head: bool = False,
) -> RestoredSession:
    """Restore a session from a checkpoint at `now` (milliseconds; None: the present time). Raises `InvalidError` if it is not valid.

    If the checkpoint is not the head of its branch, the session continues on a new branch `restore-<id>`; with `move_head`, the branch is
    moved back to the checkpoint instead. `record` adds warnings about what is uncertain in the record. `new_session_id` names the session
    where none is given.

    >>> checkpoint = CognitiveStore(MemoryStore(), "release", goal="Release version 2").create_checkpoint("begun")
    >>> restore_checkpoint(checkpoint, new_session_id="again").session.id
    'again'
    """
    restored = checkpoints.restore_checkpoint(
        tree_of(checkpoint),
        _milliseconds(now),
        session=None if session is None else accept(tree_of(session), CognitiveSession),
        record=None if record is None else accept(tree_of(record), ContinuationRecord),
        new_session_id=new_session_id or str(uuid4()),
        move_head=move_head,
    )
    return RestoredSession(True, view(restored.session, CognitiveSession), restored.warnings, restored.forked)


@checked
def diff_checkpoints(base: CognitiveCheckpoint | Json, current: CognitiveCheckpoint | Json) -> CheckpointDiff:
    """The difference from `base` to `current`. Raises `InvalidError` if ids are not unique.

    >>> memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
    >>> first = memory.create_checkpoint("first")
    >>> _ = memory.update_from_response("FACT: the port is 8080")
    >>> diff_checkpoints(first, memory.create_checkpoint("second")).epistemic_changes["facts"][0]["content"]
    'the port is 8080'
    """
    pair = accept(tree_of(base), CognitiveCheckpoint), accept(tree_of(current), CognitiveCheckpoint)
    return view(deltas.diff_checkpoints(*pair), CheckpointDiff)


@checked
def move_goal(state: WorkingState | Json, goal_id: str, status: GoalStatus) -> tuple[WorkingState, list[str]]:
    """A working state in which a goal has another status, and warnings. Raises `NotFoundError`, `RefusedError`."""
    require_one_of(status, get_args(GoalStatus), "status")
    moved, warnings = transitions.move_goal(accept(tree_of(state), WorkingState), goal_id, status)
    return view(moved, WorkingState), warnings


def _milliseconds(now: int | None) -> int:
    return time.time_ns() // 1_000_000 if now is None else now
