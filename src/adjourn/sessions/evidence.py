"""What is there now: the work tree, its commits and files, and what adjourn's own ledgers have recorded about the calls.

A transcript says what was tried; this says how it is now. Files outside of the work tree are not looked at.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.errors import AdjournError
from adjourn.host.git import GitCommand, distrusting
from adjourn.log.event import milliseconds
from adjourn.sessions.story import SessionStory

GIT_SECONDS = 10
MAX_OUTPUT = 256 * 1024
MAX_LOOKED_AT = 200
MAX_OTHERS = 20
LATER = 120_000
"""Milliseconds after the last record from which on a file was written by somebody else."""
_STATES = {"??": "not in git", "A": "added", "M": "modified", "D": "deleted", "R": "renamed"}


class FileNow(msgspec.Struct, kw_only=True):
    """A file that the session changed, as it is now. `is_later` where it was written after the session's last record."""

    name: str
    is_there: bool
    is_inside: bool = True
    is_later: bool = False
    git: str = ""
    lines: str = ""


class LedgerCall(NamedTuple):
    """A call with effects in adjourn's ledger; `outcome` is "" for one in doubt, else "ok", "error", or another word."""

    call: str
    tool: str
    arguments: str
    since: str
    task: str
    outcome: str = ""


class Evidence(msgspec.Struct, kw_only=True):
    """The work tree as it is now, by the paths of the transcript; `is_git` is false outside of a repository."""

    tree: str
    is_git: bool = False
    branch: str = ""
    head: str = ""
    commits: list[str] = []
    files: dict[str, FileNow] = {}
    others: list[tuple[str, str]] = []
    ledger: list[LedgerCall] = []


def look(story: SessionStory, tree: str, doubts: Sequence[LedgerCall] = ()) -> Evidence:
    """What is there now in `tree`, the folder in which the session would be continued; nothing is looked at without one."""
    world = Evidence(tree=tree, ledger=list(doubts))
    if not tree:
        return world
    status = _Status(False, "", {}, {})
    run = _runner(tree)
    if run is not None:
        world.is_git = True
        world.branch = run("symbolic-ref", "--short", "-q", "HEAD").strip()[:200]
        world.head = run("rev-parse", "--short=12", "-q", "HEAD").strip()[:40]
        status = _Status(
            True,
            run("rev-parse", "--show-prefix").strip(),
            _states(run("status", "--porcelain", "--untracked-files=normal", "-z")),
            _counts(run("diff", "--numstat", "--no-renames", "-z", "HEAD")),
        )
        if story.started:
            listing = run("log", "--oneline", "--no-decorate", "-n", "10", f"--since={story.started}")
            world.commits = [line[:200] for line in listing.splitlines() if line]
    for path in list(story.changes)[:MAX_LOOKED_AT]:
        world.files[path] = _file(path, story, tree, status)
    changed = {file.name for file in world.files.values()}
    names = {
        name.removeprefix(status.prefix): state
        for name, state in status.states.items()
        if name.startswith(status.prefix)
    }
    world.others = [
        (name, _STATES.get(state, "changed"))
        for name, state in names.items()
        if name not in changed and "__pycache__" not in name
    ][:MAX_OTHERS]
    return world


def relative(path: str, folder: str) -> str:
    """A path of a transcript, relative to the session's folder; "" for one outside of it. Also of another system."""
    path, folder = path.replace("\\", "/"), folder.replace("\\", "/").rstrip("/")
    if not path.startswith("/") and ":" not in path[:3]:
        name = path
    elif folder and path.lower().startswith(folder.lower() + "/"):
        name = path[len(folder) + 1 :]
    else:
        return ""
    name = os.path.normpath(name)
    return "" if name.startswith("..") or name in (".", "") else name


class _Status(NamedTuple):
    """What git says of the files of a work tree; `prefix` is the path of the folder in it."""

    is_git: bool
    prefix: str
    states: dict[str, str]
    lines: dict[str, str]

    def state_of(self, name: str) -> str:
        """In words; "" without git."""
        state = _STATES.get(self.states.get(self.prefix + name, ""), "")
        return state or ("as in the last commit" if self.is_git else "")


def file_now(path: str, story: SessionStory, tree: str) -> FileNow:
    """A file of a transcript as it is now; git is not asked."""
    return _file(path, story, tree, _Status(False, "", {}, {}))


def _file(path: str, story: SessionStory, tree: str, status: _Status) -> FileNow:
    name = relative(path, story.folder)
    if not name:
        return FileNow(name=path, is_there=True, is_inside=False)
    lines = status.lines.get(status.prefix + name, "")
    try:
        there = os.lstat(os.path.join(tree, name))
    except (OSError, ValueError):
        return FileNow(name=name, is_there=False, git=status.state_of(name))
    is_later = False
    with suppress(AdjournError):
        is_later = bool(story.touched) and there.st_mtime * 1000 > milliseconds(story.touched) + LATER
    is_regular = stat.S_ISREG(there.st_mode)
    return FileNow(name=name, is_there=is_regular, is_later=is_later, git=status.state_of(name), lines=lines)


class _Run:
    """Runs git in one folder: no program that its repository names, for `GIT_SECONDS` at most."""

    def __init__(self, tree: str) -> None:
        self._tree = tree
        self._command = distrusting(tree, self._done, files=False)

    def __call__(self, *words: str) -> str:
        with suppress(OSError, subprocess.TimeoutExpired):
            code, output = self._done(self._command, ["-c", "core.quotePath=false", *words])
            return "" if code else output[:MAX_OUTPUT].decode(errors="replace")
        return ""

    def _done(self, command: GitCommand, words: Sequence[str]) -> tuple[int, bytes]:
        done = subprocess.run(
            [*command.words, *words], cwd=self._tree, env=command.environment, stdin=subprocess.DEVNULL, check=False,
            capture_output=True, timeout=GIT_SECONDS,
        )  # fmt: skip
        return done.returncode, done.stdout


def _runner(tree: str) -> _Run | None:
    try:
        return _Run(tree)
    except (AdjournError, OSError, subprocess.TimeoutExpired):
        return None


def _states(output: str) -> dict[str, str]:
    states = {}
    for entry in output.split("\0"):
        if len(entry) > 3:
            code = entry[:2]
            states[entry[3:]] = code if code == "??" else (code.strip() or " ")[0]
    return states


def _counts(output: str) -> dict[str, str]:
    counts = {}
    for entry in output.split("\0"):
        added, _, remaining = entry.partition("\t")
        removed, _, name = remaining.partition("\t")
        if name:
            counts[name] = f"+{added} -{removed}"
    return counts
