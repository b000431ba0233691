"""Snapshots of the files of a workspace, as commits of its git repository: `refs/adjourn/checkpoints/TASK/N`.

    git ls-files, update-index      into a private index (a copy of the repository's, so that only changed files are read): what
                                    is modified, deleted or new, without what is ignored or too large
    git write-tree, commit-tree, update-ref

Only objects and that ref are added to the repository: the index, the branch, the stash and the files do not change. A snapshot that
takes longer than `keepSeconds` is abandoned, with an error. No hook, filter or other program runs that the repository's own
configuration names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from adjourn.errors import AdjournError, NotFoundError, StoreError
from adjourn.host.git import GitCommand, distrusting
from adjourn.policy.destructive import Settings

REFS = "refs/adjourn/checkpoints/"
OURS = (".aex/", "tmp/checkpoint", "tmp/.checkpoint", "tmp/.gitignore")
"""Prefixes of paths that are never saved or restored: adjourn's own files."""
MAX_LISTED = 100_000
MAX_NEW_BYTES = 256 * 1024 * 1024
"""Bytes of changed files that one snapshot takes; what exceeds it is left out."""
MAX_KEPT = 300
"""Snapshots that a repository keeps; the oldest are forgotten."""
LOOK_EVERY = 4
MAX_REFS = 1000
"""Snapshots for one position of the history: a rollback of files alone adds no event."""
MAX_TOLD, MAX_NAME = 20, 500
"""Left-out files that a page names, and the characters of each name."""
_REF = re.compile(rf"{REFS}[A-Za-z0-9_-]+/\d+")
_NOBODY = {
    "GIT_AUTHOR_NAME": "adjourn", "GIT_AUTHOR_EMAIL": "adjourn@localhost",
    "GIT_COMMITTER_NAME": "adjourn", "GIT_COMMITTER_EMAIL": "adjourn@localhost",
}  # fmt: skip


class GitSnapshot(NamedTuple):
    """A commit with the files, the ref that keeps it, and the paths that were left out because they are too large."""

    commit: str
    ref: str
    left_out: list[str]

    def to_json(self) -> dict[str, Any]:
        """The snapshot as a page keeps it: JSON, with at most `MAX_TOLD` names."""
        names = [os.fsencode(path).decode(errors="replace")[:MAX_NAME] for path in self.left_out[:MAX_TOLD]]
        return {"commit": self.commit, "ref": self.ref, "leftOut": names}


class SnapshotGit:
    """Runs git commands in one workspace, with a private index, until a deadline."""

    def __init__(self, root: str, index: str, seconds: float) -> None:
        self._root = root
        self._end = time.monotonic() + seconds
        variables = {**_NOBODY, "GIT_INDEX_FILE": index, "GIT_NO_REPLACE_OBJECTS": "1"}
        self._command = distrusting(root, self._listing, variables)

    def run(self, *arguments: str, given: bytes = b"", may_fail: bool = False) -> bytes:
        done = self._done(self._command, ["-c", "core.quotePath=false", *arguments], given)
        if done.returncode and not may_fail:
            reason = done.stderr.decode(errors="replace").strip().split("\n")[0]
            raise StoreError(f"git {arguments[0]} failed: {reason[:300]}", "see `git status` in the workspace")
        return b"" if done.returncode else done.stdout

    def _listing(self, command: GitCommand, arguments: Sequence[str]) -> tuple[int, bytes]:
        done = self._done(command, arguments, b"")
        return done.returncode, done.stdout

    def _done(self, command: GitCommand, arguments: Sequence[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                [*command.words, *arguments],
                cwd=self._root,
                env=command.environment,
                input=given,
                capture_output=True,
                timeout=max(0.0, self._end - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StoreError(
                "git timed out while it saved the files", "raise keepSeconds, or ignore large folders in .gitignore"
            ) from error

    def word(self, *arguments: str, given: str = "", may_fail: bool = False) -> str:
        return self.run(*arguments, given=given.encode(), may_fail=may_fail).decode(errors="surrogateescape").strip()

    def paths(self, *arguments: str) -> list[str]:
        listed = self.run(*arguments).split(b"\0")[:MAX_LISTED]
        return [os.fsdecode(path) for path in listed if path]


@contextmanager
def open_git(root: str, seconds: float) -> Iterator[SnapshotGit]:
    """Git in a workspace inside a working tree. Raises `NotFoundError` where there is none."""
    folder = tempfile.mkdtemp(prefix="adjourn-")
    try:
        index = os.path.join(folder, "index")
        git = SnapshotGit(root, index, seconds)
        inside, _, folder_of_git = git.word(
            "rev-parse", "--is-inside-work-tree", "--absolute-git-dir", may_fail=True
        ).partition("\n")
        if inside != "true":
            raise NotFoundError(f"{root} is not in a git repository", "create one with `git init`")
        with suppress(OSError):
            shutil.copy2(
                os.path.join(folder_of_git, "index"), index
            )  # with its time: git compares it to those of files
        yield git
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(root: str, task: str, number: int, settings: Settings) -> GitSnapshot:
    """Save the files as they are, before event `number` of a task. Raises `NotFoundError` outside of a repository, `StoreError`
    if git fails or times out.
    """
    with open_git(root, settings.keep_seconds) as git:
        tree, left_out = write_tree(git, root, settings.max_file_bytes)
        head = git.word("rev-parse", "--verify", "--quiet", "HEAD^{commit}", may_fail=True)
        message = f"Files of task {task} before event {number}"
        commit = git.word("commit-tree", tree, *(("-p", head) if head else ()), "-m", message)
        ref = _held(git, commit, f"{REFS}{task.replace('.', '-')}/", number)
        if not number % LOOK_EVERY:
            _forget_old(git)
    return GitSnapshot(commit, ref, left_out)


def for_page(root: str, task: str, number: int, settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """Save the files for the page of a checkpoint: the members of the page, and notes for the person. Nothing where files are not to be
    kept, or outside of a repository.
    """
    if not settings.keep_files or not root or not _is_in_repository(root):
        return {}, []
    try:
        snapshot = keep(root, task, number, settings)
    except NotFoundError:
        return {}, []
    except AdjournError as error:
        return {}, [f"the files were not saved: {error}"]
    saved = snapshot.to_json()
    notes = [f"not saved, too large: {', '.join(saved['leftOut'][:10])}"] if snapshot.left_out else []
    return {"files": saved}, notes


def _is_in_repository(root: str) -> bool:
    """Whether a folder may be in a repository, without starting git."""
    path = os.path.realpath(root)
    while not os.path.lexists(os.path.join(path, ".git")):
        above = os.path.dirname(path)
        if above == path:
            return False
        path = above
    return True


def _forget_old(git: SnapshotGit) -> None:
    """Keep the newest snapshots of a repository only."""
    listed = git.word("for-each-ref", "--sort=-committerdate", "--format=%(refname)", REFS).split("\n")
    gone = [f"delete {ref}\n" for ref in listed[MAX_KEPT:] if _REF.fullmatch(ref)]
    if gone:
        git.run("update-ref", "--stdin", given="".join(gone).encode())


def _held(git: SnapshotGit, commit: str, folder: str, number: int) -> str:
    """The ref that keeps a commit from now on: the one of `number`, or the next free one. No ref is overwritten."""
    for free in range(number, number + MAX_REFS):
        ref = f"{folder}{free}"
        with suppress(StoreError):
            git.run("update-ref", ref, commit, "0" * len(commit))
            return ref
        resolved = git.word("rev-parse", "--verify", "--quiet", ref, may_fail=True)
        if resolved == commit:
            return ref
        if not resolved:
            break
    raise StoreError(f"git cannot create a ref in {folder}", "make the folder .git writable")


def write_tree(git: SnapshotGit, root: str, largest: int) -> tuple[str, list[str]]:
    """The files as a tree, and those that are left out: too large (one that once was not is as it was then), or a repository of
    its own.
    """
    listed = git.paths("ls-files", "-z", "--others", "--modified", "--exclude-standard")
    paths = [path for path in dict.fromkeys(listed) if not path.startswith(OURS)]
    left_out, room = [], MAX_NEW_BYTES
    for path in paths:
        size = _size(os.path.join(root, path))
        if path.endswith("/") or size > min(largest, room):
            left_out.append(path)
        else:
            room -= size
    unwanted = set(left_out)
    taken = [path for path in paths if path not in unwanted]
    folders = {path for path in taken if _is_folder(os.path.join(root, path))}  # files once
    for option, names in (("--force-remove", folders), ("--replace", [path for path in taken if path not in folders])):
        listing = b"".join(os.fsencode(name) + b"\0" for name in names)
        if listing:
            git.run("update-index", "--add", "--remove", option, "-z", "--stdin", given=listing)
    return git.word("write-tree"), left_out


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path) and not os.path.lexists(os.path.join(path, ".git"))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


class KeptFiles(NamedTuple):
    """The snapshots of a repository, and the bytes on disk of what they added to the commits before them (-1: not known)."""

    snapshots: int = 0
    size: int = 0


def kept_files(root: str) -> KeptFiles:
    """What the snapshots take. Nothing outside of a repository; git older than 2.31 does not say the size. Raises `StoreError`."""
    if not _is_in_repository(root):
        return KeptFiles()
    with open_git(root, 30.0) as git:
        refs = git.word("for-each-ref", "--format=%(refname)", REFS).split()
        if not refs:
            return KeptFiles()
        shared = git.word("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", "refs/remotes").split()
        given = "\n".join([*refs[:MAX_LISTED], *(f"^{ref}" for ref in shared[:MAX_LISTED]), ""])
        size = git.word("rev-list", "--objects", "--disk-usage", "--stdin", given=given, may_fail=True)
    return KeptFiles(len(refs), int(size) if size.isdecimal() else -1)


def forget(root: str, refs: Sequence[str]) -> None:
    """Delete the refs of snapshots. Git removes their objects when it next collects garbage."""
    with open_git(root, 30.0) as git:
        commands = "".join(f"delete {ref}\n" for ref in refs if _REF.fullmatch(ref))
        git.run("update-ref", "--stdin", given=commands.encode())
