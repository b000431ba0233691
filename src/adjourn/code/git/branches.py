"""The branch of a session: naming, creating, checking out and deleting it.

Owns: the naming, `start_branch`, `check_out`, `delete`. Must never: overwrite uncommitted changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from adjourn.code.git.git import WITH_HOOKS, Git, GitError
from adjourn.code.model.names import as_bytes
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
    found = _NAME.fullmatch(branch)
    return BranchName(found["session"], found["base"] or "") if found else None


def base_of(git: Git, branch: str, listed: Sequence[str] = ()) -> str:
    """The base of a task branch: the branch that its name encodes, the nearest of several; "" for none. `listed`: the branches there are."""
    parsed = parse(branch)
    if parsed is None:
        return ""
    others = [name for name in listed or git.branches() if not name.startswith(PREFIX)]
    if parsed.base:
        found = [name for name in others if name.replace("/", "__") == parsed.base]
    else:  # older names do not encode the base
        found = [name for name in FALLBACKS if name in others]
    if len(found) < 2:
        return "".join(found)
    return min(found, key=lambda base: counts(git, base, [branch])[branch])


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


def delete(git: Git, names: Sequence[str]) -> None:
    """Delete branches, merged or not; the caller must have backed up their commits."""
    for start in range(0, len(names), _AT_ONCE):
        git.run("branch", "-D", "--", *names[start : start + _AT_ONCE])


def counts(git: Git, base: str, names: Sequence[str]) -> dict[str, int]:
    """Branch → number of its commits that the base does not have."""
    wanted = set(names)
    listed = git.lines("for-each-ref", "--format=%(objectname) %(refname:strip=2)", "refs/heads/")
    tips = {name: tip for tip, _, name in (line.partition(" ") for line in listed) if name in wanted}
    asked = "\n".join([*tips.values(), f"^refs/heads/{base}"])
    lines = git.run("rev-list", "--parents", "--stdin", given=as_bytes(asked)).decode().splitlines()
    parents = {commit: others for commit, *others in map(str.split, lines)}
    return {name: _ahead(tip, parents) for name, tip in tips.items()}


def _ahead(tip: str, parents: dict[str, list[str]]) -> int:
    """How many of the commits with these parents are the tip or lead to it."""
    seen: set[str] = set()
    rest = [tip]
    while rest:
        commit = rest.pop()
        if commit in parents and commit not in seen:
            seen.add(commit)
            rest += parents[commit]
    return len(seen)
