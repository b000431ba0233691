"""A session that was cut off, made ready to go on.

Owns: filling in what an older form of checkpoint does not say, and telling what is not as it was left. Must never: change the work tree.
"""

from __future__ import annotations

import re

from adjourn.code.git import branches
from adjourn.code.model.session_state import Phase, State
from adjourn.code.workflow import phases
from adjourn.code.workflow.worktree import Place

_HASH = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")


def is_fresh(state: State) -> bool:
    """Whether nothing was submitted yet in a session that was started beside an older one."""
    return len(state.phase_history) <= 1 and bool(state.offered)


def fit(state: State, place: Place) -> list[str]:
    """Fill in what an older form of checkpoint does not say, and tell what is not as it was left."""
    if not place.is_git:
        return []
    git = place.git
    _distrust(state, place)
    if not state.task_branch_name:
        mine = [
            name
            for name in git.branches(branches.PREFIX)
            if (found := branches.parse(name)) and found.session == state.session_id
        ]
        if mine and phases.step_of(state).step >= 12:
            state.task_branch_name, state.task_branch_enabled = mine[0], True
    branch = state.task_branch_name
    if not (branch and state.task_branch_enabled):
        return []
    if not git.commit(f"refs/heads/{branch}"):
        return [f"branch {branch} is gone"]
    state.base_branch = state.base_branch or branches.base_of(git, branch)
    here = git.branch()
    if here == branch or (here == state.base_branch and state.current_phase == Phase.MERGE):
        return []
    return [f"{here or 'no branch'} is checked out; the session works on {branch}: check that out first"]


def _distrust(state: State, place: Place) -> None:
    """A checkpoint is a file that anybody may have written: what goes to git from it has to be what it says it is."""
    if state.task_branch_name and not branches.parse(state.task_branch_name):
        state.task_branch_name, state.task_branch_enabled = None, False
    if state.base_branch not in place.git.branches():
        state.base_branch = ""
    for name in ("base_commit", "commit_hash"):
        if not _HASH.fullmatch(getattr(state, name)):
            setattr(state, name, "")
