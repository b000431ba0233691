"""Move threads from a database of langgraph-checkpoint-sqlite or langgraph-checkpoint-postgres into a store of adjourn.

Its values are copied as they were serialised: no class is imported, and nothing is unpickled. What is there already is left as it is, so that
an import that was interrupted continues.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

import msgspec
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import TASKS

from adjourn.errors import InvalidError, NotFoundError, UsageError
from adjourn.handover.foreign.langgraph import check_schema
from adjourn.langgraph.thread import GraphThread
from adjourn.text.near_words import did_you_mean

if TYPE_CHECKING:
    import psycopg
    from langgraph.checkpoint.base import Checkpoint

    from adjourn.store.base import Store

MAX_VALUE_BYTES = 64 * 1024 * 1024
"""Bytes of one value, and of one checkpoint."""
MAX_NAME = 500
"""Characters of the id of a thread, checkpoint or task, and of a namespace."""
MAX_WRITES = 100_000
"""Writes after one checkpoint."""
MAX_SECONDS = 60
"""How long the database may take for one checkpoint."""
_POSTGRES = re.compile(r"postgres(ql)?://")
_DO_NOT = "name a database that SqliteSaver or PostgresSaver wrote"
_ENCRYPTED = "copy it in a program: AdjournSaver(store, serde=…).copy_from(saver, thread_id)"


class SerializedValue(NamedTuple):
    """A value as LangGraph serialised it: its kind, such as `msgpack`, and its bytes."""

    kind: str
    data: bytes


class ImportedThread(msgspec.Struct, frozen=True, kw_only=True):
    """What was imported of a thread: its task, and how many checkpoints and sets of writes are new, and were there before."""

    thread: str
    task: str
    checkpoints: int
    writes: int
    present: int


class _Write(NamedTuple):
    writer: str
    path: str
    number: int
    channel: str
    value: SerializedValue


class _Row(NamedTuple):
    """A checkpoint, with its writes."""

    namespace: str
    name: str
    parent: str
    checkpoint: Checkpoint
    metadata: dict[str, Any]
    writes: list[_Write]


def import_threads(
    store: Store,
    source: str,
    threads: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Iterator[ImportedThread]:
    """Import threads, by default all, from the SQLite file or the `postgresql://` URL `source`; yields what each came to.

    `progress` gets the numbers of checkpoints that are done, and of all. Raises `InvalidError`, `NotFoundError`, `StoreError`.
    """
    with _postgres(source) if _POSTGRES.match(source) else _sqlite(source) as database:
        there = database.threads()
        for name in threads:
            if name not in there:
                help_ = did_you_mean(name, there) or f"its threads: {', '.join(list(there)[:10]) or 'none'}"
                raise NotFoundError(f"the database has no thread {name[:100]!r}", help_)
        wanted = list(dict.fromkeys(threads or there))
        done, total = 0, sum(there[name] for name in wanted)
        for name in wanted:
            thread = GraphThread(store, _bounded(name), _Serialized())
            added = written = present = 0
            for row in database.checkpoints(name):
                is_new = thread.add(row.namespace, row.parent, row.checkpoint, row.metadata)
                added, present, done = added + is_new, present + (not is_new), done + 1
                written += _add_writes(thread, row)
                progress(done, total)
            yield ImportedThread(thread=name, task=thread.task, checkpoints=added, writes=written, present=present)


def _add_writes(thread: GraphThread, row: _Row) -> int:
    by_writer: dict[str, list[_Write]] = {}
    for write in row.writes:
        by_writer.setdefault(write.writer, []).append(write)
    count = 0
    for writer, writes in by_writer.items():
        if not thread.has_writes(row.namespace, row.name, writer):
            # errors and interrupts have numbers of their own, and do not count
            ordered = sorted(writes, key=lambda write: (write.channel in WRITES_IDX_MAP, write.number))
            values = [(write.channel, _opened(write.value)) for write in ordered]
            thread.put_writes(row.namespace, row.name, values, writer, writes[0].path)
            count += 1
    return count


# --- SQLite


@contextmanager
def _sqlite(path: str) -> Iterator[_SqliteDatabase]:
    if not os.path.isfile(path):
        raise NotFoundError(f"{path} is not a file", _DO_NOT)
    try:
        with closing(sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True)) as connection:
            database = _SqliteDatabase(connection)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.set_progress_handler(database.is_late, 10_000)
            check_schema(connection, path)
            yield database
    except sqlite3.Error as error:
        raise InvalidError(f"{path} cannot be read: {error}", _DO_NOT) from error


class _SqliteDatabase:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._until = time.monotonic() + MAX_SECONDS

    def is_late(self) -> bool:
        return time.monotonic() > self._until

    def threads(self) -> dict[str, int]:
        rows = self._connection.execute(
            "SELECT thread_id, count(*) FROM checkpoints GROUP BY thread_id ORDER BY thread_id"
        )
        return {str(thread): count for thread, count in rows}

    def checkpoints(self, thread: str) -> Iterator[_Row]:
        self._until = time.monotonic() + MAX_SECONDS
        columns = {row[1] for row in self._connection.execute("PRAGMA table_info(writes)")}
        path = "task_path" if "task_path" in columns else "''"
        for namespace, name, parent, kind, data, metadata in self._connection.execute(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints WHERE thread_id = ? "
            "ORDER BY checkpoint_ns, checkpoint_id",
            (thread,),
        ):
            self._until = time.monotonic() + MAX_SECONDS
            writes = self._connection.execute(
                f"SELECT task_id, {path}, idx, channel, type, value FROM writes WHERE thread_id = ? AND checkpoint_ns = ? "  # noqa: S608  # a constant
                "AND checkpoint_id = ? ORDER BY task_id, idx LIMIT ?",
                (thread, namespace, name, MAX_WRITES + 1),
            ).fetchall()
            checkpoint = _members(SerializedValue(str(kind), _bytes(data)), name)
            if kind == "json":  # whose values only their program can read
                values = _map(checkpoint.get("channel_values"))
                checkpoint["channel_values"] = {
                    channel: SerializedValue("json", msgspec.json.encode(value)) for channel, value in values.items()
                }
            about = _bytes(metadata)
            members = _members(SerializedValue("json" if about[:1] == b"{" else str(kind), about), name)
            yield _row((namespace, name, parent), checkpoint, members, writes)


# --- PostgreSQL


@contextmanager
def _postgres(url: str) -> Iterator[_PostgresDatabase]:
    try:
        import psycopg  # slow to load, and an extra
    except ImportError as error:
        raise UsageError(f"psycopg is not installed: {error}", "pip install 'adjourn[postgres]'") from error
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.execute(f"SET LOCAL statement_timeout = {MAX_SECONDS * 1000}")
            yield _PostgresDatabase(connection)
    except psycopg.Error as error:
        text = str(error).strip().partition("\n")[0]
        raise InvalidError(f"the database cannot be read: {text}", _DO_NOT) from error


class _PostgresDatabase:
    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def threads(self) -> dict[str, int]:
        return dict(
            self._connection.execute(
                "SELECT thread_id, count(*)::int FROM checkpoints GROUP BY 1 ORDER BY 1"
            ).fetchall()
        )

    def checkpoints(self, thread: str) -> Iterator[_Row]:
        names = self._connection.execute(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = %s ORDER BY 1, 2",
            (thread,),
        ).fetchall()
        for namespace, name, parent in names:
            place, limit = (thread, namespace, name), MAX_VALUE_BYTES
            row = self._connection.execute(
                "SELECT left(checkpoint::text, %s), left(metadata::text, %s) FROM checkpoints "
                "WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s",
                (limit, limit, *place),
            ).fetchone()
            if row is None:
                continue
            checkpoint, metadata = (_members(SerializedValue("json", part.encode()), name) for part in row)
            values = self._connection.execute(
                "SELECT blobs.channel, blobs.type, substring(blobs.blob FOR %s) FROM checkpoints "
                "CROSS JOIN LATERAL jsonb_each_text(checkpoint -> 'channel_versions') AS version JOIN checkpoint_blobs AS blobs "
                "USING (thread_id, checkpoint_ns) WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s "
                "AND blobs.channel = version.key AND blobs.version = version.value AND blobs.type <> 'empty'",
                (limit + 1, *place),
            ).fetchall()
            stored = {channel: _opened(SerializedValue(kind, _bytes(data))) for channel, kind, data in values}
            checkpoint["channel_values"] = {**_map(checkpoint.get("channel_values")), **stored}
            if parent and checkpoint.get("v") in (1, 2, 3):
                self._add_sends(checkpoint, thread, parent)
            writes = self._connection.execute(
                "SELECT task_id, task_path, idx, channel, type, substring(blob FOR %s) FROM checkpoint_writes "
                "WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s ORDER BY task_id, idx LIMIT %s",
                (limit + 1, *place, MAX_WRITES + 1),
            ).fetchall()
            yield _row((namespace, name, parent), checkpoint, metadata, writes)

    def _add_sends(self, checkpoint: dict[str, Any], thread: str, parent: str) -> None:
        """What PostgresSaver does with a checkpoint of an earlier version: its nodes to run are written after its parent."""
        rows = self._connection.execute(
            "SELECT type, substring(blob FOR %s) FROM checkpoint_writes WHERE thread_id = %s AND checkpoint_id = %s AND channel = %s "
            "ORDER BY task_path, task_id, idx LIMIT %s",
            (MAX_VALUE_BYTES + 1, thread, parent, TASKS, MAX_WRITES),
        ).fetchall()
        if rows:
            checkpoint["channel_values"][TASKS] = [_opened(SerializedValue(kind, _bytes(data))) for kind, data in rows]
            versions = checkpoint["channel_versions"] = _map(checkpoint.get("channel_versions"))
            versions[TASKS] = max(map(str, versions.values()), default=f"{1:032}")


# --- values


class _Serialized:
    """A serializer for values that are serialised already, alone or in lists and maps."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if isinstance(obj, SerializedValue):
            return obj
        if obj is None:
            return "null", b""
        return ("bytes", obj) if isinstance(obj, bytes) else ("msgpack", msgspec.msgpack.encode(obj))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return _opened(SerializedValue(*data))


def _opened(value: SerializedValue) -> Any:
    """A list or map with its items, which stay as they are; else the value as it is."""
    if value.kind != "msgpack":
        return value
    try:
        opened = msgspec.msgpack.decode(value.data)
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError):
        return value
    return opened if type(opened) in (list, dict) else value


def _members(value: SerializedValue, name: object) -> dict[str, Any]:
    """The members of a checkpoint, or of its metadata."""
    if value.kind not in ("msgpack", "json"):
        message = (
            f"checkpoint {str(name)[:100]} is stored as {value.kind[:50]}, which cannot be read without its program"
        )
        raise InvalidError(message, _ENCRYPTED)
    try:
        members = (msgspec.json if value.kind == "json" else msgspec.msgpack).decode(value.data)
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError) as error:
        raise InvalidError(f"checkpoint {str(name)[:100]} cannot be read: {error}", _DO_NOT) from error
    if not isinstance(members, dict):
        raise InvalidError(f"checkpoint {str(name)[:100]} is not a map", _DO_NOT)
    return members


def _row(place: Sequence[object], checkpoint: dict[str, Any], metadata: dict[str, Any], writes: Sequence[Any]) -> _Row:
    """A checkpoint whose `place` is its namespace, its id, and that of its parent."""
    namespace, name, parent = (_bounded(part or "") for part in place)
    if len(writes) > MAX_WRITES:
        raise InvalidError(
            f"checkpoint {name[:100]} has more than {MAX_WRITES:,} writes", "import other threads: --thread ID"
        )
    checkpoint = {**checkpoint, "id": name}
    for member in ("channel_values", "channel_versions", "versions_seen"):
        checkpoint[member] = _map(checkpoint.get(member))
    pending = [
        _Write(_bounded(writer), str(path or ""), int(number), str(channel), SerializedValue(str(kind), _bytes(data)))
        for writer, path, number, channel, kind, data in writes
    ]
    return _Row(namespace, name, parent, cast("Checkpoint", checkpoint), metadata, pending)


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _bytes(data: object) -> bytes:
    data = (
        data.encode()
        if isinstance(data, str)
        else b""
        if data is None
        else bytes(data)
        if isinstance(data, bytes | memoryview)
        else b""
    )
    if len(data) > MAX_VALUE_BYTES:
        raise InvalidError(f"a value has more than {MAX_VALUE_BYTES:,} bytes", "import other threads: --thread ID")
    return data


def _bounded(name: object) -> str:
    text = str(name)
    if len(text) > MAX_NAME:
        raise InvalidError(
            f"the name {text[:60]}… has more than {MAX_NAME} characters", "import other threads: --thread ID"
        )
    return text
