"""The branch of a session: its name, making it, going to another one.

Owns: the naming, `start_branch`, `check_out`, `delete`. Must never: overwrite what is not committed.
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
    """A branch cannot be made or left; a person has to look."""


class BranchName(NamedTuple):
    session: str
    base: str


def branch_name(session: str, base: str) -> str:
    return f"{PREFIX}{session}_from_{base.replace('/', '__')}"


def parse(branch: str) -> BranchName | None:
    """Session and base (as it is written in the name) of a task branch; None for another branch."""
    found = _NAME.fullmatch(branch)
    return BranchName(found["session"], found["base"] or "") if found else None


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
    return min(found, key=lambda base: count(git, base, branch), default="")


def start_branch(git: Git, session: str) -> tuple[str, str]:
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
    branch = branch_name(session, here)
    try:
        if git.commit(f"refs/heads/{branch}"):
            git.run("checkout", "--quiet", branch, "--", seconds=WITH_HOOKS)
        else:
            git.run("checkout", "--quiet", "--no-track", "-b", branch, seconds=WITH_HOOKS)
    except GitError as error:
        raise BranchError(f"branch {branch} cannot be made: {error.message}", error.remedy) from error
    return branch, here


def check_out(git: Git, branch: str) -> None:
    """Check out a branch; what is not committed comes along, or nothing is done. Raises `BranchError`."""
    try:
        git.run("checkout", "--quiet", "--no-overwrite-ignore", branch, "--", seconds=WITH_HOOKS)
    except GitError as error:
        raise BranchError(
            f"{branch} cannot be checked out: {error.message}",
            "commit or stash what is in the way, then submit again",
        ) from error


def delete(git: Git, branch: str) -> None:
    """Delete a branch, merged or not: the caller has kept what it should."""
    git.run("branch", "-D", "--", branch)


def count(git: Git, base: str, branch: str) -> int:
    return int(git.line("rev-list", "--count", f"refs/heads/{base}..refs/heads/{branch}"))
