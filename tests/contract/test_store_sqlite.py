"""What only the SQLite store promises: about its file, its log and its settings."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adjourn.errors import ConflictError, IntegrityError, RefusedError, StoreError
from adjourn.store import EMPTY, Entry, Head, base, sqlite_file
from adjourn.store.conformance.documents import append_racing, check_chain, entry
from adjourn.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".aex" / "adjourn.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


def _synchronous(store: SqliteStore) -> int:
    assert store._cursor is not None
    value: int = store._cursor.execute("PRAGMA synchronous").fetchone()[0]
    return value


def test_only_its_user_may_read_the_file(store: SqliteStore, path: Path) -> None:
    """File, log and index have mode 0600, the folder 0700."""
    store.append("s", [entry(b"x")], expect=EMPTY)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for suffix in ("", "-wal", "-shm"):
        assert stat.S_IMODE(os.stat(f"{path}{suffix}").st_mode) == 0o600


def test_durable_switches_the_disk_flush_and_nothing_else(store: SqliteStore) -> None:
    """FULL for durable appends, NORMAL for the rest, single or several, however they alternate."""
    head = EMPTY
    for durable in (True, False, False, True, True, False):
        for count in (1, 2):
            head = store.append("s", [entry(b"x")] * count, expect=head, durable=durable)
            assert _synchronous(store) == (2 if durable else 1)
    store.put_blob(b"x")
    assert _synchronous(store) == 2


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_links_are_refused(tmp_path: Path, suffix: str) -> None:
    """Neither the file nor its companions may be a symbolic link, dangling or not."""
    target = tmp_path / "target"
    path = tmp_path / "adjourn.db"
    if suffix:
        SqliteStore(path).close()
    Path(f"{path}{suffix}").symlink_to(target)
    for _ in range(2):
        with pytest.raises(RefusedError, match="symbolic link"):
            SqliteStore(path)
        target.write_bytes(b"")
    assert target.read_bytes() == b""


def test_a_folder_that_links_out_of_the_workspace_is_refused(tmp_path: Path) -> None:
    """A link to elsewhere inside is followed; the remedy names the real path."""
    (tmp_path / "out").mkdir()
    (tmp_path / "work" / "in").mkdir(parents=True)
    (tmp_path / "work" / ".aex").symlink_to(tmp_path / "out")
    with pytest.raises(RefusedError) as caught:
        SqliteStore(tmp_path / "work" / ".aex" / "adjourn.db")
    assert str(tmp_path / "out" / "adjourn.db") in caught.value.remedy
    (tmp_path / "work" / "near").symlink_to(tmp_path / "work" / "in")
    SqliteStore(tmp_path / "work" / "near" / "adjourn.db").close()


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    """A folder or a pipe is not opened, and does not hang."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(RefusedError, match="not a regular file"):
            SqliteStore(path)


def test_a_folder_that_is_a_file_is_a_store_error(tmp_path: Path) -> None:
    """The operating system's reason is passed on."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError) as caught:
        SqliteStore(tmp_path / "file" / "adjourn.db")
    assert caught.value.remedy


@pytest.mark.parametrize("size", [40, 400, 100_000])
def test_forgotten_bytes_are_in_no_file(store: SqliteStore, path: Path, size: int) -> None:
    """Forgetting overwrites: neither the database nor its log holds the bytes afterwards."""
    secret = b"the secret that must go " + os.urandom(8).hex().encode()
    # Neighbours, so that pages are split while it is there.
    bodies = [b"%d" % number + b"-" * size for number in range(200)]
    bodies[100] = secret + b"." * size
    digests = [store.put_blob(body) for body in bodies]
    store.forget(digests[100])
    for suffix in ("", "-wal"):
        assert secret not in Path(f"{path}{suffix}").read_bytes()
    assert store.get_blob(digests[99]) is not None


def test_changed_blobs_and_missing_entries_are_integrity_errors(store: SqliteStore) -> None:
    """What another program changed is not returned."""
    digest = store.put_blob(b"true")
    store.append("s", [entry(b"%d" % number) for number in range(10)], expect=EMPTY)
    other = sqlite3.connect(store.path)
    other.execute("UPDATE blob SET data = x'00'")
    other.execute("DELETE FROM event WHERE position & 1099511627775 IN (4, 9)")
    other.commit()
    other.close()
    with pytest.raises(IntegrityError):
        store.get_blob(digest)
    with pytest.raises(IntegrityError):
        list(store.read("s"))
    assert len(list(store.read("s", 0, 4))) == 4


def test_a_missing_entry_is_found_in_a_page_that_its_bytes_end(store: SqliteStore) -> None:
    """Entries so large that a page ends before its number of entries are read whole, and a gap among them is an error."""
    bodies = [bytes([number]) * 300_000 for number in range(40)]
    entries = [Entry(hashlib.sha256(body).hexdigest(), body) for body in bodies]
    store.append("t", entries, expect=EMPTY)
    assert list(store.read("t")) == entries
    store._reader.execute("DELETE FROM event WHERE hash = ?", (entries[5].hash,))
    with pytest.raises(IntegrityError, match="lacks entries"):
        list(store.read("t"))


def test_the_log_stays_short_while_appends_never_pause(store: SqliteStore, path: Path) -> None:
    """Copied in the background, the log does not grow with the history, and nothing is lost on the way."""
    head, made = EMPTY, []
    for number in range(600):
        made.append(entry(b"%d" % number + b"x" * 60_000))
        head = store.append("s", [made[-1]], expect=head, durable=False)
    assert path.stat().st_size > 12_000_000
    assert os.path.getsize(f"{path}-wal") < 24_000_000
    assert list(store.read("s")) == made


def test_appends_wait_for_a_copy_that_has_fallen_behind(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log stays short, too, where the copying thread gets no processor for a while."""
    copy_once = sqlite_file._copy_once

    def late(connection: sqlite3.Connection) -> int:
        time.sleep(0.5)
        return copy_once(connection)

    monkeypatch.setattr(sqlite_file, "_copy_once", late)
    head = EMPTY
    for number in range(600):
        head = store.append("s", [entry(b"%d" % number + b"x" * 60_000)], expect=head, durable=False)
        assert os.path.getsize(f"{path}-wal") < 24_000_000


def test_closing_leaves_one_file(store: SqliteStore, path: Path) -> None:
    """SQLite itself removes its companions when the last opener closes."""
    append_racing(store, "s", "x")
    store.close()
    assert [one.name for one in path.parent.iterdir()] == ["adjourn.db"]
    again = SqliteStore(path)
    check_chain(list(again.read("s")))
    again.close()


def test_a_second_store_in_one_process_does_not_drop_the_locks_of_the_first(store: SqliteStore, path: Path) -> None:
    """Opening and closing the same file elsewhere in the process leaves the first opener's log in place."""
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    for _ in range(3):
        SqliteStore(path).close()
    # Another process: if our locks were gone, its close would take itself for the last and remove the log.
    program = (
        f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('SELECT * FROM event').fetchall(); c.close()"
    )
    assert os.spawnlp(os.P_WAIT, "python3", "python3", "-c", program) == 0
    assert os.path.exists(f"{path}-wal")
    head = store.append("s", [entry(b"2")], expect=head)
    assert store.head("s") == head


def test_threads_that_create_one_file_at_once_all_succeed(path: Path) -> None:
    """The race to make the file and its tables has no loser."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            one = SqliteStore(path)
            append_racing(one, "s", "x")
            one.close()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised
    again = SqliteStore(path)
    assert again.head("s").seq == 5
    again.close()


def test_an_interrupt_in_a_transaction_leaves_nothing_behind(store: SqliteStore) -> None:
    """Ctrl-C between two statements rolls back, and the store continues."""

    class Interrupted(dict[str, str | None]):
        def items(self) -> object:  # type: ignore[override]
            if any(frame == "_append_one" for frame in _frames()):
                raise KeyboardInterrupt
            return super().items()

    with pytest.raises(KeyboardInterrupt):
        store.append("s", [entry(b"x")], expect=EMPTY, refs=Interrupted(r="v"))
    assert store.streams() == {}
    store.append("s", [Entry(hashlib.sha256(b"y").hexdigest(), b"y")], expect=EMPTY)
    assert store.refs() == {}


def _frames() -> Iterator[str]:
    import sys  # only this helper

    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame.f_code.co_name


def test_a_store_of_the_first_schema_is_brought_up_to_date(path: Path) -> None:
    """Every entry, ref and blob of a store made by schema 1 is there after opening it, and appends continue behind them."""
    path.parent.mkdir(mode=0o700)
    schema = Path(base.__file__).parent / "schema" / "sqlite_0001.sql"
    chains = {name: [entry(f"{name} {number}".encode()) for number in range(300)] for name in ("b", "a", "é")}
    with closing(sqlite3.connect(path)) as old:
        old.executescript(schema.read_text() + "PRAGMA journal_mode=WAL; PRAGMA user_version=1;")
        for name, chain in chains.items():
            old.executemany("INSERT INTO event VALUES (?, ?, ?, ?)", [(name, n, *one) for n, one in enumerate(chain)])
        old.execute("INSERT INTO ref VALUES ('head', 'x')")
        old.execute("INSERT INTO blob VALUES (?, ?)", (entry(b"text").hash, b"text"))
        old.commit()
    with closing(SqliteStore(path)) as store:
        assert store.streams() == {name: Head(299, chain[-1].hash) for name, chain in sorted(chains.items())}
        assert all(list(store.read(name)) == chain for name, chain in chains.items())
        assert (store.refs(), store.get_blob(entry(b"text").hash)) == ({"head": "x"}, b"text")
        assert store.append("a", [entry(b"next")], expect=store.head("a")).seq == 300
        with pytest.raises(ConflictError):
            store.append("a", [entry(b"other")], expect=Head(299, chains["a"][-1].hash))


def test_an_upgrade_that_is_cut_off_leaves_the_old_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The migration is one transaction: when its last step fails, the store is as it was."""
    path.parent.mkdir(mode=0o700)
    schema = Path(base.__file__).parent / "schema" / "sqlite_0001.sql"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(schema.read_text() + "PRAGMA user_version=1;")
        old.execute("INSERT INTO event VALUES ('a', 0, 'h', 'd')")
        old.commit()
    scripts = base.scripts
    monkeypatch.setattr(sqlite_file, "scripts", lambda *at: [*scripts(*at), "INSERT INTO nowhere VALUES (1);"])
    with pytest.raises(StoreError):
        SqliteStore(path)
    with closing(sqlite3.connect(path)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (1,)
        assert old.execute("SELECT stream, seq FROM event").fetchall() == [("a", 0)]


# --- a file that goes away, or is another one


def _delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def _delete_file(path: Path) -> None:
    path.unlink()


def _delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def _replace(path: Path) -> None:
    other = path.with_name("other.db")
    SqliteStore(other).close()
    other.rename(path)


def _empty(path: Path) -> None:
    """As `git clean -fdx` and the next command that makes a store would leave it."""
    shutil.rmtree(path.parent)
    SqliteStore(path).close()


GONE = [_delete_folder, _delete_file, _delete_log, _replace, _empty]


@pytest.mark.parametrize("change", GONE)
def test_nothing_is_written_to_a_file_that_was_deleted_or_replaced(
    store: SqliteStore, path: Path, change: Callable[[Path], None]
) -> None:
    """Durable appends, refs and blobs are refused, and what is in the file's place is left as it is."""
    head = store.append("s", [entry(b"x")], expect=EMPTY)
    store.append("s", [entry(b"y")], expect=head)
    change(path)
    head = store.head("s")
    for write in (
        lambda: store.append("s", [entry(b"z")], expect=head),
        lambda: store.append("t", [entry(b"z")], expect=EMPTY),
        lambda: store.swap("r", "v", expect=None),
        lambda: store.put_blob(b"z"),
    ):
        with pytest.raises(StoreError, match="was deleted or replaced while it was open"):
            write()
    assert store.head("s") == head


@pytest.mark.parametrize("change", [one for one in GONE if one is not _delete_log])
def test_appends_that_are_not_durable_notice_it_as_well(
    store: SqliteStore, path: Path, change: Callable[[Path], None]
) -> None:
    """The database file is examined before every append."""
    head = store.append("s", [entry(b"x")], expect=EMPTY)
    change(path)
    with pytest.raises(StoreError, match="was deleted or replaced while it was open"):
        store.append("s", [entry(b"z")], expect=head, durable=False)


def test_a_file_that_is_put_back_is_written_to_again(store: SqliteStore, path: Path) -> None:
    """A folder that was moved away and back is the same file: nothing was lost."""
    head = store.append("s", [entry(b"x")], expect=EMPTY)
    path.parent.rename(path.parent.with_name("away"))
    with pytest.raises(StoreError):
        store.append("s", [entry(b"z")], expect=head)
    path.parent.with_name("away").rename(path.parent)
    assert store.append("s", [entry(b"z")], expect=head).seq == 1


def test_other_connections_come_and_go_beside_an_open_store(store: SqliteStore, path: Path) -> None:
    """Opening, writing and closing the file elsewhere, and copying its log, is no replacement."""
    head = store.append("s", [entry(b"x")], expect=EMPTY)
    for _ in range(3):
        with closing(SqliteStore(path)) as other:
            head = other.append("s", [entry(b"y")], expect=head)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        head = store.append("s", [entry(b"z")], expect=head)
    store.close()
    with closing(SqliteStore(path)) as again:
        assert again.append("s", [entry(b"z")], expect=head).seq == head.seq + 1


def test_a_durable_append_does_not_follow_a_history_that_was_cut_in_the_file(store: SqliteStore, path: Path) -> None:
    """A head that this store has seen is examined again before an effect: no gap is left behind it."""
    head = store.append("s", [entry(b"x"), entry(b"y")], expect=EMPTY)
    head = store.append("s", [entry(b"z")], expect=head)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM event WHERE position & 1099511627775 >= 1")
        connection.commit()
    with pytest.raises(ConflictError):
        store.append("s", [entry(b"new")], expect=head)
    assert store.head("s").seq == 0
