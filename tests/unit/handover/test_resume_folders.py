"""Resuming from a folder: what is looked up where, what git brought, what a person imports, what is refused whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from adjourn.checkpoints import folder, folder_verification
from adjourn.checkpoints.checkpoint import find
from adjourn.errors import (
    AdjournError,
    ConflictError,
    HeldError,
    IntegrityError,
    InvalidError,
    NotFoundError,
    RefusedError,
)
from adjourn.handover import importing
from adjourn.handover.importing import import_folder, locate, vouched_for
from adjourn.handover.resumption import Preview, resume
from adjourn.host import keys
from adjourn.knowledge.records.agent_notes import AgentNote, add
from adjourn.log import kinds
from adjourn.log.chain import verify_chain
from adjourn.store import Store
from adjourn.store.memory import MemoryStore
from adjourn.tasks.decision import ToolRequest
from support.forging import EDITS, Forger
from support.handover import FAR, carried, far_work, saved, trusting
from support.workspace import Workspace


def test_what_is_not_there_lists_what_is(workspace: Workspace) -> None:
    """At most ten names, or the tool that makes the first one."""
    with pytest.raises(NotFoundError, match=r'no checkpoint is named "lost" \(create one: call aex\.checkpoint\)'):
        workspace.resume(workspace.context("second"), "lost")
    for name in ("b", "a"):
        saved(workspace, name=name)
    with pytest.raises(NotFoundError, match=r'no checkpoint is named "lost" \(use one of: a, b\)'):
        workspace.resume(workspace.context("second"), "lost")


@pytest.mark.parametrize("name", ["../../etc", "a/b", "a\0b", "x" * 65])
def test_a_name_that_is_none_is_refused(memory_workspace: Workspace, name: str) -> None:
    """A checkpoint name that is a path is refused."""
    with pytest.raises(InvalidError, match="not a checkpoint name"):
        memory_workspace.resume(memory_workspace.context(), name)


def test_the_store_suffices(workspace: Workspace) -> None:
    """A checkpoint resumes from the store after its folder was removed."""
    saved(workspace)
    shutil.rmtree(workspace.folder())
    assert workspace.resume(workspace.context("second"))["callsUsed"] == 2


def test_a_held_task_is_refused(workspace: Workspace) -> None:
    """While another client works on the task it cannot be resumed, unless by a take-over; nothing changes by trying."""
    context = workspace.context("first")
    workspace.work(context, "file.read")
    workspace.save(context)
    before = workspace.events(context.task.current())
    with pytest.raises(HeldError, match="is held by tester"):
        workspace.resume(workspace.context("second"))
    assert workspace.events(context.task.current()) == before
    assert workspace.resume(workspace.context("third", take_over=True))["callsUsed"] == 1


def test_an_edited_folder_changes_nothing(memory_workspace: Workspace, two: Workspace) -> None:
    """On the machine that trusts its signer, and on the one that made it: refused whole, and the store is as it was."""
    memory_workspace.use()
    saved(memory_workspace)
    trusting(two, memory_workspace)
    path = memory_workspace.folder() / "checkpoint.json"
    stored = path.read_bytes()
    for what, edit, reason in EDITS:
        value = json.loads(stored)
        edit(value)
        path.write_text(json.dumps(value))
        carried(memory_workspace, two)
        for workspace in (memory_workspace, two):
            workspace.use()
            before = workspace.everything()
            with pytest.raises(AdjournError, match=reason):
                resume(workspace.context("second"), "fix-auth")
            assert workspace.everything() == before, what


def test_exporting_mends_an_edited_folder(workspace: Workspace) -> None:
    """Written again from the store it can be resumed."""
    saved(workspace)
    path = workspace.folder() / "checkpoint.json"
    path.write_text(path.read_text().replace('"callsUsed": 2', '"callsUsed": 0', 1))
    with pytest.raises(IntegrityError, match="callsUsed differs from what was signed") as refusal:
        workspace.resume(workspace.context("second"))
    assert "adjourn checkpoint export" in refusal.value.remedy
    folder.write(workspace.store, find(workspace.store, "fix-auth"), str(workspace.root))
    assert workspace.resume(workspace.context("second"))["callsUsed"] == 2


def test_nothing_of_an_edited_audit_log_is_used(memory_workspace: Workspace) -> None:
    """Where the store has the history, the lines beside an untouched checkpoint.json are not read."""
    task = saved(memory_workspace)
    before = memory_workspace.entries(task)
    (memory_workspace.folder() / "audit.jsonl").write_text("lies\n")
    assert memory_workspace.resume(memory_workspace.context("second"))["callsUsed"] == 2
    assert memory_workspace.entries(task)[: len(before)] == before


def test_odd_files_are_refused(memory_workspace: Workspace) -> None:
    """A link or a pipe where checkpoint.json should be is not resumed, though the store has the checkpoint."""
    saved(memory_workspace)
    path = memory_workspace.folder() / "checkpoint.json"
    path.rename(memory_workspace.root / "kept")
    path.symlink_to(memory_workspace.root / "kept")
    with pytest.raises(InvalidError, match="is a symbolic link"):
        memory_workspace.resume(memory_workspace.context("second"))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidError, match="not a regular file"):
        memory_workspace.resume(memory_workspace.context("second"))


def test_a_copy_under_another_name_is_refused(memory_workspace: Workspace) -> None:
    """A name that was signed for one checkpoint cannot be put on another."""
    saved(memory_workspace)
    saved(memory_workspace, "file.read", name="other")
    shutil.rmtree(memory_workspace.folder("other"))
    shutil.copytree(memory_workspace.folder(), memory_workspace.folder("other"))
    with pytest.raises(IntegrityError, match=r'checkpoints/other has checkpoint "fix-auth", not'):
        memory_workspace.resume(memory_workspace.context("second"), "other")


# --- brought by git


def test_a_stranger_is_refused_by_key(memory_workspace: Workspace, two: Workspace) -> None:
    """The refusal names the key and what a person can do; nothing is taken in; once trusted, it continues as it was."""
    memory_workspace.use()
    task = saved(memory_workspace)
    key = find(memory_workspace.store, "fix-auth").data.key
    carried(memory_workspace, two)
    two.use()
    with pytest.raises(RefusedError, match=f"is signed by {key}, which is not trusted here") as refusal:
        two.resume(two.context())
    assert "adjourn keys trust" in refusal.value.remedy
    assert two.everything() == ({}, {})
    trusting(two, memory_workspace)
    answer = two.resume(two.context())
    assert (answer["task"], answer["callsUsed"], answer["budgetRemaining"]) == (task, 2, 18)
    assert two.facts(task, kinds.CheckpointResumed)[-1].source == "folder"
    assert verify_chain(two.entries(task)).valid


def test_what_was_cut_off_elsewhere_is_in_doubt_here(memory_workspace: Workspace, two: Workspace) -> None:
    """The other machine's session is over once its lease is not seen, and its open effects are in doubt."""
    memory_workspace.use()
    context = memory_workspace.context()
    context.process = FAR
    context.sessions.admit([ToolRequest(tool="file.write", digest="1" * 64, arguments="{}")])
    memory_workspace.save(context)
    carried(memory_workspace, two)
    trusting(two, memory_workspace)
    assert [doubt["tool"] for doubt in two.resume(two.context())["inDoubt"]] == ["file.write"]
    _, (admitted,) = two.context().sessions.admit([ToolRequest(tool="file.write", digest="1" * 64, arguments="{}")])
    assert "in doubt" in str(admitted.decision)


def test_a_longer_folder_extends_the_store(memory_workspace: Workspace, two: Workspace) -> None:
    """Work that continued elsewhere comes back: the store takes in what is new, and continues from there."""
    context = far_work(memory_workspace)
    memory_workspace.save(context)
    carried(memory_workspace, two)
    trusting(two, memory_workspace)
    other = two.context("second")
    other.process = FAR
    two.resume(other)
    two.work(other, "file.write", "tests.run")
    two.save(other, description="mended")
    carried(two, memory_workspace)
    memory_workspace.clock.move(seconds=200)  # the lease of the first session has run out
    trusting(memory_workspace, two)
    answer = memory_workspace.resume(memory_workspace.context("third"))
    assert (answer["description"], answer["callsUsed"]) == ("mended", 3)
    assert answer["toolsCalled"] == ["file.read", "file.write", "tests.run"]
    task = answer["task"]
    assert memory_workspace.entries(task)[: len(two.entries(task))] == two.entries(task)
    assert verify_chain(memory_workspace.entries(task)).valid


def test_an_older_folder_refunds_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """Checking out an old version is resumed as that version, with today's budget; the name keeps its newest version."""
    context = workspace.context()
    workspace.work(context, "file.read")
    workspace.save(context, description="old")
    shutil.copytree(workspace.folder(), tmp_path / "old")
    workspace.work(context, *["file.read"] * 7)
    new = workspace.save(context, description="new")
    shutil.copytree(workspace.folder(), tmp_path / "new")
    shutil.copytree(tmp_path / "old", workspace.folder(), dirs_exist_ok=True)
    answer = workspace.resume(context)
    assert (answer["description"], answer["callsUsed"], answer["budgetRemaining"]) == ("old", 8, 12)
    assert find(workspace.store, "fix-auth") == new
    shutil.copytree(tmp_path / "new", workspace.folder(), dirs_exist_ok=True)
    assert workspace.resume(context)["description"] == "new"


def test_what_was_spent_under_another_name_is_spent(memory_workspace: Workspace, two: Workspace) -> None:
    """All folders of a task are examined: resuming the earlier of two carried checkpoints refunds nothing elsewhere. A preview says so."""

    def no_store() -> Store:
        raise NotFoundError("no store")

    context = far_work(memory_workspace)
    memory_workspace.save(context, "early")
    memory_workspace.work(context, *["file.write"] * 9)
    memory_workspace.save(context, "late")
    memory_workspace.save(context, "middle")
    stranger = memory_workspace.context("other")
    memory_workspace.work(stranger, *["file.read"] * 3)
    memory_workspace.save(stranger, "another")
    for name in ("early", "late", "middle", "another"):
        carried(memory_workspace, two, name)
    (two.folder("middle") / "audit.jsonl").write_text("lies\n")
    trusting(two, memory_workspace)
    preview = resume(Preview(no_store, str(two.root), two.clock, keys.secret()), "early").to_json()
    assert (preview["callsUsed"], preview["budgetRemaining"]) == (10, 10)
    answer = two.resume(two.context(), "early")
    assert (answer["callsUsed"], answer["budgetRemaining"]) == (10, 10)
    assert answer["toolsCalled"] == ["file.read", "file.write"]
    assert list(two.store.streams()) == [answer["task"]]
    assert list(two.store.refs("checkpoint/")) == ["checkpoint/early", "checkpoint/late"]


def test_folders_of_strangers_are_left_alone(memory_workspace: Workspace, two: Workspace) -> None:
    """What an unknown key signed beyond the resumed checkpoint is not taken in."""
    context = far_work(memory_workspace)
    memory_workspace.save(context, "early")
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context, "late")
    carried(memory_workspace, two, "early")
    carried(memory_workspace, two, "late")
    forger = Forger(two.folder("late"))
    trusting(two, memory_workspace)
    forger.write(forger.extra.document)
    assert two.resume(two.context(), "early")["callsUsed"] == 1


def test_two_ways_at_once_are_a_conflict(memory_workspace: Workspace, two: Workspace) -> None:
    """When both machines continued, neither history is touched, nor what is known, and it is said where they part."""
    context = far_work(memory_workspace)
    made = memory_workspace.save(context)
    carried(memory_workspace, two)
    memory_workspace.work(context, "file.write")
    trusting(two, memory_workspace)
    other = two.context("second")
    two.resume(other)
    two.work(other, "tests.run")
    add(other.sessions.open(), AgentNote(facts=("only known there",)))
    two.save(other)
    carried(two, memory_workspace)
    trusting(memory_workspace, two)
    before = memory_workspace.everything()
    task, first = made.event.task, made.event.seq + 1
    with pytest.raises(ConflictError, match=f"task {task} has diverged: .* differ from event {first} on"):
        memory_workspace.resume(memory_workspace.context("third", take_over=True))
    assert memory_workspace.everything() == before


def test_a_forgery_is_refused_where_its_task_is_known(memory_workspace: Workspace) -> None:
    """A folder rewritten whole with another key is neither believed nor merged."""
    saved(memory_workspace)
    forger = Forger(memory_workspace.folder())
    forger.events = [*forger.events[:4], forger.events[-1]]
    before = memory_workspace.everything()
    forger.write(forger.extra.document | {"callsUsed": 1, "callsRefused": 0, "tools": {"file.read": 1}})
    with pytest.raises(AdjournError):
        memory_workspace.resume(memory_workspace.context("second"))
    assert memory_workspace.everything() == before


# --- imported by a person


def test_a_person_can_vouch(memory_workspace: Workspace, two: Workspace) -> None:
    """An import lets just that history be resumed; the key stays unknown, and what it signs later is refused."""
    context = far_work(memory_workspace)
    memory_workspace.save(context)
    carried(memory_workspace, two)
    two.use()
    verified = folder_verification.verify(str(two.folder()))
    with pytest.raises(RefusedError):
        import_folder(two.store, verified)
    assert two.everything() == ({}, {})
    made = import_folder(two.store, verified, vouched=True).checkpoint
    assert find(two.store, "fix-auth") == made
    assert vouched_for(two.store, made) == made.event.seq
    assert two.resume(two.context())["callsUsed"] == 1
    memory_workspace.use()
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    carried(memory_workspace, two)
    two.use()
    with pytest.raises(RefusedError, match="is not trusted here"):
        two.resume(two.context())


def test_a_vouched_history_is_not_another_one(memory_workspace: Workspace, two: Workspace) -> None:
    """What was vouched for does not open the door to another history of that task, however short."""
    memory_workspace.use()
    saved(memory_workspace)
    carried(memory_workspace, two)
    two.use()
    import_folder(two.store, folder_verification.verify(str(two.folder())), vouched=True)
    forger = Forger(two.folder())
    forger.events[1] = msgspec.structs.replace(forger.events[1], timestamp="2026-05-02T16:00:00.000Z")
    forger.write(forger.extra.document)
    before = two.everything()
    with pytest.raises(ConflictError, match="differ from event 1 on"):
        two.resume(two.context())
    assert two.everything() == before


def test_importing_twice_changes_nothing(memory_workspace: Workspace) -> None:
    """A folder whose history the store has is found to be the same."""
    saved(memory_workspace)
    verified = folder_verification.verify(str(memory_workspace.folder()))
    before = memory_workspace.everything()
    assert import_folder(memory_workspace.store, verified).checkpoint == verified.checkpoint
    assert memory_workspace.everything() == before


def test_a_long_history_is_taken_in_by_chunks(memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """More events than fit into one step arrive all the same, in order."""
    monkeypatch.setattr(importing, "_CHUNK", 3)
    saved(memory_workspace)
    verified = folder_verification.verify(str(memory_workspace.folder()))
    store = MemoryStore()
    import_folder(store, verified)
    assert list(store.read(verified.extra.task)) == list(verified.audit.entries())


def test_what_is_located_is_said(memory_workspace: Workspace, two: Workspace) -> None:
    """From the store, or from a folder that was brought."""
    memory_workspace.use()
    saved(memory_workspace)
    carried(memory_workspace, two)
    trusting(two, memory_workspace)
    assert locate(two.store, str(two.root), "fix-auth")[1] == "folder"
    memory_workspace.use()
    assert locate(memory_workspace.store, str(memory_workspace.root), "fix-auth")[1] == "store"


# --- the published format alone
