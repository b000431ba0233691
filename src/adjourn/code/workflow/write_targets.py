"""Whether a file may be changed: only explored files may.

Owns: `check_target`, `add_explored`. Must never: block a write; the client asks and obeys.
"""

from __future__ import annotations

import os
from typing import Any

from adjourn.code.model.session_state import Phase, SessionState
from adjourn.code.workflow import evidence
from adjourn.code.workflow.outcome import FlowError, mismatch
from adjourn.code.workflow.worktree import Worktree
from adjourn.errors import AdjournError

_WAYS_OUT = {
    "add_explored_files": "read the file, then add it with add_explored_files",
    "revert_to_exploration": "return to exploration with revert_to_exploration if several files are missing",
}
_MAX_LISTED = 200
_MAX_PATH = 4_096


def check_target(
    state: SessionState, worktree: Worktree, file_path: str, *, allow_new_files: bool
) -> dict[str, Any]:
    """Whether `file_path` was explored, is in an explored folder, or is a new file beside an explored one.

    The review of the changes marks a refused file, until it is allowed.
    """
    _ready(state)
    answer = _answer(state, worktree, file_path, allow_new_files=allow_new_files)
    others = [path for path in state.refused_targets if path != answer["file_path"]]
    refused = [] if answer["allowed"] else [answer["file_path"][:_MAX_PATH]]
    state.refused_targets = [*others, *refused][-_MAX_LISTED:]
    return answer


def _answer(
    state: SessionState, worktree: Worktree, file_path: str, *, allow_new_files: bool
) -> dict[str, Any]:
    try:
        path = worktree.repository.relative(file_path)
    except AdjournError as error:
        return _no(state, file_path, error.message)
    explored = {os.path.normpath(each) for each in state.explored}
    answer: dict[str, Any] = {"allowed": True, "file_path": path, "is_new": False}
    if not explored and (state.fast_mode or state.quick_mode):
        return {
            **answer,
            "note": "this session skips exploration (--fast, --quick): every file is a target",
        }
    inside = any(each in (".", path) or path.startswith(f"{each}/") for each in explored)
    if os.path.lexists(worktree.repository.absolute(path)):
        return answer if inside else _no(state, path, f"{path} was not explored in this session")
    if not allow_new_files:
        return _no(state, path, f"{path} does not exist, and allow_new_files is false")
    folder = os.path.dirname(path)
    beside = any(
        os.path.dirname(each) == folder for each in explored if each not in _folders(worktree, explored)
    )
    return (
        {**answer, "is_new": True}
        if inside or beside
        else _no(state, path, f"no file in the folder of {path} was explored")
    )


def add_explored(state: SessionState, worktree: Worktree, files: list[str]) -> dict[str, Any]:
    """Add files and folders that were read after the exploration."""
    _ready(state)
    if not files:
        raise mismatch("`files` is empty: name the files you read")
    known = evidence.known_files(worktree.repository, files)
    added = [path for path in known if path not in state.explored]
    state.added_files = [*state.added_files, *added]
    state.refused_targets = [
        path
        for path in state.refused_targets
        if not any(each in (".", path) or path.startswith(f"{each}/") for each in known)
    ]
    return {
        "success": True,
        "added": added,
        "explored_files": state.explored[:_MAX_LISTED],
        "message": f"{len(added)} files added; {len(state.explored)} explored in total",
    }


def _ready(state: SessionState) -> None:
    if state.current_phase != Phase.READY:
        raise FlowError(
            "phase_mismatch", f"this tool needs phase READY; the session is in {state.current_phase}"
        )


def _folders(worktree: Worktree, explored: set[str]) -> set[str]:
    return {each for each in explored if os.path.isdir(worktree.repository.absolute(each))}


def _no(state: SessionState, path: str, why: str) -> dict[str, Any]:
    """A refusal is an answer, not a failure of the call."""
    return {
        "allowed": False,
        "file_path": path,
        "error": why,
        "explored_files": state.explored[:_MAX_LISTED],
        "hint": "change only explored files: read the file first, or change another one",
        "recovery_options": _WAYS_OUT,
    }
