"""What a name on the command line means: a document (a file, a folder or stdin), a checkpoint or a cognitive session."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from adjourn.aex.files import decoded, load
from adjourn.aex.layers import discover
from adjourn.checkpoints import folder_verification
from adjourn.checkpoints.checkpoint import TaskCheckpoint, as_checkpoint
from adjourn.cli.output import safe, say, say_facts
from adjourn.cli.start import StoreContext
from adjourn.cli.task_view import readable_ledgers
from adjourn.errors import AdjournError, InvalidError, NotFoundError, UsageError
from adjourn.findings import MAX_DOCUMENT_BYTES, Finding
from adjourn.host.finding import workspace_of
from adjourn.host.keys import reading_secret
from adjourn.host.workspace import CHECKPOINTS, open_plain, resolve_inside, unreadable
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.log.kinds import CheckpointCreated
from adjourn.policy.contract import BrokenContractError, Contract, read_contract
from adjourn.store.base import Store
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import Task, tasks_of
from adjourn.text.near_words import did_you_mean

STDIN = "-"
ENDING = ".aex"
MAX_FILES = 10_000
_NOT_OURS = frozenset(("node_modules", "__pycache__"))


def named(arguments: Sequence[str]) -> list[str]:
    """The files that the arguments name, each once; a folder stands for the documents below it, in order of name.

    Raises `NotFoundError` for a folder without a document, so that the wrong folder does not pass for a good one.
    """
    paths: dict[str, None] = {}
    for argument in arguments:
        inside = list(islice(_below(argument), MAX_FILES + 1)) if os.path.isdir(argument) else [argument]
        if not inside:
            raise NotFoundError(f"there is no {ENDING} file in {argument}", "name a file, or another folder")
        if len(inside) > MAX_FILES:
            raise UsageError(f"{argument} has more than {MAX_FILES:,} {ENDING} files", "name a folder in it")
        paths |= dict.fromkeys(inside)
    return list(paths)


def read(path: str) -> tuple[str | None, list[Finding]]:
    """The text of a named document; else None and the finding that says why."""
    return (
        decoded(sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1), path)
        if path == STDIN
        else load(path, root=workspace_of().root)
    )


def text_of(path: str, root: str = "") -> str:
    """The text of a file; of one in the workspace (`root`) through no link. Raises `InvalidError`."""
    text, findings = load(path, root=root or workspace_of().root)
    if text is None:
        raise InvalidError(f"{path}: {findings[0].message}", findings[0].help)
    return text


def check_plain(path: str) -> None:
    """Raise `InvalidError` for a file or folder that is reached through a link in the workspace."""
    try:
        os.close(open_plain(path, workspace_of().root))
    except OSError as error:
        raise unreadable(path, error) from error


def refuse_errors(path: str, text: str | None, findings: Sequence[Finding]) -> None:
    """Raise `BrokenContractError` when a finding is an error."""
    if any(finding.severity == "error" for finding in findings):
        raise BrokenContractError(list(findings), {path: text or ""})


def policy_for(named: str) -> Contract | None:
    """The policy in the file `named`, else that of the workspace if it has one. Raises `BrokenContractError`."""
    root = workspace_of().root
    path = from_here(named, root) if named else discover(root)
    return read_contract(root, os.path.normpath(path)) if path else None


def from_here(path: str, root: str) -> str:
    """A path that a person gave, in the current folder, as one for the workspace `root`: relative paths there are of that."""
    return path if not path or os.path.realpath(os.curdir) == root else os.path.abspath(path)


def _below(folder: str) -> Iterator[str]:
    """Skip hidden folders except `.aex`: other programs made them."""
    for place, folders, names in os.walk(folder, onerror=_stop):
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS and (name[0] != "." or name == ".aex"))
        for name in sorted(names):
            path = os.path.normpath(os.path.join(place, name))
            if name.endswith(ENDING) and not os.path.islink(path):
                yield path


def _stop(error: OSError) -> None:
    """A folder that cannot be listed is not one without documents."""
    raise error


# --- which checkpoint or cognitive session a name means: in the store, or in a folder of the workspace that is
# verified in memory

_HASH = re.compile("[0-9a-fA-F]{6,}")
_SHOWN = 5
_MARK = b'"event":"' + CheckpointCreated.KIND.encode() + b'"'


class FoundCheckpoint(NamedTuple):
    """A checkpoint, where it was found, and the store that has its history: the workspace's, or one in memory."""

    checkpoint: TaskCheckpoint
    source: Literal["store", "folder"]
    store: Store

    def task(self, context: StoreContext) -> Task:
        """The task it is of, as it is now."""
        return Task(self.store, self.checkpoint.event.task, clock=context.clock, secret=reading_secret())


def find_checkpoint(context: StoreContext, name: str) -> FoundCheckpoint:
    """A checkpoint by its name, by `TASK/NAME`, by six digits or more of its hash, or the last one of a task."""
    from adjourn.checkpoints.checkpoint import find as checkpoints_find

    if "/" in name:
        return FoundCheckpoint(checkpoints_find(context.store, name), "store", context.store)
    try:
        return _by_name(context, name)
    except (NotFoundError, InvalidError) as error:
        if not isinstance(error, NotFoundError) and "not a checkpoint name" not in error.message:
            raise
    store = context.store
    by_hash = _by_hash(store, name.lower()) if _HASH.fullmatch(name) else None
    if by_hash is not None:
        return FoundCheckpoint(by_hash, "store", store)
    try:
        ledger = context.task(name).ledger
    except (NotFoundError, InvalidError):
        names = [ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/")]
        near = did_you_mean(name, [*names, *tasks_of(store)])
        raise NotFoundError(
            f"no checkpoint or task is named {name[:80]!r}", near or "list them: adjourn checkpoint list"
        ) from None
    if not ledger.checkpoint:
        raise NotFoundError(f"task {name} has no checkpoint", "save one: adjourn checkpoint write")
    own = checkpoints_find(context.store, f"{ledger.task}/{ledger.checkpoint}")
    return FoundCheckpoint(own, "store", context.store)


def only_checkpoint(context: StoreContext) -> str:
    """The newest checkpoint of the only unfinished task that has one; without a store, the only folder. Raises `UsageError`."""
    if context.store_or_none() is None and (names := checkpoint_folders(context.root)):
        candidates = names
    else:
        ledgers = sorted(
            (ledger for _, ledger in readable_ledgers(context)), key=lambda each: each.touched, reverse=True
        )
        candidates = [ledger.checkpoint for ledger in ledgers if ledger.checkpoint and not ledger.finished]
    if not candidates:
        raise NotFoundError("no unfinished task has a checkpoint", "list all checkpoints: adjourn checkpoint list")
    if len(candidates) > 1:
        some = ", ".join(candidates[:_SHOWN]) + (", …" if len(candidates) > _SHOWN else "")
        raise UsageError(
            f"{len(candidates)} checkpoints can be meant: {some}", "name one; `adjourn checkpoint list` lists them"
        )
    return candidates[0]


def checkpoint_folders(root: str) -> list[str]:
    """The names of the checkpoints that have a folder in the workspace."""
    try:
        return sorted(os.listdir(resolve_inside(root, CHECKPOINTS)))
    except (OSError, AdjournError):
        return []


def _by_name(context: StoreContext, name: str) -> FoundCheckpoint:
    from adjourn.checkpoints.checkpoint import find as checkpoints_find

    store = context.store_or_none()
    if store is not None:
        try:
            return FoundCheckpoint(checkpoints_find(store, name), "store", store)
        except NotFoundError:
            pass
    folder = folder_verification.verify_named(context.root, name)
    scratch = MemoryStore()
    scratch.append(folder.extra.task, list(folder.audit.entries()), expect=scratch.head(folder.extra.task))
    for text in (folder.extra.contract, folder.extra.policy):
        if text:
            scratch.put_blob(text.encode())
    return FoundCheckpoint(folder.checkpoint, "folder", scratch)


def _by_hash(store: Store, start: str) -> TaskCheckpoint | None:
    """Any version of any checkpoint: reads every event, but decodes only those."""
    matches = [
        entry
        for task in tasks_of(store)
        for entry in store.read(task)
        if entry.hash.startswith(start) and _MARK in entry.data and digest(entry.data) == entry.hash
    ]
    if len(matches) > 1:
        raise NotFoundError(f"{len(matches)} checkpoints have a hash that starts with {start}", "give more digits")
    return as_checkpoint(matches[0]) if matches else None


# --- cognitive sessions of programs

_STREAM = "cognition/"


def session_ids(store: Store) -> list[str]:
    """The ids of the sessions that programs keep in a store, without the states of mind of its tasks."""
    streams = store.streams()
    names = [name.removeprefix(_STREAM) for name in streams if name.startswith(_STREAM)]
    return sorted(set(names).difference(streams)) if names else []


def session_facts(store: Store, session_id: str) -> dict[str, Any]:
    """What `--json` prints of a session. Raises `IntegrityError` where a page or a checkpoint of it was changed in the store."""
    from adjourn.knowledge.cognition.repository import SessionRepository, head_of

    sessions = SessionRepository(store)
    opened = sessions.open(session_id)
    if opened is None:
        raise NotFoundError(f"there is no session {session_id}", "see `adjourn checkpoint list`")
    session, checkpoints = opened.session, list(sessions.made(session_id))
    goals = {goal["id"]: goal["description"] for goal in session["workingState"]["intentGraph"]["goals"]}
    return {
        "session": session_id,
        "goal": goals.get(session["workingState"]["intentGraph"]["rootIntentId"], ""),
        "timestamp": timestamp(session["lastModifiedAt"]),
        "branch": session["currentBranchId"],
        "head": head_of(session),
        "checkpoints": checkpoints,
        "facts": len(session["workingState"]["epistemicState"]["facts"]),
        "openQuestions": len(session["workingState"]["epistemicState"]["openQuestions"]),
        "metrics": session["totalMetrics"],
    }


def all_sessions(store: Store) -> tuple[list[dict[str, Any]], list[tuple[str, AdjournError]]]:
    """The facts of all sessions of programs, and those that cannot be read."""
    sessions, broken = [], []
    for name in session_ids(store):
        try:
            sessions.append(session_facts(store, name))
        except AdjournError as error:
            broken.append((name, error))
    return sessions, broken


def verify_sessions(store: Store) -> list[dict[str, Any]]:
    """Read every session and every checkpoint of it as a resume would. `reason` says why one is not valid."""
    checked = []
    for name in session_ids(store):
        count, reason = 0, ""
        try:
            count = _read_all(store, name)
        except AdjournError as error:
            reason = error.message
        checked.append({"session": name, "checkpoints": count, "valid": not reason, "reason": reason})
    return checked


def _read_all(store: Store, session_id: str) -> int:
    from adjourn.knowledge.cognition.repository import SessionRepository

    sessions = SessionRepository(store)
    sessions.open(session_id)
    checkpoints = list(sessions.made(session_id))
    for name in checkpoints:  # a deleted one is None, and no defect
        sessions.checkpoint(name)
    return len(checkpoints)


def show_session(facts: dict[str, Any]) -> None:
    """Print a session in full."""
    say(f"{safe(facts['session'])}: cognitive session of a program")
    metrics = facts["metrics"]
    say_facts(
        ("goal", safe(facts["goal"])),
        ("changed", facts["timestamp"]),
        ("branch", safe(facts["branch"])),
        ("checkpoints", f"{len(facts['checkpoints'])}, the last one {facts['head'] or 'not made yet'}"),
        ("knows", f"{facts['facts']} facts, {facts['openQuestions']} open questions"),
        ("replies", f"{metrics['requestCount']}, {metrics['tokensConsumed']} tokens"),
    )
