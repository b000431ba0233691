"""Checkpoints of cognitive state: creating, validating and restoring them, and their branches.

Must never: change its input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import floor
from typing import Any, NamedTuple
from uuid import uuid4

from adjourn.errors import InvalidError, NotFoundError
from adjourn.findings import Finding
from adjourn.knowledge.cognition.invariants import check_working_state
from adjourn.knowledge.cognition.transitions import is_unanswered
from adjourn.knowledge.model.cognition import WORKING_STATE, CognitiveCheckpoint, TotalMetrics
from adjourn.knowledge.model.documents import Tree, accept, check, tree_of
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import timestamp

HOUR = 3_600_000
STALE_HOURS = 24
_ONLY_WARNED = {"confidence", "one-sided", "dangling", "missing-root", "active-sub-goal"}
"""Findings that do not prevent a restore, though a new checkpoint cannot have them."""


class Validity(NamedTuple):
    """Whether a checkpoint can be restored."""

    valid: bool
    errors: list[str]
    warnings: list[str]


class RestoredTree(NamedTuple):
    """`published.RestoredSession`, with the session as a tree."""

    session: Tree
    warnings: list[str]
    forked: str = ""


class CreatedTree(NamedTuple):
    """`published.CreatedCheckpoint`, as trees."""

    checkpoint: Tree
    session: Tree


def estimate_tokens(value: object, tokenizer: Callable[[str], int] | None = None) -> int:
    """How many tokens a value takes, by a tokenizer; without one, 4 bytes of canonical JSON count as a token.

    >>> estimate_tokens("a text of 26 characters...")
    7
    >>> estimate_tokens("two words", tokenizer=lambda text: len(text.split()))
    2
    """
    data = canonical(value)
    return tokenizer(data.decode()) if tokenizer else -(-len(data) // 4)


def new_session(name: str, now: int, *, session_id: str, goal: str = "") -> Tree:
    """An empty session on the branch `main`, with `goal` as its root intent."""
    root = {"id": "root", "description": goal or name, "status": "active", "subGoalIds": [], "priority": 1}
    return {
        "id": session_id,
        "name": name,
        "createdAt": now,
        "lastModifiedAt": now,
        "currentBranchId": "main",
        "branches": {"main": {"id": "main", "name": "main", "createdAt": now, "status": "active"}},
        "checkpoints": {},
        "workingState": {
            "nodes": [],
            "epistemicState": {"facts": [], "assumptions": [], "openQuestions": [], "beliefs": []},
            "intentGraph": {"goals": [root], "rootIntentId": "root"},
        },
        "totalMetrics": tree_of(TotalMetrics()),
    }


def create_checkpoint(
    session: Tree,
    label: str,
    now: int | None = None,
    *,
    new_id: str | Callable[[], str] = lambda: str(uuid4()),
    description: str = "",
    tokenizer: Callable[[str], int] | None = None,
) -> CreatedTree:
    """Create a checkpoint of a session at `now` (milliseconds; None: the present time). The session that comes with it has it as the head
    of its branch. `new_id` is its id, or makes it. Raises `NotFoundError` without a current branch, `InvalidError` if the id is taken.
    """
    branch = session["branches"].get(session["currentBranchId"])
    if branch is None:
        raise NotFoundError(
            f"session {session['id']} has no branch {session['currentBranchId']}", "fork a branch first"
        )
    at, name = time.time_ns() // 1_000_000 if now is None else now, new_id if isinstance(new_id, str) else new_id()
    if name in session["checkpoints"]:
        raise InvalidError(f"session {session['id']} already has a checkpoint {name}", "use a new id")
    state = session["workingState"]
    fields = {
        "id": name,
        "timestamp": at,
        "label": label,
        **({"description": description} if description else {}),
        **{name: state[name] for name in WORKING_STATE},
        "branchId": branch["id"],
        **({"parentCheckpointId": branch["headCheckpointId"]} if "headCheckpointId" in branch else {}),
        "metrics": {
            "totalNodes": len(state["nodes"]),
            "completedNodes": _completed(state),
            "tokenEstimate": estimate_tokens(state, tokenizer),
            "elapsedMs": max(0, at - session["createdAt"]),
        },
    }
    checkpoint = accept(fields, CognitiveCheckpoint)
    metrics = {**tree_of(TotalMetrics()), **session["totalMetrics"]}
    changed = {
        **session,
        "lastModifiedAt": at,
        "checkpoints": {**session["checkpoints"], name: checkpoint},
        "branches": {**session["branches"], branch["id"]: {**branch, "headCheckpointId": name}},
        "totalMetrics": {
            **metrics,
            "checkpointCount": metrics["checkpointCount"] + 1,
            "elapsedMs": max(0, at - session["createdAt"]),
        },
    }
    return CreatedTree(checkpoint, changed)


def fork_branch(session: Tree, name: str, now: int, *, new_id: str, checkpoint_id: str = "") -> Tree:
    """The session on a new branch that starts at a checkpoint: the given one, or the head of the current branch.

    Raises `InvalidError` if the branch id is taken, `NotFoundError` for an unknown checkpoint.
    """
    if new_id in session["branches"]:
        raise InvalidError(f"session {session['id']} already has a branch {new_id}", "use a new id")
    old = session["branches"].get(session["currentBranchId"], {})
    start = checkpoint_id or old.get("headCheckpointId", "")
    if checkpoint_id and checkpoint_id not in session["checkpoints"]:
        raise NotFoundError(
            f"session {session['id']} has no checkpoint {checkpoint_id}", "use a checkpoint of this session"
        )
    branch = {
        "id": new_id,
        "name": name,
        **({"headCheckpointId": start, "forkedFromCheckpointId": start} if start else {}),
        **({"parentBranchId": old["id"]} if old else {}),
        "createdAt": now,
        "status": "active",
    }
    branches = {**session["branches"], new_id: branch}
    return {**session, "branches": branches, "currentBranchId": new_id, "lastModifiedAt": now}


def validate_checkpoint(checkpoint: Mapping[str, Any], *, expected_hash: str = "") -> Validity:
    """Check a checkpoint. Errors prevent a restore, warnings do not."""
    missing = {"id": "Missing checkpoint ID", "label": "Missing label", "branchId": "Missing branch ID"}
    errors = [message for name, message in missing.items() if not checkpoint.get(name)]
    if expected_hash:
        errors += _hash_errors(checkpoint, expected_hash)
    try:
        check({**dict.fromkeys(missing, "-"), **{k: v for k, v in checkpoint.items() if v != ""}}, CognitiveCheckpoint)
    except InvalidError as error:
        return Validity(False, [*errors, str(error)], [])
    tree = dict(checkpoint)
    findings = check_working_state(tree)
    errors += [finding.message for finding in findings if not _is_warning(finding)]
    warnings = [finding.message for finding in findings if _is_warning(finding)]
    metrics = tree["metrics"]
    if (metrics["totalNodes"], metrics["completedNodes"]) != (len(tree["nodes"]), _completed(tree)):
        warnings.append("The metrics do not agree with the nodes")
    return Validity(not errors, errors, warnings)


def restore_checkpoint(
    checkpoint: Tree,
    now: int,
    *,
    session: Tree | None = None,
    record: Tree | None = None,
    new_session_id: str,
    move_head: bool = False,
) -> RestoredTree:
    """Restore a session from a checkpoint. Raises `InvalidError` if the checkpoint is not valid.

    If the checkpoint is not the head of its branch, the session continues on a new branch `restore-<id>`; with `move_head`, the branch is
    moved back to the checkpoint instead. `record` adds warnings about what is uncertain in the record.
    """
    validity = validate_checkpoint(checkpoint)
    if not validity.valid:
        raise InvalidError(f"Invalid checkpoint: {', '.join(validity.errors)}", "restore another checkpoint")
    warnings = [*_age_warnings(checkpoint, now), *validity.warnings, *_outside_warnings(checkpoint)]
    if record is not None:
        warnings += _record_warnings(record, checkpoint)
    old = session or {}
    metrics = {**tree_of(TotalMetrics()), **old.get("totalMetrics", {})}
    branches, branch_id, forked = _branches(checkpoint, old.get("branches", {}), now, move_head=move_head)
    members = {name: old[name] for name in old if name not in ("activeNodeId", "description")}
    restored = {
        **members,
        "id": old.get("id", new_session_id),
        "name": f"Restored: {checkpoint['label']}",
        "description": f"Restored from checkpoint at {timestamp(checkpoint['timestamp'])}",
        "createdAt": old.get("createdAt", now),
        "lastModifiedAt": now,
        "currentBranchId": branch_id,
        "branches": branches,
        "checkpoints": {**old.get("checkpoints", {}), checkpoint["id"]: checkpoint},
        "workingState": {name: checkpoint[name] for name in WORKING_STATE},
        "totalMetrics": {**metrics, "resumeCount": metrics["resumeCount"] + 1},
    }
    return RestoredTree(restored, warnings, forked)


def _branches(
    checkpoint: Tree, branches: Mapping[str, Tree], now: int, *, move_head: bool
) -> tuple[dict[str, Tree], str, str]:
    """The branches after a restore, the current one, and the id of a new one."""
    name, head = checkpoint["branchId"], checkpoint["id"]
    branch = branches.get(name) or {"id": name, "name": name, "createdAt": now, "status": "active"}
    if branch.get("headCheckpointId", head) == head or move_head:
        return {**branches, name: {**branch, "headCheckpointId": head}}, name, ""
    forked = base = f"restore-{head[:8]}"
    number = 1
    while forked in branches:
        number += 1
        forked = f"{base}-{number}"
    fork = {
        "id": forked,
        "name": forked,
        "headCheckpointId": head,
        "parentBranchId": name,
        "forkedFromCheckpointId": head,
        "createdAt": now,
        "status": "active",
    }
    return {**branches, forked: fork}, forked, forked


# --- warnings


def _is_warning(finding: Finding) -> bool:
    return finding.severity == "warning" or finding.code in _ONLY_WARNED


def _hash_errors(checkpoint: Mapping[str, Any], expected: str) -> list[str]:
    try:
        actual = digest(canonical(dict(checkpoint)))
    except InvalidError as error:
        return [str(error)]
    return [] if actual == expected else [f"Hash mismatch: {actual[:12]} instead of {expected[:12]}"]


def _age_warnings(checkpoint: Tree, now: int) -> list[str]:
    hours = (now - checkpoint["timestamp"]) / HOUR
    if hours > STALE_HOURS:
        return [f"Checkpoint is {floor(hours + 0.5)} hours old"]
    return ["Checkpoint is from the future: a clock is wrong"] if hours < 0 else []


def _outside_warnings(checkpoint: Tree) -> list[str]:
    """Warnings about the state outside, which a checkpoint does not have."""
    warnings = []
    for node in checkpoint["nodes"]:
        if node["status"] == "active":
            warnings.append(f"Node {node['id']} was active: verify what it did outside first")
        binding = node.get("toolBinding")
        if binding is not None and not binding["inputsComplete"]:
            warnings.append(f"Node {node['id']} has an incomplete call of {binding['toolName']}")
    return warnings


def _record_warnings(record: Tree, checkpoint: Tree) -> list[str]:
    doubtful = [effect for effect in record["toolEffects"] if effect.get("status") in ("claimed", "unknown")]
    blocking: Sequence[Tree] = [
        question
        for question in record["questionsForUser"]
        if question["priority"] == "blocking" and is_unanswered(record, question)
    ]
    unchecked = [item for item in record["invariants"] if item.get("lastCheckedAt", -1) < checkpoint["timestamp"]]
    return [
        *(
            f"Effect {effect['id']} of {effect['toolName']} is {effect['status']}: verify whether it happened"
            for effect in doubtful
        ),
        *(f"Question {question['id']} is unanswered and blocks" for question in blocking),
        *(f"Invariant {item['id']} was not checked since the checkpoint" for item in unchecked),
    ]


def _completed(state: Mapping[str, Any]) -> int:
    return sum(node["status"] == "completed" for node in state["nodes"])
