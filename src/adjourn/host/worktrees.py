"""Git's work trees, read from the files that say where they are: no git is started, and nothing of a repository's settings is read.

A linked work tree has a file `.git` that names a folder of the main repository, and that folder names the file back. Both are read
within bounds. A `.git` file is a claim of whoever wrote it, so it counts only if it is named back.

Owns: which folder is the top of a work tree, and which main work tree a linked one belongs to. Must never: run git.
"""

from __future__ import annotations

import os
import stat

_MAX_LINE = 8192
"""Bytes of the one line in such a file: a path and a few letters."""


def top_of(folder: str) -> str:
    """The nearest folder upwards with a `.git`, from a real path on; "" where there is none."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def common_of(top: str) -> str:
    """The repository's folder (`…/.git`) that a linked work tree shares with the main one; "" for no such work tree."""
    link = os.path.join(top, ".git")
    try:
        if not stat.S_ISREG(os.lstat(link).st_mode):
            return ""
    except OSError:
        return ""
    own = os.path.realpath(os.path.join(top, line_of(link).removeprefix("gitdir:").strip()))
    common = line_of(os.path.join(own, "commondir"))
    back = line_of(os.path.join(own, "gitdir"))
    if not common or not back or os.path.realpath(os.path.join(own, back)) != os.path.realpath(link):
        return ""
    common = os.path.realpath(os.path.join(own, common))
    return common if os.path.join(common, "worktrees") == os.path.dirname(own) else ""


def main_of(top: str) -> str:
    """The main work tree that a linked one belongs to; "" for one that is not linked, or whose repository is bare."""
    common = common_of(top)
    return os.path.dirname(common) if os.path.basename(common) == ".git" and os.path.isdir(common) else ""


def line_of(path: str) -> str:
    """The text of a small file of git's; "" where it cannot be read, or is too large."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            data = file.read(_MAX_LINE + 1)
    except (OSError, ValueError):
        return ""
    return os.fsdecode(data).strip() if len(data) <= _MAX_LINE and b"\0" not in data else ""
