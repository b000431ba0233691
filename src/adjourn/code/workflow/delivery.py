"""Submissions of the delivery phases: the review of changed files, the commit, the merge, and what it teaches.

No file is committed or reverted without a decision, and no merge is reported that was not made.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from adjourn.code import branches, changes
from adjourn.code.branches import MergeError
from adjourn.code.changes import DIFF, FileChange
from adjourn.code.index.analysis import open_source
from adjourn.code.repository import Git
from adjourn.code.search import context
from adjourn.code.session_state import Phase, PreCommitReview, ReviewedFile, SessionState
from adjourn.code.workflow import payloads, phases
from adjourn.code.workflow.checks import outcome_members
from adjourn.code.workflow.phases import FlowError, StepOutcome, mismatch, needs_user, proceed
from adjourn.code.workflow.request import QUALITY_REVIEW, Worktree
from adjourn.code.workflow.tasks import revert
from adjourn.errors import AdjournError


def pre_commit(worktree: Worktree, state: SessionState, payload: payloads.CommitReview) -> StepOutcome:
    """Apply the decisions on every changed file, and commit unless a quality review comes first."""
    message = payload.commit_message.strip()
    if not message:
        raise FlowError("missing_commit_message", "`commit_message` is empty: describe what changed and why")
    worktree.check_branch(state)
    base = worktree.base_commit(state)
    changed = {change.path: change for change in changes.list_changes(worktree.git, base, state.dirty_before)}
    reviewed = _reviewed(state, payload, changed)
    kept_files = [path for path, file in reviewed.items() if file.decision == "keep"]
    discarded = [path for path, file in reviewed.items() if file.decision == "discard"]
    extras: dict[str, Any] = {}
    try:
        held = changes.discard(worktree.git, state.session_id, base, [changed[path] for path in discarded])
    except AdjournError as error:
        raise needs_user("commit_execution_failed", error) from error
    if held is not None:
        extras["kept"] = msgspec.to_builtins(held)
    state.pre_commit_review = PreCommitReview(len(changed), list(reviewed.values()), kept_files, discarded)
    state.prepared_commit_message = message
    state.prepared_kept_files, state.prepared_discarded_files = kept_files, discarded
    left = [path for path in changed if path not in reviewed]
    if left:
        extras["left_uncommitted"] = left
    if not worktree.prompt(QUALITY_REVIEW):
        state.quality_review_enabled = False
    if phases.following(state) == Phase.QUALITY_REVIEW:
        state.commit_prepared = True
        return proceed(state, {**extras, "commit_hash": None, "prepared": True})
    return proceed(state, {**extras, **_commit(worktree, state, **extras), "prepared": False})


def quality(worktree: Worktree, state: SessionState, payload: payloads.QualityReview) -> StepOutcome:
    """Commit if there are no issues; otherwise return to the plan, up to a limit."""
    if not payload.issues:
        worktree.check_branch(state)
        _check_nothing_new(worktree, state)
        return proceed(state, {"issues_found": False, **_commit(worktree, state)})
    state.quality_revert_count += 1
    extras: dict[str, Any] = {
        "issues_found": True,
        "issues": payload.issues,
        "quality_revert_count": state.quality_revert_count,
    }
    if state.quality_revert_count >= state.quality_review_max_revert:
        worktree.check_branch(state)
        done = _commit(worktree, state)
        warning = f"committed after {state.quality_revert_count} reviews with the remaining issues"
        return proceed(state, {**extras, **done, "forced_completion": True, "warning": warning})
    state.commit_prepared, state.prepared_commit_message = False, None
    state.prepared_kept_files, state.prepared_discarded_files = [], []
    return revert(state, "quality issues: " + "; ".join(payload.issues)[:2000], extras)


def merge(worktree: Worktree, state: SessionState) -> StepOutcome:
    """Merge the session's branch into its base. Idempotent."""
    branch, base = state.task_branch_name, state.base_branch
    if not (state.task_branch_enabled and branch):
        return StepOutcome(None, {"merged": False, "message": "the session has no branch: nothing to merge"}, over=True)
    if state.quality_review_enabled and not state.quality_review_completed:
        raise FlowError("quality_review_required", "submit the quality review first")
    extras: dict[str, Any] = {}
    merged = bool(state.commit_hash)
    if worktree.git.commit(f"refs/heads/{branch}"):
        base = base or branches.base_of(worktree.git, branch)
        if not base:
            raise FlowError(
                "merge_failed", f"the base branch of {branch} no longer exists", requires_user_intervention=True
            )
        if worktree.git.branch() != base:
            worktree.check_branch(state)
        extras, merged = _merge(worktree, state, branch, base)
    elif state.commit_hash and not worktree.git.contains(base, state.commit_hash):
        raise FlowError(
            "merge_failed",
            f"branch {branch} no longer exists, and {base} does not contain its commit",
            requires_user_intervention=True,
        )
    state.task_branch_enabled = False
    if merged:
        worktree.on_merged(worktree, state)
    message = f"{branch} was merged into {base}" if merged else f"{branch} has no commit: nothing to merge"
    result = {"merged": merged, "from_branch": branch, "to_branch": base, "message": message}
    extras |= outcome_members(state)
    return StepOutcome(None, {**extras, **result}, over=True)


def _merge(worktree: Worktree, state: SessionState, branch: str, base: str) -> tuple[dict[str, Any], bool]:
    """Merge and delete the branch. Returns extra reply members, and whether the base contains the session's commit."""
    extras: dict[str, Any] = {}
    try:
        if held := branches.abort_interrupted(worktree.git, state.session_id, branch):
            extras["kept"] = msgspec.to_builtins(held)
        merged = branches.merge(worktree.git, branch, base) or bool(state.commit_hash)
        branches.delete(worktree.git, [branch])
    except MergeError as error:
        raise needs_user("merge_failed", error, conflicts=error.conflicts, **extras) from error
    except AdjournError as error:
        raise needs_user("merge_failed", error, **extras) from error
    return extras, merged


def _reviewed(
    state: SessionState, payload: payloads.CommitReview, changed: dict[str, FileChange]
) -> dict[str, ReviewedFile]:
    """The decision on each changed file. Raises `FlowError` if one is missing."""
    decided: dict[str, ReviewedFile] = {}
    for entry in payload.reviewed_files:
        path, decision, reason = (
            (entry, "keep", None) if isinstance(entry, str) else (entry.path, entry.decision, entry.reason)
        )
        path = path.removeprefix("./")
        if decision == "discard" and not (reason or "").strip():
            raise mismatch(f"the reason for {path} is empty: say why it is discarded", missing_reason=path)
        if path in changed:
            decided[path] = ReviewedFile(path, decision, reason, changed[path].change_type)
    missing = [path for path, change in changed.items() if path not in decided and not change.before]
    if missing and state.strictness != "lenient":
        raise mismatch(
            "some changed files have no decision: decide keep or discard for each; nothing was committed or reverted",
            unreviewed_files=missing,
        )
    return decided


def _check_nothing_new(worktree: Worktree, state: SessionState) -> None:
    decided = {*state.prepared_kept_files, *state.prepared_discarded_files}
    base = worktree.base_commit(state)
    new = [
        each.path
        for each in changes.list_changes(worktree.git, base, state.dirty_before)
        if each.path not in decided and not each.before
    ]
    if new and state.strictness != "lenient":
        raise mismatch(
            "files changed after the review: submit that as an issue, so that they are reviewed", unreviewed_files=new
        )


def _commit(worktree: Worktree, state: SessionState, **more: Any) -> dict[str, Any]:
    """Make the prepared commit and finish the review. `more` is added to an error.

    A commit that a killed server had already made is reused.
    """
    paths = [*state.prepared_kept_files, *state.prepared_discarded_files]
    base = worktree.base_commit(state)
    try:
        commit = changes.commit(worktree.git, base, paths, state.prepared_commit_message or "")
    except AdjournError as error:
        raise needs_user("commit_execution_failed", error, **more) from error
    head = worktree.git.commit()
    state.commit_prepared, state.quality_review_completed = False, True
    state.commit_hash = commit or (head if head != base else "")
    result: dict[str, Any] = {"commit_hash": state.commit_hash or None}
    if state.commit_hash:
        return result
    state.outcome = "nothing_changed"
    return {**result, "nothing_to_commit": True, **outcome_members(state)}


# --- learns from a merged session

_MAX_FILES = 50
_MAX_SYMBOLS = 50
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def learn(worktree: Worktree, state: SessionState) -> str:
    """Write the agreement of a session. Returns its path; "" if there is no term or symbol."""
    frame = state.query_frame
    words = frame and (frame.target_feature or frame.observed_issue or frame.desired_action)
    files = state.pre_commit_review.kept_files if state.pre_commit_review else []
    symbols = _changed_symbols(worktree, state, files[:_MAX_FILES])
    if not words or not symbols or frame is None:
        return ""
    return context.write_agreement(
        worktree.repository,
        context.Agreement(words, symbols[:_MAX_SYMBOLS], state.session_id, state.intent, datetime.now(UTC).isoformat()),
        evidence=f"Commit {state.commit_hash}: {state.prepared_commit_message}",
        related_files=files,
        frame={slot: value for slot, value in frame.slots.items() if value},
    )


def _changed_symbols(worktree: Worktree, state: SessionState, files: list[str]) -> list[str]:
    """The innermost definitions around the lines that were changed."""
    names: dict[str, None] = {}
    for path in files:
        try:
            symbols = open_source(worktree.repository, path).outline.symbols
            lines = _changed_lines(worktree.git, state, path)
        except AdjournError:  # it was deleted, or is no text
            continue
        for first, last in lines:
            around = [symbol for symbol in symbols if symbol.line <= last and symbol.end_line >= first]
            if around:
                names[min(around, key=lambda symbol: symbol.end_line - symbol.line).name] = None
    return list(names)


def _changed_lines(git: Git, state: SessionState, path: str) -> list[tuple[int, int]]:
    text = git.run(*DIFF, "--unified=0", state.base_commit, state.commit_hash, "--", path)
    hunks = [(int(first), int(count or 1)) for first, count in _HUNK.findall(text.decode("utf-8", "replace"))]
    return [(first, first + max(count, 1) - 1) for first, count in hunks]
