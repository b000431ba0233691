"""Sessions of coding clients that no task has yet: listed for an agent, and made a task when one is resumed.

The task's chain names a document with what was derived, the file, the range that was read and its digest; never the transcript. It counts
as imported: nobody verified it. Only the clients of this user and workspace are looked at, and none behind the gateway.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

import msgspec

from adjourn.checkpoints.page import LATER
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint
from adjourn.checkpoints.transcript_facts import keep_facts, latest_transcripts
from adjourn.clients.client_process import ClientProcess
from adjourn.errors import InvalidError
from adjourn.host import clock
from adjourn.host.workspace import locked, make_folder
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import SYSTEM
from adjourn.policy.protected.places import FOLDER
from adjourn.sessions import catalog, files, following
from adjourn.sessions.reader import SessionFile
from adjourn.sessions.texts import Secrets
from adjourn.tasks.task import NewEvent, Task

MAX_LISTED = 10
MAX_TITLE, MAX_GOAL = 300, 2000
MAX_AGE = 90 * 24 * 60 * 60
"""Seconds since a session's last record."""
_REF = "session/"
"""Starts the name of the ref that says which checkpoint a session became."""
_NAME = re.compile(r"[A-Za-z0-9_-]{8,80}")
_PART = 1024 * 1024


def session_rows(client: ClientProcess) -> list[dict[str, Any]]:
    """The newest sessions in this workspace, of 90 days, that are no task and have ended, as `aex.list_tasks` shows them."""
    if not _may_look(client):
        return []
    taken, governed = client.store.refs(_REF), latest_transcripts(client.store)
    rows = []
    for file in catalog.sessions(catalog.trees_of(client.options.tree), client.clock() / 1000 - MAX_AGE):
        if _ref(file) in taken or os.path.realpath(file.path) in governed or not _NAME.fullmatch(file.id):
            continue
        if file.stamp * 1000 >= client.began and client.client.lower().startswith(file.client):
            continue  # still written: it is the session that asks, or one in another window
        goal = Secrets([file.title]).hide(file.title)[:MAX_TITLE]
        about = f"the transcript of {catalog.reader_of(file).name}"
        rows.append({"name": file.id, "path": "", "type": "session", "goal": goal, "describedBy": about})
        if len(rows) >= MAX_LISTED:
            break
    return rows


def take_in_session(client: ClientProcess, name: str) -> str:
    """The name of the checkpoint that the session with this id, or this beginning of one, has become; "" where no session has it.

    Raises `InvalidError` where several have, and `AdjournError` for what keeps it from being read.
    """
    if not _may_look(client) or not _NAME.fullmatch(name):
        return ""
    found = [file for file in catalog.sessions(catalog.trees_of(client.options.tree)) if file.id.startswith(name)]
    if len(found) > 1:
        raise InvalidError(f"{name!r} is the beginning of {len(found)} sessions", "write more of the id")
    if not found:
        return ""
    file = found[0]
    with locked(make_folder(client.options.root, FOLDER)):  # two clients may resume it at once
        return client.store.ref(_ref(file)) or _import(client, file)


def _import(client: ClientProcess, file: SessionFile) -> str:
    options, store = client.options, client.store
    facts = following.facts_of(catalog.reader_of(file).read(file), options.tree, client.clock())
    read = {"begin": 0, "end": file.size, "sha256": _sha256(file)}
    document = canonical(
        {
            "client": file.client,
            "file": file.path,
            "read": read,
            "report": msgspec.to_builtins(facts.report),
            "session": file.id,
        }
    )
    task = Task(store, clock.task_id(client.clock()), clock=client.clock, secret=client.secret)
    mission = facts.report.mission
    goal = mission.partition(LATER)[0][:MAX_GOAL] if isinstance(mission, str) else ""
    imported = kinds.TaskImported(
        at=file.touched[:40], document=digest(document), source=f"transcript of {file.client}"
    )
    keep_facts(store, task.id, facts)
    task.commit([NewEvent(fact, SYSTEM) for fact in (kinds.TaskOpened(goal=goal), imported)], blobs=[document])
    name = f"{file.client}-{file.id[:13].rstrip('-_')}"
    save_checkpoint(task, options.root, CheckpointRequest(name, trigger="import"), tree=options.page_tree)
    store.swap(_ref(file), name, expect=store.ref(_ref(file)))
    return name


def _may_look(client: ClientProcess) -> bool:
    """Whether the transcripts of this machine's user are the client's own: not behind the gateway."""
    return not client.options.home and client.options.principal is None and bool(client.options.tree)


def _ref(file: SessionFile) -> str:
    return f"{_REF}{file.client}/{digest(file.id.encode())[:16]}"


def _sha256(file: SessionFile) -> str:
    """The digest of the bytes that the file had when it was found."""
    hashed, left = hashlib.sha256(), file.size
    with os.fdopen(files.open_own(file.path), "rb") as opened:
        while left > 0 and (part := opened.read(min(left, _PART))):
            hashed.update(part)
            left -= len(part)
    return hashed.hexdigest()
