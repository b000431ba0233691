"""Work that only a folder brought is pending, if its signer is trusted; nothing else of it is shown otherwise."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from adjourn.checkpoints.save import finish
from adjourn.handover import session_brief as carried_work
from adjourn.handover.pending import PendingWork
from adjourn.handover.session_brief import NewSession, brief_new_session, find_pending_work, untrusted_work
from adjourn.knowledge.records.agent_notes import AgentNote, add
from adjourn.tasks.work_index import INDEXED
from support.forging import Forger
from support.handover import FAR, carried, saved, trusting
from support.workspace import ANN, Workspace


@pytest.fixture
def clone(memory_workspace: Workspace, two: Workspace) -> Workspace:
    """A workspace into which git brought `fix-auth`, of a signer who is not trusted there."""
    memory_workspace.use()
    saved(memory_workspace)
    carried(memory_workspace, two)
    two.use()
    return two


def _found(workspace: Workspace) -> PendingWork | None:
    """What is pending; looking writes nothing but the index of open tasks."""
    events, before = workspace.everything()
    found = find_pending_work(workspace.context("reader"))
    events_now, refs = workspace.everything()
    assert (events_now, {name: value for name, value in refs.items() if name != INDEXED}) == (
        events,
        {name: value for name, value in before.items() if name != INDEXED},
    )
    return found


def test_a_trusted_folder_is_pending(clone: Workspace, memory_workspace: Workspace) -> None:
    """It is shown with its calls and facts as a resume would, and no longer once it was resumed and finished."""
    trusting(clone, memory_workspace)
    found = _found(clone)
    assert found is not None
    assert (found.checkpoint.data.name, found.task.ledger.calls_used) == ("fix-auth", 2)
    context = clone.context("reader")
    told = brief_new_session(context, NewSession())
    assert 'checkpoint "fix-auth"' in told
    assert "tests.run" in told
    clone.resume(context)
    clone.leave(context)
    finish(clone.task(found.task.id), str(clone.root), by=ANN)
    assert _found(clone) is None


def test_of_an_untrusted_folder_the_name_and_the_key_are_told(clone: Workspace) -> None:
    """It is no pending work: a hostile clone must not stop a prompt from opening a task. The remedy is shown, no content."""
    assert _found(clone) is None
    told = brief_new_session(clone.context("reader"), NewSession())
    assert told == untrusted_work(clone.context("reader"))
    assert 'checkpoint "fix-auth" is signed by' in told
    assert "adjourn keys trust" in told
    assert "\n" not in told
    for content in ("tests.run", "found it", "network"):
        assert content not in told


def test_a_forged_folder_is_not_told(clone: Workspace, memory_workspace: Workspace) -> None:
    """A folder that was rewritten with another key is refused by that key, and one that was edited is not mentioned."""
    trusting(clone, memory_workspace)
    forger = Forger(clone.folder())
    forger.write(forger.extra.document)
    assert _found(clone) is None
    assert "is not trusted here" in untrusted_work(clone.context("reader"))
    (clone.folder() / "audit.jsonl").write_text("lies\n")
    assert _found(clone) is None
    assert untrusted_work(clone.context("reader")) == ""


def test_all_folders_of_a_task_count(memory_workspace: Workspace, two: Workspace) -> None:
    """The work is shown as the latest folder has it, under the latest checkpoint with a description."""
    memory_workspace.use()
    context = memory_workspace.context()
    context.process = FAR
    memory_workspace.work(context, "file.read")
    add(context.sessions.open(), AgentNote(facts=("the port is 8080",)))
    memory_workspace.save(context, "early")
    memory_workspace.work(context, "file.write", "tests.run")
    memory_workspace.save(context, "late", description="")
    for name in ("early", "late"):
        carried(memory_workspace, two, name)
    trusting(two, memory_workspace)
    found = _found(two)
    assert found is not None
    assert (found.checkpoint.data.name, found.task.ledger.calls_used) == ("early", 3)
    assert "the port is 8080" in brief_new_session(two.context("reader"), NewSession())


def test_finished_and_old_work_is_not_pending(memory_workspace: Workspace, two: Workspace) -> None:
    """What the folder says is finished is not told, nor what nobody touched for 30 days."""
    memory_workspace.use()
    task = saved(memory_workspace)
    carried(memory_workspace, two)
    trusting(two, memory_workspace)
    two.clock.move(seconds=31 * 86_400)
    assert _found(two) is None
    two.clock.move(seconds=-31 * 86_400)
    assert _found(two) is not None
    memory_workspace.use()
    finish(memory_workspace.task(task), str(memory_workspace.root), by=ANN)
    shutil.rmtree(two.folder().parent)
    for name in os.listdir(memory_workspace.folder().parent):
        carried(memory_workspace, two, name)
    two.use()
    assert _found(two) is None


def test_a_client_that_is_bound_to_a_task_is_told_of_no_folder(clone: Workspace, memory_workspace: Workspace) -> None:
    """`--task` names the only work that counts."""
    trusting(clone, memory_workspace)
    bound = clone.context("reader", task="another")
    assert find_pending_work(bound) is None
    assert untrusted_work(bound) == ""


@pytest.mark.parametrize("limit", ["MAX_JSON_BYTES", "MAX_BYTES", "MAX_FILES", "MAX_FOLDERS"])
def test_what_is_too_large_is_not_examined(
    clone: Workspace, memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """A folder beyond a bound is skipped before anything of it is read."""
    trusting(clone, memory_workspace)
    assert _found(clone) is not None
    monkeypatch.setattr(carried_work, limit, 0)
    assert _found(clone) is None


def test_odd_entries_are_skipped(clone: Workspace, memory_workspace: Workspace) -> None:
    """Links, pipes and names that are none beside a good folder hide nothing and are not followed."""
    trusting(clone, memory_workspace)
    place = clone.folder().parent
    (place / "linked").symlink_to(memory_workspace.folder())
    (place / "not a name").mkdir()
    (place / "file").write_text("x")
    (place / "pipe").mkdir()
    os.mkfifo(place / "pipe" / "checkpoint.json")
    (place / "deep").mkdir()
    (place / "deep" / "checkpoint.json").write_text("[" * 100_000)
    found = _found(clone)
    assert found is not None
    assert found.checkpoint.data.name == "fix-auth"


@pytest.mark.parametrize("junk", ["empty", "copied", "claimed", "forged"])
def test_other_folders_do_not_crowd_out_a_trusted_one(clone: Workspace, memory_workspace: Workspace, junk: str) -> None:
    """A hundred newer folders that are empty, copies, of a stranger, or that claim a trusted key hide no work that is trusted."""
    trusting(clone, memory_workspace)
    good = clone.folder()
    event = good.joinpath("audit.jsonl").read_bytes().splitlines()[-1]
    for number in range(100):
        name = f"junk-{number}"
        made = good.with_name(name)
        if junk in ("empty", "claimed"):
            made.mkdir()
        else:
            shutil.copytree(good, made)
        if junk == "claimed":
            (made / "audit.jsonl").write_bytes(event.replace(b'"fix-auth"', f'"{name}"'.encode()) + b"\n")
        if junk == "forged":
            forger = Forger(made)
            forger.write(forger.extra.document)
        os.utime(made, (2**32, 2**32))
    found = _found(clone)
    assert found is not None
    assert found.checkpoint.data.name == "fix-auth"


def test_a_folder_of_checkpoints_that_is_full_of_others_costs_little(clone: Workspace) -> None:
    """Thousands of folders, pipes and huge files do not hold up the start of a session."""
    place = clone.folder().parent
    for number in range(3_000):
        (place / f"j{number}").mkdir()
    for number in range(10):
        made = place / f"k{number}"
        made.mkdir()
        os.mkfifo(made / "audit.jsonl")
        with (made / "checkpoint.json").open("wb") as file:
            file.truncate(2**40)
    began = time.process_time()
    _found(clone)
    untrusted_work(clone.context("reader"))
    assert time.process_time() - began < 5
