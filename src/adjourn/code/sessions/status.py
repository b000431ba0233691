"""The status of a session.

Owns: the reply of get_session_status, and the summary for a client that lost its context. Must never: change the session.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.code.git import backup_refs
from adjourn.code.model.session_state import Phase, SessionState
from adjourn.code.workflow import phases
from adjourn.code.workflow.tasks import progress
from adjourn.code.workflow.worktree import Worktree

_MAX_LISTED = 100


def status(state: SessionState, worktree: Worktree) -> dict[str, Any]:
    """The phase and progress of a session, and its next step."""
    steps = sorted({visit.step for visit in state.phase_history if visit.ended_at and visit.step} | {1})
    found: dict[str, Any] = {
        "session_id": state.session_id,
        "intent": state.intent,
        "query": state.query,
        **phases.block(state),
        "completed_steps": steps,
        "task_progress": progress(state) if state.tasks else None,
    }
    if state.task_branch_enabled:
        found["task_branch"] = {
            "enabled": True,
            "branch": state.task_branch_name,
            "base": state.base_branch,
            "checked_out": worktree.git.branch() == state.task_branch_name,
        }
    if state.current_phase == Phase.POST_IMPL_VERIFY and worktree.test_commands:
        found["server_runs"] = worktree.server_runs
    if state.tools_in_step:
        found["called_in_this_step"] = state.tools_in_step
    return found


def known(state: SessionState, worktree: Worktree) -> dict[str, Any]:
    """Everything known so far, for a client that lost its context."""
    frame, exploration, verification = state.query_frame, state.exploration, state.verification
    found: dict[str, Any] = {
        "flags": [name for name in _FLAGS if getattr(state, name)],
        "strictness": state.strictness,
        "gate_level": state.gate_level,
        "summaries": {name: entry.get("summary", "") for name, entry in state.phase_payloads.items()},
    }
    if frame is not None:
        found["query_frame"] = frame.slots
        found["scope"], found["constraints"] = frame.scope, frame.constraints
        found["target_symbols"] = [one.name for one in frame.mapped_symbols]
    if exploration is not None:
        found["explored_files"] = state.explored[:_MAX_LISTED]
        found["findings"] = exploration.findings[:_MAX_LISTED]
    if state.semantic is not None:
        found["search_results"] = state.semantic.search_results[:_MAX_LISTED]
    if state.map_hit:
        found["agreements"] = state.map_results
    if verification is not None:
        found["hypotheses"] = msgspec.to_builtins(verification.verified)[:_MAX_LISTED]
    if state.impact_analysis is not None:
        found["impact_summary"] = state.impact_analysis.summary
    if state.prepared_commit_message:
        found["commit_message"] = state.prepared_commit_message
    if worktree.is_git and (held := backup_refs.list_backups(worktree.git, state.session_id)):
        found["kept"] = msgspec.to_builtins(held)
    return found


_FLAGS = (
    "no_verify", "no_quality", "fast_mode", "quick_mode", "no_doc", "no_intervention", "only_explore", "only_verify",
)  # fmt: skip
