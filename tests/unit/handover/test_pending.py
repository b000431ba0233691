"""Which work a new session is offered: not what is finished, and not what nobody has touched for long."""

from __future__ import annotations

from adjourn.checkpoints.save import finish, reopen
from adjourn.handover.pending import older_work
from adjourn.handover.session_brief import find_pending_work
from support.workspace import ANN, Workspace

DAY = 86_400


def _saved(workspace: Workspace, group: str = "g1") -> str:
    context = workspace.context(group)
    workspace.work(context, "file.read", "file.write")
    task = workspace.save(context, f"of-{group}").event.task
    workspace.leave(context)
    return task


def test_finished_work_is_not_pending_until_it_is_reopened(workspace: Workspace) -> None:
    """A finished task is announced to no session, a reopened one is."""
    task = workspace.task(_saved(workspace))
    finish(task, str(workspace.root), note="shipped", by=ANN)
    assert find_pending_work(workspace.context("g2")) is None
    assert older_work(workspace.context("g2")) == ""
    assert reopen(task, str(workspace.root), by=ANN)
    found = find_pending_work(workspace.context("g2"))
    assert found is not None
    assert found.task.id == task.id
    assert not reopen(task, str(workspace.root), by=ANN)


def test_work_that_nobody_touched_for_long_is_mentioned_and_not_announced(workspace: Workspace) -> None:
    """After 30 days a task is no pending work; one line says that there is some, unless newer work is pending."""
    _saved(workspace)
    workspace.clock.move(seconds=29 * DAY)
    assert find_pending_work(workspace.context("g2")) is not None
    workspace.clock.move(seconds=2 * DAY)
    assert find_pending_work(workspace.context("g2")) is None
    assert "adjourn tasks" in older_work(workspace.context("g2"))
    newer = _saved(workspace, "g3")
    found = find_pending_work(workspace.context("g2"))
    assert found is not None
    assert found.task.id == newer


def test_finishing_twice_adds_nothing(workspace: Workspace) -> None:
    """A task that is finished, and was not worked on since, gets no further event; one with later calls gets a checkpoint."""
    task = workspace.task(_saved(workspace))
    finish(task, str(workspace.root), by=ANN)
    events = task.refresh().seq
    assert finish(task, str(workspace.root), by=ANN).was
    assert task.refresh().seq == events
