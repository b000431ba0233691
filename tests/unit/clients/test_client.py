"""A client's context: which store, which task, and how all processes of one client stay on the same one."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path

import msgspec
import pytest

from adjourn.clients.client import ClientContext
from adjourn.errors import HeldError, InvalidError, RefusedError, StoreError, UsageError
from adjourn.host import process
from adjourn.host.process import Process, group_of
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.store.base import EMPTY
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.decision import Forward, ToolRequest
from support.cases import for_each
from support.workspace import Workspace

READ = ToolRequest(tool="file.read", digest="1" * 64, effectful=False)


@pytest.fixture
def memory_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, monkeypatch)


# --- the task


def test_the_proxies_of_one_client_share_a_task(workspace: Workspace) -> None:
    """Proxies of one client share a task and a budget; another client has another task."""
    first, sister, stranger = workspace.context("g1"), workspace.context("g1"), workspace.context("g2")
    workspace.work(first, "file.read")
    workspace.work(sister, "tests.run")
    assert re.fullmatch(r"20260502-[0-9a-z]{8}", first.task.current())
    assert sister.task.current() == first.task.current() != stranger.task.current()
    assert first.sessions.open().task.refresh().calls_used == 2
    assert len(workspace.facts(first.task.current(), kinds.SessionOpened)) == 2


def test_sisters_that_start_at_once_share_a_task(workspace: Workspace) -> None:
    """Whoever is first names the task; the others take that one."""
    contexts = [workspace.context() for _ in range(6)]
    start = threading.Barrier(len(contexts))
    seen = []

    def ask(context: ClientContext) -> None:
        start.wait()
        seen.append(context.task.current())

    threads = [threading.Thread(target=ask, args=(context,)) for context in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 6
    assert len(set(seen)) == 1


def test_a_task_can_be_given(workspace: Workspace) -> None:
    """An explicit task is the client's, whatever its other processes do, and leaves no name behind."""
    context = workspace.context(task="release-7")
    workspace.work(context, "file.read")
    assert context.task.current() == "release-7"
    assert workspace.store.refs("client/") == {}
    assert workspace.context("g2", task="release-7").task.current() == "release-7"


@pytest.mark.parametrize("task", ["../x", "-rf", "a b", "x" * 65, ".", "a/b"])
def test_a_task_that_is_no_id_is_refused(memory_workspace: Workspace, task: str) -> None:
    """An invalid task id is refused before a store is opened."""
    with pytest.raises(InvalidError, match="not a task id"):
        memory_workspace.context(task=task)


def test_a_client_in_another_workspace_is_another(memory_workspace: Workspace) -> None:
    """One client process may work in two workspaces over one store."""
    client = Process("box:b:n", 7, 9)
    assert group_of(client, "/a") == group_of(client, "/a") != group_of(client, "/b")
    assert memory_workspace.context().process == process.current()
    assert ClientContext(memory_workspace.context().options).group == group_of(
        process.parent(), str(memory_workspace.root)
    )


def test_looking_opens_no_session(memory_workspace: Workspace) -> None:
    """A context that was asked for its task and its rules has written no event."""
    context = memory_workspace.context()
    context.task.current()
    assert context.sessions.policy.budget == 20
    assert list(context.sessions) == []
    assert memory_workspace.store.streams() == {}


# --- continuing another task


def two_tasks(workspace: Workspace) -> tuple[str, str]:
    """A finished task `old`, and the id of nothing."""
    context = workspace.context("before", task="old")
    workspace.work(context, "file.read")
    workspace.leave(context)
    return "old", "new"


def test_a_client_moves(workspace: Workspace) -> None:
    """The session opens there, ends here, and the name of its task follows."""
    old, _ = two_tasks(workspace)
    context = workspace.context()
    workspace.work(context, "file.read")
    here = context.task.current()
    note = kinds.CheckpointResumed(checkpoint="c" * 64, name="n", source="store")
    session = context.sessions.move(old, [note])
    assert (context.task.current(), session.task.id) == (old, old)
    assert workspace.facts(old, kinds.CheckpointResumed) == [note]
    assert workspace.facts(here, kinds.SessionClosed) == [kinds.SessionClosed(reason="moved", to=old)]
    assert list(context.sessions) == [session]
    assert workspace.context().task.current() == old
    workspace.work(context, "file.read")
    assert workspace.task(old).ledger.calls_used == 2


def test_a_client_that_has_not_begun_moves_too(workspace: Workspace) -> None:
    """Where it never sat nothing is left behind."""
    old, _ = two_tasks(workspace)
    context = workspace.context()
    here = context.task.current()
    context.sessions.move(old, [])
    assert workspace.store.head(here) == EMPTY
    assert context.task.current() == old


def test_moving_to_where_one_is(workspace: Workspace) -> None:
    """Moving to the current task writes only the note."""
    context = workspace.context()
    session = workspace.work(context, "file.read")
    note = kinds.CheckpointResumed(checkpoint="c" * 64, name="n", source="store")
    assert context.sessions.move(context.task.current(), [note]) is session
    assert [event.event for event in workspace.events(context.task.current())][-1] == "checkpoint.resumed"
    assert workspace.facts(context.task.current(), kinds.SessionClosed) == []


def test_a_move_that_is_refused_leaves_all_as_it_was(workspace: Workspace) -> None:
    """When another client holds the task, this one stays where it is and continues."""
    other = workspace.context("other", task="taken")
    workspace.work(other, "file.read")
    context = workspace.context()
    session = workspace.work(context, "file.read")
    with pytest.raises(HeldError):
        context.sessions.move("taken", [])
    assert context.sessions.open() is session
    other.sessions.open().close("client-eof")
    assert context.sessions.move("taken", []).task.id == "taken"


def test_sisters_follow(workspace: Workspace) -> None:
    """Another process that worked on the old task continues at the new one with its next call, which is counted there."""
    old, _ = two_tasks(workspace)
    first, sister = workspace.context(), workspace.context()
    workspace.work(first, "file.read")
    workspace.work(sister, "file.read")
    here = first.task.current()
    first.sessions.move(old, [])
    session, (admitted,) = sister.sessions.admit([READ])
    assert (session.task.id, admitted.decision) == (old, Forward())
    assert sister.task.current() == old
    assert workspace.task(here).ledger.calls_used == 2
    assert workspace.task(old).ledger.calls_used == 2
    assert workspace.task(here).ledger.sessions == {}


def test_sisters_follow_one_that_never_sat(workspace: Workspace) -> None:
    """The proxy that is asked to resume need not be one that has worked yet."""
    old, _ = two_tasks(workspace)
    first, sister = workspace.context(), workspace.context()
    workspace.work(sister, "file.read")
    here = sister.task.current()
    first.sessions.move(old, [])
    session, _ = sister.sessions.admit([READ])
    assert session.task.id == old
    assert workspace.task(here).ledger.sessions == {}


def test_sisters_that_come_later_join(workspace: Workspace) -> None:
    """A proxy that starts after the move is on the new task at once."""
    old, _ = two_tasks(workspace)
    first, late = workspace.context(), workspace.context()
    late.task.current()
    workspace.work(first, "file.read")
    first.sessions.move(old, [])
    assert late.sessions.open().task.id == old


def test_there_and_back(workspace: Workspace) -> None:
    """A client may return to the task it came from; its other processes return with it."""
    old, _ = two_tasks(workspace)
    first, sister = workspace.context(), workspace.context()
    workspace.work(first, "file.read")
    workspace.work(sister, "file.read")
    here = first.task.current()
    first.sessions.move(old, [])
    sister.sessions.admit([READ])
    first.sessions.move(here, [])
    session, _ = sister.sessions.admit([READ])
    assert session.task.id == here
    assert first.sessions.open().task.id == here
    assert workspace.task(here).ledger.calls_used == 3


def test_a_call_can_be_for_a_certain_task(workspace: Workspace) -> None:
    """A call that was begun on a task before a move is finished there."""
    old, _ = two_tasks(workspace)
    context = workspace.context()
    session, _ = context.sessions.admit([READ], old)
    assert session.task.id == old
    assert context.task.current() != old


def test_sisters_that_were_given_a_task_stay(workspace: Workspace) -> None:
    """An explicit task is not left: not because another process moved elsewhere, nor by resuming there."""
    old, _ = two_tasks(workspace)
    given, sister = workspace.context(task="given"), workspace.context()
    workspace.work(given, "file.read")
    workspace.work(sister, "file.read")
    sister.sessions.move(old, [])
    assert given.sessions.open().task.id == "given"
    with pytest.raises(RefusedError, match="bound to task given"):
        given.sessions.move(old, [])
    workspace.work(given, "file.read")
    assert workspace.task("given").ledger.calls_used == 2


# --- names of clients


def dead() -> Process:
    child = subprocess.Popen(["true"])
    was = Process(process.host(), child.pid, process.started(child.pid) or 1)
    child.wait()
    return was


def test_clients_that_are_dead_are_forgotten(workspace: Workspace) -> None:
    """Their names go; those of the living, of other machines and of another make stay; tasks stay in any case."""
    gone, living = dead(), process.current()
    kept = {
        f"client/{group_of(living, '/w')}": "t1",
        f"client/{group_of(Process('elsewhere:1b4e28ba:4026531836', 1, 2), '/w')}": "t2",
        "client/odd": "t3",
        "client/a/b/c/d": "t4",
        "client/host/1/2": "t5",
    }
    for name, task in (kept | {f"client/{group_of(gone, '/w')}": "t6"}).items():
        workspace.store.swap(name, task, expect=None)
    mine = workspace.context("g1").task.current()
    assert workspace.store.refs("client/") == kept | {"client/g1": mine}


# --- the store


def test_the_store_is_the_workspaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default store is .aex/adjourn.db of the workspace, whatever the current folder is."""
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    monkeypatch.chdir("/")
    open_at(str(tmp_path)).close()
    assert (tmp_path / ".aex" / "adjourn.db").is_file()


@for_each(
    ("url", "place"),
    [
        ("kept/a.db", "kept/a.db"),
        ("{root}/abs.db", "abs.db"),
        ("sqlite:kept/b.db", "kept/b.db"),
        ("sqlite:{root}/c.db", "c.db"),
        ("sqlite://{root}/d.db", "d.db"),
        ("../beside.db", "../beside.db"),
    ],
)
@for_each("how", ["given", "environment"])
def test_forms_of_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, place: str, how: str) -> None:
    """A relative path is relative to the workspace, in every form; given or from the environment."""
    root = tmp_path / "w"
    (root / "kept").mkdir(parents=True)
    url = url.format(root=root)
    monkeypatch.chdir("/")
    monkeypatch.setenv("ADJOURN_STORE", url if how == "environment" else "never.db")
    open_at(str(root), url if how == "given" else "").close()
    assert (root / place).is_file()


@pytest.mark.parametrize("url", ["memory:", "memory:x", "mysql://h/d", "sqlite:", "sqlite://host/x", "sqlite:///x/"])
def test_what_is_no_store_for_a_desk(tmp_path: Path, url: str) -> None:
    """A store that ends with the process serves no client; unknown kinds are refused with what there is."""
    with pytest.raises(UsageError) as refusal:
        open_at(str(tmp_path), url)
    assert refusal.value.remedy


def test_a_store_that_does_not_open_is_tried_again(memory_workspace: Workspace) -> None:
    """Once the cause is gone the same context works."""
    context = memory_workspace.context()
    context._store = None
    blocked = memory_workspace.root / "blocked"
    blocked.write_text("a file where a folder should be")
    context.options = msgspec.structs.replace(context.options, store="blocked/x.db")
    for _ in range(2):
        with pytest.raises(StoreError):
            context.sessions.admit([READ])
    blocked.unlink()
    blocked.mkdir()
    _, (admitted,) = context.sessions.admit([READ])
    assert admitted.decision == Forward()
    context.close("eof")


def test_closing_ends_every_session(memory_workspace: Workspace) -> None:
    """All sessions are closed with the reason, and the store too; a later use opens it again."""
    context = memory_workspace.context()
    context._store = None
    context.sessions.admit([READ])
    context.sessions.admit([READ], "other")
    tasks = {session.task.id for session in context.sessions}
    context.close("eof")
    assert list(context.sessions) == []
    store = SqliteStore(str(memory_workspace.root / ".aex" / "adjourn.db"))
    assert store.streams().keys() == tasks
    assert store.refs("lease/") == {}
    store.close()
    assert context.store.streams().keys() == tasks
    context.close("eof")


def test_closing_over_a_broken_store_says_nothing(memory_workspace: Workspace) -> None:
    """What cannot be written then is found out by the next session."""
    context = memory_workspace.context()
    context.sessions.admit([READ])
    memory_workspace.store.close()
    context.close("eof")
    assert list(context.sessions) == []


@pytest.mark.parametrize(
    ("store", "places"),
    [
        ("", ()),
        (".aex/adjourn.db", ()),
        ("sqlite:.aex/adjourn.db", ()),
        ("kept/x.db", ("kept/x.db",)),
        ("sqlite:kept/../x.db", ("x.db",)),
        ("{root}/y.db", ("y.db",)),
        ("sqlite://{root}/z.db", ("z.db",)),
        ("../beside.db", ("{beside}/beside.db",)),
        ("postgresql://u@h/d", ()),
    ],
)
def test_the_store_is_protected_wherever_it_is(
    memory_workspace: Workspace, store: str, places: tuple[str, ...]
) -> None:
    """In the workspace and outside, no gated call may touch it."""
    context = memory_workspace.context()
    context.options = msgspec.structs.replace(context.options, store=store.format(root=memory_workspace.root))
    assert context.options.protected_under(context.watch.contract) == tuple(
        place.format(beside=os.path.dirname(memory_workspace.root)) for place in places
    )
    assert os.path.isabs(context.options.root)
