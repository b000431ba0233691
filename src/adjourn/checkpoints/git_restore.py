"""Restoring the files of a snapshot, so that a kill at any moment leaves each file whole: as it was, or as the snapshot has it.

All content is first written into a staging folder of the workspace, and synced. Only then is each file renamed to its place, which
replaces the old one at once. No file is deleted. What was restored before a kill is seen by comparing files with snapshots, so the same
call again finishes the work.

Owns: which files a snapshot changes, and restoring them. Must never: replace content that no snapshot has, follow a link, or change a
policy.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from adjourn.checkpoints.git_snapshot import OURS, SnapshotGit, open_git, write_tree
from adjourn.errors import NotFoundError, RefusedError, StoreError
from adjourn.log import digest
from adjourn.policy import Settings

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
        found = [
            change if change.path not in differing else
            change._replace(kind="avoid", why=EDITED) if change.changes_file and change.path in edited else
            _possible(root, change, left_out)
            for change in planned
        ]  # fmt: skip
        wanted = [change.path for change in found if change.changes_file and change.path in differing]
        folder = _stage(git, commit, staging, wanted)
    failed = _move(root, folder, {path: seen[path] for path in wanted})
    return [
        change._replace(kind="avoid", why=failed[change.path]) if change.path in failed else change
        for change in found
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
    listed = git.run("diff-tree", "-r", "-z", "--no-renames", "--raw", "--relative", before, after).split(
        b"\0"
    )
    start = 1 if listed[0] and not listed[0].startswith(b":") else 0
    found = []
    for about, name in zip(listed[start::2], listed[start + 1 :: 2], strict=False):
        old, new, *_, letter = about.lstrip(b":").split(b" ")
        change = RollbackChange(_KINDS.get(letter, "leave"), os.fsdecode(name))
        if change.path.startswith(OURS):
            continue
        if _SUBMODULE in (old, new):
            change = change._replace(kind="avoid", why=SUBMODULE)
        elif _is_policy(change.path):
            change = change._replace(kind="avoid", why=POLICY)
        found.append(change)
    return found


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
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _stage(git: SnapshotGit, commit: str, staging: str, paths: list[str]) -> str:
    """Write the content of the snapshot, durably. Returns the folder in `staging` that has the workspace's files."""
    prefix = os.fsdecode(git.run("rev-parse", "--show-prefix").rstrip(b"\n"))
    folder = os.path.join(staging, prefix)  # git writes paths from the top of its repository
    if not paths:
        return folder
    git.run("read-tree", commit)
    given = b"\0".join(map(os.fsencode, paths))
    git.run("checkout-index", "--force", "-z", f"--prefix={staging}/", "--stdin", given=given)
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
