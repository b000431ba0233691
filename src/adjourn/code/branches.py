"""The branch of a session: its name, making it, merging it, and what became of those of sessions that are over.

Owns: the naming, `start`, `merge`, `stale`, `clean`. Must never: leave a merge half done, or drop commits without a ref that keeps them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import msgspec

from adjourn.code import kept
from adjourn.code.git import Git, GitError
from adjourn.errors import AdjournError

PREFIX = "llm_task_"
_NAME = re.compile(rf"{PREFIX}(?P<session>.+?)(?:_from_(?P<base>.+))?")
FALLBACKS = ("main", "master", "develop")
Action = Literal["delete", "merge"]


class BranchError(AdjournError):
    """A branch cannot be made or left; a person has to look."""


class MergeError(BranchError):
    """A merge did not go through, and was undone. `conflicts` are the files that both sides changed."""

    def __init__(self, message: str, remedy: str, conflicts: list[str]) -> None:
        super().__init__(message, remedy)
        self.conflicts = conflicts


class Stale(msgspec.Struct):
    """A branch of a session that is over. `base_branch` is None where its name does not tell."""

    name: str
    session_id: str
    base_branch: str | None
    has_changes: bool
    commit_count: int


class Parsed(NamedTuple):
    session: str
    base: str


class Cleaned(msgspec.Struct, omit_defaults=True):
    """What cleaning up did."""

    deleted_branches: list[str] = []
    merged_branches: list[str] = []
    checked_out_to: str = ""
    errors: list[str] = []
    kept: list[kept.Kept] = []


def name_of(session: str, base: str) -> str:
    return f"{PREFIX}{session}_from_{base.replace('/', '__')}"


def parse(branch: str) -> Parsed | None:
    """Session and base (as it is written in the name) of a task branch; None for another branch."""
    found = _NAME.fullmatch(branch)
    return Parsed(found["session"], found["base"] or "") if found else None


def base_of(git: Git, branch: str) -> str:
    """The branch that a task branch came from: the one whose name is written like that, the nearest of several. "" for none."""
    parsed = parse(branch)
    if parsed is None:
        return ""
    others = [name for name in git.branches() if not name.startswith(PREFIX)]
    if parsed.base:
        found = [name for name in others if name.replace("/", "__") == parsed.base]
    else:  # made before the name told it
        found = [name for name in FALLBACKS if name in others]
    return min(found, key=lambda base: _count(git, base, branch), default="")


def start(git: Git, session: str) -> tuple[str, str]:
    """Make the session's branch of the one that is checked out, and go there; what is not committed comes along.

    Returns the branch and its base. A branch that a killed server had just made is taken as it is. Raises `BranchError`.
    """
    here = git.branch()
    if not here:
        raise BranchError("HEAD is detached: there is no branch to come back to", "check out a branch")
    if not git.commit():
        raise BranchError(f"branch {here} has no commit yet", "make a first commit")
    parsed = parse(here)
    if parsed is not None:
        if parsed.session == session and (base := base_of(git, here)):
            return here, base
        raise BranchError(
            f"{here} is the branch of another session",
            "merge or delete it with cleanup_stale_branches, or check out the branch to work from",
        )
    branch = name_of(session, here)
    try:
        if git.commit(f"refs/heads/{branch}"):
            git.run("checkout", "--quiet", branch, "--")
        else:
            git.run("checkout", "--quiet", "--no-track", "-b", branch)
    except GitError as error:
        raise BranchError(f"branch {branch} cannot be made: {error.message}", error.remedy) from error
    return branch, here


def merge(git: Git, branch: str, base: str, *, message: str = "") -> bool:
    """Merge a task branch into its base, and check that out. False when there was nothing to merge.

    A merge that does not go through is undone, and the branch that was checked out is checked out again: `MergeError`.
    """
    here = git.branch()
    if not git.commit(f"refs/heads/{base}"):
        raise MergeError(
            f"{base}, the base of {branch}, does not exist any more", "make it, then submit again", []
        )
    if here != base:
        go(git, base)
    if git.contains(base, branch):
        return False
    try:
        with _set_aside(git, branch):
            git.run("merge", "--no-ff", "--no-edit", "-m", message or f"Merge {branch}", branch)
    except GitError as error:
        conflicts = git.fields("diff", "--name-only", "--diff-filter=U", "-z")
        if git.commit("MERGE_HEAD"):
            git.run("merge", "--abort")
        if here and here != base:
            go(git, here)
        what = f"conflicts in {', '.join(conflicts)}" if conflicts else error.message
        raise MergeError(
            f"{branch} was not merged into {base}: {what}. The merge was undone",
            f"merge {base} into {branch}, resolve it there and commit, then submit again",
            conflicts,
        ) from error
    return True


@contextmanager
def _set_aside(git: Git, branch: str) -> Iterator[None]:
    """Take out of the index what is staged and not touched by a merge, and put it back: git merges into no other index."""
    fields = git.fields("diff", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", "HEAD")
    merged = set(git.fields("diff", "--name-only", "--no-renames", "-z", "HEAD", branch))
    staged = {
        path: entry.split()
        for entry, path in zip(fields[::2], fields[1::2], strict=True)
        if path not in merged
    }
    if not staged:
        yield
        return
    git.with_paths("reset", "--quiet", paths=staged)
    try:
        yield
    finally:
        lines = [f"{mode} {blob}\t{path}" for path, (_, mode, _, blob, _) in staged.items()]
        git.run(
            "update-index",
            "-z",
            "--index-info",
            given=b"\0".join(os.fsencode(line) for line in lines) + b"\0",
        )


def go(git: Git, branch: str) -> None:
    """Check out a branch; what is not committed comes along, or nothing is done. Raises `BranchError`."""
    try:
        git.run("checkout", "--quiet", branch, "--")
    except GitError as error:
        raise BranchError(
            f"{branch} cannot be checked out: {error.message}",
            "commit or stash what is in the way, then submit again",
        ) from error


def delete(git: Git, branch: str) -> None:
    """Delete a branch, merged or not: the caller has kept what it should."""
    git.run("branch", "-D", "--", branch)


def stale(git: Git, spared: frozenset[str] = frozenset()) -> list[Stale]:
    """Task branches that no work tree but this one has checked out, and that belong to none of the sessions `spared`."""
    elsewhere = _checked_out_elsewhere(git)
    found = []
    for branch in git.branches(PREFIX):
        parsed = parse(branch)
        if parsed is None or branch in elsewhere or parsed.session in spared:
            continue
        base = base_of(git, branch)
        count = _count(git, base, branch) if base else 0
        dirty = branch == git.branch() and bool(git.run("status", "--porcelain", "-z"))
        found.append(Stale(branch, parsed.session, base or None, bool(count) or dirty, count))
    return found


def clean(git: Git, session: str, action: Action, spared: frozenset[str] = frozenset()) -> Cleaned:
    """Merge or delete every stale branch. One that cannot be merged stays; the commits of one that is deleted are kept under a ref."""
    done = Cleaned()
    branches = stale(git, spared)
    here = git.branch()
    for found in branches:
        try:
            _clean(git, session, action, found, done)
        except AdjournError as error:
            done.errors.append(error.message)
    now = git.branch()
    if now != here:
        done.checked_out_to = now
    return done


def _clean(git: Git, session: str, action: Action, found: Stale, done: Cleaned) -> None:
    here = git.branch()
    base = found.base_branch or next((name for name in FALLBACKS if git.commit(f"refs/heads/{name}")), "")
    if not base:
        raise BranchError(f"{found.name}: the branch that it came from is gone", "merge or delete it by hand")
    if action == "merge":
        if merge(git, found.name, base):
            done.merged_branches.append(found.name)
        if here not in (base, found.name):
            go(git, here)
    else:
        if not git.contains(base, found.name):
            done.kept.append(kept.keep_commit(git, session, found.name, f"branch {found.name}"))
        if here == found.name:
            go(git, base)
    delete(git, found.name)
    done.deleted_branches.append(found.name)


def _count(git: Git, base: str, branch: str) -> int:
    return int(git.line("rev-list", "--count", f"refs/heads/{base}..refs/heads/{branch}"))


def _checked_out_elsewhere(git: Git) -> set[str]:
    here = git.branch()
    found = {
        line.removeprefix("branch refs/heads/")
        for line in git.lines("worktree", "list", "--porcelain")
        if line.startswith("branch refs/heads/")
    }
    return found - {here}
