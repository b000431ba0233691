"""A preview says what a resume would, whatever git brought, and writes nothing."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from adjourn.checkpoints import folder_verification
from adjourn.errors import IntegrityError
from adjourn.handover.importing import import_folder
from adjourn.handover.resumption import Preview, resume
from adjourn.host import keys
from adjourn.knowledge.records.agent_notes import AgentNote, add
from support.handover import FAR, carried, far_work, trusting
from support.workspace import Workspace


def _preview(workspace: Workspace, name: str) -> dict[str, Any]:
    reader = Preview(lambda: workspace.store, str(workspace.root), workspace.clock, keys.secret())
    return resume(reader, name).to_json()


def _same(workspace: Workspace, name: str) -> dict[str, Any]:
    """What a preview answers, which is what a resume does; the session of a resume comes after `more`."""
    before = workspace.everything()
    told = _preview(workspace, name)
    assert workspace.everything() == before
    assert told | {"more": ""} == workspace.resume(workspace.context("reader"), name) | {"more": ""}
    return told


@pytest.fixture
def here(memory_workspace: Workspace, two: Workspace) -> Workspace:
    """A workspace that saved `early`; another machine continued and saved `late`; both folders came back."""
    context = far_work(memory_workspace)
    add(context.sessions.open(), AgentNote(facts=("known early",)))
    task = memory_workspace.save(context, "early").event.task
    carried(memory_workspace, two, "early")
    trusting(two, memory_workspace)
    other = two.context("second")
    other.process = FAR
    two.resume(other, "early")
    two.work(other, *["file.write"] * 9)
    add(other.sessions.open(), AgentNote(facts=("known late",)))
    assert two.save(other, "late").event.task == task
    two.leave(other)
    for name in ("early", "late"):
        carried(two, memory_workspace, name)
    trusting(memory_workspace, two)
    memory_workspace.clock.move(seconds=200)
    return memory_workspace


def test_calls_that_were_spent_elsewhere_are_told(here: Workspace) -> None:
    """The store knows the earlier checkpoint, and a folder of another name has later calls of its task."""
    told = _same(here, "early")
    assert (told["callsUsed"], told["budgetRemaining"]) == (10, 10)
    assert "known late" in str(told["facts"])


def test_a_name_without_its_folder_is_told_alike(here: Workspace) -> None:
    """The store has the checkpoint and its folder is gone: newer folders of the task count."""
    shutil.rmtree(here.folder("early"))
    assert _same(here, "early")["callsUsed"] == 10


def test_the_name_within_a_task_is_told_alike(here: Workspace) -> None:
    """TASK/NAME is looked up in the store, and newer folders of the task count."""
    assert _same(here, f"{next(iter(here.store.streams()))}/early")["callsUsed"] == 10


def test_a_folder_that_a_resume_does_not_read_may_be_damaged(here: Workspace) -> None:
    """The store wrote checkpoint.json: the lines beside it are not read."""
    (here.folder("early") / "audit.jsonl").write_text("lies\n")
    assert _same(here, "early")["callsUsed"] == 10
    (here.folder("late") / "audit.jsonl").write_text("lies\n")
    with pytest.raises(IntegrityError):
        _preview(here, "late")


def test_what_a_person_vouched_for_is_told_alike(memory_workspace: Workspace, two: Workspace) -> None:
    """An imported history of an unknown signer, with what it knew."""
    context = far_work(memory_workspace)
    add(context.sessions.open(), AgentNote(facts=("known there",)))
    memory_workspace.save(context)
    carried(memory_workspace, two)
    two.use()
    import_folder(two.store, folder_verification.verify(str(two.folder())), vouched=True)
    assert "known there" in str(_same(two, "fix-auth"))
