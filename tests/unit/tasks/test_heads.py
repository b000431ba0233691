"""Kept heads: what lies beside the keys, and the histories that it does not let pass."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from adjourn.errors import AdjournError, IntegrityError
from adjourn.log import kinds
from adjourn.log.event import timestamp
from adjourn.policy.principal import Principal, SpaceStore, space_of
from adjourn.store.base import Store
from adjourn.store.memory import MemoryStore
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.accepted_loss import accept, covering, is_signed
from adjourn.tasks.heads import KeptHead, KeptHeads
from adjourn.tasks.task import NewEvent, Task
from support.clock import NOON, Clock

SECRET = b"s" * 32
OPENED = NewEvent(kinds.TaskOpened(goal="g"))


def allowed(number: int) -> NewEvent:
    return NewEvent(kinds.ToolAllowed(call=f"c{number}", digest="1" * 64, effectful=True, tool="deploy"), session="s")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work" / ".aex" / "adjourn.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


def a_task(store: SqliteStore | MemoryStore, name: str = "t", secret: bytes = SECRET) -> Task:
    return Task(store, name, clock=Clock(), secret=secret)


def worked(store: SqliteStore, calls: int = 3, name: str = "t") -> Task:
    task = a_task(store, name)
    task.commit(lambda _: [OPENED, *(allowed(number) for number in range(calls))])
    task.keep_head()
    return task


def files(config: Path) -> list[Path]:
    return [found for found in (config / "heads").rglob("*") if found.is_file()]


# --- what is kept


def test_a_head_is_kept_outside_the_workspace_for_its_user_only(store: SqliteStore, config: Path) -> None:
    """One small file of mode 0600 beside the keys names position, hash, time and calls of the task."""
    task = worked(store)
    (kept,) = files(config)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert KeptHeads(store, SECRET).of("t") == KeptHead(
        task="t", seq=3, hash=task.ledger.hash, calls=3, at=task.ledger.touched
    )


def test_the_names_of_the_files_do_not_change(store: SqliteStore, config: Path) -> None:
    """Another version of adjourn finds what this one kept: the names are 32 hexadecimal digits of SHA-256 digests."""
    worked(store)
    KeptHeads(store, SECRET).bind("host/1/2", "t")
    place = hashlib.sha256(store.place.encode()).hexdigest()[:32]
    client = hashlib.sha256(b"host/1/2").hexdigest()[:32]
    assert sorted(files(config)) == [config / "heads" / place / f".{client}", config / "heads" / place / "t"]


def test_only_what_is_on_disk_is_kept(store: SqliteStore) -> None:
    """A loss of power takes appends that were not durable: no kept head may name them."""
    task = worked(store)
    at = task.ledger.hash
    task.commit(lambda _: [allowed(9)], durable=False)
    task.keep_head()
    kept = KeptHeads(store, SECRET).of("t")
    assert kept is not None
    assert (kept.seq, kept.hash) == (3, at)
    task.commit(lambda _: [allowed(10)])
    task.keep_head()
    kept = KeptHeads(store, SECRET).of("t")
    assert kept is not None
    assert kept.seq == 5


def test_a_kept_head_is_never_lowered(store: SqliteStore) -> None:
    """A process that has seen less does not take back what another kept."""
    heads = KeptHeads(store, SECRET)
    for seq in (5, 3, 5):
        heads.keep(KeptHead(task="t", seq=seq, hash=f"{seq}", calls=seq))
    kept = heads.of("t")
    assert kept is not None
    assert kept.seq == 5


def test_writers_that_race_leave_a_whole_file_and_the_highest_head(store: SqliteStore, config: Path) -> None:
    """Whoever finds another writing leaves its head for the next time."""

    def write(offset: int) -> None:
        for seq in range(offset, 200, 4):
            heads.keep(KeptHead(task="t", seq=seq, hash="", calls=seq))

    heads = KeptHeads(store, SECRET)
    threads = [threading.Thread(target=write, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heads.keep(KeptHead(task="t", seq=200, hash="", calls=200))
    assert heads.known() == [KeptHead(task="t", seq=200, hash="", calls=200)]
    assert len(files(config)) == 1


def test_a_store_without_a_place_has_no_kept_heads(config: Path) -> None:
    """A store in memory is gone with its process: nothing is kept of it."""
    task = a_task(MemoryStore())
    task.commit(lambda _: [OPENED])
    task.keep_head()
    assert not files(config)


def test_a_place_that_cannot_be_written_keeps_nobody_from_working(store: SqliteStore, config: Path) -> None:
    """Where no file can be made beside the keys, work continues without a kept head."""
    config.mkdir()
    (config / "heads").write_text("in the way")
    with pytest.raises(AdjournError):
        worked(store)  # what cannot be read is not taken for nothing
    (config / "heads").unlink()
    assert worked(store).ledger.calls_used == 3


# --- what contradicts it


def _cut(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM event WHERE position & 1099511627775 >= 2")
        connection.commit()


def _empty(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for table in ("event", "ref", "stream", "blob"):
            connection.execute(f"DELETE FROM {table}")
        connection.commit()


def _delete(path: Path) -> None:
    shutil.rmtree(path.parent)


def _rewrite(path: Path) -> None:
    """Another history of the same length, whose chain holds."""
    shutil.rmtree(path.parent)
    with closing(SqliteStore(path)) as store:
        task = Task(store, "t", clock=Clock(), secret=b"x" * 32)
        task.commit(lambda _: [NewEvent(kinds.TaskOpened(goal="other")), *map(allowed, range(3))])


@pytest.mark.parametrize("change", [_cut, _empty, _delete, _rewrite])
def test_a_history_that_the_kept_head_contradicts_is_refused(
    store: SqliteStore, path: Path, change: Callable[[Path], None]
) -> None:
    """Cut, emptied, deleted or written again: the task does not begin again at what is left of it."""
    worked(store)
    store.close()
    change(path)
    with (
        closing(SqliteStore(path)) as again,
        pytest.raises(IntegrityError, match="lacks event 3, which it was seen to reach, with 3 calls used"),
    ):
        a_task(again)


def test_a_history_that_went_on_elsewhere_is_taken(store: SqliteStore) -> None:
    """Others append to a shared store: a kept head that is older and still in the chain contradicts nothing."""
    worked(store)
    other = a_task(store, secret=b"x" * 32)
    other.commit(lambda _: [allowed(7)])
    assert a_task(store).ledger.calls_used == 4


def test_a_copy_of_the_workspace_is_a_place_of_its_own(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    """A copied or moved store is judged by itself: one copy that continues does not make the other a contradiction."""
    task = worked(store)
    store.close()
    shutil.copytree(path.parent.parent, tmp_path / "copy")
    with closing(SqliteStore(path)) as here, closing(SqliteStore(tmp_path / "copy/.aex/adjourn.db")) as there:
        for one, calls in ((here, 1), (there, 2)):
            task = a_task(one)
            more = [allowed(10 + number) for number in range(calls)]
            task.commit(lambda _, more=more: more)  # type: ignore[misc]
            task.keep_head()
        assert (a_task(here).ledger.calls_used, a_task(there).ledger.calls_used) == (4, 5)


def test_tasks_of_one_name_in_two_stores_are_two(store: SqliteStore, tmp_path: Path) -> None:
    """A name that a person gave tasks in several workspaces says nothing across them."""
    worked(store, name="nightly")
    with closing(SqliteStore(tmp_path / "other.db")) as other:
        assert worked(other, calls=1, name="nightly").ledger.calls_used == 1


@pytest.mark.parametrize(
    "change", [lambda _: b"", lambda data: data[:-9], lambda data: data.replace(b'"seq":3', b'"seq":9')]
)
def test_a_kept_head_that_is_not_sealed_is_none(
    store: SqliteStore, config: Path, change: Callable[[bytes], bytes]
) -> None:
    """A file that a loss of power emptied, or somebody edited, says nothing and locks nobody out."""
    worked(store)
    (kept,) = files(config)
    kept.write_bytes(change(kept.read_bytes()))
    assert KeptHeads(store, SECRET).of("t") is None
    assert a_task(store).ledger.calls_used == 3


@pytest.mark.parametrize(
    "make", [lambda at: at.symlink_to("/dev/zero"), os.mkfifo, os.mkdir, lambda at: at.write_bytes(b"x" * 5000)]
)
def test_what_is_no_plain_small_file_is_refused_at_once(
    store: SqliteStore, config: Path, make: Callable[[Path], None]
) -> None:
    """A link, a pipe, a folder or a large file in the place of a kept head is an error, not a wait and not nothing."""
    worked(store)
    (kept,) = files(config)
    kept.unlink()
    make(kept)
    with pytest.raises(AdjournError):
        a_task(store)


def test_a_kept_head_of_one_task_is_not_anothers(store: SqliteStore, config: Path) -> None:
    """A sealed file that was copied under another task's name is none."""
    worked(store)
    (kept,) = files(config)
    shutil.copy(kept, kept.with_name("u"))
    assert a_task(store, "u").ledger.seq == -1


# --- whose task is whose


def test_what_a_client_worked_on_is_kept(store: SqliteStore) -> None:
    """The task of a client is found where the store has forgotten it."""
    heads = KeptHeads(store, SECRET)
    heads.bind("host/1/2", "t")
    assert heads.bound("host/1/2") == "t"
    assert heads.bound("host/1/3") == ""
    assert heads.known() == []
    heads.unbind("host/1/2")
    assert heads.bound("host/1/2") == ""


# --- a loss that a person accepted


def lose(store: SqliteStore, path: Path, name: str = "t") -> None:
    """Restore the store from a backup of before the last two calls."""
    backup = path.parent / "backup.db"
    task = worked(store, 3, name)
    with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(backup)) as kept:
        live.backup(kept)
    task.commit(lambda _: [allowed(3), allowed(4)])
    task.keep_head()
    with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(backup)) as kept:
        kept.backup(live)
    with pytest.raises(IntegrityError, match="lacks event 5"):
        a_task(store, name)


def test_an_accepted_loss_lets_a_task_continue_in_any_view_and_is_in_its_history(
    store: SqliteStore, path: Path
) -> None:
    """Also a principal's view of the store sees it; the next commit records it, and its head replaces the kept one."""
    space = space_of(Principal(id="ann", name="ann", type="human"))
    name = space.named("t")
    lose(store, path, name)
    accept(store, 0, "ann", NOON)
    view: Store = SpaceStore(store, space)
    task = Task(view, name, clock=Clock(), secret=SECRET)
    (fact,) = task.unrecorded_loss
    assert isinstance(fact.data, kinds.HistoryAccepted)
    assert (fact.data.lost, fact.data.who, is_signed(fact.data)) == (5, "ann", True)
    task.commit(task.unrecorded_loss)
    task.keep_head()
    assert a_task(store, name).unrecorded_loss == []
    kept = KeptHeads(store, SECRET).of(name)
    assert kept is not None
    assert kept.seq == 4


@pytest.mark.parametrize("change", ["since", "accepted", "who", "signature", "key"])
def test_an_acceptance_that_was_changed_is_none(store: SqliteStore, path: Path, change: str) -> None:
    """Each of its members is signed, and the key has to be one that is trusted."""
    lose(store, path)
    loss = accept(store, NOON - 1, "ann", NOON)
    other = timestamp(0) if change == "since" else timestamp(NOON + 1) if change == "accepted" else "A" * 86 + "=="
    forged = msgspec.structs.replace(loss, **{change: other})
    for name, value in store.refs("restored/").items():
        store.swap(name, msgspec.json.encode(forged).decode(), expect=value)
    with pytest.raises(IntegrityError, match="lacks event 5"):
        a_task(store)


def test_an_acceptance_covers_no_event_that_was_there_when_it_was_made(store: SqliteStore, path: Path) -> None:
    """Whoever cuts the task further, under the name of the restored backup, is found."""
    lose(store, path)
    accept(store, 0, "ann", NOON)
    with closing(sqlite3.connect(path)) as changed, changed:
        changed.execute("DELETE FROM event WHERE position & 1099511627775 >= 2")
    with pytest.raises(IntegrityError):
        a_task(store)


def test_an_acceptance_of_another_store_is_none(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    """Whoever copies it into a database cannot cut that one's tasks, which its document does not list."""
    lose(store, path)
    with closing(SqliteStore(tmp_path / "another.db")) as another:
        loss = accept(another, 0, "ann", NOON)
        document = another.get_blob(loss.document)
    assert document is not None
    assert store.put_blob(document) == loss.document
    store.swap(f"restored/{loss.accepted}", msgspec.json.encode(loss).decode(), expect=None)
    with pytest.raises(IntegrityError, match="lacks event 5"):
        a_task(store)


def test_an_acceptance_covers_no_head_without_a_time_of_a_task_that_it_does_not_list(store: SqliteStore) -> None:
    """Such a task may have begun after it; one whose head has a time between both was lost with the backup."""
    accept(store, NOON - 1, "ann", NOON)
    head = KeptHead(task="gone", seq=4, hash="0" * 64, calls=4, at=timestamp(NOON - 1))
    assert covering(store, head) is not None
    assert covering(store, msgspec.structs.replace(head, at="")) is None
