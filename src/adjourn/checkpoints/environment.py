"""What surrounds a checkpoint: a task's last events, the files that its page lists, and the commit of its workspace.

The next session learns from it which of the files changed since, and whether the commit did.

What cannot be read is left out. Must never: write, run git, leave the workspace, or read more than `WINDOW` events.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

import msgspec

from adjourn.checkpoints.page import MAX_ITEMS, Artifact
from adjourn.errors import AdjournError, InvalidError
from adjourn.host.workspace import read_inside, resolve_inside
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Event, decode, milliseconds
from adjourn.log.kinds import tool_name
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.task import Task
from adjourn.text.command_lines import command_of

WINDOW = 500
"""Events that are read from the end of a task's history."""
MAX_PRODUCED = 100
MAX_READ = 16 * 1024 * 1024
"""Bytes that are read of all files of a page together. Files beyond that have no digest."""
_MAX_NAMED = 10
_MAX_HEAD, _MAX_PACKED = 4096, 4 * 1024 * 1024
_HASH = r"[0-9a-f]{40}|[0-9a-f]{64}"
_HASH_DIGITS = 12
_REF = r"ref: (refs/[\w./+@-]{1,200})"
_NAMED = r'"([A-Za-z_]*(?:path|file|filename|destination|uri))"\s*:\s*("(?:[^"\\]|\\.)*")'
_REMOVES = r"(?<![\w./-])(?:rm|mv|unlink|rmdir)(?![\w./-])"
_WORDS = r"[^\s'\"=;|&<>()`$]+"
_OURS = ("tmp/checkpoint", ".aex/")


class RecentWork(msgspec.Struct, frozen=True):
    """What a task's last events say: when the session began (a time stamp, "" for unknown), the last call as its tool and
    arguments, the files that calls wrote, relative to the workspace, how many further ones, and the positions of checkpoints. `named`
    are the files that calls named, `removed` the words of commands that remove files, and `worked` is when the first of these calls
    was made, in seconds (None: no call was made).
    """

    began: str
    last: tuple[str, str] | None
    produced: list[str]
    produced_more: int
    checkpoints: list[int]
    named: frozenset[str] = frozenset()
    worked: float | None = None
    removed: frozenset[str] = frozenset()

    def has_removed(self, root: str, path: str) -> bool:
        """Whether the work itself removed a file: it is not there, and such a command names it or a folder of it."""
        if not self.removed or os.path.lexists(os.path.join(root, path)):
            return False
        folders = accumulate(path.split("/"), "{}/{}".format)
        names = {name for folder in folders for name in (folder, os.path.join(os.path.realpath(root), folder))}
        names.add(os.path.basename(path))  # after `cd`
        return any(fnmatchcase(name, word) for word in self.removed for name in names)


def recent(task: Task, root: str, *, since: int) -> RecentWork:
    """Read the last `WINDOW` events of a task.

    `produced` are files that the arguments of calls after event `since` name and that were written after the call, at most
    `MAX_PRODUCED`; `named` and `worked` are of these calls, too. Raises `IntegrityError` for a history that was changed.
    """
    from adjourn.policy.calls import paths_of  # not where a checkpoint is only read

    began, last = "", None
    checkpoints: list[int] = []
    produced: dict[str, None] = {}
    named: set[str] = set()
    removed: set[str] = set()
    worked: float | None = None
    ledger = task.ledger
    sessions = list(ledger.sessions.values())  # a copy: other threads add and remove sessions
    for event in _events(task, max(0, ledger.seq + 1 - WINDOW)):
        data = kinds.data_of(event)
        if isinstance(data, kinds.SessionOpened):
            began = event.timestamp
        elif isinstance(data, kinds.ToolAllowed):
            last = (tool_name(data), data.arguments)
            if event.seq > since:
                worked = _seconds(event.timestamp) if worked is None else worked
            if event.seq > since and data.arguments:
                paths = list(paths_of(_decoded(data.arguments), os.path.realpath(root)))
                named.update(paths)
                if re.search(_REMOVES, command := command_of(data.arguments)):
                    removed.update(map(os.path.normpath, re.findall(_WORDS, command)[:MAX_ITEMS]))
                produced |= dict.fromkeys(_written(paths, root, event.timestamp))
        elif isinstance(data, kinds.CheckpointCreated):
            checkpoints.append(event.seq)
    if not began:
        began = max((session.since for session in sessions), default="")
    more = max(0, len(produced) - MAX_PRODUCED)
    return RecentWork(
        began, last, list(produced)[-MAX_PRODUCED:], more, checkpoints, frozenset(named), worked, frozenset(removed)
    )


def _seconds(stamp: str) -> float | None:
    try:
        return milliseconds(stamp) / 1000
    except InvalidError:
        return None


def _events(task: Task, start: int) -> Iterator[Event]:
    for entry in verified_entries_from(task.store, task.id, start, task.head):
        yield from kinds.facts_of(decode(entry.data))


def named_in(arguments: str) -> list[str]:
    """The texts among a call's arguments that stand under a name for a path."""
    return [value for value in _decoded(arguments).values() if isinstance(value, str)]


def _written(paths: Iterable[str], root: str, stamp: str) -> Iterator[str]:
    """The files among those that a call named that were written after the call."""
    try:
        after = milliseconds(stamp) / 1000 - 2
    except InvalidError:
        return
    for path in paths:
        if os.path.isabs(path) or path.startswith(_OURS):
            continue
        try:
            status = os.lstat(os.path.join(root, path))
        except OSError:
            continue
        if status.st_mtime >= after and not os.path.isdir(os.path.join(root, path)):
            yield path


def _decoded(arguments: str) -> dict[str, Any]:
    """A call's arguments, decoded. Of text that was cut off, the members whose names mean a path."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {key: _text(value) for key, value in re.findall(_NAMED, arguments)}


def _text(quoted: str) -> str:
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.DecodeError:
        return ""


# --- the files of a page


class FileDigest(msgspec.Struct, frozen=True):
    """The size of a file in bytes, and the SHA-256 of its content in hex."""

    size: int
    sha256: str


NO_FILE: dict[str, Any] = {"size": 0, "sha256": digest(b"")}
"""In the place of a digest, for a file whose content no page on this machine had."""


def file_digests(root: str, artifacts: Iterable[Artifact]) -> dict[str, Any]:
    """The size and digest of each file in the workspace that a page lists, by its path, as JSON (`FileDigest`)."""
    digests: dict[str, Any] = {}
    room = MAX_READ
    for artifact in artifacts:
        try:
            data = read_inside(root, artifact.path, room)
        except AdjournError:  # no file, too large, or outside
            continue
        digests[artifact.path] = {"size": len(data), "sha256": digest(data)}
        room -= len(data)
    return digests


def carried_digests(root: str, before: Any, work: RecentWork) -> dict[str, Any]:
    """Of the digests `before` that an earlier page keeps, those of files that no call has touched since: a difference from them is not
    known to any agent yet.
    """
    try:
        files = msgspec.convert(before, dict[str, FileDigest])
    except msgspec.ValidationError:  # the page was edited
        return {}
    return {
        path: msgspec.to_builtins(was)
        for path, was in files.items()
        if path not in work.named and not _was_written(root, path, work.worked) and not work.has_removed(root, path)
    }


def _was_written(root: str, path: str, since: float | None) -> bool:
    """Whether a file was written since the work began again: a call may not name what it writes."""
    try:
        return since is not None and os.lstat(os.path.join(root, path)).st_mtime >= since - 2
    except (OSError, ValueError):
        return False


def missing_files(root: str, paths: Iterable[str]) -> list[str]:
    """Those of the paths in the workspace where nothing is."""
    missing = []
    for path in paths:
        with suppress(AdjournError, OSError, ValueError):  # outside of it
            if not os.path.isabs(path) and not os.path.lexists(resolve_inside(root, path)):
                missing.append(path)
    return missing


def file_changes(root: str, digests: Any) -> list[str]:
    """Notes on the files whose digests a page keeps (`file_digests`): which changed since, and which are gone."""
    try:
        files = msgspec.convert(digests, dict[str, FileDigest])
    except msgspec.ValidationError:  # the page was edited
        return []
    changed: list[str] = []
    gone: list[str] = []
    room = MAX_READ
    for path, was in files.items():
        room -= was.size
        if room < 0:
            break
        try:
            real = resolve_inside(root, path)
            if not os.path.lexists(real):
                gone.append(path)
            elif digest(read_inside(root, path, was.size)) != was.sha256:
                changed.append(path)
        except AdjournError:  # larger, no longer a regular file, or a link that leads out
            changed.append(path)
    notes = (("changed", changed), ("gone", gone))
    return [f"{what} since the last work on it: {_listed(paths)}" for what, paths in notes if paths]


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
    return ", ".join(paths[:_MAX_NAMED]) + more


# --- the commit


def current_commit(root: str) -> str:
    """The hash of the commit that is checked out, read from `.git`.

    "" where there is none, or where `.git` is not a folder of the workspace.
    """
    head = _read(root, "HEAD", _MAX_HEAD)
    ref = re.fullmatch(_REF, head)
    commit = (_read(root, ref[1], _MAX_HEAD) or _packed(root, ref[1])) if ref else head
    return commit if re.fullmatch(_HASH, commit) else ""


def commit_change(root: str, commit: object) -> list[str]:
    """A note if the workspace has another commit checked out than `commit`, which a page keeps; else an empty list."""
    if not isinstance(commit, str) or not re.fullmatch(_HASH, commit):  # the page was edited
        return []
    now = current_commit(root)
    if not now or now == commit:
        return []
    return [f"git is at {now[:_HASH_DIGITS]} now, and was at {commit[:_HASH_DIGITS]}: review the commits since"]


def _read(root: str, name: str, limit: int) -> str:
    with suppress(AdjournError, UnicodeDecodeError):
        return read_inside(root, f".git/{name}", limit).decode().strip()
    return ""


def _packed(root: str, ref: str) -> str:
    lines = (line.partition(" ") for line in _read(root, "packed-refs", _MAX_PACKED).splitlines())
    return next((commit for commit, _, name in lines if name == ref), "")
