"""Snapshots of the files of a workspace, as commits of its git repository: `refs/adjourn/checkpoints/TASK/N`.

    git ls-files, update-index      into a private index (a copy of the repository's, so that only changed files are read): what
                                    is modified, deleted or new, without what is ignored, too large or
                                    not readable
    git write-tree, commit-tree, update-ref

Only objects and that ref are added to the repository: the index, the branch, the stash and the files do not change. A snapshot that
takes longer than `keepSeconds` is abandoned, with an error. No hook, filter or other program runs that the repository's own
configuration names.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import stat
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
"""Changed files of one snapshot."""
MAX_LEFT_OUT = 1000
"""Left-out files that the commit of a snapshot names."""
MAX_NEW_BYTES = 256 * 1024 * 1024
"""Bytes of changed files that one snapshot takes; what exceeds it is left out."""
MAX_KEPT = 300
"""Snapshots that a repository keeps; the oldest are forgotten."""
LOOK_EVERY = 4
MAX_REFS = 1000
"""Snapshots for one position of the history: a rollback of files alone adds no event."""
MAX_TOLD, MAX_NAME = 20, 500
"""Left-out files that a page names, and the characters of each name."""
_LEFT_OUT = b"Left-out: "
_REF = re.compile(rf"{REFS}[A-Za-z0-9_-]+/\d+")
_NOBODY = {
    "GIT_AUTHOR_NAME": "adjourn", "GIT_AUTHOR_EMAIL": "adjourn@localhost",
    "GIT_COMMITTER_NAME": "adjourn", "GIT_COMMITTER_EMAIL": "adjourn@localhost",
}  # fmt: skip


class GitSnapshot(NamedTuple):
    """A commit with the files, the ref that keeps it, and the paths that were left out (`write_tree`)."""

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
        message = _message(root, task, number, left_out)
        commit = git.word("commit-tree", tree, *(("-p", head) if head else ()), given=message)
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
    notes = [f"not saved, too large or not readable: {', '.join(saved['leftOut'][:10])}"] if snapshot.left_out else []
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
    """The files as a tree, and those that it leaves out: too large, not readable, or a repository of its own.

    Raises `StoreError`, also for more than `MAX_LISTED` changed files.
    """
    changed = _changed(git, root)
    absent, taken, left_out = list[str](), list[str](), list[str]()
    room: float = MAX_NEW_BYTES
    links: dict[str, bool] = {}
    for path in changed:
        size = _size(root, path, links)
        if path.endswith("/"):
            left_out.append(path)
        elif size is None:
            absent.append(path)
        elif size > min(largest, room):
            left_out.append(path)
            absent.append(path)  # what the index has is not what is there
        else:
            taken.append(path)
            room -= size
    _update(git, absent, "--force-remove")
    _update(git, taken, "--add", "--remove", "--replace")
    return git.word("write-tree"), left_out


def _changed(git: SnapshotGit, root: str) -> list[str]:
    """The paths where the files may differ from the index, also those where the person had git not look."""
    listed = git.run("ls-files", "-z", "-v", "--cached", "--others", "--modified", "--exclude-standard").split(b"\0")
    entries = [(entry[:1], os.fsdecode(entry[2:])) for entry in listed if entry and not entry.startswith(b"H ")]
    unseen = [path for tag, path in entries if tag.islower() or tag == b"S"]
    hidden = [path for path in dict.fromkeys(unseen) if os.path.lexists(os.path.join(root, path))]
    for option in ("--no-assume-unchanged", "--no-skip-worktree"):
        _update(git, hidden, option)
    sparse = {path for tag, path in entries if tag in b"Ss"}.difference(hidden)
    paths = [path for _, path in entries if not path.startswith(OURS) and path not in sparse]
    if len(paths) > MAX_LISTED:
        raise StoreError(
            f"too many changed files: {len(paths):,} (limit {MAX_LISTED:,})", "ignore large folders in .gitignore"
        )
    return list(dict.fromkeys(paths))


def _update(git: SnapshotGit, paths: Sequence[str], *options: str) -> None:
    if paths:
        given = b"".join(os.fsencode(path) + b"\0" for path in paths)
        git.run("update-index", *options, "-z", "--stdin", given=given)


def _size(root: str, path: str, links: dict[str, bool]) -> float | None:
    """The bytes of a file, 0 where nothing is, infinity if it cannot be read. None: a folder, a pipe, or behind a link of the tree
    stands there. `links` says which folders are links; it is filled.
    """
    if _is_behind_link(root, path, links):
        return None
    place = os.path.join(root, path)
    try:
        status = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError:
        return math.inf
    if stat.S_ISREG(status.st_mode):
        return status.st_size if os.access(place, os.R_OK) else math.inf
    is_repository = stat.S_ISDIR(status.st_mode) and os.path.lexists(os.path.join(place, ".git"))
    return 0 if is_repository or stat.S_ISLNK(status.st_mode) else None


def _is_behind_link(root: str, path: str, links: dict[str, bool]) -> bool:
    folder = ""
    for step in path.split("/")[:-1]:
        folder = f"{folder}/{step}" if folder else step
        if folder not in links:
            links[folder] = os.path.islink(os.path.join(root, folder))
        if links[folder]:
            return True
    return False


# --- what a snapshot leaves out, as its commit keeps it


class LeftOut(NamedTuple):
    """A file that a snapshot leaves out: its path, size in bytes, and time of its last change in nanoseconds (-1: not known)."""

    path: str
    size: int
    changed_ns: int


def left_out_now(root: str, path: str) -> LeftOut:
    """A left-out file as it is now."""
    try:
        status = os.lstat(os.path.join(root, path))
    except OSError:
        return LeftOut(path, -1, -1)
    return LeftOut(path, status.st_size, status.st_mtime_ns)


def left_out_of(git: SnapshotGit, commit: str) -> list[LeftOut]:
    """The files that a snapshot left out; of snapshots by earlier versions of adjourn none."""
    found = []
    for line in git.run("cat-file", "commit", commit).split(b"\n"):
        if line.startswith(_LEFT_OUT):
            with suppress(ValueError, TypeError):
                path, size, changed = json.loads(line.removeprefix(_LEFT_OUT))
                found.append(LeftOut(str(path), int(size), int(changed)))
    return found[:MAX_LEFT_OUT]


def _message(root: str, task: str, number: int, left_out: Sequence[str]) -> str:
    files = [left_out_now(root, path) for path in left_out[:MAX_LEFT_OUT]]
    lines = [_LEFT_OUT.decode() + json.dumps(file) + "\n" for file in files]  # names that are no text have escapes
    return f"Files of task {task} before event {number}\n" + "".join(["\n", *lines] if lines else [])


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
