"""Backup refs: work that is about to be reverted or dropped, under `refs/adjourn/kept/<session>/<n>`.

Owns: making such refs, and listing those of a session. Must never: change the work tree, the index, or a branch.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from adjourn.code.git.git import Git
from adjourn.code.model.repository import as_bytes

FOLDER = "refs/adjourn/kept"
_SUBJECT = "Kept by adjourn: "
_FILES = "git restore --source={ref} -- <file>"
_BRANCH = "git branch <name> {ref}"
_LINK, _MODULE = "120000", "160000"
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "adjourn"), ("EMAIL", "adjourn@localhost"))
}


class BackupRef(msgspec.Struct):
    """A backup of work. `restore` is the command that restores it."""

    ref: str
    why: str
    files: list[str]
    restore: str


def back_up_files(git: Git, session: str, paths: Sequence[str], why: str) -> BackupRef:
    """Back up files of the work tree, byte for byte. A missing file is recorded as deleted."""
    with index_of(git, "HEAD") as environment:
        git.run("update-index", "-z", "--index-info", given=_entries(git, paths), environment=environment)
        tree = git.run("write-tree", environment=environment).decode().strip()
    return _back_up_tree(git, session, tree, why, paths)


@contextmanager
def index_of(git: Git, commit: str) -> Iterator[dict[str, str]]:
    """The environment of git commands that use an index of their own, with the files of a commit."""
    with tempfile.TemporaryDirectory(prefix="adjourn-") as folder:
        environment = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        git.run("read-tree", commit, environment=environment)
        yield environment


def back_up_index(git: Git, session: str, paths: Sequence[str], why: str) -> BackupRef:
    """Back up the git index, in which `paths` differ from HEAD."""
    return _back_up_tree(git, session, git.line("write-tree"), why, paths)


def back_up_branches(git: Git, session: str, names: Sequence[str]) -> list[BackupRef]:
    """Back up the commits of branches, all or none."""
    first = _next(git, session)
    refs = {name: f"{FOLDER}/{session}/{first + number}" for number, name in enumerate(names)}
    lines = [f"create {ref}\0" + f"refs/heads/{name}\0" for name, ref in refs.items()]
    git.run("update-ref", "--create-reflog", "-z", "--stdin", given=as_bytes("".join(lines)))
    return [BackupRef(ref, f"branch {name}", [], _BRANCH.format(ref=ref)) for name, ref in refs.items()]


def drop(git: Git, held: BackupRef) -> None:
    """Delete a backup whose content was restored."""
    git.run("update-ref", "-d", held.ref)


def list_backups(git: Git, session: str) -> list[BackupRef]:
    """All backups of a session, the oldest first."""
    return [_found(git, ref) for ref in _refs(git, session)]


def _found(git: Git, ref: str) -> BackupRef:
    subject = git.line("log", "-1", "--format=%s", ref)
    if not subject.startswith(_SUBJECT):
        return BackupRef(ref, "commits of a branch", [], _BRANCH.format(ref=ref))
    files = git.fields("diff-tree", "-r", "--name-only", "--no-renames", "-z", f"{ref}^", ref)
    return BackupRef(ref, subject.removeprefix(_SUBJECT), files, _FILES.format(ref=ref))


def _entries(git: Git, paths: Sequence[str]) -> bytes:
    """Lines of an index file; no filter and no line-ending setting applies to the backup."""
    modes = {path: _mode(git.path_of(path)) for path in paths}
    plain = [path for path, mode in modes.items() if mode.startswith("100")]
    quoted = "\n".join('"' + "".join(f"\\{byte:03o}" for byte in as_bytes(path)) + '"' for path in plain)
    hashes = git.run("hash-object", "-w", "--no-filters", "--stdin-paths", given=quoted.encode()).split()
    blobs = dict(zip(plain, [each.decode() for each in hashes], strict=True))
    for path, mode in modes.items():
        if mode == _LINK:
            target = os.fsencode(os.readlink(git.path_of(path)))
            blobs[path] = git.run("hash-object", "-w", "--stdin", given=target).decode().strip()
        elif mode == _MODULE:
            blobs[path] = Git(git.path_of(path)).commit()
    gone = "0" * len(git.commit())
    lines = [
        f"{modes[path] if blobs.get(path) else 0} {blobs.get(path) or gone}\t".encode() + as_bytes(path)
        for path in paths
    ]
    return b"".join(line + b"\0" for line in lines)


def _mode(path: str) -> str:
    """The git mode of a file; "0" for a missing file or a type that git does not track."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "0"
    if stat.S_ISREG(mode):
        return "100755" if mode & stat.S_IXUSR else "100644"
    if stat.S_ISLNK(mode):
        return _LINK
    return _MODULE if is_submodule(path) else "0"


def is_submodule(path: str) -> bool:
    """Whether the path is a repository of its own."""
    return os.path.isdir(path) and not os.path.islink(path) and os.path.lexists(os.path.join(path, ".git"))


def exists(path: str) -> bool:
    """Whether the path exists as something that git can track."""
    return _mode(path) != "0"


def _back_up_tree(git: Git, session: str, tree: str, why: str, paths: Sequence[str]) -> BackupRef:
    commit = git.run("commit-tree", "-p", "HEAD", "-m", _SUBJECT + why, tree, environment=_AUTHOR)
    ref = f"{FOLDER}/{session}/{_next(git, session)}"
    made = commit.decode().strip()
    git.run("update-ref", "--create-reflog", ref, made, "0" * len(made))
    return BackupRef(ref, why, list(paths), _FILES.format(ref=ref))


def _next(git: Git, session: str) -> int:
    return 1 + max((int(name.rpartition("/")[2]) for name in _refs(git, session)), default=0)


def _refs(git: Git, session: str) -> list[str]:
    found = git.lines("for-each-ref", "--format=%(refname)", f"{FOLDER}/{session}/")
    numbered = [name for name in found if name.rpartition("/")[2].isdigit()]
    return sorted(numbered, key=lambda name: int(name.rpartition("/")[2]))
