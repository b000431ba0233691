"""Resume a checkpoint: everything that the next session learns, as one object.

Owns: the one way to resume, for a client whose session joins the task and for a preview that joins nothing. Must never: lower a
budget, apply a history that was not verified, or guess about a call in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.checkpoints import (
    TaskCheckpoint,
    document,
    folder,
    trusted_signer,
)
from adjourn.clients import ClientContext
from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.composing import Reader, hand_over
from adjourn.handover.history import page_before
from adjourn.handover.importing import check_trusted, import_newer_folders, locate
from adjourn.handover.pending import mark_cut_off_calls
from adjourn.handover.rendering import ROOM, history_answer, to_json
from adjourn.handover.value import Handover
from adjourn.knowledge.records import agent_notes
from adjourn.log import kinds
from adjourn.policy import Contract, for_task, read_contract
from adjourn.store import MemoryStore, OverlayStore, Store
from adjourn.tasks import Session, Task, is_alive


class Preview(NamedTuple):
    """A reader who wants the answer of a resume: no session opens, and nothing is written.

    `open_store` returns the workspace's store, or raises `NotFoundError` where there is none. `clock` returns milliseconds; `secret`
    authenticates cached ledgers. `tree` is the work tree of the workspace `root` that has the pages (default: the same). `contract` is
    what the session works under (default: what is found in `root`).
    """

    open_store: Callable[[], Store]
    root: str
    clock: Callable[[], int]
    secret: bytes
    tree: str = ""
    contract: Contract | None = None


class Resumed(NamedTuple):
    """A resumed checkpoint: its task with the ledger up to date, and who reads it. `session` joined the task, None for a preview."""

    task: Task
    checkpoint: TaskCheckpoint
    reader: Reader
    session: Session | None = None

    def handover(self) -> Handover:
        """What the session receives."""
        return hand_over(self.task, self.checkpoint, self.reader)

    def to_json(self, more: str = "", room: int = ROOM) -> dict[str, Any]:
        """The answer of `aex.resume`, of at most `room` bytes: the hand-over, or the page of history before the cursor `more`.

        Raises `InvalidError` for what is no cursor.
        """
        if not more:
            return to_json(self.handover(), room)
        ledger = self.task.ledger
        answer = history_answer(self.checkpoint.data.name, ledger, ledger.remaining(self.reader.budget))
        entries, older = page_before(self.task.store, ledger, more, room - len(msgspec.json.encode(answer)))
        return answer | {"auditSummary": entries} | ({"more": older} if older else {})

    def holders(self) -> list[str]:
        """The ids of the living sessions that hold the task."""
        task, now = self.task, self.task.clock()
        sessions = task.ledger.sessions.values()
        return [session.id for session in sessions if is_alive(task.store, task.id, session, now)]


def resume(reader: ClientContext | Preview, name: str) -> Resumed:
    """Resume the newest checkpoint of a name: a client's session joins its task, a preview gets the same answer and joins nothing.

    Raises `NotFoundError`, `IntegrityError`, `RefusedError` (nobody vouches for the signer) and, for a client, `HeldError`.
    """
    return _preview(reader, name) if isinstance(reader, Preview) else _join(reader, name)


def _join(client: ClientContext, name: str) -> Resumed:
    store, root = client.store, client.options.checkpoint_root
    checkpoint, source = _take_in(store, root, name)
    facts: list[kinds.Data] = [kinds.CheckpointResumed(checkpoint=checkpoint.hash, name=name, source=source)]
    if not trusted_signer(checkpoint):
        key = checkpoint.data.key
        facts.insert(0, kinds.TaskImported(head=checkpoint.hash, seq=checkpoint.event.seq, signer=key))
    session = client.move(checkpoint.event.task, facts)
    agent_notes.expire_due_items(session)
    session.task.refresh()
    reader = Reader(client.options.page_tree, session.policy, session.policy.budget, client.group)
    return Resumed(session.task, checkpoint, reader, session)


def _preview(reader: Preview, name: str) -> Resumed:
    """Do what a join does before its session opens, on an overlay of the workspace's store."""
    store = _overlay(reader, name)
    checkpoint, _ = _take_in(store, reader.root, name)
    task = Task(store, checkpoint.event.task, clock=reader.clock, secret=reader.secret)
    mark_cut_off_calls(task)
    return Resumed(task, checkpoint, reader_of(reader.root, task, "", reader.contract, reader.tree))


def _overlay(reader: Preview, name: str) -> Store:
    """The workspace's store, with what is imported kept in memory. Raises `NotFoundError` where there is neither store nor folder."""
    try:
        return OverlayStore(reader.open_store())
    except NotFoundError:
        if "/" in name or folder.is_as_written(MemoryStore(), reader.root, name) is None:
            raise
        return MemoryStore()


def _take_in(store: Store, root: str, name: str) -> tuple[TaskCheckpoint, Literal["store", "folder"]]:
    """The trusted checkpoint of a name, and where it was found. Its folder and the newer ones of its task are imported."""
    checkpoint, source = locate(store, root, name)
    check_trusted(store, checkpoint)
    document(store, checkpoint)
    import_newer_folders(store, root, checkpoint)
    return checkpoint, source


def reader_of(
    root: str, task: Task, group: str = "", contract: Contract | None = None, tree: str = ""
) -> Reader:
    """Who reads a task here: under the workspace's policy, or the `contract` that the reader has, and the task's contract; without
    a policy, under the last session's budget.
    """
    ledger = task.ledger
    try:
        policy = for_task(contract or read_contract(root), task.store, ledger.contract).policy
    except AdjournError:
        return Reader(tree or root, None, ledger.budget, group)
    return Reader(tree or root, policy, policy.budget, group)
