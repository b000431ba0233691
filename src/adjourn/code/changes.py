"""What a session changed: listed, shown, discarded, committed.

Owns: which files count as changes, and acting on those that were decided on. Must never: touch a file that nobody decided on, nor revert
one that is not first kept under a ref.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from adjourn.code import kept
from adjourn.code.git import Git, GitError
from adjourn.engine.workspace import inside
from adjourn.errors import AdjournError

MAX_DIFF = 60_000
MAX_NOTED = 5_000
"""Files that were changed before a session began and are remembered one by one."""
MAX_HASHED = 64 << 20
MAX_KEPT_FILE = 10 << 20
MAX_KEPT = 200 << 20
"""How much of what was there before a session is kept at its start. What a session discards is kept whole, whatever its size."""
_OURS = (".code-intel/", ".aex/adjourn.db", ".aex/checkpoints/", ".aex/runs/")
_TYPES = {"A": "added", "D": "deleted"}
ChangeType = Literal["added", "modified", "deleted"]


class CommitError(AdjournError):
    """git made no commit: a hook of the user said no, or nobody has said who commits."""


class Change(msgspec.Struct, kw_only=True):
    """A file that is not as it was in the base. `before`: it was changed before the session began, and not since."""

    path: str
    change_type: ChangeType
    is_binary: bool = False
    diff: str = ""
    before: bool = False


def dirty(git: Git) -> dict[str, str]:
    """Path → digest of what is there, of every file that is not as it was committed last."""
    paths = _against(git, "HEAD") | dict.fromkeys(_untracked(git), "A")
    return {path: content_id(git, path) for path in list(paths)[:MAX_NOTED]}


def worth_keeping(git: Git, paths: Iterable[str]) -> list[str]:
    """Those of the files that can be kept without a long wait; a large file that nobody decides on is not touched anyway."""
    kept_paths, total = [], 0
    for path in paths:
        try:
            size = os.lstat(os.path.join(git.root, path)).st_size
        except OSError:  # it was deleted: that, too, is kept
            size = 0
        if size <= MAX_KEPT_FILE and total + size <= MAX_KEPT:
            kept_paths.append(path)
            total += size
    return kept_paths


def listed(git: Git, base: str, before: dict[str, str]) -> list[Change]:
    """Every change since `base` (a commit), committed or not, without those of this program's own files."""
    untracked = dict.fromkeys(_untracked(git), "A")
    found = _against(git, base) | untracked
    waiting = _against(git, "HEAD") | untracked
    return [
        Change(
            path=path,
            change_type=_TYPES.get(letter, "modified"),  # type: ignore[arg-type]
            before=path in waiting and path in before and before[path] == content_id(git, path),
        )
        for path, letter in sorted(found.items())
    ]


def shown(git: Git, base: str, change: Change) -> Change:
    """The change with its difference to `base`, cut where it is long."""
    untracked = change.change_type == "added" and not git.fields("ls-files", "-z", "--", change.path)
    if untracked:
        arguments = ("diff", "--no-index", "--no-ext-diff", "--no-color", "--", "/dev/null", change.path)
    else:
        arguments = ("diff", "--no-ext-diff", "--no-color", "--no-renames", base, "--", change.path)
    try:
        text = git.run(*arguments)
    except GitError as error:  # `--no-index` says by its exit code that there is a difference
        text = error.output.encode()
    binary = b"\nBinary files " in text or b"\0" in text
    cut = text[:MAX_DIFF].decode("utf-8", "ignore")
    more = f"\n… {len(text) - MAX_DIFF} bytes more" if len(text) > MAX_DIFF else ""
    return msgspec.structs.replace(change, is_binary=binary, diff="" if binary else cut + more)


def discard(git: Git, session: str, base: str, changes: Sequence[Change]) -> kept.Kept | None:
    """Bring files back to what they were in `base`: what they are now is kept under a ref first."""
    if not changes:
        return None
    held = kept.keep_files(git, session, [change.path for change in changes], "discarded in the review")
    known = [change.path for change in changes if change.change_type != "added"]
    if known:
        git.with_paths("restore", f"--source={base}", "--staged", "--worktree", paths=known)
    new = [change.path for change in changes if change.change_type == "added"]
    if new:
        git.with_paths("rm", "--cached", "--quiet", "--force", "--ignore-unmatch", paths=new)
    for path in new:
        _remove(git, path)
    return held


def commit(git: Git, paths: Sequence[str], message: str) -> str:
    """Commit these files as they are now, and nothing else that may be staged. "" when they are all as committed last."""
    waiting = set(_against(git, "HEAD")) | set(_untracked(git))
    wanted = [path for path in paths if path in waiting]
    if not wanted:
        return ""
    there = [path for path in wanted if os.path.lexists(os.path.join(git.root, path))]
    try:
        if there:
            git.with_paths("add", "--all", "--force", paths=there)
        git.with_paths("commit", "--quiet", "--only", "-m", message, paths=wanted)
    except GitError as error:
        said = f"{error.message}\n{error.output}".strip()
        raise CommitError(
            f"nothing was committed: {said}", "mend what it names, then submit again"
        ) from error
    return git.commit()


def content_id(git: Git, path: str) -> str:
    """What tells a file's content from another one; "" for one that is not there."""
    full = os.path.join(git.root, path)
    try:
        status = os.lstat(full)
        if stat.S_ISLNK(status.st_mode):
            return "link:" + os.readlink(full)
        if not stat.S_ISREG(status.st_mode):
            return "other"
        if status.st_size > MAX_HASHED:
            return f"large:{status.st_size}:{status.st_mtime_ns}"
        with open(full, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def is_ours(path: str) -> bool:
    """Whether a file is one that this program writes for itself."""
    return path.startswith(_OURS)


def _against(git: Git, base: str) -> dict[str, str]:
    """Path → letter, of tracked files that are not as they are in `base`."""
    fields = git.fields("diff", "--name-status", "--no-renames", "--no-ext-diff", "-z", base, "--")
    return dict(zip(fields[1::2], fields[::2], strict=True))


def _untracked(git: Git) -> list[str]:
    """Files that git does not know. A repository in the repository (a linked work tree, say) is not one."""
    found = git.fields("ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in found if not path.endswith("/") and not is_ours(path)]


def _remove(git: Git, path: str) -> None:
    full = os.path.join(inside(git.root, os.path.dirname(path) or "."), os.path.basename(path))
    with suppress(FileNotFoundError):
        os.unlink(full)
    folder = os.path.dirname(full)
    with suppress(OSError):  # other files are in it
        while folder != os.path.realpath(git.root):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
