"""Work that is about to be reverted or dropped, kept under `refs/adjourn/kept/<session>/<n>`.

Owns: making such refs, and listing those of a session. Must never: change the work tree, the index, or a branch.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import msgspec

from adjourn.code.git import Git

FOLDER = "refs/adjourn/kept"
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "adjourn"), ("EMAIL", "adjourn@localhost"))
}


class Kept(msgspec.Struct):
    """Where work was put. `restore` is the command that brings it back."""

    ref: str
    why: str
    files: list[str]
    restore: str


def keep_files(git: Git, session: str, paths: Sequence[str], why: str) -> Kept:
    """Keep files as they are in the work tree now. One that is not there is kept as gone."""
    with tempfile.TemporaryDirectory(prefix="adjourn-") as folder:
        environment = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        git.run("read-tree", "HEAD", environment=environment)
        there = [path for path in paths if os.path.lexists(os.path.join(git.root, path))]
        gone = [path for path in paths if path not in set(there)]
        if there:
            git.with_paths("add", "--all", "--force", paths=there, environment=environment)
        if gone:
            git.with_paths(
                "rm", "--cached", "--quiet", "--ignore-unmatch", paths=gone, environment=environment
            )
        tree = git.run("write-tree", environment=environment).decode().strip()
    commit = git.run("commit-tree", "-p", "HEAD", "-m", f"Kept by adjourn: {why}", tree, environment=_AUTHOR)
    ref = _next(git, session, commit.decode().strip())
    return Kept(ref, why, list(paths), f"git restore --source={ref} -- <file>")


def keep_commit(git: Git, session: str, name: str, why: str) -> Kept:
    """Keep a branch's commits."""
    ref = _next(git, session, git.commit(f"refs/heads/{name}"))
    return Kept(ref, why, [], f"git branch <name> {ref}")


def _next(git: Git, session: str, commit: str) -> str:
    number = 1 + max((int(name.rpartition("/")[2]) for name in refs_of(git, session)), default=0)
    ref = f"{FOLDER}/{session}/{number}"
    git.run("update-ref", "--create-reflog", ref, commit, "0" * len(commit))
    return ref


def refs_of(git: Git, session: str) -> list[str]:
    found = git.lines("for-each-ref", "--format=%(refname)", f"{FOLDER}/{session}/")
    return [name for name in found if name.rpartition("/")[2].isdigit()]
