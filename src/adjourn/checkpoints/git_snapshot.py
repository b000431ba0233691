"""Snapshots of the files of a workspace, as commits of its git repository: `refs/adjourn/checkpoints/TASK/N`.

    git ls-files, update-index      into a private index (a copy of the repository's, so that only changed files are read): what
                                    is modified, deleted or new, without what is ignored or too large
    git write-tree, commit-tree, update-ref

Only objects and that ref are added to the repository: the index, the branch, the stash and the files do not change. A snapshot that
takes longer than `keepSeconds` is abandoned, with an error. No hook, filter or other program runs that the repository's own
configuration names.

To restore, all content is first written into a staging folder of the workspace, and synced. Only then is each file renamed to its place,
which replaces the old one at once: a kill at any moment leaves each file whole. No file is deleted, no content replaced that no snapshot
has, no link followed, no policy changed. What was restored before a kill is seen by comparing files with snapshots, so the same call
again finishes the work.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from adjourn.errors import NotFoundError, RefusedError, StoreError
from adjourn.host.git import GitCommand, distrusting
from adjourn.log.canonical_json import digest
from adjourn.policy.destructive import Settings

REFS = "refs/adjourn/checkpoints/"
OURS = (".aex/", "tmp/checkpoint", "tmp/.checkpoint", "tmp/.gitignore")
"""Prefixes of paths that are never saved or restored: adjourn's own files."""
MAX_LISTED = 100_000
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

    def word(self, *arguments: str, may_fail: bool = False) -> str:
        return self.run(*arguments, may_fail=may_fail).decode(errors="surrogateescape").strip()

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
        if git.word("rev-parse", "--is-inside-work-tree", may_fail=True) != "true":
            raise NotFoundError(f"{root} is not in a git repository", "create one with `git init`")
        with suppress(OSError):
            own = os.path.join(git.word("rev-parse", "--absolute-git-dir"), "index")
            shutil.copy2(own, index)  # with its time: git compares it to those of files
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
    return GitSnapshot(commit, ref, left_out)


def _held(git: SnapshotGit, commit: str, folder: str, number: int) -> str:
    """The ref that keeps a commit from now on: the one of `number`, or the next free one. No ref is overwritten."""
    for free in range(number, number + MAX_REFS):
        ref = f"{folder}{free}"
        git.run("update-ref", ref, commit, "0" * len(commit), may_fail=True)
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
    left_out = [path for path in paths if path.endswith("/") or _size(os.path.join(root, path)) > largest]
    taken = set(paths).difference(left_out)
    listing = b"".join(os.fsencode(path) + b"\0" for path in paths if path in taken)
    git.run("update-index", "--add", "--remove", "-z", "--stdin", given=listing)
    return git.word("write-tree"), left_out


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def forget(root: str, refs: Sequence[str]) -> None:
    """Delete the refs of snapshots. Git removes their objects when it next collects garbage."""
    with open_git(root, 30.0) as git:
        commands = "".join(f"delete {ref}\n" for ref in refs if _REF.fullmatch(ref))
        git.run("update-ref", "--stdin", given=commands.encode())


# --- restoring the files of a snapshot

SECONDS = 60.0
"""How long the git commands of one rollback may take, at least."""
UNSAVED = "its content is saved nowhere: it is ignored, too large, or not a file"
EDITED = "it was edited during the rollback"
SUBMODULE = "it is a submodule"
POLICY = "it is a policy or belongs to one"
_POLICY_NAMES = (".aex", ".aex.signature.json", "aex.policy.json")
_SUBMODULE = b"160000"
_KINDS = {b"A": "bring back", b"M": "restore", b"T": "restore", b"D": "leave"}
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW

Signature = tuple[int, ...] | None
"""What changes if a file is edited or replaced; None: there is no file."""


class RollbackChange(NamedTuple):
    """What restoring a snapshot does to one file: `restore` its content, `bring back`, `leave` (created since), or `avoid`: it stays
    as it is, and `why` says why.
    """

    kind: str
    path: str
    why: str = ""

    @property
    def changes_file(self) -> bool:
        """Whether the file gets the content of the snapshot."""
        return self.kind in ("restore", "bring back")


def changes(root: str, commit: str, settings: Settings) -> list[RollbackChange]:
    """The changes that restoring a snapshot would make. Newer files stay. Raises `RefusedError`, `NotFoundError`, `StoreError`."""
    with open_git(root, max(SECONDS, settings.keep_seconds)) as git:
        _check(git, commit)
        tree, left_out = write_tree(git, root, settings.max_file_bytes)
        return [_possible(root, change, left_out) for change in _between(git, tree, commit)]


def restore(root: str, commit: str, before: str, staging: str, settings: Settings) -> list[RollbackChange]:
    """Restore the files of the snapshot `commit`; `before` is the one made just before, and `staging` an empty folder in the workspace.

    Called again after a kill, with the same two snapshots, it does what is left to do. Returns all changes. Raises `RefusedError`,
    `NotFoundError`, `StoreError`; a failed staging changes no file.
    """
    with open_git(root, max(SECONDS, settings.keep_seconds)) as git:
        _check(git, commit)
        _check(git, before)
        planned = _between(git, before, commit)
        seen = {change.path: _signature(os.path.join(root, change.path)) for change in planned}
        now, left_out = write_tree(git, root, settings.max_file_bytes)
        differing = {change.path for change in _between(git, now, commit)}
        edited = {change.path for change in _between(git, before, now)} & differing
        paths = [
            change if change.path not in differing else
            change._replace(kind="avoid", why=EDITED) if change.changes_file and change.path in edited else
            _possible(root, change, left_out)
            for change in planned
        ]  # fmt: skip
        wanted = [change.path for change in paths if change.changes_file and change.path in differing]
        folder = _stage(git, commit, staging, wanted)
    failed = _move(root, folder, {path: seen[path] for path in wanted})
    return [
        change._replace(kind="avoid", why=failed[change.path]) if change.path in failed else change for change in paths
    ]


def _check(git: SnapshotGit, commit: str) -> None:
    if len(commit) not in (40, 64) or not set(commit) <= set("0123456789abcdef"):
        raise RefusedError(f"{commit[:64]!r} is not a commit", "name the commit of a checkpoint")
    if git.word("cat-file", "-t", commit, may_fail=True) != "commit":
        raise NotFoundError(
            f"commit {commit[:12]} is not in the repository",
            "fetch it from the clone that has it; if it was pruned, it is lost",
        )


def _between(git: SnapshotGit, before: str, after: str) -> list[RollbackChange]:
    """What differs from one snapshot to another, without adjourn's own files."""
    listed = git.run("diff-tree", "-r", "-z", "--no-renames", "--raw", "--relative", before, after).split(b"\0")
    start = 1 if listed[0] and not listed[0].startswith(b":") else 0
    paths = []
    for about, name in zip(listed[start::2], listed[start + 1 :: 2], strict=False):
        old, new, *_, letter = about.lstrip(b":").split(b" ")
        change = RollbackChange(_KINDS.get(letter, "leave"), os.fsdecode(name))
        if change.path.startswith(OURS):
            continue
        if _SUBMODULE in (old, new):
            change = change._replace(kind="avoid", why=SUBMODULE)
        elif _is_policy(change.path):
            change = change._replace(kind="avoid", why=POLICY)
        paths.append(change)
    return paths


def _is_policy(path: str) -> bool:
    """Whether a file may be a policy, of this workspace or of another: an earlier one may permit more."""
    folded = path.casefold()
    return ".aex" in folded.split("/") or folded.endswith(_POLICY_NAMES)


def _possible(root: str, change: RollbackChange, left_out: Iterable[str]) -> RollbackChange:
    """The change, or that it is avoided: a file's place has something that a snapshot would not save."""
    unsaved = change.changes_file and (change.path in left_out or _in_way(root, change))
    return change._replace(kind="avoid", why=UNSAVED) if unsaved else change


def _in_way(root: str, change: RollbackChange) -> bool:
    place = root
    *folders, name = change.path.split("/")
    for folder in folders:
        place = os.path.join(place, folder)
        if not os.path.lexists(place):
            return False
        if os.path.islink(place) or not os.path.isdir(place):
            return True
    place = os.path.join(place, name)
    there = os.path.lexists(place)
    return there and (change.kind == "bring back" or (os.path.isdir(place) and not os.path.islink(place)))


def _signature(path: str, folder: int | None = None) -> Signature:
    try:
        status = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _stage(git: SnapshotGit, commit: str, staging: str, paths: list[str]) -> str:
    """Write the content of the snapshot, durably. Returns the folder in `staging` that has the workspace's files."""
    prefix = os.fsdecode(git.run("rev-parse", "--show-prefix").rstrip(b"\n"))
    folder = os.path.join(staging, prefix)  # git writes paths from the top of its repository
    if not paths:
        return folder
    git.run("read-tree", commit)
    listing = b"\0".join(map(os.fsencode, paths))
    git.run("checkout-index", "--force", "-z", f"--prefix={staging}/", "--stdin", given=listing)
    try:
        for path in paths:
            staged = os.path.join(folder, path)
            if stat.S_ISREG(os.lstat(staged).st_mode):
                with open(staged, "rb") as file:
                    os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(
            f"cannot write the files of a rollback into {staging}: {error.strerror}",
            "check free space, then try again; no file was changed",
        ) from error
    return folder


def _move(root: str, folder: str, wanted: Mapping[str, Signature]) -> dict[str, str]:
    """Move staged files to their places, unless these changed since. Returns why each of the others stayed as it was."""
    failed = {}
    for path, seen in wanted.items():
        try:
            with _open_parent(root, path) as parent:
                name = os.path.basename(path)
                if _signature(name, parent) != seen:
                    failed[path] = EDITED
                    continue
                _rename(os.path.join(folder, path), name, parent)
                os.fsync(parent)
        except OSError as error:
            failed[path] = error.strerror or type(error).__name__
    return failed


@contextmanager
def _open_parent(root: str, path: str) -> Iterator[int]:
    """The folder of a file, created if it is missing, and opened through no link. Raises `OSError`."""
    parent = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for step in path.split("/")[:-1]:
            with suppress(FileExistsError):
                os.mkdir(step, dir_fd=parent)
            beneath = os.open(step, _FOLDER, dir_fd=parent)
            os.close(parent)
            parent = beneath
        yield parent
    finally:
        os.close(parent)


def _rename(staged: str, name: str, parent: int) -> None:
    try:
        os.rename(staged, name, dst_dir_fd=parent)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = f".{digest(os.fsencode(name))[:16]}.restored"  # the place is on another file system
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=parent)
        _copy(staged, beside, parent)
        os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)


def _copy(staged: str, name: str, parent: int) -> None:
    mode = os.lstat(staged).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(staged), name, dir_fd=parent)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with (
        open(staged, "rb") as source,
        os.fdopen(os.open(name, flags, stat.S_IMODE(mode), dir_fd=parent), "wb") as target,
    ):
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
