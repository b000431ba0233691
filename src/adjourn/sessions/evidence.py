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
from adjourn.log.canonical_json import digest
from adjourn.log.event import milliseconds
from adjourn.sessions.story import Outcome, SessionCall, SessionStory

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


# --- a session's calls and those of adjourn's ledgers, joined: one call is shown once, with the outcome that the
# ledger has evidence of. They are the same by the client's id of the call, else by arguments and time. A transcript
# that breaks off has no outcome of its last call; the ledger may have it, because a hook or a proxy saw the call end

MAX_APART = 60_000
"""Milliseconds between the times that a transcript and a ledger give for one call."""
MAX_COMPARED = 100
"""Characters of arguments that are compared."""
_OUTCOMES: dict[str, Outcome] = {"ok": "ok", "error": "failed"}


def join(story: SessionStory, entries: Sequence[LedgerCall]) -> tuple[list[LedgerCall], list[str]]:
    """Give the story's calls the outcomes that only the ledger has. Returns the ledger's calls in doubt, and notes on what it lacks."""
    by_mark = {entry.call.rpartition(".")[2]: entry for entry in entries if "." in entry.call}
    free = {entry.call: entry for entry in entries}
    by_minute: dict[int, list[LedgerCall]] = {}
    for each in entries:
        by_minute.setdefault(_minute(each.since), []).append(each)
    governed, tasks = 0, dict[str, None]()
    effects = [call for call in story.calls if call.has_effects]
    for call in effects:
        entry = by_mark.get(digest(call.id.encode())[:8]) if call.id else None
        if entry is None or entry.call not in free:
            minute = _minute(call.at)
            near = (other for at in (minute, minute - 1, minute + 1) for other in by_minute.get(at, ()))
            entry = next((other for other in near if other.call in free and is_alike(call, other)), None)
        if entry is None:
            continue
        del free[entry.call]
        governed, tasks[entry.task] = governed + 1, None
        outcome = _OUTCOMES.get(entry.outcome)
        if call.outcome in ("unknown", "stopped") and outcome is not None:
            call.outcome, call.ended, call.by_ledger = outcome, call.step, True
    notes = []
    if governed:
        where = f"task{'s' * (len(tasks) > 1)} {', '.join(list(tasks)[:3])}"
        notes.append(f"adjourn's ledger ({where}) has {governed} of its {len(effects)} calls with effects")
    return [entry for entry in entries if not entry.outcome], notes


def _minute(stamp: str) -> int:
    """The number of the `MAX_APART` that a time is in; a negative one for no time."""
    with suppress(AdjournError):
        return milliseconds(stamp) // MAX_APART
    return -9


def is_same(call: SessionCall, entry: LedgerCall) -> bool:
    """Whether a call of a transcript and one of a ledger are the same."""
    if call.id and entry.call.endswith(f".{digest(call.id.encode())[:8]}"):  # as the hook's session names it
        return True
    return is_alike(call, entry)


def is_alike(call: SessionCall, entry: LedgerCall) -> bool:
    """Whether arguments and time of two calls are the same."""
    what, arguments = call.what[:MAX_COMPARED], entry.arguments.replace('\\"', '"')
    if not what or not (what in arguments or (entry.outcome and arguments[:MAX_COMPARED] == what)):
        return False
    with suppress(AdjournError):
        return bool(call.at) and abs(milliseconds(entry.since) - milliseconds(call.at)) < MAX_APART
    return False
