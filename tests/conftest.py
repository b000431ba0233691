"""Fixtures that several folders of tests share."""

from __future__ import annotations

import gc
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support import slow, tools
from support.missing import is_left_out, is_missing, lacks

# Hooks that `adjourn init` set up leave a process behind; those of tests have no place to. The tests of just that have one.
os.environ["XDG_RUNTIME_DIR"] = "/proc/nowhere"

# Time says nothing about what a test holds: a machine under load is slow. Examples of one test share its folder, and write what
# they need. In CI hypothesis draws the same examples in each run, and keeps none in a file.
settings.register_profile(
    "short",
    max_examples=25,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("campaign", settings.get_profile("short"), max_examples=500)
settings.load_profile("campaign" if os.environ.get("ADJOURN_CAMPAIGN") == "1" else "short")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if slow.is_slow(item.path, getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        for mark in item.iter_markers("extra"):
            if lacks(mark.args[0]):
                item.add_marker(pytest.mark.skip(f"pip install 'adjourn[{mark.args[0]}]'"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """The core is tested without its annexes where their extras are not installed."""
    return True if collection_path.suffix == ".py" and is_left_out(collection_path) else None


def pytest_collection_finish() -> None:
    """What is loaded by now stays: a collection of garbage need not look at it again, and many tests collect."""
    gc.collect()
    gc.freeze()


# --- a person's word ------------------------------------------------------------------------------------------------


@pytest.fixture
def unattended(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder whose settings let this process speak for a person, without a terminal and inside a client."""
    from adjourn.host import own_settings  # few tests need it

    home = tmp_path_factory.mktemp("home")
    settings = home / own_settings.SETTINGS
    settings.parent.mkdir(parents=True)
    settings.write_text("allow-unattended = true\nallow-inside-client = true\n")
    monkeypatch.setattr(own_settings, "home", lambda: str(home))
    return settings


# --- a PostgreSQL server of our own ---------------------------------------------------------------------------------


def _as_server_user(command: list[str]) -> list[str]:
    """PostgreSQL refuses to run as root; another user runs it then."""
    return ["runuser", "-u", _server_user(), "--", *command] if os.geteuid() == 0 else command


def _server_user() -> str:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


class PostgresServer:
    """A private server that listens on a Unix socket only."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        # A socket's path has about 100 bytes at most: pytest's temporary folders are too deep.
        self.folder = Path(tempfile.mkdtemp(prefix="adjourn-pg-"))
        if os.geteuid() == 0:
            user = pwd.getpwnam(_server_user())
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.url = f"postgresql://adjourn@/postgres?host={self.folder}"
        self._run("initdb", "-D", f"{self.folder}/data", "-U", "adjourn", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c max_connections=50"
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", mode, "stop")

    def new_schema(self) -> str:
        """The URL of a new, empty schema."""
        import psycopg  # an extra

        name = f"s{secrets.token_hex(8)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"'.encode())
        return f"{self.url}&options=-csearch_path%3D{name}"

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            _as_server_user([str(self.programs / program), *arguments]),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
        )
        assert done.returncode == 0, f"{program} failed: {(done.stdout or b'').decode()}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Skips where PostgreSQL is not installed, except in CI, which must have it."""
    programs = tools.postgres_programs()
    missing = "no initdb in PATH or /usr/lib/postgresql/*/bin: apt-get install postgresql" if not programs else ""
    try:
        import psycopg  # noqa: F401  # only whether it is there
    except ImportError:
        missing = "psycopg is not installed: pip install 'adjourn[postgres]'"
    if missing or programs is None:
        is_missing(missing)
    server = PostgresServer(programs)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def new_postgres_url(postgres_server: PostgresServer) -> Callable[[], str]:
    """Makes the URL of an empty place in the server, a new one at each call."""
    return postgres_server.new_schema


@pytest.fixture
def url(new_postgres_url: Callable[[], str]) -> str:
    """The URL of one empty place in the server."""
    return new_postgres_url()
