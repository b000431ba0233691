"""Checkpoints of sessions as files: `.code-intel/sessions/<id>.json` in the work tree of the session.

Owns: writing, reading, listing and deleting them, and preparing a loaded session to continue (`repair`). Must never: follow a link out of
that folder, change the work tree, or delete a damaged file.
"""

from __future__ import annotations

import os
import re
from typing import Any

from adjourn.code.git import branches
from adjourn.code.model import codec
from adjourn.code.model.repository import FOLDER, own_folder
from adjourn.code.model.session_state import Phase, SessionState, stamp
from adjourn.code.workflow import phases
from adjourn.code.workflow.worktree import Worktree
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.host import read_file, remove_file, write_file

SESSIONS = f"{FOLDER}/sessions"
MAX_BYTES = 16 << 20
MAX_SESSIONS = 200
"""Number of sessions that are listed, the most recently saved ones."""
_IGNORE = b"# Made by adjourn: where the sessions of this work tree stand.\n*\n"
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def check_id(session: str) -> str:
    """Return a valid session id unchanged. Raises `InvalidError` for an id that could name another file."""
    if not _ID.fullmatch(session):
        raise InvalidError(f"not a session id: {session[:80]!r}", "list the sessions with get_session_status")
    return session


def save(root: str, found: SessionState) -> None:
    """Write a session's checkpoint, atomically. Raises `StoreError`."""
    found.checkpoint_at = stamp()
    put(root, found)


def put(root: str, found: SessionState) -> None:
    """Write a session's checkpoint as it was saved before. Raises `StoreError`."""
    name = f"{check_id(found.session_id)}.json"
    write_file(own_folder(root, SESSIONS, _IGNORE), name, codec.encode(found))


def load(root: str, session: str) -> SessionState:
    """A session as it was last saved. Raises `NotFoundError`, `InvalidError`."""
    found = codec.decode(read_file(os.path.join(_folder(root), f"{check_id(session)}.json"), MAX_BYTES))
    if found.session_id != session:
        raise InvalidError(f"not a checkpoint of {session}: it belongs to session {found.session_id}")
    return found


def list_all(root: str) -> list[SessionState]:
    """Every session that can be resumed here, the oldest first; at most the newest `MAX_SESSIONS`."""
    return read_all(root)[0]


def read_all(root: str) -> tuple[list[SessionState], dict[str, str]]:
    """As `list_all`; and the sessions whose file is damaged, each with what is wrong."""
    found, damaged = [], {}
    for name in _names(root)[-MAX_SESSIONS:]:
        try:
            found.append(load(root, name))
        except InvalidError as error:
            damaged[name] = error.message
        except AdjournError:
            continue  # it was deleted meanwhile, or cannot be read: that is no damage
    return sorted(found, key=lambda each: each.checkpoint_at), damaged


def set_aside(root: str, session: str) -> str:
    """Rename a damaged file, and return its name."""
    folder = _folder(root)
    names = (
        f"{session}.json.damaged{suffix}" for suffix in ("", *(f"-{number}" for number in range(2, 100)))
    )
    name = next((name for name in names if not os.path.lexists(os.path.join(folder, name))), None)
    if name is None:
        raise InvalidError(f"{folder} has a hundred damaged files of {session}", "remove some")
    os.rename(os.path.join(folder, f"{session}.json"), os.path.join(folder, name))
    return f"{SESSIONS}/{name}"


def exists(root: str, session: str) -> bool:
    return session in _names(root)


def delete(root: str, session: str) -> bool:
    """Delete a session's checkpoint. Returns False if there was none."""
    if not exists(root, session):
        return False
    remove_file(_folder(root), f"{session}.json")
    return True


def summary(found: SessionState) -> dict[str, Any]:
    """The summary of a session that can be resumed."""
    return {
        "session_id": found.session_id,
        "phase": str(found.current_phase),
        "step": phases.step_of(found).step,
        "intent": found.intent,
        "query": found.query[:500],
        "checkpoint_at": found.checkpoint_at,
        "branch": found.task_branch_name,
    }


def _names(root: str) -> list[str]:
    """The sessions that have a file, the most recently saved last."""
    found: list[tuple[float, str]] = []
    try:
        with os.scandir(_folder(root)) as entries:
            for entry in entries:
                name = entry.name.removesuffix(".json")
                if name != entry.name and _ID.fullmatch(name):
                    found.append((entry.stat(follow_symlinks=False).st_mtime, name))
    except (OSError, NotFoundError):
        return []
    return [name for _, name in sorted(found)]


def _folder(root: str) -> str:
    """The sessions folder. Raises `NotFoundError` if a link leads to it."""
    path = os.path.join(root, *SESSIONS.split("/"))
    if os.path.realpath(path) != os.path.join(os.path.realpath(root), *SESSIONS.split("/")):
        raise NotFoundError(f"{path} is reached through a symbolic link", "remove the link")
    return path


_CHANGING = 12
"""The first step of the phases that change files."""
_HASH = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")


def is_fresh(state: SessionState) -> bool:
    """Whether a session that was started beside an interrupted one has no step yet."""
    return len(state.phase_history) <= 1 and bool(state.offered)


def repair(state: SessionState, worktree: Worktree) -> list[str]:
    """Fill in what an older checkpoint form lacks, and return warnings about what changed since."""
    if not worktree.is_git:
        if state.implements and not state.quick_mode and phases.step_of(state).step >= _CHANGING:
            state.quick_mode = True
            return [f"{worktree.why_no_git}: the session ends after the verification, without a commit"]
        return []
    git = worktree.git
    _drop_unsafe_names(state, worktree)
    if not state.task_branch_name:
        mine = [
            name
            for name in git.branches(branches.PREFIX)
            if (found := branches.parse(name)) and found.session == state.session_id
        ]
        if mine and phases.step_of(state).step >= _CHANGING:
            state.task_branch_name, state.task_branch_enabled = mine[0], True
    branch = state.task_branch_name
    if not (branch and state.task_branch_enabled):
        return []
    if not git.commit(f"refs/heads/{branch}"):
        return [f"branch {branch} no longer exists"]
    state.base_branch = state.base_branch or branches.base_of(git, branch)
    here = git.branch()
    if here == branch or (here == state.base_branch and state.current_phase == Phase.MERGE):
        return []
    return [f"{here or 'no branch'} is checked out; the session works on {branch}: check it out first"]


def _drop_unsafe_names(state: SessionState, worktree: Worktree) -> None:
    """Clear names that git must not receive: anybody may have written a checkpoint file."""
    if state.task_branch_name and not branches.parse(state.task_branch_name):
        state.task_branch_name, state.task_branch_enabled = None, False
    if state.base_branch not in worktree.git.branches():
        state.base_branch = ""
    for name in ("base_commit", "commit_hash"):
        if not _HASH.fullmatch(getattr(state, name)):
            setattr(state, name, "")
