"""Branches of finished sessions: listing, merging and deleting them.

Owns: `find_stale`, `clean_up`. Must never: drop commits without a backup ref, or touch the branch of an active session.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from adjourn.code.git import backup_refs
from adjourn.code.git.branches import FALLBACKS, PREFIX, BranchError, base_of, check_out, count, delete, parse
from adjourn.code.git.git import Git
from adjourn.code.git.merging import merge
from adjourn.errors import AdjournError

Action = Literal["delete", "merge"]


class StaleBranch(msgspec.Struct):
    """A branch of a finished session. `base_branch` is None if its name does not encode one."""

    name: str
    session_id: str
    base_branch: str | None
    has_changes: bool
    commit_count: int


class CleanupResult(msgspec.Struct, omit_defaults=True):
    """The result of a cleanup."""

    deleted_branches: list[str] = []
    merged_branches: list[str] = []
    checked_out_to: str = ""
    errors: list[str] = []
    kept: list[backup_refs.BackupRef] = []


def find_stale(git: Git, excluded_sessions: frozenset[str] = frozenset()) -> list[StaleBranch]:
    """Task branches that no other work tree has checked out, and that belong to none of `excluded_sessions`."""
    elsewhere = _checked_out_elsewhere(git)
    found = []
    for branch in git.branches(PREFIX):
        parsed = parse(branch)
        if parsed is None or branch in elsewhere or parsed.session in excluded_sessions:
            continue
        base = base_of(git, branch)
        commits = count(git, base, branch) if base else 0
        dirty = branch == git.branch() and bool(git.run("status", "--porcelain", "-z"))
        found.append(StaleBranch(branch, parsed.session, base or None, bool(commits) or dirty, commits))
    return found


def clean_up(
    git: Git, session: str, action: Action, excluded_sessions: frozenset[str] = frozenset()
) -> CleanupResult:
    """Merge or delete every stale branch. A branch that cannot be merged stays; a deleted branch is backed up under a ref."""
    done = CleanupResult()
    branches = find_stale(git, excluded_sessions)
    here = git.branch()
    for found in branches:
        try:
            _clean_up(git, session, action, found, done)
        except AdjournError as error:
            done.errors.append(error.message)
    now = git.branch()
    if now != here:
        done.checked_out_to = now
    return done


def _clean_up(git: Git, session: str, action: Action, found: StaleBranch, done: CleanupResult) -> None:
    here = git.branch()
    base = found.base_branch or next((name for name in FALLBACKS if git.commit(f"refs/heads/{name}")), "")
    if not base:
        raise BranchError(f"the base branch of {found.name} no longer exists", "merge or delete it by hand")
    if action == "merge":
        if merge(git, found.name, base):
            done.merged_branches.append(found.name)
        if here not in (base, found.name):
            check_out(git, here)
    else:
        if not git.contains(base, f"refs/heads/{found.name}"):
            done.kept.append(backup_refs.back_up_branch(git, session, found.name, f"branch {found.name}"))
        if here == found.name:
            check_out(git, base)
    delete(git, found.name)
    done.deleted_branches.append(found.name)


def _checked_out_elsewhere(git: Git) -> set[str]:
    here = git.branch()
    found = {
        line.removeprefix("branch refs/heads/")
        for line in git.lines("worktree", "list", "--porcelain")
        if line.startswith("branch refs/heads/")
    }
    return found - {here}
