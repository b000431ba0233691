"""The connection to a PostgreSQL server: making it, replacing it when it breaks, and what its failures mean.

Nothing here reads or writes an event, a ref or a blob, or shows a password. The only module that imports psycopg, and only when
called.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from adjourn.errors import StoreError, UsageError
from adjourn.store import base

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_SECONDS: Final = 5
"""For each host of the URL; again for their names to be looked up, which libpq does without a limit."""
STATEMENT_SECONDS: Final = 10
LOCK_SECONDS: Final = 5
SILENCE_SECONDS: Final = 2
"""How much longer than a statement may take the server may be silent. One that is stopped, or behind a network that drops
what is sent, ends no statement itself."""

# Any constant will do, as long as every opener of this database takes the same.
_MIGRATION_LOCK = int.from_bytes(b"adjourn\0", "big") >> 8

# Only what the URL, the role or the database did not set already. A commit that the server acknowledges is on its
# disk: switched off, synchronous_commit would lose acknowledged entries when the server is killed. A client that stops
# within a transaction would keep others from its streams. Planning takes longer than an append; every statement has a key,
# and a plan that was made while the tables were small must not walk them when they have grown. The schema that this program
# knows is for the tables' trigger, which refuses appends of programs that do not know theirs.
_SETTINGS = """
SELECT
    extract(epoch FROM set_config('statement_timeout', CASE current_setting('statement_timeout')
        WHEN '0' THEN %s ELSE current_setting('statement_timeout') END, false)::interval)::float8,
    set_config('lock_timeout', CASE current_setting('lock_timeout')
        WHEN '0' THEN %s ELSE current_setting('lock_timeout') END, false),
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
    set_config('idle_in_transaction_session_timeout', CASE current_setting('idle_in_transaction_session_timeout')
        WHEN '0' THEN %s ELSE current_setting('idle_in_transaction_session_timeout') END, false),
    set_config('adjourn.schema', coalesce(nullif(current_setting('adjourn.schema', true), ''), %s), false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_seqscan', 'off', false),
    set_config('default_transaction_isolation', 'read committed', false)
"""

_HAS_SCHEMA = "SELECT 1 FROM pg_class WHERE relname = 'adjourn_schema' AND pg_table_is_visible(oid)"

_HELP: dict[str, tuple[str, str]] = {
    "08": ("the server cannot be reached", "check its address, that it runs, and the network; then try again"),
    "25006": ("the server accepts no writes", "connect to the primary; this is a standby or a read-only database"),
    "28": ("the server refused the login", "check the user, the password (PGPASSWORD, ~/.pgpass) and pg_hba.conf"),
    "3D000": ("the database does not exist", "create it (createdb), or name another in the URL"),
    "3F000": ("no schema of the search_path exists", "create the schema, or name another in the URL's search_path"),
    "40": ("the server rolled the transaction back", "try again; nothing was half written"),
    "42501": ("the role lacks a right", "grant it: the tables' owner, or CREATE on the schema the first time"),
    "53100": ("the server's disk is full", "free some space there and try again; nothing was half written"),
    "53300": ("the server has no connection left", "close some, or raise max_connections"),
    "53": ("the server has too few resources", "check the server's log and try again"),
    "55P03": (f"another session kept it locked for {LOCK_SECONDS} s", "try again"),
    "57014": (f"it took longer than {STATEMENT_SECONDS} s", "try again; the server may be overloaded"),
    "57P": ("the server is stopping or starting", "wait until it is up and try again"),
    "58": ("the server's file system failed", "check the server's log"),
    "ZA": (
        "a newer adjourn has changed its schema",
        "upgrade adjourn (pip install -U adjourn), then start this process again",
    ),
    "XX": ("the server found damaged data", "check the server's log, and restore a backup"),
}


def driver() -> Any:
    """The psycopg module; `StoreError` if it is not installed."""
    try:
        import psycopg  # an extra, loaded only when a PostgreSQL store is opened
    except ImportError as error:
        raise StoreError(f"a postgresql:// store needs psycopg ({error})", "pip install 'adjourn[postgres]'") from error
    return psycopg


def describe_server(url: str) -> str:
    """The server and database that a URL names, fit to be shown: no user, no password."""
    psycopg = driver()
    try:
        fields = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        fields = None
    if fields is None or _is_torn(url):
        # The driver's words may quote the URL, and with it the password, or take a part of that for the host.
        raise UsageError(
            "the PostgreSQL URL is not well formed",
            "write postgresql://USER@HOST:PORT/DATABASE, with %XX for special characters",
        ) from None
    host = fields.get("host") or "local"
    port = f":{fields['port']}" if fields.get("port") else ""
    return f"postgresql://{host}{port}/{fields.get('dbname') or ''}"


@cache
def _bounded() -> Any:
    """The class of our connections: psycopg's, but no wait is longer than the server may be silent."""
    psycopg = driver()

    class BoundedConnection(psycopg.Connection):  # type: ignore[misc, name-defined]  # of a module that is loaded late
        silence: float = STATEMENT_SECONDS + SILENCE_SECONDS

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            return super().wait(self._answered(gen), *arguments, **options)

        def _answered(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """The same conversation with the server, ended if the server stays silent."""
            heard = time.monotonic()
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted  # nothing, now and then, while nothing comes
                    if ready:
                        heard = time.monotonic()
                    elif time.monotonic() - heard > self.silence:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"no answer for {self.silence:g} s")
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value

    return BoundedConnection


def place(url: str) -> str:
    """The server and database, and the options that choose a schema in it: the same text for every process that opens them."""
    return f"{describe_server(url)} {driver().conninfo.conninfo_to_dict(url).get('options') or ''}"


def connect(url: str) -> Connection:
    """A new connection in autocommit, with our settings. Raises `StoreError`."""
    psycopg = driver()
    where = describe_server(url)
    conninfo = psycopg.conninfo.conninfo_to_dict(url)
    defaults = {"connect_timeout": CONNECT_SECONDS, "application_name": "adjourn"}
    fields = {key: value for key, value in defaults.items() if key not in conninfo}
    connection = _connected(url, fields, seconds=_connect_seconds({**conninfo, **fields}), where=where)
    if connection.info.parameter_status("server_encoding") != "UTF8":
        connection.close()
        raise StoreError(f"the store {where} is not encoded in UTF-8", "create the database with ENCODING 'UTF8'")
    try:
        fetchone = connection.execute(
            _SETTINGS,
            (f"{STATEMENT_SECONDS}s", f"{LOCK_SECONDS}s", f"{STATEMENT_SECONDS}s", str(base.LATEST["postgres"])),
        ).fetchone()
    except psycopg.Error as error:
        connection.close()
        raise failure(where, error) from error
    connection.silence = fetchone[0] + SILENCE_SECONDS
    return connection  # type: ignore[no-any-return]  # psycopg's, but for its waits


def is_prepared(url: str) -> bool:
    """Whether the database has the tables of a store. Raises `StoreError`."""
    with connect(url) as connection:
        return bool(connection.execute(_HAS_SCHEMA).fetchone())


def _connect_seconds(fields: dict[str, Any]) -> float:
    hosts = str(fields.get("host") or fields.get("hostaddr") or "").count(",") + 1
    try:
        each = int(fields["connect_timeout"])
    except ValueError:
        each = 0  # libpq will say what is wrong with it
    return max(each, CONNECT_SECONDS) * (hosts + 1)


def _connected(url: str, fields: dict[str, Any], *, seconds: float, where: str) -> Any:
    """A connection, made within a time: in a thread, since looking up a name can be given none. Raises `StoreError`."""
    psycopg = driver()
    values: list[Any] = []
    failed: list[Exception] = []
    late = False

    def make() -> None:
        try:
            values.append(_bounded().connect(url, autocommit=True, client_encoding="utf8", **fields))
            if late:
                values.pop().close()
        except Exception as error:
            failed.append(error)

    thread = Thread(target=make, daemon=True)
    thread.start()
    thread.join(seconds)
    late = True
    with suppress(IndexError):
        return values.pop()
    error = failed[0] if failed else psycopg.OperationalError(f"no connection within {seconds:g} s")
    if isinstance(error, psycopg.Error):
        raise failure(where, error) from error
    raise error


def prepare(connection: Connection, where: str) -> int:
    """Make the tables where there are none: of several openers one does it, the others wait. Returns their schema.

    Tables of an older schema stay as they are: `adjourn store migrate` changes them, once every program that uses them can read both.
    """
    store = f"the store {where}"
    try:
        return version_of(connection, store) or _make_tables(connection, store)
    except driver().Error as error:
        raise failure(where, error) from error


def _make_tables(connection: Connection, store: str) -> int:
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        # INVARIANT: the version is read again under the lock.
        if version := version_of(connection, store):
            return version
        for script in base.scripts("postgres", 0):
            connection.execute(script.encode())
        set_version(connection)
        return base.LATEST["postgres"]


def set_version(connection: Connection) -> None:
    """Write down that the tables have the latest schema."""
    connection.execute("UPDATE adjourn_schema SET version = %s", (base.LATEST["postgres"],))


def version_of(connection: Connection, store: str) -> int:
    """The schema of the tables, 0 where there are none. Refuses a newer one. Raises `psycopg.Error`."""
    # Not to_regclass(): within a transaction it may answer from a cache filled before we got the lock.
    if not connection.execute(_HAS_SCHEMA).fetchone():
        return 0
    row = connection.execute("SELECT version FROM adjourn_schema").fetchone()
    version = int(row[0]) if row else 0
    base.is_current("postgres", version, store)
    return version


def failure(where: str, error: psycopg.Error) -> StoreError:
    """What a `psycopg.Error` means to a person: the store, the cause, the next step."""
    text = " ".join(str(error).split())
    state = error.sqlstate or ("08" if isinstance(error, driver().OperationalError) else "")
    for length in (5, 3, 2):
        if state[:length] in _HELP:
            cause, remedy = _HELP[state[:length]]
            return StoreError(f"the store {where} cannot be used: {cause} ({text})", remedy)
    return StoreError(f"the store {where} failed: {text}", "retry; report it if it persists")


# --- one connection to a PostgreSQL server that is replaced when it breaks


SLOW_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 5.0
"""After a connection that took its time to fail no other is tried for as long as it took, at most so long: the threads of a process would
wait for each."""

# A commit waits for all that was written before it. What a look finds may be visible on this server only: its own commit was
# waiting for a standby when the connection was lost.
_CONFIRM = "SELECT pg_logical_emit_message(true, 'adjourn', '')"

_T = TypeVar("_T")


class LostConnectionError(Exception):
    """The connection broke; whether the server executed the statement is not known."""


class PostgresServer:
    """Where to connect to. A server that was slow to fail is left alone for a while, by everyone who shares this."""

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.errors = driver().Error
        self.where = describe_server(url)
        self._url = url
        self._monotonic = monotonic
        self._away: StoreError | None = None
        self._retry_at = 0.0

    def connect(self) -> Connection:
        begun = self._monotonic()
        if self._away is not None and begun < self._retry_at:
            raise StoreError(self._away.message, self._away.remedy)
        try:
            connection = connect(self._url)
        except StoreError as error:
            ended = self._monotonic()
            if (seconds := ended - begun) > SLOW_SECONDS:
                self._away, self._retry_at = error, ended + min(seconds, RETRY_SECONDS)
            raise
        self._away = None
        return connection


class PostgresLine:
    """A connection, made when it is needed and guarded by `lock`. The methods take the lock themselves."""

    def __init__(self, server: PostgresServer, connection: Connection | None = None) -> None:
        self.lock = threading.RLock()
        self.server = server
        self.connection = connection
        self._closed = False

    def again(self, work: Callable[[Connection], _T]) -> _T:
        """Read something; again on a new connection when the old one breaks."""
        with self.lock:
            try:
                return self.first(work)
            except LostConnectionError:
                return self.last(work)

    def write(self, work: Callable[[Connection], object]) -> None:
        """Write something that may be written twice; again on a new connection when the old one breaks."""
        with self.lock:
            try:
                self.first(work)
            except LostConnectionError:
                self.last(work)
                self.last(confirm)

    def once(self, write: Callable[[Connection], bool], is_there: Callable[[Connection], bool]) -> bool:
        """Do something that must be done once. After a lost connection, look whether it was done before all else.

        A server that is still at work on the lost statement holds its place in the index: the second try waits
        for it, writes nothing, and the second look finds what the first one did.
        """
        with self.lock:
            try:
                return self.first(write)
            except LostConnectionError:
                return self._look(is_there) or self.last(write) or self._look(is_there)

    def _look(self, is_there: Callable[[Connection], bool]) -> bool:
        def confirmed(connection: Connection) -> bool:
            there = is_there(connection)
            if there:
                confirm(connection)
            return there

        return self.last(confirmed)

    def first(self, work: Callable[[Connection], _T]) -> _T:
        """Do something. Raises `LostConnectionError` when the connection breaks."""
        with self.lock:
            connection = self.connected()
            try:
                return work(connection)
            except self.server.errors as error:
                if connection.closed:
                    self.connection = None
                    raise LostConnectionError from error
                raise failure(self.server.where, error) from error

    def last(self, work: Callable[[Connection], _T]) -> _T:
        """Do something after a lost connection. Raises `StoreError` when the new one breaks, too."""
        try:
            return self.first(work)
        except LostConnectionError as lost:
            raise StoreError(
                f"the connection to the store {self.server.where} broke twice; a write may or may not have been made",
                "check the server and the network, then read the head before you try again",
            ) from lost.__cause__

    def connected(self) -> Connection:
        """The connection, made now if there is none."""
        with self.lock:
            if self._closed:
                raise StoreError(f"the store {self.server.where} is closed", "open it again")
            if self.connection is None:
                self.connection = self.server.connect()
            return self.connection

    def close(self) -> None:
        with self.lock:
            self._closed = True
            if self.connection is not None:
                self.connection.close()
            self.connection = None


def confirm(connection: Connection) -> None:
    """Wait until what can be seen is where an acknowledged write is: on the disk, and on the standbys that are waited for."""
    connection.execute(_CONFIRM)


# --- long work on a store that others use

LONGEST_PAUSE: Final = 1.0


def paced(steps: Iterable[_T]) -> Iterator[_T]:
    """The steps. Between two, a pause of as long as the one before took: others have the server for half of the time at least."""
    began = time.monotonic()
    for number, step in enumerate(steps):
        if number:
            time.sleep(min(time.monotonic() - began, LONGEST_PAUSE))
        began = time.monotonic()
        yield step


def _is_torn(url: str) -> bool:
    """Whether a character of a PostgreSQL URL's password (`/`, `@`) is not escaped, so that a part of it is taken for something else."""
    after_scheme = url.partition("?")[0].partition("://")[2]
    return after_scheme.count("@") > 1 or "@" in after_scheme.partition("/")[2]
