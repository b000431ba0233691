"""A folder that is carried to another machine shows the next session there what it tells here; a name taken over hides nothing."""

from __future__ import annotations

from typing import Any

import pytest

from adjourn.checkpoints.checkpoint import find
from adjourn.checkpoints.page import AgentReport, ReportedArtifact, ReportedStep
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint
from adjourn.errors import InvalidError, NotFoundError
from adjourn.handover.foreign.reading import read_work
from adjourn.handover.foreign.work import import_work
from adjourn.knowledge.records.agent_notes import AgentNote, NotedDecision, add
from adjourn.knowledge.records.task_record import record_of
from support.handover import carried, saved, trusting
from support.workspace import ANN, Workspace

REPORT = AgentReport(
    mission="Fix the login.",
    progress=(
        ReportedStep(text="read src/login.py", status="done"),
        ReportedStep(text="write the test", status="in_progress", note="in progress: two of three cases"),
    ),
    current_state=("the branch is login-fix",),
    open_questions=("May I deploy?",),
    artifacts=(ReportedArtifact(path="src/login.py", note="the mended check"),),
    resumption_point="Write the third case.",
)
NOTE = AgentNote(
    facts=("The check ignores exp.",),
    goals=("Ship on Friday.",),
    decisions=(NotedDecision(decision="Keep the cookies.", because="fewer logins"),),
)
THERE_ONLY = ("untrustedSigner", "pageNotes", "checkpointedAt", "lastSession", "asOf", "auditSummary", "more")


def test_everything_is_carried(two: Workspace, memory_workspace: Workspace) -> None:
    """Mission, progress, state, questions, artifacts, next step, record and budget are the same on the other machine."""
    here, there = memory_workspace, two
    here.use()
    context = here.context()
    session = here.work(context, "file.read", "tests.run")
    add(session, NOTE)
    save_checkpoint(
        session.task,
        str(here.root),
        CheckpointRequest("fix-auth", description="half-way", said=REPORT),
        session=session,
    )
    told = here.resume(here.context("g2", take_over=True))
    carried(here, there)
    trusting(there, here)
    assert not (there.root / "tmp").exists()
    heard = there.resume(there.context())
    assert _shared(heard) == _shared(told)
    assert heard["nextStep"] == ["Write the third case."]
    assert record_of(there.store, session.task.id) == record_of(here.store, session.task.id)


def _shared(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in THERE_ONLY}


def test_an_import_is_carried(two: Workspace, memory_workspace: Workspace, tmp_path_factory: Any) -> None:
    """What was imported here and saved is shown there, and still marked as not verified."""
    here, there = memory_workspace, two
    here.use()
    page = tmp_path_factory.mktemp("sent") / "handoff.md"
    page.write_text("# Handoff\n\n## Goal\nFix it.\n\n## Next\n- write the test\n\n## Decisions\n- keep the cookies\n")
    import_work(here.task("t1"), str(here.root), read_work(str(page)), ANN)
    carried(here, there, "handoff")
    trusting(there, here)
    heard = there.resume(there.context(), "handoff")
    assert (heard["goal"], heard["nextStep"]) == ("Fix it.", ["write the test"])
    assert heard["imported"] == {"from": ["handoff"], "entries": 0, "verified": False}
    assert "keep the cookies" in str(heard["decisions"])


def test_a_name_that_is_taken_over_says_so_and_hides_nothing(memory_workspace: Workspace) -> None:
    """The save names the earlier task; its checkpoint is found, and resumed, as TASK/NAME."""
    first = saved(memory_workspace)
    before = find(memory_workspace.store, "fix-auth")
    context = memory_workspace.context("g2", task="other")
    session = memory_workspace.work(context, "file.read")
    made = save_checkpoint(session.task, str(memory_workspace.root), CheckpointRequest("fix-auth"), session=session)
    assert made.notes == [
        f'the name "fix-auth" belonged to a checkpoint of task {first}; that one is now {first}/fix-auth'
    ]
    assert find(memory_workspace.store, "fix-auth").event.task == session.task.id
    assert find(memory_workspace.store, f"{first}/fix-auth") == before
    assert find(memory_workspace.store, f"{session.task.id}/fix-auth") == made.checkpoint
    memory_workspace.leave(context)
    told = memory_workspace.resume(memory_workspace.context("g3"), f"{first}/fix-auth")
    assert (told["task"], told["name"]) == (first, "fix-auth")
    with pytest.raises(NotFoundError, match="has no checkpoint named"):
        find(memory_workspace.store, f"{first}/nothing")
    with pytest.raises(InvalidError, match="not a checkpoint name"):
        find(memory_workspace.store, "nobody/fix-auth")


def test_a_second_save_of_the_same_task_says_nothing(memory_workspace: Workspace) -> None:
    """A name that stays with its task was not taken over."""
    session = memory_workspace.work(memory_workspace.context(), "file.read")
    for _ in range(2):
        made = save_checkpoint(session.task, str(memory_workspace.root), CheckpointRequest("fix-auth"), session=session)
        assert made.notes == []
