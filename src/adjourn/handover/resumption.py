"""Resume a checkpoint: everything that the next session learns, as one object.

Owns: the one way to resume, for a client whose session joins the task and for a preview that joins nothing. Must never: lower a
budget, apply a history that was not verified, or guess about a call in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from adjourn.checkpoints import (
    TaskCheckpoint,
    document,
    folder,
    folder_verification,
    plan_summary,
    trusted_signer,
)
from adjourn.clients import ClientContext
from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.answer import answer
from adjourn.handover.importing import check_trusted, import_newer_folders, locate, vouched_for
from adjourn.handover.pending import mark_cut_off_calls
from adjourn.handover.record_sections import record_brief
from adjourn.knowledge.records import agent_notes
from adjourn.log import kinds
from adjourn.policy import for_task, read_contract
from adjourn.store import MemoryStore, Store
from adjourn.tasks import Ledger, Session, Task, is_alive


class Preview(NamedTuple):
    """A reader who wants the answer of a resume: no session opens, and nothing is written.

    `open_store` returns the workspace's store, or raises `NotFoundError` where there is none. `clock` returns milliseconds; `secret`
    authenticates cached ledgers.
    """

    open_store: Callable[[], Store]
    root: str
    clock: Callable[[], int]
    secret: bytes


class Handover(NamedTuple):
    """Everything that the session which resumes a checkpoint learns.

    `task` is the resumed task with its ledger up to date, `budget` counts calls (None: unlimited), `root` is the workspace. `session` is
    the one that joined the task, None for a preview.
    """

    task: Task
    checkpoint: TaskCheckpoint
    budget: int | None
    root: str
    session: Session | None = None

    def to_json(self, more: str = "") -> dict[str, Any]:
        """The answer of `aex.resume`. `more` is the cursor of an earlier answer. Raises `InvalidError` for any other cursor."""
        task, now = self.task, self.task.clock()
        return answer(
            task.store,
            task.ledger,
            self.checkpoint,
            budget=self.budget,
            more=more,
            page=plan_summary(task, self.root, now),
            brief=partial(record_brief, task.store, self.checkpoint, now),
        )

    def holders(self) -> list[str]:
        """The ids of the living sessions that hold the task."""
        task, now = self.task, self.task.clock()
        sessions = task.ledger.sessions.values()
        return [session.id for session in sessions if is_alive(task.store, task.id, session, now)]


def resume(reader: ClientContext | Preview, name: str) -> Handover:
    """Resume the newest checkpoint of a name: a client's session joins its task, a preview gets the same answer and joins nothing.

    Raises `NotFoundError`, `IntegrityError`, `RefusedError` (nobody vouches for the signer) and, for a client, `HeldError`.
    """
    return _preview(reader, name) if isinstance(reader, Preview) else _join(reader, name)


def _join(client: ClientContext, name: str) -> Handover:
    store, root = client.store, client.options.root
    checkpoint, source = locate(store, root, name)
    check_trusted(store, checkpoint)
    document(store, checkpoint)
    import_newer_folders(store, root, checkpoint)
    facts: list[kinds.Data] = [kinds.CheckpointResumed(checkpoint=checkpoint.hash, name=name, source=source)]
    if not trusted_signer(checkpoint):
        key = checkpoint.data.key
        facts.insert(0, kinds.TaskImported(head=checkpoint.hash, seq=checkpoint.event.seq, signer=key))
    session = client.move(checkpoint.event.task, facts)
    agent_notes.expire_due_items(session)
    session.task.refresh()
    return Handover(session.task, checkpoint, session.policy.budget, root, session)


def _preview(reader: Preview, name: str) -> Handover:
    store = _store_to_read(reader, name)
    checkpoint, _ = locate(store, reader.root, name)
    check_trusted(store, checkpoint)
    document(store, checkpoint)
    task = Task(store, checkpoint.event.task, clock=reader.clock, secret=reader.secret)
    mark_cut_off_calls(task)
    return Handover(task, checkpoint, _budget(reader.root, store, task.ledger), reader.root)


def _store_to_read(reader: Preview, name: str) -> Store:
    """The store as a resume would leave it: the workspace's, or one in memory with the folder that a resume would import."""
    try:
        kept = reader.open_store()
    except NotFoundError:
        if folder.is_as_written(MemoryStore(), reader.root, name) is not False:
            raise
        kept = None
    if kept is not None and folder.is_as_written(kept, reader.root, name) is not False:
        return kept
    scratch = MemoryStore()
    brought = folder_verification.verify_named(reader.root, name).checkpoint
    task = brought.event.task
    if kept is not None:
        if entries := list(kept.read(task)):
            scratch.append(task, entries, expect=scratch.head(task))
        if (upto := vouched_for(kept, brought)) is not None:
            scratch.swap(f"vouched/{task}", str(upto), expect=None)
    return scratch


def _budget(root: str, store: Store, ledger: Ledger) -> int | None:
    """The budget of a session here: of the workspace's policy and the task's contract; without a policy, the last session's."""
    try:
        return for_task(read_contract(root), store, ledger.contract).policy.budget
    except AdjournError:
        return ledger.budget
