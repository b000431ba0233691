"""What the last events of a task tell of the work: the last call, when the sitting began, which files came of it.

Owns: reading the end of a chain, bounded. Must never: write, or read more than `WINDOW` events.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from adjourn.errors import InvalidError
from adjourn.log import Event, decode, kinds, milliseconds
from adjourn.policy import paths_of
from adjourn.tasks import Task, following

WINDOW = 500
"""Events that are looked at."""
MAX_PRODUCED = 100
_NAMED = re.compile(r'"([A-Za-z_]*(?:path|file|filename|destination|uri))"\s*:\s*("(?:[^"\\]|\\.)*")')
_OURS = ("tmp/checkpoint", ".aex/")


class RecentWork(NamedTuple):
    """`began` is the time stamp of the sitting's begin, "" if that is longer ago; `produced` are paths in the workspace."""

    began: str
    last: tuple[str, str] | None
    produced: list[str]


def recent(task: Task, root: str, *, since: int) -> RecentWork:
    """The end of a task's history. Files count that calls after event `since` named, and that were written since."""
    began, last = "", None
    produced: dict[str, None] = {}
    ledger = task.ledger
    sessions = list(ledger.sessions.values())  # at once, since other threads go on
    for event in _events(task, max(0, ledger.seq + 1 - WINDOW)):
        data = kinds.data_of(event)
        if isinstance(data, kinds.SessionOpened):
            began = event.timestamp
        elif isinstance(data, kinds.ToolAllowed):
            last = (data.tool, data.arguments)
            if event.seq > since and data.arguments:
                produced |= dict.fromkeys(_written(data.arguments, root, event.timestamp))
    if not began:
        began = max((session.since for session in sessions), default="")
    return RecentWork(began, last, list(produced)[-MAX_PRODUCED:])


def _events(task: Task, start: int) -> Iterator[Event]:
    for entry in following(task.store, task.id, start, task.head):
        yield decode(entry.data)


def named_in(arguments: str) -> list[str]:
    """The texts among a call's arguments that stand under a name for a path."""
    return [value for value in _decoded(arguments).values() if isinstance(value, str)]


def _written(arguments: str, root: str, stamp: str) -> Iterator[str]:
    """The files among a call's arguments that have been written since it was made."""
    try:
        after = milliseconds(stamp) / 1000 - 2
    except InvalidError:
        return
    for path in paths_of(_decoded(arguments), os.path.realpath(root)):
        if os.path.isabs(path) or path.startswith(_OURS):
            continue
        try:
            status = os.lstat(os.path.join(root, path))
        except OSError:
            continue
        if status.st_mtime >= after and not os.path.isdir(os.path.join(root, path)):
            yield path


def _decoded(arguments: str) -> dict[str, Any]:
    """The arguments from their text, which may be cut off."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {key: _text(value) for key, value in _NAMED.findall(arguments)}


def _text(quoted: str) -> str:
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.DecodeError:
        return ""
