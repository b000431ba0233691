"""Branches of finished sessions: listing, merging and deleting them.

Owns: `find_stale`, `clean_up`. Must never: drop commits without a backup ref, or touch the branch of an active session.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from adjourn.code.git import backup_refs
from adjourn.code.git.branches import FALLBACKS, base_of, check_out, counts, delete, parse
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
    elsewhere, here = _checked_out_elsewhere(git), git.branch()
    listed = git.branches()
    of_sessions = [
        (branch, parsed.session)
        for branch in listed
        if (parsed := parse(branch)) and branch not in elsewhere and parsed.session not in excluded_sessions
    ]
    bases = {branch: base_of(git, branch, listed) for branch, _ in of_sessions}
    ahead: dict[str, int] = {}
    for base in set(bases.values()) - {""}:
        ahead |= counts(git, base, [branch for branch in bases if bases[branch] == base])
    found = []
    for branch, session in of_sessions:
        dirty = branch == here and bool(git.run("status", "--porcelain", "-z"))
        commits = ahead.get(branch, 0)
        found.append(StaleBranch(branch, session, bases[branch] or None, bool(commits) or dirty, commits))
    return found


def clean_up(
    git: Git, session: str, action: Action, excluded_sessions: frozenset[str] = frozenset()
) -> CleanupResult:
    """Merge or delete every stale branch. A branch that cannot be merged stays; a deleted branch is backed up under a ref."""
    done = CleanupResult()
    here = git.branch()
    based: list[tuple[str, str]] = []
    for found in find_stale(git, excluded_sessions):
        base = found.base_branch or next((name for name in FALLBACKS if git.commit(f"refs/heads/{name}")), "")
        if base:
            based.append((found.name, base))
        else:
            done.errors.append(f"{found.name} has no base branch: merge or delete it by hand")
    try:
        (_merge_all if action == "merge" else _delete_all)(git, session, based, done)
    except AdjournError as error:
        done.errors.append(error.message)
    now = git.branch()
    if now != here:
        done.checked_out_to = now
    return done


def _merge_all(git: Git, session: str, based: list[tuple[str, str]], done: CleanupResult) -> None:
    del session  # a merged branch loses nothing
    for branch, base in based:
        here = git.branch()
        try:
            if merge(git, branch, base):
                done.merged_branches.append(branch)
            if here not in (base, branch):
                check_out(git, here)
            delete(git, [branch])
        except AdjournError as error:
            done.errors.append(error.message)
        else:
            done.deleted_branches.append(branch)


def _delete_all(git: Git, session: str, based: list[tuple[str, str]], done: CleanupResult) -> None:
    here = git.branch()
    if (base := dict(based).get(here)) is not None:
        try:
            check_out(git, base)
        except AdjournError as error:
            done.errors.append(error.message)
            based = [one for one in based if one[0] != here]
    names = [branch for branch, _ in based]
    if not names:
        return
    merged = {name for base in {base for _, base in based} for name in _merged(git, base, based)}
    done.kept += backup_refs.back_up_branches(git, session, [name for name in names if name not in merged])
    try:
        delete(git, names)
    finally:
        left = set(git.branches())
        done.deleted_branches += [name for name in names if name not in left]


def _merged(git: Git, base: str, based: list[tuple[str, str]]) -> list[str]:
    """The branches of this base that it contains."""
    ahead = counts(git, base, [branch for branch, its in based if its == base])
    return [branch for branch, commits in ahead.items() if not commits]


def _checked_out_elsewhere(git: Git) -> set[str]:
    here = git.branch()
    found = {
        line.removeprefix("branch refs/heads/")
        for line in git.lines("worktree", "list", "--porcelain")
        if line.startswith("branch refs/heads/")
    }
    return found - {here}
