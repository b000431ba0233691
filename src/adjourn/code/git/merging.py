"""Merges a session's branch into its base branch.

Owns: `merge`, `abort_interrupted`. Must never: leave a merge unfinished, touch another merge in progress, or lose staged or uncommitted changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from adjourn.code.git import backup_refs
from adjourn.code.git.branches import BranchError, check_out, parse
from adjourn.code.git.git import WITH_HOOKS, Git, GitError
from adjourn.code.model.names import as_bytes

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
    for held in backup_refs.list_backups(git, _session(branch)):
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


def abort_interrupted(git: Git, session: str, branch: str) -> backup_refs.BackupRef | None:
    """Abort an interrupted merge of this branch, after backing up its result so far."""
    if git.commit(_MERGE_HEAD) != git.commit(f"refs/heads/{branch}"):
        return None
    changed = git.fields(
        "diff", "--name-only", "--no-renames", "--ignore-submodules=dirty", "-z", "HEAD", "--"
    )
    held = backup_refs.back_up_files(git, session, changed, "an interrupted merge")
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
    added = git.fields(
        "diff", "--name-only", "--no-renames", "--diff-filter=A", "-z", "HEAD", f"refs/heads/{branch}"
    )
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
    staged = git.fields(
        "diff", "--cached", "--name-only", "--no-renames", "--ignore-submodules=dirty", "-z", "HEAD"
    )
    aside = [path for path in staged if path not in merged]
    if not aside:
        yield
        return
    held = backup_refs.back_up_index(git, _session(branch), staged, _STAGED)
    git.with_paths("reset", "--quiet", paths=aside)
    try:
        yield
    finally:
        _restage(git, held)


def _restage(git: Git, held: backup_refs.BackupRef) -> None:
    fields = git.fields("diff-tree", "-r", "--raw", "--no-renames", "-z", f"{held.ref}^", held.ref)
    entries = zip(fields[::2], fields[1::2], strict=True)
    lines = [
        " ".join(entry.split()[1:4:2]).encode() + b"\t" + as_bytes(path) + b"\0" for entry, path in entries
    ]
    git.run("update-index", "-z", "--index-info", given=b"".join(lines))
    backup_refs.drop(git, held)


def _session(branch: str) -> str:
    parsed = parse(branch)
    return parsed.session if parsed else branch
