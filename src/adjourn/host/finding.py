"""Finding the workspace that a folder belongs to: the nearest one upwards, up to the top of the git repository.

A folder is a workspace if it has a policy or a store. Without git, folders below the home folder are searched, and never the home
folder for one in it. A linked git work tree without a store of its own belongs to the workspace of the main work tree: policy, store,
tasks and checkpoints are there (`root`), while what a call's paths mean, what is kept and rolled back, and the pages are of the work tree that
the agent works in (`tree`).

A hook gets its folder from an agent, which can make a policy or a `.git` in any folder that it writes to. For such a folder the outermost
workspace counts, wherever the repository begins (`outermost`), but for a stray store: one without a policy and without an event.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from typing import NamedTuple

DEFAULT_STORE = ".aex/adjourn.db"
MARKS = (".aex/policy.aex", "aex.policy.aex", DEFAULT_STORE)
"""What makes a folder a workspace."""
_POLICIES = MARKS[:2]


class Workspace(NamedTuple):
    """Where a program works. All paths are real.

    `start` is the folder that it was started in. `root` has the policy, the store and the checkpoints; it is `start` where no workspace
    was found. `tree` is the folder that relative paths of rules are of. `last` is the last folder that was searched, `skipped` says
    which folders did not count, and why.
    """

    start: str
    root: str
    tree: str
    is_found: bool
    last: str
    skipped: tuple[str, ...] = ()

    def searched(self) -> str:
        """Where was looked, for a message: "in /a/b" or "in /a/b or above it, up to /a"."""
        place = f"in {self.start}" if self.last == self.start else f"in {self.start} or above it, up to {self.last}"
        return "; ".join((place, *self.skipped))


def workspace_of(folder: str = "", *, outermost: bool = False) -> Workspace:
    """The workspace that `folder` (default: the current one) belongs to."""
    start = os.path.realpath(folder or os.curdir)
    top = top_of(start)
    main = main_of(top) if top else ""
    skipped: list[str] = []
    searched = list(_upwards(start, "" if outermost else top))
    having = (candidate for candidate in searched if _counts(candidate, start, skipped))
    root = _outermost([*having]) if outermost else next(having, "")
    if root and main and (there := _of_main(root, top, main)) and _counts(there, start, skipped):
        return Workspace(start, there, root, True, root, tuple(skipped))
    if root:
        tree = _tree(root, top, main)
        return Workspace(start, root, tree, True, root, tuple(skipped))
    for parent in _upwards(start, top) if main else ():
        there = os.path.normpath(os.path.join(main, os.path.relpath(parent, top)))
        if _counts(there, start, skipped):
            return Workspace(start, there, parent, True, there, tuple(skipped))
    return Workspace(start, start, start, False, main or searched[-1], tuple(skipped))


def _outermost(workspaces: list[str]) -> str:
    """The last of these folders that has a policy, or a store with a history; else the last one; "" for none.

    An agent that makes a policy below a workspace gains nothing: the call that made it is in the store of that workspace.
    """
    for folder in reversed(workspaces):
        if any(os.path.lexists(os.path.join(folder, mark)) for mark in _POLICIES) or _has_history(folder):
            return folder
    return workspaces[-1] if workspaces else ""


def _has_history(folder: str) -> bool:
    """Whether the store of a folder has an event. One that cannot be read may have some."""
    import sqlite3  # only for a store without a policy beside it
    from contextlib import closing
    from urllib.parse import quote

    try:
        with closing(sqlite3.connect(f"file:{quote(os.path.join(folder, DEFAULT_STORE))}?mode=ro", uri=True)) as store:
            return store.execute("SELECT 1 FROM event LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True


def _upwards(folder: str, top: str) -> Iterator[str]:
    """The folder and its parents up to `top`. The home folder and `/` count only if they are the folder itself."""
    ends = ("/", os.path.realpath(os.path.expanduser("~")))
    yield folder
    while folder not in (*ends, top) and (folder := os.path.dirname(folder)) not in ends:
        yield folder


def _of_main(root: str, top: str, main: str) -> str:
    """The folder of the main work tree that stands for `root`, a folder of a linked one; "" if that has a store of its own.

    A policy that is committed is in each work tree, and makes none of them another workspace.
    """
    inside = f"{root}/".startswith(f"{top}/")
    own = os.path.lexists(os.path.join(root, DEFAULT_STORE))
    return os.path.normpath(os.path.join(main, os.path.relpath(root, top))) if inside and not own else ""


def _tree(root: str, top: str, main: str) -> str:
    """What stands for `root` in a linked work tree that lies in it, as those in `.claude/worktrees` do."""
    if not main or not top.startswith(root + "/") or not f"{root}/".startswith(main + "/"):
        return root
    tree = os.path.normpath(os.path.join(top, os.path.relpath(root, main)))
    return tree if os.path.isdir(tree) else root


def _counts(folder: str, start: str, skipped: list[str]) -> bool:
    """Whether a folder is a workspace, for what was started in `start`."""
    for mark in MARKS:
        place = os.path.join(folder, mark)
        try:
            os.lstat(place)
            owners = {os.lstat(path).st_uid for path in (place, os.path.dirname(place)) if path != folder}
            status = os.stat(folder)
        except OSError:
            continue
        if folder != start and status.st_mode & stat.S_IWOTH:
            skipped.append(f"{folder} does not count: it is writable by every user")
            return False
        if foreign := owners - _trusted(start):
            text = mark.partition("/")[0]
            skipped.append(f"{text} in {folder} does not count: it belongs to {_name(min(foreign))}")
            return False
        return True
    return False


def _trusted(start: str) -> set[int]:
    """Whose files count: one's own and root's; for root, as in a container, those of the owner of the folder it was started in."""
    own = os.geteuid()
    return {own, 0} if own else {own, os.stat(start).st_uid}


def _name(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"


# --- git's work trees, read from the files that say where they are

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
