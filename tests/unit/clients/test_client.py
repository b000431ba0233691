"""A client's desk: which store, which task, and how all processes of one client stay on the same one."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from adjourn.clients.client import Desk
from adjourn.errors import HeldError, InvalidError, RefusedError, StoreError, UsageError
from adjourn.host import process
from adjourn.host.process import Process, group_of
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.store.base import EMPTY
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.decision import Call, Forward
from unit.checkpoints.test_checkpoint import Machine

READ = Call(tool="file.read", digest="1" * 64, effectful=False)


@pytest.fixture(params=["memory", "sqlite"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    machine = Machine(tmp_path, monkeypatch, store=request.param)
    yield machine
    machine.store.close()


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


# --- the task


def test_the_proxies_of_one_client_share_a_task(machine: Machine) -> None:
    """The same client, the same task and the same budget; another client has another task."""
    first, sister, stranger = machine.desk("g1"), machine.desk("g1"), machine.desk("g2")
    machine.work(first, "file.read")
    machine.work(sister, "tests.run")
    assert re.fullmatch(r"20260502-[0-9a-z]{8}", first.task_id())
    assert sister.task_id() == first.task_id() != stranger.task_id()
    assert first.session().task.refresh().calls_used == 2
    assert len(machine.facts(first.task_id(), kinds.SessionOpened)) == 2


def test_sisters_that_start_at_once_share_a_task(machine: Machine) -> None:
    """Whoever is first names the task; the others take that one."""
    desks = [machine.desk() for _ in range(6)]
    start = threading.Barrier(len(desks))
    seen = []

    def ask(desk: Desk) -> None:
        start.wait()
        seen.append(desk.task_id())

    threads = [threading.Thread(target=ask, args=(desk,)) for desk in desks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 6
    assert len(set(seen)) == 1


def test_a_task_can_be_given(machine: Machine) -> None:
    """An explicit task is the client's, whatever its sisters do, and leaves no name behind."""
    desk = machine.desk(task="release-7")
    machine.work(desk, "file.read")
    assert desk.task_id() == "release-7"
    assert machine.store.refs("client/") == {}
    assert machine.desk("g2", task="release-7").task_id() == "release-7"


@pytest.mark.parametrize("task", ["../x", "-rf", "a b", "x" * 65, ".", "a/b"])
def test_a_task_that_is_no_id_is_refused(one: Machine, task: str) -> None:
    """At once, before a store is opened."""
    with pytest.raises(InvalidError, match="not a task id"):
        one.desk(task=task)


def test_a_client_in_another_workspace_is_another(one: Machine) -> None:
    """One client process may work in two workspaces over one store."""
    client = Process("box:b:n", 7, 9)
    assert group_of(client, "/a") == group_of(client, "/a") != group_of(client, "/b")
    assert one.desk().process == process.current()
    assert Desk(one.desk().setting).group == group_of(process.parent(), str(one.root))


def test_looking_opens_no_session(one: Machine) -> None:
    """A desk that was asked for its task and its rules has written no event."""
    desk = one.desk()
    desk.task_id()
    assert desk.policy.budget == 20
    assert desk.sessions == []
    assert one.store.streams() == {}


# --- going on with another task


def two_tasks(machine: Machine) -> tuple[str, str]:
    """A finished task `old`, and the id of nothing."""
    desk = machine.desk("before", task="old")
    machine.work(desk, "file.read")
    machine.leave(desk)
    return "old", "new"


def test_a_client_moves(machine: Machine) -> None:
    """It sits down there, gets up here, and the name of its task follows."""
    old, _ = two_tasks(machine)
    desk = machine.desk()
    machine.work(desk, "file.read")
    here = desk.task_id()
    note = kinds.CheckpointResumed(checkpoint="c" * 64, name="n", source="store")
    session = desk.move(old, [note])
    assert (desk.task_id(), session.task.id) == (old, old)
    assert machine.facts(old, kinds.CheckpointResumed) == [note]
    assert machine.facts(here, kinds.SessionClosed) == [kinds.SessionClosed(reason="moved", to=old)]
    assert desk.sessions == [session]
    assert machine.desk().task_id() == old
    machine.work(desk, "file.read")
    assert machine.task(old).ledger.calls_used == 2


def test_a_client_that_has_not_begun_moves_too(machine: Machine) -> None:
    """Where it never sat nothing is left behind."""
    old, _ = two_tasks(machine)
    desk = machine.desk()
    here = desk.task_id()
    desk.move(old, [])
    assert machine.store.head(here) == EMPTY
    assert desk.task_id() == old


def test_moving_to_where_one_is(machine: Machine) -> None:
    """Only the note is written."""
    desk = machine.desk()
    session = machine.work(desk, "file.read")
    note = kinds.CheckpointResumed(checkpoint="c" * 64, name="n", source="store")
    assert desk.move(desk.task_id(), [note]) is session
    assert [event.event for event in machine.events(desk.task_id())][-1] == "checkpoint.resumed"
    assert machine.facts(desk.task_id(), kinds.SessionClosed) == []


def test_a_move_that_is_refused_leaves_all_as_it_was(machine: Machine) -> None:
    """When another client holds the task, this one stays where it is and goes on."""
    other = machine.desk("other", task="taken")
    machine.work(other, "file.read")
    desk = machine.desk()
    session = machine.work(desk, "file.read")
    with pytest.raises(HeldError):
        desk.move("taken", [])
    assert desk.session() is session
    other.session().close("client-eof")
    assert desk.move("taken", []).task.id == "taken"


def test_sisters_follow(machine: Machine) -> None:
    """A sister that sat at the old task goes on at the new one with its next call, which is counted there."""
    old, _ = two_tasks(machine)
    first, sister = machine.desk(), machine.desk()
    machine.work(first, "file.read")
    machine.work(sister, "file.read")
    here = first.task_id()
    first.move(old, [])
    session, (admitted,) = sister.admit([READ])
    assert (session.task.id, admitted.decision) == (old, Forward())
    assert sister.task_id() == old
    assert machine.task(here).ledger.calls_used == 2
    assert machine.task(old).ledger.calls_used == 2
    assert machine.task(here).ledger.sessions == {}


def test_sisters_follow_one_that_never_sat(machine: Machine) -> None:
    """The proxy that is asked to resume need not be one that has worked yet."""
    old, _ = two_tasks(machine)
    first, sister = machine.desk(), machine.desk()
    machine.work(sister, "file.read")
    here = sister.task_id()
    first.move(old, [])
    session, _ = sister.admit([READ])
    assert session.task.id == old
    assert machine.task(here).ledger.sessions == {}


def test_sisters_that_come_later_join(machine: Machine) -> None:
    """A proxy that starts after the move is on the new task at once."""
    old, _ = two_tasks(machine)
    first, late = machine.desk(), machine.desk()
    late.task_id()
    machine.work(first, "file.read")
    first.move(old, [])
    assert late.session().task.id == old


def test_there_and_back(machine: Machine) -> None:
    """A client may return to the task it came from; its sisters return with it."""
    old, _ = two_tasks(machine)
    first, sister = machine.desk(), machine.desk()
    machine.work(first, "file.read")
    machine.work(sister, "file.read")
    here = first.task_id()
    first.move(old, [])
    sister.admit([READ])
    first.move(here, [])
    session, _ = sister.admit([READ])
    assert session.task.id == here
    assert first.session().task.id == here
    assert machine.task(here).ledger.calls_used == 3


def test_a_call_can_be_for_a_certain_task(machine: Machine) -> None:
    """A call that was begun on a task before a move is finished there."""
    old, _ = two_tasks(machine)
    desk = machine.desk()
    session, _ = desk.admit([READ], old)
    assert session.task.id == old
    assert desk.task_id() != old


def test_sisters_that_were_given_a_task_stay(machine: Machine) -> None:
    """An explicit task is not left: not because a sister moved elsewhere, nor by resuming there."""
    old, _ = two_tasks(machine)
    given, sister = machine.desk(task="given"), machine.desk()
    machine.work(given, "file.read")
    machine.work(sister, "file.read")
    sister.move(old, [])
    assert given.session().task.id == "given"
    with pytest.raises(RefusedError, match="bound to task given"):
        given.move(old, [])
    machine.work(given, "file.read")
    assert machine.task("given").ledger.calls_used == 2


# --- names of clients


def dead() -> Process:
    child = subprocess.Popen(["true"])
    was = Process(process.host(), child.pid, process.started(child.pid) or 1)
    child.wait()
    return was


def test_clients_that_are_dead_are_forgotten(machine: Machine) -> None:
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
        machine.store.swap(name, task, expect=None)
    mine = machine.desk("g1").task_id()
    assert machine.store.refs("client/") == kept | {"client/g1": mine}


# --- the store


def test_the_store_is_the_workspaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word it is .aex/adjourn.db of the workspace, wherever the process stands."""
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    monkeypatch.chdir("/")
    open_at(str(tmp_path)).close()
    assert (tmp_path / ".aex" / "adjourn.db").is_file()


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("how", ["given", "environment"])
def test_forms_of_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, place: str, how: str
) -> None:
    """A relative path is relative to the workspace, in every form; given or from the environment."""
    root = tmp_path / "w"
    (root / "kept").mkdir(parents=True)
    url = url.format(root=root)
    monkeypatch.chdir("/")
    monkeypatch.setenv("ADJOURN_STORE", url if how == "environment" else "never.db")
    open_at(str(root), url if how == "given" else "").close()
    assert (root / place).is_file()


@pytest.mark.parametrize(
    "url", ["memory:", "memory:x", "mysql://h/d", "sqlite:", "sqlite://host/x", "sqlite:///x/"]
)
def test_what_is_no_store_for_a_desk(tmp_path: Path, url: str) -> None:
    """A store that ends with the process serves no client; unknown kinds are refused with what there is."""
    with pytest.raises(UsageError) as refusal:
        open_at(str(tmp_path), url)
    assert refusal.value.remedy


def test_a_store_that_does_not_open_is_tried_again(one: Machine) -> None:
    """Once the cause is gone the same desk works."""
    desk = one.desk()
    desk._store = None
    blocked = one.root / "blocked"
    blocked.write_text("a file where a folder should be")
    desk.setting = msgspec.structs.replace(desk.setting, store="blocked/x.db")
    for _ in range(2):
        with pytest.raises(StoreError):
            desk.admit([READ])
    blocked.unlink()
    blocked.mkdir()
    _, (admitted,) = desk.admit([READ])
    assert admitted.decision == Forward()
    desk.close("eof")


def test_closing_ends_every_session(one: Machine) -> None:
    """All sessions are closed with the reason, and the store too; a later use opens it anew."""
    desk = one.desk()
    desk._store = None
    desk.admit([READ])
    desk.admit([READ], "other")
    tasks = {session.task.id for session in desk.sessions}
    desk.close("eof")
    assert desk.sessions == []
    store = SqliteStore(str(one.root / ".aex" / "adjourn.db"))
    assert store.streams().keys() == tasks
    assert store.refs("lease/") == {}
    store.close()
    assert desk.store.streams().keys() == tasks
    desk.close("eof")


def test_closing_over_a_broken_store_says_nothing(one: Machine) -> None:
    """What cannot be written then is found out by the next session."""
    desk = one.desk()
    desk.admit([READ])
    one.store.close()
    desk.close("eof")
    assert desk.sessions == []


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
def test_the_store_is_protected_wherever_it_is(one: Machine, store: str, places: tuple[str, ...]) -> None:
    """In the workspace and outside, no gated call may touch it."""
    desk = one.desk()
    desk.setting = msgspec.structs.replace(desk.setting, store=store.format(root=one.root))
    assert desk.protected == tuple(place.format(beside=os.path.dirname(one.root)) for place in places)
    assert os.path.isabs(desk.setting.root)
