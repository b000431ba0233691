"""The branch of a session: naming, creating, checking out and deleting it.

Owns: the naming, `start_branch`, `check_out`, `delete`. Must never: overwrite uncommitted changes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from adjourn.code.git.git import WITH_HOOKS, Git, GitError
from adjourn.errors import AdjournError

PREFIX = "llm_task_"
_NAME = re.compile(rf"{PREFIX}(?P<session>.+?)(?:_from_(?P<base>.+))?")
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
    found = _NAME.fullmatch(branch)
    return BranchName(found["session"], found["base"] or "") if found else None


def base_of(git: Git, branch: str) -> str:
    """The base of a task branch: the branch that its name encodes, the nearest of several; "" for none."""
    parsed = parse(branch)
    if parsed is None:
        return ""
    others = [name for name in git.branches() if not name.startswith(PREFIX)]
    if parsed.base:
        found = [name for name in others if name.replace("/", "__") == parsed.base]
    else:  # older names do not encode the base
        found = [name for name in FALLBACKS if name in others]
    return min(found, key=lambda base: count(git, base, branch), default="")


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
            f"cannot check out {branch}: {error.message}",
            "commit or stash the conflicting changes, then submit again",
        ) from error


def delete(git: Git, branch: str) -> None:
    """Delete a branch, merged or not; the caller must have backed up its commits."""
    git.run("branch", "-D", "--", branch)


def count(git: Git, base: str, branch: str) -> int:
    return int(git.line("rev-list", "--count", f"refs/heads/{base}..refs/heads/{branch}"))
