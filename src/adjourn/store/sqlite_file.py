"""The SQLite file: opening it under rules, its write-ahead log, its heads, and what its failures mean.

Nothing here reads or writes an event, a ref or a blob, nor opens or deletes the file's `-wal` and `-shm` companions (SQLite alone
knows when they are spent).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from adjourn.errors import IntegrityError, RefusedError, StoreError
from adjourn.store.base import LATEST, Head, is_current, scripts

APPLICATION_ID: Final = int.from_bytes(b"adjn", "big")
BUSY_SECONDS: Final = 5.0

# Frames in the write-ahead log at which SQLite itself stops a commit to copy them into the database. A last
# resort only (32 MiB): `sqlite_wal` normally gets there first, outside the path of an append.
_AUTOCHECKPOINT_PAGES = 8192
# Pages kept in memory by each connection: appends need the last few only, and a proxy should stay small.
_CACHE_KIB = 512
# Prepared statements kept: an insert of a hundred entries takes some 50 KiB, and there is one for each number of entries.
_STATEMENTS = 16
# What stays of the log file once it was copied and restarted. Kept, not truncated: writing over a file that
# has its size already is a third cheaper when synced than growing it.
_WAL_BYTES_KEPT = 8 * 1024 * 1024

_READ_ONLY_HELP = "open a copy in a folder you may write, or remount the file system writable"
_HELP: dict[str, tuple[str, str]] = {
    "FULL": ("the disk is full", "free some space and try again; nothing was half written"),
    "READONLY": ("it can only be read", _READ_ONLY_HELP),
    "BUSY": (
        f"another process kept it locked for {BUSY_SECONDS:.0f} s",
        "try again; if it lasts, look for a stopped process that has the file open (lsof)",
    ),
    "LOCKED": ("another connection of this process keeps it locked", "try again"),
    "CORRUPT": (
        "its content is damaged",
        "keep the file and its -wal, restore a backup or a checkpoint, or try `sqlite3 FILE .recover`",
    ),
    "NOTADB": (
        "it is not a SQLite database",
        "name another path; if this one did hold tasks, restore it from a backup",
    ),
    "CANTOPEN": ("it cannot be opened", "check that its folder exists and that you may read and write there"),
    "PERM": ("permission was denied", "check the owner and the mode of the file and its folder"),
    "AUTH": ("permission was denied", "check the owner and the mode of the file and its folder"),
    "IOERR": (
        "the operating system could not read or write it",
        "check the disk (space, cable, file system log) and try again; nothing was half written",
    ),
    "NOMEM": ("memory ran out", "end other programs and try again"),
}

# Guards the gap between making the file and closing that descriptor: closing it would drop the POSIX locks
# which another connection of this process has taken on the same file since.
_creating = threading.Lock()


def failure(path: str, error: sqlite3.Error) -> StoreError:
    """What a `sqlite3.Error` means to a person: the path, the cause, the next step."""
    name = getattr(error, "sqlite_errorname", None)
    if name is None:
        if "closed" in str(error):
            return closed(path)
        return StoreError(f"the store {path} failed: {error}", "report this: it is a bug in adjourn")
    for code, (cause, remedy) in _HELP.items():
        if name.startswith(f"SQLITE_{code}"):
            return StoreError(f"the store {path} cannot be used: {cause} ({name}: {error})", remedy)
    return StoreError(f"the store {path} failed: {error} ({name})", "retry; report it if it persists")


def closed(path: str) -> StoreError:
    """The error for using a store that is closed."""
    return StoreError(f"the store {path} is closed", "open it again")


def replaced(path: str) -> StoreError:
    """The error for a store whose file was deleted or replaced."""
    return StoreError(
        f"the store {path} was deleted or replaced while it was open",
        "restore the file and its -wal from a backup, or run `adjourn verify`; then restart the processes that had it open",
    )


def identity(path: str) -> tuple[int, int]:
    """Device and inode of the file that a path names now; zeros where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def read_only(path: str) -> StoreError:
    """The error for writing to a store that can only be read."""
    return StoreError(f"the store {path} was opened for reading only", _READ_ONLY_HELP)


def connect(path: str) -> sqlite3.Connection:
    """One more connection to an existing store, in autocommit, usable from any thread (one at a time)."""
    return sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS
    )


def open_writer(path: str) -> sqlite3.Connection | None:
    """A connection set up for writing to an up-to-date store, made if need be; None where only reading is possible.

    Raises `RefusedError` for links, `SchemaError` for a newer store and `StoreError` for whatever else fails.
    """
    _refuse_links(path)
    try:
        if not os.path.lexists(path):
            _create(path)
        elif not (os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)):
            return None
    except OSError as error:
        raise StoreError(
            f"the store {path} cannot be created: {error.strerror}", "name a path in a folder you may write"
        ) from error
    connection = None
    try:
        connection = connect(path)
        _set_up(connection, path)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise failure(path, error) from error
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def open_reader(path: str) -> sqlite3.Connection:
    """A connection for reading a store that cannot be written (a read-only mount, another user's file)."""
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")  # https://sqlite.org/uri.html
    uri = f"file:{escaped}?mode=ro"
    try:
        try:
            connection = _connect_for_reading(uri, path)
        except sqlite3.OperationalError:
            # Without its companions a store in WAL mode opens only if they can be made. If there is no log, the
            # database file is all there is to read, and nobody can be writing on a medium that is read-only.
            if _size(path + "-wal") > 0:
                raise
            connection = _connect_for_reading(uri + "&immutable=1", path)
    except sqlite3.Error as error:
        remedy = "copy the file and its -wal together to a folder you may write, and open it there"
        raise StoreError(f"the store {path} cannot be read where it is: {error}", remedy) from error
    return connection


def _connect_for_reading(uri: str, path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        current = is_current("sqlite", _version(connection, path), f"the store {path}")
    except BaseException:
        connection.close()
        raise
    if not current:
        connection.close()
        raise StoreError(f"the store {path} has an older schema and cannot be migrated", _READ_ONLY_HELP)
    return connection


def _refuse_links(path: str) -> None:
    """A link planted in the workspace must not lead our writes, or another's bytes, elsewhere.

    SQLite opens the file and its companions with O_NOFOLLOW too, so that a link planted after this look is not
    followed either, except for the database file itself, whose name SQLite resolves first.
    """
    for name in (path, path + "-wal", path + "-shm"):
        if os.path.islink(name):
            raise RefusedError(f"{name} is a symbolic link", "name the file that it points at, or remove the link")
    folder = os.path.dirname(path)
    if os.path.islink(folder):
        around, target = os.path.realpath(os.path.dirname(folder)), os.path.realpath(folder)
        if os.path.commonpath([around, target]) != around:
            raise RefusedError(
                f"{folder} is a symbolic link that leads out of {around}",
                f"name the store by its real path, {os.path.join(target, os.path.basename(path))}",
            )
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise RefusedError(f"{path} is not a regular file", "name another path")


def _create(path: str) -> None:
    """Make the empty file and the folders it needs for this user only. SQLite gives its companions the same mode."""
    missing = []
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for name in reversed(missing):
        try:
            os.mkdir(name, 0o700)
        except FileExistsError:
            if not os.path.isdir(name):
                raise
    with _creating:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return  # another process made it a moment ago


def _set_up(connection: sqlite3.Connection, path: str) -> None:
    current = is_current("sqlite", _version(connection, path), f"the store {path}")
    _use_wal(connection)
    if not current:
        _migrate(connection, path)
    connection.execute(f"PRAGMA wal_autocheckpoint={_AUTOCHECKPOINT_PAGES}").close()
    connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES_KEPT}").close()
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}").close()
    # Where fsync() does not reach the platter (macOS), ask for what does. Elsewhere this changes nothing.
    connection.execute("PRAGMA fullfsync=ON").close()


def _version(connection: sqlite3.Connection, path: str) -> int:
    """The schema number, 0 for a database without any table. Refuses a database that is not a store of adjourn."""
    # In this order, because another process may be migrating between two of these: whoever saw a table sees the
    # version and the id that were committed with it; whoever saw too little migrates, and looks again then.
    tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION_ID:
        return int(version)
    if application == 0 and version == 0 and not tables:
        return 0
    raise StoreError(
        f"{path} is a SQLite database, but not a store of adjourn", "name another path; the file was left as it is"
    )


def _use_wal(connection: sqlite3.Connection) -> None:
    # Processes that open a fresh file together all try this switch, and SQLite answers the losers "busy" at once
    # (waiting could deadlock), whatever the time-out is.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            if mode != "wal":
                raise StoreError(
                    f"the file system does not support a write-ahead log (journal mode {mode})",
                    "keep the store on a local disk",
                )
            return


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    # INVARIANT: the version is read again under the write lock, so that of several openers one migrates.
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path)
        if not is_current("sqlite", version, f"the store {path}"):
            for script in scripts("sqlite", version):
                for statement in _statements(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version={LATEST['sqlite']}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    """The single statements of a script: `executescript` would commit the transaction it is called in."""
    statements, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


# --- where all streams of a SQLite store end, for who asks again and again

# No name has a control character (`check_name`).
ALL_HEADS = """
SELECT group_concat(name || char(9) || (
    SELECT (position & 1099511627775) || char(9) || hash FROM event
    WHERE position BETWEEN id << 40 AND id << 40 | 1099511627775 ORDER BY position DESC LIMIT 1
), char(10)) FROM stream
"""


class KnownHeads(NamedTuple):
    """The answer, as of a version of the data."""

    version: int = -1
    lines: frozenset[str] = frozenset()
    heads: Mapping[str, Head] = MappingProxyType({})

    def updated(self, version: int, text: str, path: str) -> Self:
        """The answer as it is now. Raises `IntegrityError` for a text that no store of ours gives."""
        lines = frozenset(text.split("\n") if text else ())
        try:
            heads = {**self.heads, **dict(map(_read, lines - self.lines))}
            if len(heads) != len(self.heads) or len(heads) != len(lines):
                heads = dict(sorted(map(_read, lines)))
        except ValueError:
            raise IntegrityError(
                f"a stream in {path} has a name or a hash that no store writes",
                "restore a backup or a checkpoint: something else changed the file",
            ) from None
        return self._replace(version=version, lines=lines, heads=heads)


def _read(line: str) -> tuple[str, Head]:
    name, seq, digest = line.split("\t")
    return name, Head(int(seq), digest)


# --- keeping the write-ahead log short without making an append wait for it

PAGES: Final = 2500
"""Pages written since the last copy that start the next one (10 MiB)."""

_FREE_ROUNDS = 3


class LogCopier:
    """Copies the log on request, in the background, one copy at a time."""

    def __init__(self, path: str, writer_lock: threading.Lock) -> None:
        self._path = path
        self._writer_lock = writer_lock
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> bool:
        """Start a copy; False if one is running, or the store is closing. The caller holds the writer's lock."""
        if self._stopping or (self._thread is not None and self._thread.is_alive()):
            return False
        # A daemon: a process that ends without close() must not wait for a copy that the next one can make.
        self._thread = threading.Thread(target=self._copy, name="adjourn-wal", daemon=True)
        self._thread.start()
        return True

    def stop(self) -> None:
        """Wait for a running copy, and start no other. The caller does not hold the writer's lock."""
        self._stopping = True
        self.wait()

    def wait(self) -> None:
        """Wait for a running copy. The caller does not hold the writer's lock."""
        if self._thread is not None:
            self._thread.join()

    def _copy(self) -> None:
        try:
            connection = connect(self._path)
        except sqlite3.Error:
            return
        try:
            length = 0
            for _ in range(_FREE_ROUNDS):
                before, length = length, _copy_once(connection)
                if self._stopping or length == before:
                    return  # nothing came in since: the next append restarts the log
            with self._writer_lock:
                _copy_once(connection)
        except sqlite3.Error:
            # Nothing is lost: the log still holds it all. If the disk is full or failing, the next append says so.
            return
        finally:
            connection.close()


def _copy_once(connection: sqlite3.Connection) -> int:
    """Copy what no reader still needs in the log, without waiting for anybody; returns the log's length in pages."""
    _busy, pages, _copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(pages)
