"""The branches of sessions: naming, creating, merging and deleting them, and those that finished sessions left.

Uncommitted changes are never overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

import msgspec

from adjourn.code.repository import (
    WITH_HOOKS,
    BackupRef,
    Git,
    GitError,
    as_bytes,
    back_up_branches,
    back_up_files,
    back_up_index,
    drop_backup,
    list_backups,
)
from adjourn.errors import AdjournError

PREFIX = "llm_task_"
_NAME = re.compile(rf"{PREFIX}(?P<session>.+?)(?:_from_(?P<base>.+))?")
_AT_ONCE = 500
FALLBACKS = ("main", "master", "develop")


class BranchError(AdjournError):
    """A branch cannot be created or left; the user must intervene."""


class BranchName(NamedTuple):
    session: str
    base: str


def branch_name(session: str, base: str) -> str:
    return f"{PREFIX}{session}_from_{base.replace('/', '__')}"


def parse(branch: str) -> BranchName | None:
    """Session and base (as written in the name) of a task branch; None for any other branch."""
    match = _NAME.fullmatch(branch)
    return BranchName(match["session"], match["base"] or "") if match else None


def base_of(git: Git, branch: str, listed: Sequence[str] = ()) -> str:
    """The base of a task branch: the branch that its name encodes, the nearest of several; "" for none. `listed`: the branches there are."""
    parsed = parse(branch)
    if parsed is None:
        return ""
    others = [name for name in listed or git.branches() if not name.startswith(PREFIX)]
    if parsed.base:
        matching = [name for name in others if name.replace("/", "__") == parsed.base]
    else:  # older names do not encode the base
        matching = [name for name in FALLBACKS if name in others]
    if len(matching) < 2:
        return "".join(matching)
    return min(matching, key=lambda base: counts(git, base, [branch])[branch])


def start_branch(git: Git, session: str) -> tuple[str, str]:
    """Create the session's branch from the current one, and check it out; uncommitted changes are carried over.

    Returns the branch and its base. A branch that a killed server had just created is reused. Raises `BranchError`.
    """
    here = git.branch()
    if not here:
        raise BranchError("HEAD is detached: no branch to return to", "check out a branch")
    if not git.commit():
        raise BranchError(f"branch {here} has no commit yet", "make a first commit")
    parsed = parse(here)
    if parsed is not None:
        if parsed.session == session and (base := base_of(git, here)):
            return here, base
        raise BranchError(
            f"{here} is the branch of another session",
            "merge or delete it with cleanup_stale_branches, or check out another branch",
        )
    branch = branch_name(session, here)
    try:
        if git.commit(f"refs/heads/{branch}"):
            git.run("checkout", "--quiet", branch, "--", seconds=WITH_HOOKS)
        else:
            git.run("checkout", "--quiet", "--no-track", "-b", branch, seconds=WITH_HOOKS)
    except GitError as error:
        raise BranchError(f"cannot create branch {branch}: {error.message}", error.remedy) from error
    return branch, here


def check_out(git: Git, branch: str) -> None:
    """Check out a branch and carry uncommitted changes over, or change nothing. Raises `BranchError`."""
    try:
        git.run("checkout", "--quiet", "--no-overwrite-ignore", branch, "--", seconds=WITH_HOOKS)
    except GitError as error:
        raise BranchError(
            f"cannot check out {branch}: {error.message}", "commit or stash the conflicting changes, then submit again"
        ) from error


def delete(git: Git, names: Sequence[str]) -> None:
    """Delete branches, merged or not; the caller must have backed up their commits."""
    for start in range(0, len(names), _AT_ONCE):
        git.run("branch", "-D", "--", *names[start : start + _AT_ONCE])


def counts(git: Git, base: str, names: Sequence[str]) -> dict[str, int]:
    """Branch → number of its commits that the base does not have."""
    wanted = set(names)
    listed = git.lines("for-each-ref", "--format=%(objectname) %(refname:strip=2)", "refs/heads/")
    tips = {name: tip for tip, _, name in (line.partition(" ") for line in listed) if name in wanted}
    question = "\n".join([*tips.values(), f"^refs/heads/{base}"])
    lines = git.run("rev-list", "--parents", "--stdin", stdin=as_bytes(question)).decode().splitlines()
    parents = {commit: others for commit, *others in map(str.split, lines)}
    return {name: _ahead(tip, parents) for name, tip in tips.items()}


def _ahead(tip: str, parents: dict[str, list[str]]) -> int:
    """How many of the commits with these parents are the tip or lead to it."""
    seen: set[str] = set()
    queue = [tip]
    while queue:
        commit = queue.pop()
        if commit in parents and commit not in seen:
            seen.add(commit)
            queue += parents[commit]
    return len(seen)


# --- merges a session's branch into its base branch

_MERGE_HEAD = "MERGE_HEAD"
_STAGED = "what was staged before a merge"
_IN_PROGRESS = (_MERGE_HEAD, "CHERRY_PICK_HEAD", "REVERT_HEAD")


class MergeError(BranchError):
    """A merge failed and was undone. `conflicts` lists the files that both sides changed."""

    def __init__(self, message: str, remedy: str, conflicts: Sequence[str] = ()) -> None:
        super().__init__(message, remedy)
        self.conflicts = list(conflicts)


def merge(git: Git, branch: str, base: str) -> bool:
    """Merge a task branch into its base, and check the base out. Returns False if there was nothing to merge.

    Raises `MergeError` after undoing a failed merge and checking out the previous branch again.
    """
    here = git.branch()
    _check_ready(git, here, branch, base)
    for held in list_backups(git, _session(branch)):
        if held.why == _STAGED:  # left by an interrupted merge
            _restage(git, held)
    if here != base:
        check_out(git, base)
    if git.contains(base, f"refs/heads/{branch}"):
        return False
    try:
        _check_untracked(git, branch)
        with _unstaged(git, branch):
            _merge(git, branch, base)
    except MergeError:
        if here != base:
            check_out(git, here)
        raise
    return True


def abort_interrupted(git: Git, session: str, branch: str) -> BackupRef | None:
    """Abort an interrupted merge of this branch, after backing up its result so far."""
    if git.commit(_MERGE_HEAD) != git.commit(f"refs/heads/{branch}"):
        return None
    changed = git.fields("diff", "--name-only", "--no-renames", "--ignore-submodules=dirty", "-z", "HEAD", "--")
    held = back_up_files(git, session, changed, "an interrupted merge")
    git.run("merge", "--abort")
    return held


def _check_ready(git: Git, here: str, branch: str, base: str) -> None:
    if not here:
        raise MergeError("HEAD is detached: no branch to return to", "check out a branch")
    if not git.commit(f"refs/heads/{base}"):
        raise MergeError(f"{base}, the base of {branch}, no longer exists", "create it, then submit again")
    if other := next((name for name in _IN_PROGRESS if git.commit(name)), ""):
        what = other.removesuffix("_HEAD").lower().replace("_", "-")
        raise MergeError(
            f"another {what} is in progress in this work tree",
            f"finish it, or abort it with `git {what} --abort`, then submit again",
        )


def _check_untracked(git: Git, branch: str) -> None:
    """Raise `MergeError` if the branch adds a file that exists untracked: git overwrites ignored files."""
    added = git.fields("diff", "--name-only", "--no-renames", "--diff-filter=A", "-z", "HEAD", f"refs/heads/{branch}")
    there = [path for path in added if os.path.lexists(git.path_of(path))]
    if there:
        raise MergeError(
            f"merging {branch} would overwrite untracked files: {', '.join(there[:10])}",
            "move them away, then submit again",
        )


def _merge(git: Git, branch: str, base: str) -> None:
    """Make a merge commit, or raise `MergeError` with nothing changed."""
    try:
        git.run(
            "merge", "--no-ff", "--commit", "--no-squash", "--no-edit", "-m", f"Merge {branch}", f"refs/heads/{branch}",
            seconds=WITH_HOOKS,
        )  # fmt: skip
        why = "" if git.contains(base, f"refs/heads/{branch}") else "git made no merge commit"
    except GitError as error:
        why = error.message
    if not why:
        return
    conflicts = git.fields("diff", "--name-only", "--diff-filter=U", "-z")
    if git.commit(_MERGE_HEAD):
        git.run("merge", "--abort")
    what = f"conflicts in {', '.join(conflicts)}" if conflicts else why
    raise MergeError(
        f"cannot merge {branch} into {base} (the merge was undone): {what}",
        f"merge {base} into {branch}, resolve the conflicts there and commit, then submit again",
        conflicts,
    )


@contextmanager
def _unstaged(git: Git, branch: str) -> Iterator[None]:
    """Unstage files that the merge does not touch, and stage them again afterwards: git merges only into a clean index.

    Meanwhile a ref backs the index up; it is deleted only after everything is staged again.
    """
    merged = set(git.fields("diff", "--name-only", "--no-renames", "-z", "HEAD", f"refs/heads/{branch}"))
    staged = git.fields("diff", "--cached", "--name-only", "--no-renames", "--ignore-submodules=dirty", "-z", "HEAD")
    aside = [path for path in staged if path not in merged]
    if not aside:
        yield
        return
    held = back_up_index(git, _session(branch), staged, _STAGED)
    git.with_paths("reset", "--quiet", paths=aside)
    try:
        yield
    finally:
        _restage(git, held)


def _restage(git: Git, held: BackupRef) -> None:
    fields = git.fields("diff-tree", "-r", "--raw", "--no-renames", "-z", f"{held.ref}^", held.ref)
    entries = zip(fields[::2], fields[1::2], strict=True)
    lines = [" ".join(entry.split()[1:4:2]).encode() + b"\t" + as_bytes(path) + b"\0" for entry, path in entries]
    git.run("update-index", "-z", "--index-info", stdin=b"".join(lines))
    drop_backup(git, held)


def _session(branch: str) -> str:
    parsed = parse(branch)
    return parsed.session if parsed else branch


# --- branches of finished sessions

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
    kept: list[BackupRef] = []


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
    stale = []
    for branch, session in of_sessions:
        dirty = branch == here and bool(git.run("status", "--porcelain", "-z"))
        commits = ahead.get(branch, 0)
        stale.append(StaleBranch(branch, session, bases[branch] or None, bool(commits) or dirty, commits))
    return stale


def clean_up(git: Git, session: str, action: Action, excluded_sessions: frozenset[str] = frozenset()) -> CleanupResult:
    """Merge or delete every stale branch. A branch that cannot be merged stays; a deleted branch is backed up under a ref."""
    done = CleanupResult()
    here = git.branch()
    based: list[tuple[str, str]] = []
    for stale in find_stale(git, excluded_sessions):
        base = stale.base_branch or next((name for name in FALLBACKS if git.commit(f"refs/heads/{name}")), "")
        if base:
            based.append((stale.name, base))
        else:
            done.errors.append(f"{stale.name} has no base branch: merge or delete it by hand")
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
            based = [pair for pair in based if pair[0] != here]
    names = [branch for branch, _ in based]
    if not names:
        return
    merged = {name for base in {base for _, base in based} for name in _merged(git, base, based)}
    done.kept += back_up_branches(git, session, [name for name in names if name not in merged])
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
    branches = {
        line.removeprefix("branch refs/heads/")
        for line in git.lines("worktree", "list", "--porcelain")
        if line.startswith("branch refs/heads/")
    }
    return branches - {here}
