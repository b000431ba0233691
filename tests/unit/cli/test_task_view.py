"""What is shown of those who work on a task."""

from __future__ import annotations

import pytest

from adjourn.cli.task_view import Holder, state, who
from adjourn.log import kinds
from adjourn.tasks.entries import OpenSession
from adjourn.tasks.task import NewEvent, last_worked_on
from support.workspace import Workspace


@pytest.mark.parametrize(
    ("pid", "host", "alive", "expected"),
    [
        (0, "workspace/1a2b", True, ("claude-code, through its hook", "")),
        (0, "workspace/1a2b", None, ("claude-code, through its hook", "idle: no call for a while")),
        (7, "box:1:2", True, ("claude-code, process 7 on box", "")),
        (7, "box:1:2", False, ("claude-code, process 7 on box", "dead")),
        (7, "box:1:2", None, ("claude-code, process 7 on box", "lease expired")),
    ],
)
def test_a_holder_is_described_by_its_process_and_state(
    pid: int, host: str, alive: bool | None, expected: tuple[str, str]
) -> None:
    """A hook's session has no process, and is idle without calls; another is dead, or its lease has expired."""
    session = OpenSession(
        id="s", group="g", host=host, pid=pid, started=0, since="2026-05-02T15:45:12.345Z", client="claude-code"
    )
    assert (who(session), state(Holder(session, alive))) == expected


def test_what_the_work_of_other_tasks_adds_makes_no_task_the_newest(workspace: Workspace) -> None:
    """`adjourn status` shows the task worked on last; what another task's call adds to an older one is no work on it."""
    tasks = []
    for group in ("g1", "g2"):
        context = workspace.context(group)
        workspace.work(context, "file.write")
        tasks.append(workspace.save(context, f"of-{group}").event.task)
        workspace.leave(context)
        workspace.clock.move(seconds=60)
    older, newer = tasks
    others = (kinds.EffectRepeated(again="x.1", task=newer), kinds.SessionLost(calls=[], lost="x", reason="dead"))
    workspace.task(older).commit([NewEvent(fact) for fact in others])
    assert last_worked_on(workspace.store, older) < last_worked_on(workspace.store, newer)
