"""A PostgreSQL store of the first schema is used as it is; schema and partitions change while others write to it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adjourn.errors import SchemaError, StoreError
from adjourn.store import EMPTY, Head, PostgresStore, Swap, migrate_postgres, postgres_migration
from adjourn.store.base import LATEST
from adjourn.store.conformance.documents import check_chain, entry
from support.proxy import wait_for

psycopg = pytest.importorskip("psycopg")

SECONDS = 60
SCHEMA = Path(postgres_migration.__file__).parent / "schema"
OLD = "%20-cadjourn.schema%3D1"
"""The end of a URL by which a program says that it knows the first schema only, as one that says nothing does."""

_APPENDER = """
import itertools, os, sys
from adjourn.store import open_store
from adjourn.store.conformance.documents import entry
from adjourn.errors import StoreError
store = open_store(sys.argv[1])
head = store.head(sys.argv[2])
try:
    for number in itertools.count():
        head = store.append(sys.argv[2], [entry(f"{head.hash} {number}".encode())], expect=head)
        os.write(1, f"{head.seq} {head.hash}\\n".encode())
except StoreError as error:
    sys.exit(f"{error}")
"""
_MIGRATOR = """
import os, sys
from adjourn.store import migrate_postgres
for copied in migrate_postgres(sys.argv[1], partitions=8):
    os.write(1, f"{copied}\\n".encode())
"""


@pytest.fixture
def admin(url: str) -> Iterator[Any]:
    """A connection to a store of the first schema, made as it was made then."""
    with psycopg.connect(url, autocommit=True, application_name="admin") as connection:
        connection.execute((SCHEMA / "postgres_0001.sql").read_bytes())
        connection.execute("UPDATE adjourn_schema SET version = 1")
        yield connection


def fill(admin: Any, rows: int) -> None:
    """Put entries of a hundred streams, which are no chains, into the old table."""
    admin.execute(
        "INSERT INTO adjourn_event SELECT 's' || mod(number, 100), number / 100, repeat('0', 64), number::text::bytea "
        "FROM generate_series(0, %s - 1) AS number",
        (rows,),
    )


def content(admin: Any) -> Any:
    """The number of entries and a digest of them all."""
    text = "stream || ' ' || seq || ' ' || hash || ' ' || encode(data, 'hex')"
    found = admin.execute(f"SELECT count(*), md5(string_agg({text}, ' ' ORDER BY stream, seq)) FROM adjourn_event")
    return found.fetchone()


def version(admin: Any) -> int:
    (found,) = admin.execute("SELECT version FROM adjourn_schema").fetchone()
    return int(found)


def partitions(admin: Any) -> int:
    (found,) = admin.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'adjourn_event'::regclass").fetchone()
    return int(found)


def tables(admin: Any) -> set[str]:
    named = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
    return {name for (name,) in admin.execute(named).fetchall()}


class Writer(NamedTuple):
    """A process that appends to one stream, and the files of what it says."""

    process: subprocess.Popen[bytes]
    stream: str
    output: Path
    errors: Path

    @property
    def acknowledged(self) -> list[str]:
        """Position and hash of each append that was acknowledged."""
        return self.output.read_text().split("\n")[:-1]

    def end(self) -> str:
        """What it said last, after it ended."""
        self.process.wait(SECONDS)
        return self.errors.read_text()


@pytest.fixture
def start_writer(tmp_path: Path) -> Iterator[Callable[[str, str], Writer]]:
    writers: list[Writer] = []

    def start(url: str, stream: str) -> Writer:
        output, errors = tmp_path / f"{stream}.out", tmp_path / f"{stream}.err"
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            process = subprocess.Popen([sys.executable, "-c", _APPENDER, url, stream], stdout=stdout, stderr=stderr)
        writers.append(writer := Writer(process, stream, output, errors))
        wait_for(lambda: len(writer.acknowledged) > 3 or process.poll() is not None, SECONDS)
        return writer

    yield start
    for writer in writers:
        writer.process.kill()
        writer.process.wait(SECONDS)


def start_migrator(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _MIGRATOR, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check_writer(store: PostgresStore, writer: Writer) -> None:
    """Each acknowledged entry is in its place, each entry of its chain follows the one before."""
    entries = list(store.read(writer.stream))
    check_chain(entries)
    there = [f"{seq} {one.hash}" for seq, one in enumerate(entries)]
    assert writer.acknowledged == there[: len(writer.acknowledged)]
    assert len(there) <= len(writer.acknowledged) + 1  # a killed one may not have said it


def test_a_store_of_the_first_schema_is_used_as_it_is(admin: Any, url: str) -> None:
    """Opening it changes no table; everything that a store does works in it."""
    before = tables(admin)
    store = PostgresStore(url)
    head = store.append("s", [entry(b"1")], expect=EMPTY, refs={"r": "1"}, blobs=[b"document"])
    head = store.append("s", [entry(b"2")], expect=head, swaps={"r": Swap("1", "2")})
    assert store.streams() == {"s": head}
    assert store.ref("r") == "2"
    assert [one.data for one in store.read("s")] == [b"1", b"2"]
    store.close()
    assert (version(admin), tables(admin)) == (1, before)


def test_partitions_keep_every_entry_and_spread_the_streams(admin: Any, url: str) -> None:
    """The rows are the same before and after, in partitions by stream; a store that was open before continues."""
    fill(admin, 5_000)
    store = PostgresStore(url)
    before, streams = content(admin), store.streams()
    assert list(migrate_postgres(url, partitions=8))[-1] == 5_000
    assert content(admin) == before
    assert version(admin) == LATEST["postgres"] == 2
    assert admin.execute("SELECT count(DISTINCT tableoid) FROM adjourn_event").fetchone() == (8,)
    assert admin.execute("SELECT pg_get_partkeydef('adjourn_event'::regclass)").fetchone() == ("HASH (stream)",)
    assert tables(admin) == {"adjourn_schema", "adjourn_event", "adjourn_ref", "adjourn_blob"} | {
        f"adjourn_event_{number}" for number in range(8)
    }
    after = PostgresStore(url)
    assert store.streams() == after.streams() == streams
    head = store.append("new", [entry(b"1")], expect=EMPTY)
    assert after.head("new") == head
    for number in (0, 8):
        assert list(migrate_postgres(url, partitions=number)) == []
    with pytest.raises(StoreError, match="in 8 partitions already"):
        list(migrate_postgres(url, partitions=4))
    for one in (store, after):
        one.close()


@pytest.mark.parametrize("number", [0, 3])
def test_new_and_migrated_stores_have_the_same_tables(
    admin: Any, url: str, new_postgres_url: Callable[[], str], number: int
) -> None:
    """Columns, keys, partitions, settings and triggers are the same, whichever way a store came to its schema."""
    fresh = new_postgres_url()
    for one in (url, fresh):
        list(migrate_postgres(one, partitions=number))

    def described(connection: Any) -> list[Any]:
        asked = """
            SELECT c.relname, c.relkind, c.reloptions, pg_get_expr(c.relpartbound, c.oid),
                ARRAY(SELECT attname || format_type(atttypid, atttypmod) || attnotnull || attcollation
                    FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 ORDER BY attnum),
                ARRAY(SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = c.oid ORDER BY tgname)
            FROM pg_class AS c WHERE relnamespace = current_schema()::regnamespace ORDER BY relname
        """
        (schema,) = connection.execute("SELECT current_schema()").fetchone()
        return [re.sub(rf"\b{schema}\.", "", str(row)) for row in connection.execute(asked).fetchall()]

    with psycopg.connect(fresh, autocommit=True) as other:
        assert described(admin) == described(other)


def test_writers_lose_nothing_while_they_are_migrated(
    admin: Any, url: str, start_writer: Callable[[str, str], Writer]
) -> None:
    """Programs that know both schemas continue; those that know the first are told to be updated, and nothing of theirs is lost."""
    fill(admin, 20_000)
    olds = [start_writer(url + OLD, f"old-{number}") for number in range(2)]
    news = [start_writer(url, f"new-{number}") for number in range(2)]
    assert list(migrate_postgres(url, partitions=8))[-1] >= 20_000
    for old in olds:
        assert "this store has schema 2; update adjourn" in old.end()
        assert old.process.returncode == 1
    seen = [len(new.acknowledged) for new in news]
    wait_for(lambda: all(len(new.acknowledged) > count + 3 for new, count in zip(news, seen, strict=True)), SECONDS)
    for new in news:
        assert new.process.poll() is None
        new.process.kill()
        new.end()
    store = PostgresStore(url)
    for writer in (*olds, *news):
        check_writer(store, writer)
    store.close()
    assert admin.execute("SELECT count(*) FROM adjourn_event WHERE stream LIKE 's%'").fetchone() == (20_000,)


def test_a_program_that_knows_the_first_schema_only_is_refused(
    admin: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its appends end in an error that says what to do; it reads as before, and cannot open the store again."""
    old = PostgresStore(url + OLD)
    head = old.append("s", [entry(b"1")], expect=EMPTY)
    list(migrate_postgres(url))
    for more in ({}, {"refs": {"r": None}}):
        with pytest.raises(StoreError, match="schema 2; update adjourn") as caught:
            old.append("s", [entry(b"2")], expect=head, **more)  # type: ignore[arg-type]
        assert "pip install -U adjourn" in caught.value.remedy
    assert old.streams() == {"s": head}
    old.close()
    monkeypatch.setitem(LATEST, "postgres", 1)
    with pytest.raises(SchemaError, match="has schema 2"):
        PostgresStore(url)


def test_a_killed_migration_continues(admin: Any, url: str, start_writer: Callable[[str, str], Writer]) -> None:
    """Killed under load at each of its steps, it ends with every entry, and copies none that was copied before."""
    fill(admin, 30_000)
    writer = start_writer(url, "busy")
    waiting = "SELECT 1 FROM pg_locks WHERE relation = 'adjourn_event'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted"
    copied = 0
    with psycopg.connect(url) as reader:  # as long as it reads, the tables cannot change places
        reader.execute("SELECT count(*) FROM adjourn_event").fetchone()
        for step in ("begun", "copying", "copying", "switching"):
            with start_migrator(url) as migrator:
                assert migrator.stdout is not None
                if step == "begun":
                    wait_for(lambda: "adjourn_migration" in tables(admin), SECONDS)
                elif step == "copying":
                    migrator.stdout.readline()
                    copied += int(migrator.stdout.readline())
                else:
                    wait_for(lambda: admin.execute(waiting).fetchone(), SECONDS)
                migrator.kill()
                said = migrator.communicate()[0].split()
            assert migrator.returncode == -signal.SIGKILL
            if step == "switching":
                copied += sum(map(int, said[-1:]))
        reader.rollback()
    last = list(migrate_postgres(url, partitions=8))[-1:]
    writer.process.kill()
    writer.end()
    assert copied + sum(last) <= 30_000 + len(writer.acknowledged)
    store = PostgresStore(url)
    check_writer(store, writer)
    store.close()
    assert admin.execute("SELECT count(*) FROM adjourn_event WHERE stream LIKE 's%'").fetchone() == (30_000,)
    assert (version(admin), partitions(admin)) == (2, 8)


def test_two_migrations_are_one(admin: Any, url: str) -> None:
    """Two processes that migrate at once both succeed: one copies, the other waits and finds it done."""
    fill(admin, 20_000)
    before = content(admin)
    both = [start_migrator(url) for _ in range(2)]
    said = [one.communicate(timeout=SECONDS) for one in both]
    assert [(one.returncode, errors) for one, (_, errors) in zip(both, said, strict=True)] == [(0, b"")] * 2
    ends = sorted(int(([b"0", *lines.split()])[-1]) for lines, _ in said)
    assert ends == [0, 20_000]
    assert content(admin) == before


def test_a_long_reader_keeps_no_writer_waiting(admin: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a transaction reads the old table, the switch is tried again and again, and appends are made between the tries."""
    fill(admin, 10)
    store = PostgresStore(url)
    failed: list[StoreError] = []

    def migrate() -> None:
        try:
            list(migrate_postgres(url, partitions=8))
        except StoreError as error:
            failed.append(error)

    monkeypatch.setattr(postgres_migration, "LOCK_TRIES", 3)
    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM adjourn_event").fetchone()
        migrating = threading.Thread(target=migrate)
        migrating.start()
        head = EMPTY
        while migrating.is_alive():
            head = store.append("s", [entry(f"{head.seq}".encode())], expect=head)
        migrating.join()
        reader.rollback()
    (error,) = failed
    assert "run the same command again" in error.remedy
    assert partitions(admin) == 0
    list(migrate_postgres(url, partitions=8))
    assert partitions(admin) == 8
    assert store.head("s") == head != EMPTY
    store.close()


def test_partitions_can_be_given_up(admin: Any, url: str) -> None:
    """The statements of the documentation leave the store as it was before, and a later migration copies everything again."""
    fill(admin, 1_000)
    before = tables(admin)
    migrating = migrate_postgres(url, partitions=8)
    next(migrating)
    migrating.close()  # type: ignore[attr-defined]  # a generator
    page = Path(__file__).parents[2] / "docs/how-to/postgresql.md"
    (statements,) = re.findall(r"```text\n(DROP FUNCTION adjourn_copy.*?)```", page.read_text("utf-8"), re.DOTALL)
    admin.execute(statements)
    assert tables(admin) == before
    store = PostgresStore(url)
    store.append("new", [entry(b"1")], expect=EMPTY)
    store.close()
    assert list(migrate_postgres(url, partitions=8))[-1] == 1_001


def test_owner_and_rights_stay_whoever_migrates(admin: Any, url: str, postgres_server: Any) -> None:
    """After a superuser's migration the tables are their owner's, and a role that was granted rights appends and lists."""
    (schema,) = admin.execute("SELECT current_schema()").fetchone()
    owner, user = f"owner_{schema}", f"user_{schema}"
    for role in (owner, user):
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
    admin.execute(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {owner}".encode())
    admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {user}".encode())
    for table in ("schema", "event", "ref", "blob"):
        admin.execute(f"ALTER TABLE adjourn_{table} OWNER TO {owner}".encode())
        admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON adjourn_{table} TO {user}".encode())
    theirs = url.replace("adjourn@", f"{user}@")
    store = PostgresStore(theirs)
    migrating = migrate_postgres(url, partitions=8)
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    next(migrating, None)
    head = store.append("s", [entry(b"2")], expect=head)
    list(migrating)
    head = store.append("s", [entry(b"3")], expect=head)
    store.close()
    again = PostgresStore(theirs)
    assert again.streams() == {"s": head} == {"s": Head(2, entry(b"3").hash)}
    again.close()
    owners = admin.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = current_schema()").fetchall()
    assert owners == [(owner,)]
