"""Merging a session's branch into the one it came from.

Owns: `merge`, `abort_interrupted`. Must never: leave a merge half done, touch one that is not the session's, or lose what is staged or not committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from adjourn.code.git import backup_refs
from adjourn.code.git.branches import BranchError, check_out, parse
from adjourn.code.git.git import WITH_HOOKS, Git, GitError, as_bytes

_MERGE_HEAD = "MERGE_HEAD"
_STAGED = "what was staged before a merge"
_IN_PROGRESS = (_MERGE_HEAD, "CHERRY_PICK_HEAD", "REVERT_HEAD")


class MergeError(BranchError):
    """A merge did not go through, and was undone. `conflicts` are the files that both sides changed."""

    def __init__(self, message: str, remedy: str, conflicts: Sequence[str] = ()) -> None:
        super().__init__(message, remedy)
        self.conflicts = list(conflicts)


def merge(git: Git, branch: str, base: str) -> bool:
    """Merge a task branch into its base, and check that out. False when there was nothing to merge.

    A merge that does not go through is undone, and the branch that was checked out is checked out again: `MergeError`.
    """
    here = git.branch()
    _check_ready(git, here, branch, base)
    for held in backup_refs.list_backups(git, _session(branch)):
        if held.why == _STAGED:  # by a merge that was cut off
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
    """Undo a merge of this branch that was cut off: what it had come to is kept."""
    if git.commit(_MERGE_HEAD) != git.commit(f"refs/heads/{branch}"):
        return None
    changed = git.fields(
        "diff", "--name-only", "--no-renames", "--ignore-submodules=dirty", "-z", "HEAD", "--"
    )
    held = backup_refs.back_up_files(git, session, changed, "half a merge that was undone")
    git.run("merge", "--abort")
    return held


def _check_ready(git: Git, here: str, branch: str, base: str) -> None:
    if not here:
        raise MergeError("HEAD is detached: there is no branch to come back to", "check out a branch")
    if not git.commit(f"refs/heads/{base}"):
        raise MergeError(
            f"{base}, the base of {branch}, does not exist any more", "make it, then submit again"
        )
    if other := next((name for name in _IN_PROGRESS if git.commit(name)), ""):
        what = other.removesuffix("_HEAD").lower().replace("_", "-")
        raise MergeError(
            f"a {what} that is not of this session is under way here, and is left alone",
            f"finish it, or give it up with `git {what} --abort`, then submit again",
        )


def _check_untracked(git: Git, branch: str) -> None:
    """Files that git ignores it overwrites. Raise `MergeError` where the branch brings one that is there."""
    added = git.fields(
        "diff", "--name-only", "--no-renames", "--diff-filter=A", "-z", "HEAD", f"refs/heads/{branch}"
    )
    there = [path for path in added if os.path.lexists(git.path_of(path))]
    if there:
        raise MergeError(
            f"{branch} brings {', '.join(there[:10])}, which is there and not under git",
            "move it away, then submit again",
        )


def _merge(git: Git, branch: str, base: str) -> None:
    """A merge commit, or `MergeError` with everything as it was."""
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
        f"{branch} was not merged into {base}: {what}. The merge was undone",
        f"merge {base} into {branch}, resolve it there and commit, then submit again",
        conflicts,
    )


@contextmanager
def _unstaged(git: Git, branch: str) -> Iterator[None]:
    """Take out of the index what is staged and not touched by a merge, and put it back: git merges into no other index.

    Meanwhile it is kept under a ref, which is dropped only when all is back.
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
