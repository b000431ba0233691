"""Commits of several tasks as one transaction of their store.

Owns: `commit_together`, and what a commit is before it is made. Must never: write what `Task.stage` did not make, or let the outcome
of one commit become another's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

import msgspec

from adjourn.errors import AdjournError, ConflictError
from adjourn.policy.principal import SpaceStore
from adjourn.store.base import NO_REFS, NO_SWAPS, Append, Head, Swap
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import NewEvent, Refs, StagedCommit, Task


class PendingCommit(msgspec.Struct, eq=False):
    """What `Task.commit` is to be given: by itself (`alone`), or with those of other tasks. `error` is the outcome of
    `commit_together`; None: it is written.
    """

    task: Task
    facts: Sequence[NewEvent] = ()
    durable: bool = False
    refs: Refs = NO_REFS
    blobs: Sequence[bytes] = ()
    swaps: Mapping[str, Swap] = NO_SWAPS
    error: Exception | None = None

    @property
    def lock(self) -> AbstractContextManager[object]:
        """That of a session, which is taken before those of all tasks."""
        return nullcontext()

    def check(self) -> None:
        """Raise where nothing may be written. Called with the `lock`."""

    def build(self, ledger: Ledger) -> Sequence[NewEvent]:
        """The facts at a ledger."""
        del ledger
        return self.facts

    def written(self) -> None:
        """It is written, and nothing of it is sent yet."""

    def fail(self, error: Exception) -> None:
        """It could not be written, as far as is known."""
        self.error = error

    def alone(self) -> None:
        """Make it by itself. Raises what `Task.commit` raises."""
        self.task.commit(self.facts, durable=self.durable, refs=self.refs, blobs=self.blobs, swaps=self.swaps)


def commit_together(commits: Sequence[PendingCommit]) -> None:
    """Make commits of several tasks of one store, with one transaction for the first of each task, and so on. Those that cannot be
    made so (another process appended first, a session has to be opened again) are made alone.
    """
    left = list(commits)
    while left:
        firsts = {commit.task.id: commit for commit in reversed(left)}
        left = [commit for commit in left if firsts[commit.task.id] is not commit]
        _commit_first([firsts[task] for task in sorted(firsts)])


def _commit_first(commits: Sequence[PendingCommit]) -> None:
    """At most one commit of each task, in the order of their ids."""
    if len(commits) == 1:
        _commit_alone(commits)
        return
    alone: list[PendingCommit] = []
    with ExitStack() as held:
        # INVARIANT: first locks of sessions, then those of tasks in the order of their ids: no two threads wait for each other.
        for commit in commits:
            held.enter_context(commit.lock)
        for commit in commits:
            held.enter_context(commit.task.lock)
        staged: list[tuple[PendingCommit, StagedCommit]] = []
        for commit in commits:
            try:
                commit.check()
                step = commit.task.stage(commit.build, commit.refs)
            except AdjournError:
                step = None
            except Exception as error:  # of one relay; the others continue
                commit.error = error
                continue
            if step is None:
                alone.append(commit)
            else:
                staged.append((commit, step))
        alone += _write(staged)
    _commit_alone(alone)


def _write(staged: Sequence[tuple[PendingCommit, StagedCommit]]) -> list[PendingCommit]:
    """Write what is staged. Returns those before which another process appended."""
    if not staged:
        return []
    appends, store = [], staged[0][0].task.store
    for commit, step in staged:
        append = Append(commit.task.id, step.entries, step.head, step.refs, commit.blobs, commit.swaps)
        space = commit.task.store  # of one principal; below it there is one store for all
        appends.append(space.stored(append) if isinstance(space, SpaceStore) else append)
    if isinstance(store, SpaceStore):
        store = store.below
    durable = any(commit.durable for commit, _ in staged)
    lost: list[PendingCommit] = []
    try:
        outcomes = store.append_many(appends, durable=durable)
    except Exception as error:  # whatever failed: nothing is written, and each relay has to hear of it
        for commit, _ in staged:
            commit.fail(error)
        return []
    for (commit, step), outcome in zip(staged, outcomes, strict=True):
        if isinstance(outcome, Head):
            commit.task.take_in(step, durable=durable)
            commit.written()
        elif isinstance(outcome, ConflictError):
            lost.append(commit)
        else:
            commit.fail(outcome)
    return lost


def _commit_alone(commits: Sequence[PendingCommit]) -> None:
    for commit in commits:
        try:
            commit.alone()
        except Exception as error:  # as above
            commit.error = error
