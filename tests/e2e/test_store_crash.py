"""A store outlives kills, full disks, read-only mounts and damage, and says what happened.

Short here; ADJOURN_CAMPAIGN=1 kills 500 times.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from adjourn.errors import SchemaError, StoreError
from adjourn.store import EMPTY, Entry, Head, Store, open_store
from adjourn.store.base import LATEST
from adjourn.store.conformance.documents import append_racing, check_chain, entry, linked
from adjourn.store.sqlite import SqliteStore

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
KILLS = 500 if CAMPAIGN else 25

# Appends for ever, alternating single, several, durable and not, and prints each head once it was acknowledged. A thread a stream.
_APPENDER = """
import hashlib, itertools, os, sys, threading
from adjourn.store import Entry, open_store
store = open_store(sys.argv[1])
def run(stream):
    head = store.head(stream)
    for number in itertools.count():
        entries, previous = [], head.hash
        for position in range(1 + 4 * (number % 5 == 0)):
            data = f"{previous} {number}.{position}".encode() + b"x" * (number % 7 * 300)
            previous = hashlib.sha256(data).hexdigest()
            entries.append(Entry(previous, data))
        refs = {stream: previous} if number % 3 == 0 else {}
        head = store.append(stream, entries, expect=head, refs=refs, durable=number % 2 == 0)
        os.write(1, f"{stream} {head.seq} {head.hash}\\n".encode())
threads = [threading.Thread(target=run, args=(stream,)) for stream in sys.argv[2:]]
print("ready", flush=True)
for thread in threads:
    thread.start()
"""


def _start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Unbuffered: what is read of the output by lines takes nothing from what is read of it at the end."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _kill_while_appending(url: str, kills: int, *streams: str) -> None:
    random_ = random.Random(7)
    acknowledged: dict[str, dict[int, str]] = {stream: {} for stream in streams}
    for _ in range(kills):
        child = _start(_APPENDER, url, *streams)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n", child.communicate()[1].decode()
        first = child.stdout.readline()  # however long a busy machine takes for it
        time.sleep(random_.uniform(0, 0.08))
        child.send_signal(signal.SIGKILL)
        output, errors = child.communicate()
        assert child.returncode == -signal.SIGKILL, errors.decode()
        for line in (first + output).decode().split("\n")[:-1]:  # the last one may be cut short
            stream, seq, digest = line.split()
            acknowledged[stream][int(seq)] = digest
        if url.startswith("postgresql:"):
            _await_the_end_of_clients(url)
        store = open_store(url)
        try:
            for stream in streams:
                _check_stream(store, stream, acknowledged[stream])
        finally:
            store.close()
    assert sum(map(len, acknowledged.values())) >= kills


def _await_the_end_of_clients(url: str) -> None:
    """The server finishes the statement of a client that was killed, and may commit it while we look."""
    psycopg = pytest.importorskip("psycopg")
    others = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'adjourn'"
    end = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True, application_name="admin") as admin:
        while admin.execute(others).fetchone():
            assert time.monotonic() < end
            time.sleep(0.005)


def _check_stream(store: Store, stream: str, acknowledged: dict[int, str]) -> None:
    entries = list(store.read(stream))
    check_chain(entries)
    assert store.head(stream) == (Head(len(entries) - 1, entries[-1].hash) if entries else EMPTY)
    lost = {seq for seq, digest in acknowledged.items() if entries[seq].hash != digest}
    assert not lost
    if ref := store.ref(stream):
        assert ref in {one.hash for one in entries}


@pytest.mark.timeout(1800)
def test_sqlite_keeps_every_acknowledged_entry_through_kills(tmp_path: Path) -> None:
    """Every acknowledged entry is there after each SIGKILL, and the chain has no gap."""
    _kill_while_appending(str(tmp_path / "adjourn.db"), KILLS, "s")


@pytest.mark.timeout(1800)
def test_postgres_keeps_every_acknowledged_entry_through_kills(new_postgres_url: Callable[[], str]) -> None:
    """The same for a client of PostgreSQL."""
    _kill_while_appending(new_postgres_url(), KILLS // 3, "s")


@pytest.mark.timeout(1800)
def test_postgres_keeps_every_acknowledged_entry_of_a_batch_through_kills(new_postgres_url: Callable[[], str]) -> None:
    """The same for twenty threads whose appends go together."""
    _kill_while_appending(new_postgres_url(), KILLS // 3, *(f"s{number}" for number in range(20)))


def test_two_processes_may_create_one_store_at_once(tmp_path: Path) -> None:
    """Openers of a file that does not exist yet all succeed, and write one chain."""
    program = (
        "import sys\nfrom adjourn.store import open_store\nfrom adjourn.store.conformance.documents import append_racing\n"
        "sys.stdin.read()\nstore = open_store(sys.argv[1])\nappend_racing(store, 's', 'x')\nstore.close()\n"
    )
    for number in range(3):
        path = tmp_path / f"{number}" / "new" / "adjourn.db"
        children = [
            subprocess.Popen([sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(4)
        ]
        time.sleep(0.3)  # until all wait for the end of their input
        for child in children:
            assert child.stdin is not None
            child.stdin.close()
        for child in children:
            assert child.stderr is not None
            errors = child.stderr.read().decode()
            child.stderr.close()
            assert child.wait() == 0, errors
        store = SqliteStore(path)
        entries = list(store.read("s"))
        store.close()
        assert len(entries) == len(children)
        check_chain(entries)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


# --- a disk of our own ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a tmpfs is not permitted here (needs root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(store: Store, head: Head, made: list[Entry], size: int, count: int) -> Head:
    """Append until it fails; `made` has what was acknowledged."""
    while True:
        entries = [entry(os.urandom(size)) for _ in range(count)]
        head = store.append("s", entries, expect=head, refs={"n": str(len(made))} if count > 1 else {})
        made += entries


@pytest.mark.parametrize("count", [1, 5])
def test_a_full_disk_is_named_and_the_store_works_again_once_there_is_space(small_disk: Path, count: int) -> None:
    """Nothing is half written when the disk fills up, and the same store continues when space was freed."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(700_000))
    store = SqliteStore(small_disk / "adjourn.db")
    made: list[Entry] = []
    with pytest.raises(StoreError, match="full") as caught:
        _fill(store, EMPTY, made, 20_000, count)
    assert str(small_disk) in caught.value.message
    assert "free some space" in caught.value.remedy
    assert list(store.read("s")) == made
    for _ in range(3):  # it stays so
        with pytest.raises(StoreError, match="full"):
            store.append("s", [entry(bytes(200_000))], expect=store.head("s"), refs={"r": "v"}, blobs=[b"b" * 9000])
    assert store.ref("r") is None
    ballast.unlink()
    last = entry(b"after")
    store.append("s", [last], expect=store.head("s"), refs={"r": "v"})
    assert list(store.read("s")) == [*made, last]
    store.close()
    again = SqliteStore(small_disk / "adjourn.db")
    assert list(again.read("s")) == [*made, last]
    assert again.ref("r") == "v"
    again.close()


def _mount_again(folder: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(folder)], check=True)


def test_a_store_on_a_read_only_mount_can_be_read(small_disk: Path) -> None:
    """Reading works where nothing can be written, writing is refused with a remedy, and nothing is created."""
    path = small_disk / "adjourn.db"
    store = SqliteStore(path)
    head = store.append("s", [entry(b"1"), entry(b"2")], expect=EMPTY, refs={"r": "v"}, blobs=[b"blob"])
    store.close()
    _mount_again(small_disk, "ro")
    store = SqliteStore(path)
    try:
        assert not store.writable
        assert store.head("s") == head
        assert [one.data for one in store.read("s")] == [b"1", b"2"]
        assert store.streams() == {"s": head}
        assert store.refs() == {"r": "v"}
        writes: tuple[Callable[[], object], ...] = (
            lambda: store.append("s", [entry(b"3")], expect=head),
            lambda: store.append("s", [entry(b"3")] * 2, expect=head),
            lambda: store.swap("r", "w", expect="v"),
            lambda: store.put_blob(b"other"),
            lambda: store.forget(head.hash),
        )
        for write in writes:
            with pytest.raises(StoreError, match="reading only") as caught:
                write()
            assert "writable" in caught.value.remedy
    finally:
        store.close()
        _mount_again(small_disk, "rw")
    assert [one.name for one in small_disk.iterdir()] == ["adjourn.db"]


def test_a_store_that_was_not_closed_is_read_with_its_log_or_not_at_all(small_disk: Path) -> None:
    """A read-only mount never shows a store without the entries that are still in its log."""
    path = small_disk / "adjourn.db"
    child = _start(_APPENDER, str(path), "s")
    assert child.stdout is not None
    for _ in range(5):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    (small_disk / "adjourn.db-shm").unlink()
    _mount_again(small_disk, "ro")
    try:
        with pytest.raises(StoreError) as caught:
            SqliteStore(path)
        assert "-wal" in caught.value.remedy
    finally:
        _mount_again(small_disk, "rw")
    store = SqliteStore(path)
    assert store.head("s").seq >= 4
    store.close()


def test_a_store_cannot_be_made_on_a_read_only_mount(small_disk: Path) -> None:
    """The error says where a store could be made."""
    _mount_again(small_disk, "ro")
    try:
        with pytest.raises(StoreError, match="Read-only") as caught:
            open_store(str(small_disk / "new" / "adjourn.db"))
        assert "may write" in caught.value.remedy
    finally:
        _mount_again(small_disk, "rw")


def test_a_store_on_a_full_disk_opens_or_says_that_it_is_full(small_disk: Path) -> None:
    """Opening with no byte left never damages the store."""
    path = small_disk / "adjourn.db"
    store = SqliteStore(path)
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    store.close()
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    try:
        store = SqliteStore(path)
    except StoreError as error:
        assert "full" in error.message or "operating system" in error.message  # noqa: PT017  # either is right
    else:
        assert store.head("s") == head
        store.close()
    ballast.unlink()
    store = SqliteStore(path)
    assert store.head("s") == head
    append_racing(store, "s", "x")
    store.close()


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Neither text nor another program's database is written to."""
    text = tmp_path / "notes.db"
    text.write_bytes(b"not a database, but somebody's notes\n" * 100)
    with pytest.raises(StoreError, match="not a SQLite database") as caught:
        SqliteStore(text)
    assert caught.value.remedy
    assert text.read_bytes().startswith(b"not a database")
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE event (x)")
    connection.commit()
    connection.close()
    before = other.read_bytes()
    with pytest.raises(StoreError, match="not a store of adjourn"):
        SqliteStore(other)
    assert other.read_bytes() == before


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Damaged pages give a StoreError with a remedy, on opening or on reading, and never wrong entries."""
    path = tmp_path / "adjourn.db"
    store = SqliteStore(path)
    made, head = [], EMPTY
    for number in range(300):
        made.append(linked(head, f"{number}" + "x" * 300))
        head = store.append("s", [made[-1]], expect=head, durable=False)
    store.close()
    whole = path.read_bytes()
    noise = random.Random(3).randbytes(len(whole))
    damaged = {
        "all but the first page": whole[:4096] + noise[4096:],
        "cut in half": whole[: len(whole) // 2],
        "the first page": whole[:100] + noise[100:3100] + whole[3100:],
    }
    for what, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(StoreError) as caught:
            _read_all(path)
        assert str(path) in caught.value.message, what
        assert caught.value.remedy, what
    path.write_bytes(whole)
    store = SqliteStore(path)
    assert list(store.read("s")) == made
    store.close()


def _read_all(path: Path) -> list[Entry]:
    with closing(SqliteStore(path)) as store:
        return list(store.read("s"))


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A store of a newer adjourn is neither read nor changed."""
    path = tmp_path / "adjourn.db"
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={LATEST['sqlite'] + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(SchemaError, match=f"schema {LATEST['sqlite'] + 1}") as caught:
        SqliteStore(path)
    assert "upgrade" in caught.value.remedy
    assert path.read_bytes() == before


def test_a_store_that_another_process_locks_is_named_and_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for a lock ends in an error that says so; nothing was written, and the next try succeeds."""
    monkeypatch.setattr("adjourn.store.sqlite_file.BUSY_SECONDS", 0.2)
    store = SqliteStore(tmp_path / "adjourn.db")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for count in (1, 2):
        with pytest.raises(StoreError, match="locked"):
            store.append("s", [entry(b"x")] * count, expect=EMPTY)
    assert store.head("s") == EMPTY
    other.execute("ROLLBACK")
    other.close()
    append_racing(store, "s", "x")
    store.close()
