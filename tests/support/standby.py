"""A PostgreSQL server and the synchronous standby that it waits for.

Owns: `Pair`. Must never: know a table.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

SECONDS = 60
_WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%INTO adjourn_event%'"


def until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < end
        time.sleep(0.02)


class Pair:
    """A primary and the standby that it waits for, in the folder and by the programs of another server."""

    def __init__(self, server: Any) -> None:
        self.run = server._run
        self.sockets = server.folder
        self.folders = [f"{server.folder}/{name}-{secrets.token_hex(4)}" for name in ("primary", "standby")]
        primary, standby = self.folders
        hosts = f"host={self.sockets},{self.sockets}&port=6001,6002"
        self.url = f"postgresql://adjourn@/postgres?{hosts}&target_session_attrs=read-write"
        self.run("initdb", "-D", primary, "-U", "adjourn", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start(primary, 6001)
        source = f"host={self.sockets} port=6001 user=adjourn application_name=standby"
        self.run("pg_basebackup", "-D", standby, "-d", source, "-R", "-c", "fast", "--no-sync")
        self.start(standby, 6002)
        self.wait_for("standby")
        with psycopg.connect(self.url, autocommit=True) as admin:
            until(lambda: admin.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [("sync",)])

    def start(self, folder: str, port: int) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.sockets}' -c port={port}"
        self.run("pg_ctl", "-D", folder, "-w", "-l", f"{folder}.log", "-o", options, "start")

    def wait_for(self, standbys: str) -> None:
        """The primary acknowledges what these have."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'".encode())
            admin.execute("SELECT pg_reload_conf()")

    def is_waiting(self) -> bool:
        """Whether a commit of events waits for the standby."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            found = admin.execute(_WAITING).fetchall()
            return bool(found)

    def promote(self) -> None:
        """Make the standby the primary, with no standby of its own, as docs/how-to/operate.md says."""
        self.run("pg_ctl", "-D", self.folders[1], "-w", "promote")
        self.wait_for("")

    def stop(self, number: int) -> None:
        """End a server at once, with all connections: 0 the first primary, 1 the standby."""
        self.run("pg_ctl", "-D", self.folders[number], "-m", "immediate", "stop")
