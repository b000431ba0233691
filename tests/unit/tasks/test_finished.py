"""What the ledger says of a finished task."""

from __future__ import annotations

from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store import MemoryStore
from adjourn.tasks.task import NewEvent, Task

PERSON = Actor("ann", "human")
CALL = kinds.ToolAllowed(call="c", digest="0" * 64, effectful=False, tool="t")


def _task() -> Task:
    return Task(MemoryStore(), "work", clock=lambda: 1_777_735_812_345, secret=b"key")


def _tell(task: Task, *facts: kinds.Data) -> None:
    task.commit(lambda _: [NewEvent(fact, PERSON) for fact in facts])


def test_a_finished_task_says_since_when_and_by_whom() -> None:
    """The ledger has the time of the finish, the type of actor, the note, and the calls at that point; later calls still count."""
    task = _task()
    _tell(task, kinds.TaskOpened(), CALL, kinds.TaskFinished(note="shipped"), CALL)
    ledger = task.ledger
    assert (ledger.finished, ledger.finished_by, ledger.finish_note) == (ledger.touched, "human", "shipped")
    assert (ledger.calls_at_finish, ledger.calls_used) == (1, 2)


def test_a_reopened_task_is_active() -> None:
    """Nothing of the finish is left but its events, and no call is refunded."""
    task = _task()
    _tell(task, kinds.TaskOpened(), CALL, kinds.TaskFinished(note="shipped"), kinds.TaskReopened())
    ledger = task.ledger
    assert (ledger.finished, ledger.finished_by, ledger.finish_note, ledger.calls_at_finish) == ("", "", "", 0)
    assert ledger.calls_used == 1
