"""Which work a new session is offered: not what is finished, and not what nobody has touched for long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from adjourn.checkpoints.save import finish, reopen
from adjourn.errors import NotFoundError
from adjourn.handover import pending
from adjourn.handover.inbox import find_waiting
from adjourn.handover.pending import WorkVerdict, add_earlier_tasks, older_work, ranked_tasks, verdict_of
from adjourn.handover.resumption import Preview, resume
from adjourn.handover.session_brief import NewSession, brief_new_session, find_pending_work, instructions
from adjourn.host import keys
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.task_record import record_of
from adjourn.log import kinds
from adjourn.log.event import timestamp
from adjourn.store.base import Store
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.task import NewEvent, Task
from adjourn.tasks.work_index import INDEXED, NAMED, WAITING, WORK, is_complete
from support.records import AGENT
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


def test_a_task_with_calls_in_doubt_comes_before_newer_ones(workspace: Workspace) -> None:
    """The others are named beside it; a newer task that only read is none of them."""
    doubt = _saved(workspace)
    context = workspace.context("g6", task=doubt)
    workspace.clock.move(seconds=1)
    opened, _ = context.sessions.admit([ToolRequest(tool="file.write", digest="1" * 64)])
    opened.close("eof")
    workspace.clock.move(seconds=1)
    newer = _saved(workspace, "g2")
    reading = workspace.context("g3")
    workspace.work(reading, "file.read")
    workspace.leave(reading)
    found = find_pending_work(workspace.context("g4"))
    assert found is not None
    assert found.task.id == doubt
    [line] = found.others
    assert line.startswith("of-g2: ")
    assert newer != doubt


def test_the_index_saves_reading_tasks(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks loads only tasks with an open session, since that may have died."""
    for number in range(4):
        _saved(workspace, f"g{number}")
    at_work = workspace.work(workspace.context("at-work"), "file.write").task.id
    reader = workspace.context("reader")
    ranked_tasks(reader.store, reader.clock, reader.secret)
    loaded: list[str] = []

    def load(store: Store, name: str, *, clock: Callable[[], int], secret: bytes) -> Task:
        loaded.append(name)
        return Task(store, name, clock=clock, secret=secret)

    monkeypatch.setattr(pending, "Task", load)
    assert len(ranked_tasks(reader.store, reader.clock, reader.secret)) == 5
    assert loaded == [at_work]


def test_a_task_that_comes_back_to_its_place_while_somebody_looks_stays_in_the_index(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session ended after the index was read, and another one started before the old place was removed."""
    at_work = workspace.context("at-work")
    name = workspace.work(at_work, "file.write").task.id
    reader = workspace.context("reader")
    ranked_tasks(reader.store, reader.clock, reader.secret)
    [place] = reader.store.refs(WORK)

    def load(store: Store, name: str, *, clock: Callable[[], int], secret: bytes) -> Task:
        workspace.clock.move(seconds=1)
        workspace.leave(at_work)
        task = Task(store, name, clock=clock, secret=secret)
        workspace.clock.move(seconds=1)
        workspace.work(workspace.context("next", task=name), "file.read")
        return task

    with monkeypatch.context() as patch:
        patch.setattr(pending, "Task", load)
        ranked_tasks(reader.store, reader.clock, reader.secret)
    assert [*reader.store.refs(WORK)] == [place]
    assert [entry.task for entry in ranked_tasks(reader.store, reader.clock, reader.secret)] == [name]


def test_while_another_client_works_on_the_newest_task_nothing_is_offered(workspace: Workspace) -> None:
    """A new session learns who is at work, and on what."""
    _saved(workspace)
    workspace.clock.move(seconds=1)
    workspace.work(workspace.context("g2"), "file.write")
    reader = workspace.context("g3")
    assert find_pending_work(reader) is None
    assert "another agent is at work in this workspace: tester" in brief_new_session(reader, NewSession())


def test_a_client_is_told_once_whichever_of_its_servers_starts_first(workspace: Workspace) -> None:
    """Its hook says nothing after a server did, until it lost its context; another client receives it with that note."""
    _saved(workspace)
    reader = workspace.context("g2")
    work = find_pending_work(reader)
    assert work is not None
    assert "Next step" in instructions(reader, work, "aex.resume")
    assert brief_new_session(reader, NewSession()) == ""
    assert "Next step" in brief_new_session(reader, NewSession(is_forgetful=True))
    assert "did not resume it" in brief_new_session(workspace.context("g3"), NewSession())


def test_codex_learns_the_rest_from_its_hook_whatever_a_server_said(workspace: Workspace) -> None:
    """Its first request may come before it has the servers' texts: they only name the checkpoint, once, and the hook tells the rest, once."""
    _saved(workspace)
    reader = workspace.context("g2")
    reader.identify("codex-mcp-client 0.169.0", "2025-06-18")
    work = find_pending_work(reader)
    assert work is not None
    notice = instructions(reader, work, "aex.resume")
    assert (work.checkpoint.data.name in notice, "Next step" in notice) == (True, False)
    assert "Next step" in brief_new_session(reader, NewSession())
    assert instructions(reader, work, "aex.resume") == ""


def _verdict(workspace: Workspace) -> WorkVerdict:
    store, clock, secret = workspace.store, workspace.clock, keys.secret()
    waiting = find_waiting(store, clock=clock, secret=secret).items
    return verdict_of(store, clock, secret, str(workspace.root), waiting)


def test_the_verdict_on_a_workspace_is_one_of_five(workspace: Workspace) -> None:
    """Nothing; wait while an agent works; resume its checkpoint; a question first; a call in doubt before that."""
    assert _verdict(workspace).verdict == "nothing"
    context = workspace.context("g1")
    workspace.work(context, "file.read")
    assert _verdict(workspace).verdict == "wait", "an agent that has only read so far is at work, too"
    workspace.work(context, "file.read", "file.write")
    checkpoint = workspace.save(context, "half").data.name
    busy = _verdict(workspace)
    assert (busy.verdict, busy.task) == ("wait", context.task.current())
    workspace.leave(context)
    resume = _verdict(workspace)
    assert (resume.verdict, resume.checkpoint, resume.command) == ("resume", checkpoint, f"adjourn resume {checkpoint}")
    expires = timestamp(workspace.clock() + 10**7)
    asked = kinds.ConfirmRequired(approval="k1", tool="mail.send", digest="2" * 64, expires=expires, cause="confirm")
    workspace.task(resume.task).commit([NewEvent(asked)])
    assert _verdict(workspace)[::2] == ("ask", resume.task, "adjourn approve k1")
    sent = kinds.ToolAllowed(call="c1", tool="pay", digest="1" * 64, effectful=True)
    workspace.task(resume.task).commit([NewEvent(sent)])
    assert _verdict(workspace)[::2] == ("settle", resume.task, "adjourn settle c1 --done")


def test_other_tasks_are_named_without_saving_a_checkpoint_of_each(memory_workspace: Workspace) -> None:
    """Only the offered task gets its missing checkpoint at a start. The others can be resumed by the names given, and get theirs then."""
    workspace = memory_workspace
    tasks = []
    for number in range(4):
        context = workspace.context(f"g{number}")
        tasks.append(workspace.work(context, "file.write").task.id)
        workspace.clock.move(seconds=1)
        workspace.leave(context)
    for name in workspace.store.refs("checkpoint/"):
        workspace.store.swap(name, None, expect=workspace.store.ref(name))
    context = workspace.context("next")
    work = find_pending_work(context)
    assert work is not None
    assert work.task.id == tasks[3]
    assert [line.partition(":")[0] for line in work.others] == tasks[2::-1]
    assert len(workspace.store.refs("checkpoint/")) == 1
    preview = Preview(lambda: workspace.store, str(workspace.root), workspace.clock, keys.secret())
    assert resume(preview, tasks[1]).task.id == tasks[1]
    assert len(workspace.store.refs("checkpoint/")) == 1
    assert workspace.resume(context, tasks[0])["task"] == tasks[0]
    assert len(workspace.store.refs("checkpoint/")) == 2
    with pytest.raises(NotFoundError, match="no checkpoint is named"):
        workspace.resume(context, "20261121-unknown")


def test_an_index_is_built_while_others_work(memory_workspace: Workspace) -> None:
    """Of a store without an index all tasks are added, the newest first; a builder that stopped is continued."""
    tasks = []
    for number in range(45):
        context = memory_workspace.context(f"g{number}")
        memory_workspace.work(context, "file.write")
        tasks.append(memory_workspace.save(context, f"c{number}").event.task)
        memory_workspace.leave(context)
    store = memory_workspace.store
    before: dict[str, str] = {}
    for prefix in (WORK, NAMED, WAITING, INDEXED):
        before |= store.refs(prefix)
    for name, value in before.items():
        store.swap(name, None, expect=value)
    adding = add_earlier_tasks(store, memory_workspace.clock, keys.secret())
    assert next(adding) == 25
    assert len(store.refs(WORK)) == 20
    memory_workspace.work(memory_workspace.context("g2"), "file.write")
    assert list(add_earlier_tasks(store, memory_workspace.clock, keys.secret())) == [5, 0]
    assert list(add_earlier_tasks(store, memory_workspace.clock, keys.secret())) == []
    ranking = ranked_tasks(store, memory_workspace.clock, keys.secret())
    assert {entry.task for entry in ranking} >= set(tasks)
    assert len(store.refs(WORK)) == len(ranking)
    assert store.refs(NAMED).items() >= {pair for pair in before.items() if pair[0].startswith(NAMED)}


def test_records_of_an_earlier_version_are_listed_by_their_tasks(memory_workspace: Workspace) -> None:
    """A store of before has no such list: the index of work is complete once it has, and then the record is found by it."""
    task = memory_workspace.save(memory_workspace.context(), "c").event.task
    store = memory_workspace.store
    record = RecordTrees(store).create({"task": {"id": task, "goal": "g"}}, author=AGENT)
    for prefix in ("record-of/", INDEXED):
        for name, value in store.refs(prefix).items():
            store.swap(name, None, expect=value)
    assert not is_complete(store)
    assert record_of(store, task) == record
    ranked_tasks(store, memory_workspace.clock, keys.secret())
    assert is_complete(store)
    assert list(store.refs("record-of/").values()) == [record["id"]]
    assert record_of(store, task) == record
