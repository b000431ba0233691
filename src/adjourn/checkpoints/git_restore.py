"""Restoring the files of a snapshot.

All content is first written into a staging folder of the workspace, and synced. Only then is each file renamed to its place, which
replaces the old one at once: a kill at any moment leaves each file whole. No content is replaced or removed that no snapshot has, no link
followed, no policy changed. A file that a snapshot has is removed only where a folder, or a file, has to come back in its place. What was
restored before a kill is seen by comparing files with snapshots, so the same call again finishes the work.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from adjourn.checkpoints.git_snapshot import OURS, LeftOut, SnapshotGit, left_out_now, left_out_of, open_git, write_tree
from adjourn.errors import NotFoundError, RefusedError, StoreError
from adjourn.log.canonical_json import digest
from adjourn.policy.destructive import Settings

SECONDS = 60.0
"""How long the git commands of one rollback may take, at least."""
UNSAVED = "its content is saved nowhere: it is ignored, too large, not readable, or not a file"
NOT_KEPT = "the checkpoint has no content of it: it was too large, or not readable"
EDITED = "it was edited during the rollback"
SUBMODULE = "it is a submodule"
NESTED = "it is a repository of its own"
MAX_CLEARED = 10_000
"""Files of one folder that may stand where a file has to come back."""
POLICY = "it is a policy or belongs to one"
_POLICY_NAMES = (".aex", ".aex.signature.json", "aex.policy.json")
_SUBMODULE = b"160000"
_KINDS = {b"A": "bring back", b"M": "restore", b"T": "restore", b"D": "leave"}
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW

Signature = tuple[int, ...] | None
"""What changes if a file is edited or replaced; None: there is no file."""


class RollbackChange(NamedTuple):
    """What restoring a snapshot does to one file: `restore` its content, `bring back`, `leave` (created since), `make room` (created
    since, and removed for what comes back in its place), or `avoid`: it stays as it is, and `why` says why.
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
        lacking = left_out_of(git, commit)
        planned = _planned(git, tree, commit, lacking)
        return [
            *_Possible(root, planned, left_out).changes(),
            *_not_kept(git, commit, planned, _unsaved(root, left_out, lacking)),
        ]


def restore(root: str, commit: str, before: str, staging: str, settings: Settings) -> list[RollbackChange]:
    """Restore the files of the snapshot `commit`; `before` is the one made just before, and `staging` an empty folder in the workspace.

    Called again after a kill, with the same two snapshots, it does what is left to do. Returns all changes. Raises `RefusedError`,
    `NotFoundError`, `StoreError`; a failed staging changes no file.
    """
    with open_git(root, max(SECONDS, settings.keep_seconds)) as git:
        _check(git, commit)
        _check(git, before)
        lacking = left_out_of(git, commit)
        planned = _planned(git, before, commit, lacking)
        seen = {change.path: _signature(os.path.join(root, change.path)) for change in planned}
        now, left_out = write_tree(git, root, settings.max_file_bytes)
        differing = {change.path for change in _between(git, now, commit)}
        edited = {change.path for change in _between(git, before, now)} & differing
        left = [
            change._replace(kind="avoid", why=EDITED) if change.path in edited and change.kind != "avoid" else change
            for change in planned
            if change.path in differing
        ]
        possible = _Possible(root, left, left_out)
        plans = {change.path: change for change in possible.changes()}
        wanted = [change.path for change in plans.values() if change.changes_file]
        folder = _stage(git, commit, staging, wanted)
        more = _not_kept(git, commit, planned, _unsaved(root, left_out, lacking))
    failed = _move(root, folder, {path: seen[path] for path in wanted}, possible.obstacles)
    return [_outcome(root, plans.get(change.path, change), failed) for change in planned] + more


def _outcome(root: str, change: RollbackChange, failed: Mapping[str, str]) -> RollbackChange:
    if change.path in failed:
        return change._replace(kind="avoid", why=failed[change.path])
    if change.kind == "leave" and not os.path.lexists(os.path.join(root, change.path)):
        return change._replace(kind="make room")  # before a kill
    if change.kind == "make room" and os.path.isfile(os.path.join(root, change.path)):
        return change._replace(kind="leave")
    return change


def _planned(git: SnapshotGit, before: str, after: str, lacking: Sequence[LeftOut]) -> list[RollbackChange]:
    """What differs from one snapshot to another, which is `lacking` some files: these are no newer ones."""
    names = {file.path for file in lacking}
    return [
        change._replace(kind="avoid", why=NOT_KEPT) if change.kind == "leave" and change.path in names else change
        for change in _between(git, before, after)
    ]


def _unsaved(root: str, left_out: Sequence[str], lacking: Sequence[LeftOut]) -> dict[str, str]:
    """Why the snapshot has no content of files that changed since, or that are repositories of their own, by path."""
    changed = [file.path for file in lacking if file.path not in left_out or file != left_out_now(root, file.path)]
    why = {path: NESTED if path.endswith("/") else NOT_KEPT for path in changed}
    return why | {path: NESTED for path in left_out if path.endswith("/")}


def _not_kept(
    git: SnapshotGit, commit: str, planned: Sequence[RollbackChange], unsaved: Mapping[str, str]
) -> list[RollbackChange]:
    """What the snapshot has no content of, submodules and the `unsaved` files, unless a change names it."""
    listed = git.run("ls-tree", "-r", "-z", commit).split(b"\0")
    names = [entry.partition(b"\t")[2] for entry in listed if entry.startswith(_SUBMODULE)]
    why = {**{os.fsdecode(name): SUBMODULE for name in names}, **unsaved}
    known = {change.path for change in planned}
    return [RollbackChange("avoid", path, reason) for path, reason in why.items() if path not in known]


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


class _Possible:
    """Which changes can be made: a file whose place has something that no snapshot saved stays away.

    `obstacles` are, by the path of a file that comes back, the paths in its way that a snapshot has, innermost first, with their
    signatures (None for a folder).
    """

    def __init__(self, root: str, changes: Sequence[RollbackChange], left_out: Iterable[str]) -> None:
        self._root = root
        self._changes = changes
        self._left_out = frozenset(left_out)
        self._saved = {change.path: change for change in changes if change.kind == "leave"}
        self._folded = {path.casefold(): path for path in self._saved}
        self.obstacles: dict[str, list[tuple[str, Signature]]] = {}

    def changes(self) -> list[RollbackChange]:
        """The changes, with those that cannot be made marked, and those that others need."""
        possible = [self._examined(change) for change in self._changes]
        cleared = {path for obstacles in self.obstacles.values() for path, _ in obstacles}
        return [
            change._replace(kind="make room") if change.kind == "leave" and change.path in cleared else change
            for change in possible
        ]

    def _examined(self, change: RollbackChange) -> RollbackChange:
        if not change.changes_file:
            return change
        obstacles = None if change.path in self._left_out else self._in_way(change)
        if obstacles is None:
            return change._replace(kind="avoid", why=UNSAVED)
        if obstacles:
            self.obstacles[change.path] = obstacles
        return change

    def _in_way(self, change: RollbackChange) -> list[tuple[str, Signature]] | None:
        """What has to be removed before a file can be at its place; None where no snapshot has it."""
        steps = change.path.split("/")
        for count in range(1, len(steps)):
            folder = "/".join(steps[:count])
            place = os.path.join(self._root, folder)
            if not os.path.lexists(place):
                return []
            if os.path.islink(place) or not os.path.isdir(place):
                return [(folder, _signature(place))] if folder in self._saved else None
        place = os.path.join(self._root, change.path)
        if os.path.isdir(place) and not os.path.islink(place):
            return self._within(change.path)
        if change.kind != "bring back" or not os.path.lexists(place):
            return []
        other = self._folded.get(change.path.casefold(), "")  # one file to a file system without cases
        is_same = other and other != change.path and os.path.samefile(os.path.join(self._root, other), place)
        return [(other, _signature(place))] if is_same else None

    def _within(self, folder: str) -> list[tuple[str, Signature]] | None:
        """The files and folders in a folder, itself last; None where a file among them is saved nowhere."""
        found: list[tuple[str, Signature]] = []
        for path, folders, names in os.walk(os.path.join(self._root, folder), topdown=False):
            inner = os.path.relpath(path, self._root)
            links = [name for name in folders if os.path.islink(os.path.join(path, name))]
            for name in (*names, *links):
                file = f"{inner}/{name}"
                if file not in self._saved or len(found) >= MAX_CLEARED:
                    return None
                found.append((file, _signature(os.path.join(self._root, file))))
            found.append((inner, None))
        return found


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


def _move(
    root: str, folder: str, wanted: Mapping[str, Signature], obstacles: Mapping[str, list[tuple[str, Signature]]]
) -> dict[str, str]:
    """Move staged files to their places, unless these changed since. Returns why each of the others stayed as it was."""
    failed = {}
    cleared: set[str] = set()
    for path, seen in wanted.items():
        in_way = obstacles.get(path, ())
        try:
            if not all(obstacle in cleared or _clear(root, obstacle, was) for obstacle, was in in_way):
                failed[path] = EDITED
                continue
            cleared.update(obstacle for obstacle, _ in in_way)
            with _open_parent(root, path) as parent:
                name = os.path.basename(path)
                if _signature(name, parent) != (None if in_way else seen):
                    failed[path] = EDITED
                    continue
                staged = os.path.join(folder, path)
                _keep_mode(staged, name, parent)
                with _writable(parent):
                    _rename(staged, name, parent)
                os.fsync(parent)
        except OSError as error:
            failed[path] = error.strerror or type(error).__name__
    return failed


def _clear(root: str, path: str, was: Signature) -> bool:
    """Remove a file that a snapshot has, or an empty folder. False where it changed since. Raises `OSError`."""
    with _open_parent(root, path) as parent:
        name = os.path.basename(path)
        with _writable(parent):
            if was is None:
                os.rmdir(name, dir_fd=parent)
            elif _signature(name, parent) == was:
                os.unlink(name, dir_fd=parent)
            else:
                return False
        os.fsync(parent)
    return True


def _keep_mode(staged: str, name: str, parent: int) -> None:
    """Give a staged file the mode of the one that it replaces; git knows only whether it can be executed."""
    with suppress(FileNotFoundError):
        there, new = os.stat(name, dir_fd=parent, follow_symlinks=False), os.lstat(staged)
        is_alike = stat.S_ISREG(there.st_mode) and stat.S_ISREG(new.st_mode)
        if is_alike and bool(there.st_mode & stat.S_IXUSR) is bool(new.st_mode & stat.S_IXUSR):
            os.chmod(staged, stat.S_IMODE(there.st_mode) & 0o777)


@contextmanager
def _writable(folder: int) -> Iterator[None]:
    """Let files of a folder of ours be replaced although it is read-only."""
    status = os.fstat(folder)
    is_locked = not status.st_mode & stat.S_IWUSR and status.st_uid == os.geteuid()
    if is_locked:
        os.fchmod(folder, stat.S_IMODE(status.st_mode) | stat.S_IWUSR)
    try:
        yield
    finally:
        if is_locked:
            os.fchmod(folder, stat.S_IMODE(status.st_mode))


@contextmanager
def _open_parent(root: str, path: str) -> Iterator[int]:
    """The folder of a file, created if it is missing, and opened through no link. Raises `OSError`."""
    parent = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for step in path.split("/")[:-1]:
            try:
                beneath = os.open(step, _FOLDER, dir_fd=parent)
            except FileNotFoundError:
                with _writable(parent), suppress(FileExistsError):
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
