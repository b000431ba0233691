"""What the simulation is calibrated with, measured on this machine.

    python tests/sim/measure.py [--repeats 3] [--seconds 2] [--only database statement heartbeat pages gateway starts]

Prints figures as lines of `costs.toml`; which of them go there is decided by a person, because a busy machine shows more than
things cost. Everything is tried `repeats` times, and the least cost counts. Needs PostgreSQL's programs, pgbench among them.

Owns: how each cost is measured. Must never: compute what the simulation predicts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

from adjourn.store import PostgresStore
from adjourn.store.postgres_batch import _APPEND
from conftest import PostgresServer
from sim import http_load
from support import tools
from support.gateway import GatewayWorkspace
from support.processes import process, resident

TICKS = os.sysconf("SC_CLK_TCK")
SIZE = 700
"""Bytes of an entry of the database's measurements: about those of a `tool.allowed`."""
CONNECTIONS = (1, 2, 4, 8, 16, 32)
BATCHES = (1, 16, 64, 256)
PORT = 6001


def processor(pid: int) -> float:
    """Seconds that a process has computed."""
    found = process(pid)
    assert found is not None
    return found.ticks / TICKS


class Measuring:
    def __init__(self, server: PostgresServer, repeats: int, seconds: float) -> None:
        self.server, self.repeats, self.seconds = server, repeats, seconds

    def show(self, name: str, **values: object) -> None:
        shown = ", ".join(
            f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}" for key, value in values.items()
        )
        print(f"{name} = {{ {shown} }}", flush=True)

    # --- commits by connections, with and without a notification and a standby

    def database(self) -> None:
        with self._standby() as set_synchronous:
            for standby in (False, True):
                set_synchronous(standby)
                best: dict[tuple[int, bool], float] = {}
                for _ in range(self.repeats):
                    for connections in CONNECTIONS:
                        for notify in (False, True):
                            rate = self._pgbench(connections, notify)
                            best[connections, notify] = max(best.get((connections, notify), 0), rate)
                            found = self._flush()
                            flush = min(found, best.get((0, False), found))
                            best[0, False] = flush
                print(f"# one flush (fdatasync of 8 KiB), ms: {best.pop((0, False)):.3f}")
                for (connections, notify), rate in best.items():
                    self.show(
                        "commits",
                        connections=connections,
                        notify=str(notify).lower(),
                        standby=str(standby).lower(),
                        per_s=rate,
                    )

    def _flush(self) -> float:
        with tempfile.NamedTemporaryFile(dir=self.server.folder) as file:
            times = []
            for _ in range(20):
                os.pwrite(file.fileno(), b"x" * 8192, 0)
                began = time.perf_counter()
                os.fdatasync(file.fileno())
                times.append(time.perf_counter() - began)
        return sorted(times)[10] * 1e3

    def _pgbench(self, connections: int, notify: bool) -> float:
        script = self.server.folder / "script.sql"
        news = "; SELECT pg_notify('adjourn', :client_id::text)" if notify else ""
        begin, end = ("BEGIN;\n", ";\nCOMMIT;\n") if notify else ("", ";\n")
        insert = f"INSERT INTO bench VALUES (random()::text || :client_id, repeat('x', {SIZE}))"
        script.write_text(begin + insert + news.replace("; ", ";\n") + end, "utf-8")
        script.chmod(0o644)
        done = subprocess.run(
            [str(self.server.programs / "pgbench"), "-n", "-M", "prepared", "-c", str(connections), "-j", "1",
             "-T", str(max(1, round(self.seconds))), "-f", str(script), "-h", str(self.server.folder), "-p", str(PORT), "-U", "adjourn", "postgres"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        found = re.search(r"tps = ([\d.]+)", done.stdout)
        assert found is not None, done.stdout
        return float(found[1])

    @contextmanager
    def _standby(self) -> Iterator[Callable[[bool], None]]:
        folder, run = self.server.folder, self.server._run
        places = {PORT: f"{folder}/primary", PORT + 1: f"{folder}/standby"}

        def start(port: int) -> None:
            options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c port={port}"
            run("pg_ctl", "-D", places[port], "-w", "-l", f"{places[port]}.log", "-o", options, "start")

        run("initdb", "-D", places[PORT], "-U", "adjourn", "-A", "trust", "-E", "UTF8", "--no-sync")
        start(PORT)
        source = f"host={folder} port={PORT} user=adjourn application_name=standby"
        run("pg_basebackup", "-D", places[PORT + 1], "-d", source, "-R", "-c", "fast", "--no-sync")
        start(PORT + 1)
        admin = psycopg.connect(f"postgresql://adjourn@/postgres?host={folder}&port={PORT}", autocommit=True)
        admin.execute("CREATE TABLE bench (stream text PRIMARY KEY, data text)")

        def set_synchronous(on: bool) -> None:
            admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{'standby' if on else ''}'".encode())
            admin.execute("SELECT pg_reload_conf()")
            time.sleep(1)

        try:
            yield set_synchronous
        finally:
            admin.close()
            for place in reversed(places.values()):
                run("pg_ctl", "-D", place, "-m", "immediate", "stop")

    # --- one statement of a batch

    def statement(self) -> None:
        url = self.server.new_schema()
        PostgresStore(url).close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET enable_seqscan = off")
            connection.execute("SET plan_cache_mode = force_generic_plan")
            connection.execute("SET synchronous_commit = off")  # the flush is measured elsewhere
            for batch in BATCHES:
                found = [self._batches(connection, batch) for _ in range(self.repeats)]
                least = [min(values) for values in zip(*found, strict=True)]
                self.show(
                    "statement",
                    rows=batch,
                    server_us=least[0],
                    client_us=least[1],
                    wall_us=least[2],
                    wal_bytes=least[3],
                )

    def _batches(self, connection: psycopg.Connection[Any], batch: int) -> tuple[float, float, float, float]:
        streams = [f"tsk_{os.urandom(12).hex()}" for _ in range(batch)]
        streams.sort()
        data = os.urandom(SIZE)
        pid = connection.info.backend_pid
        connection.execute("CHECKPOINT")

        def write(seq: int) -> None:
            rows = [list(streams), [seq] * batch, ["0" * 64] * batch, [data] * batch, ["0" * 64] * batch]
            assert (
                len(connection.execute(_APPEND, (*rows, "\n".join(streams)[:7900]), prepare=True).fetchall()) == batch
            )

        for seq in range(5):
            write(seq)
        place = self._place(connection)
        server, client, began, count = processor(pid), time.process_time(), time.perf_counter(), 0
        while time.perf_counter() < began + self.seconds:
            write(count + 5)
            count += 1
        return (
            (processor(pid) - server) / count * 1e6,
            (time.process_time() - client) / count * 1e6,
            (time.perf_counter() - began) / count * 1e6,
            (self._place(connection) - place) / count,
        )

    @staticmethod
    def _place(connection: psycopg.Connection[Any]) -> float:
        row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
        assert row is not None
        return float(row[0])

    # --- renewing one lease

    def heartbeat(self) -> None:
        store = PostgresStore(self.server.new_schema())
        names = [f"lease/tsk_{number:06d}/ses_{number:06d}" for number in range(500)]
        for name in names:
            store.swap(name, "0", expect=None)
        with psycopg.connect(self.server.url, autocommit=True) as admin:
            rows = admin.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
            found = []
            for turn in range(self.repeats):
                server, client, began = (
                    sum(processor(pid) for (pid,) in rows),
                    time.process_time(),
                    time.perf_counter(),
                )
                place = self._place(admin)
                for name in names:
                    store.swap(name, str(turn + 1), expect=store.ref(name), durable=False)
                found.append((
                    (sum(processor(pid) for (pid,) in rows) - server) / len(names) * 1e6,
                    (time.process_time() - client) / len(names) * 1e6,
                    (time.perf_counter() - began) / len(names) * 1e6,
                    (self._place(admin) - place) / len(names),
                ))  # fmt: skip
        store.close()
        least = [min(values) for values in zip(*found, strict=True)]
        self.show("heartbeat", server_us=least[0], client_us=least[1], wall_us=least[2], wal_bytes=least[3])

    # --- pages that are written whole after a checkpoint

    def pages(self, streams: int = 60_000, entries: int = 3) -> None:
        url = self.server.new_schema()
        PostgresStore(url).close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET adjourn.schema = 2")
            connection.execute("SELECT setseed(0.5)")
            for seq in range(entries):
                connection.execute(
                    "INSERT INTO adjourn_event SELECT 'tsk_' || md5(n::text), %s, repeat('0', 64), convert_to(repeat('x', %s), 'UTF8')"
                    " FROM generate_series(1, %s) AS n ORDER BY random()",
                    (seq, SIZE, streams),
                )
            for part in (200, 2_000, 20_000):
                connection.execute("CHECKPOINT")
                place = self._place(connection)
                connection.execute(
                    "INSERT INTO adjourn_event SELECT 'tsk_' || md5(n::text), %s, repeat('0', 64), convert_to(repeat('x', %s), 'UTF8')"
                    " FROM (SELECT n FROM generate_series(1, %s) AS n ORDER BY random() LIMIT %s) AS given",
                    (entries + part, SIZE, streams, part),
                )
                row = connection.execute(
                    "SELECT pg_relation_size('adjourn_event_pkey') / 8192, pg_relation_size('adjourn_event') / count(*) FROM adjourn_event"
                ).fetchone()
                assert row is not None
                self.show(
                    "pages",
                    index_pages=row[0],
                    table_bytes_per_row=row[1],
                    rows=part,
                    wal_bytes_per_row=(self._place(connection) - place) / part,
                )

    # --- the gateway

    def gateway(self) -> None:
        os.environ["ADJOURN_STORE"] = url = self.server.new_schema()
        with (
            tempfile.TemporaryDirectory() as folder,
            GatewayWorkspace(Path(folder), "allow up.*", server=Path(http_load.__file__)) as work,
            psycopg.connect(url, autocommit=True) as admin,
        ):
            assert work.gateway is not None
            pid, port = work.gateway.pid, work.port
            for tool in ("notes.get", "notes.set"):
                for in_flight in (1, 64):
                    loads = [
                        asyncio.run(http_load.load(port, tool, in_flight, self.seconds, lambda: processor(pid)))
                        for _ in range(self.repeats)
                    ]
                    least = min(loads, key=lambda one: one.used / len(one.times))
                    most = max(len(one.times) for one in loads)
                    self.show(
                        "gateway", tool=f'"{tool}"', in_flight=in_flight, cpu_us=least.used / len(least.times) * 1e6,
                        per_s=most / self.seconds, p50_ms=min(one.times[len(one.times) // 2] for one in loads) * 1e3,
                    )  # fmt: skip
            sizes = admin.execute(
                "SELECT substring(convert_from(data, 'UTF8') from '\"event\":\"([a-z.]+)\"') AS kind, count(*), avg(length(data))::float8"
                " FROM adjourn_event GROUP BY 1 ORDER BY 2 DESC LIMIT 4"
            ).fetchall()
            for kind, count, size in sizes:
                self.show("event", kind=f'"{kind}"', count=count, bytes=size)
            before, tasks = resident(pid), 300
            asyncio.run(self._open(port, tasks))
            self.show("memory", base_mib=before / 1024 / 1024, kib_per_task=(resident(pid) - before) / 1024 / tasks)

    def starts(self, sessions: int = 150) -> None:
        os.environ["ADJOURN_STORE"] = url = self.server.new_schema()
        with (
            tempfile.TemporaryDirectory() as folder,
            GatewayWorkspace(Path(folder), "allow up.*", server=Path(http_load.__file__)) as work,
            psycopg.connect(url, autocommit=True) as admin,
        ):
            assert work.gateway is not None
            pid = work.gateway.pid
            found = [
                asyncio.run(self._start(work.port, f"{turn}", sessions, lambda: processor(pid)))
                for turn in range(self.repeats)
            ]
            opened, per_s, listed, called = (
                pick(values) for pick, values in zip((min, max, min, min), zip(*found, strict=True), strict=True)
            )
            row = admin.execute("SELECT count(*) FROM adjourn_event").fetchone()
            assert row is not None
            self.show(
                "starts", session_us=opened, per_s=per_s, list_us=listed, first_call_us=called,
                rows=row[0] / sessions / self.repeats,
            )  # fmt: skip

    @staticmethod
    async def _start(
        port: int, turn: str, sessions: int, usage: Callable[[], float]
    ) -> tuple[float, float, float, float]:
        """Microseconds of a session that opens and lists tools, sessions a second, microseconds of a list and of a first call."""
        clients = [http_load.HttpClient(port, f"start-{turn}-{number}") for number in range(sessions)]
        used, began = usage(), time.perf_counter()
        for client in clients:
            await client.open()
        opened, took, used = usage() - used, time.perf_counter() - began, usage()
        for client in clients:
            await client.connect()  # the gateway closes connections that were idle
            await client.ask("tools/list", {})
        listed, used = usage() - used, usage()
        for client in clients:
            await client.connect()
            await client.call("notes.get")
        called = usage() - used
        for client in clients:
            client.close()
        return opened / sessions * 1e6, sessions / took, listed / sessions * 1e6, called / sessions * 1e6

    @staticmethod
    async def _open(port: int, tasks: int) -> None:
        for number in range(tasks):
            client = http_load.HttpClient(port, f"idle-{number}")
            await client.open()
            await client.call("notes.get")
            client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("database", "statement", "heartbeat", "pages", "gateway", "starts")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    programs = tools.postgres_programs()
    if programs is None:
        raise SystemExit("no initdb: apt-get install postgresql")
    server = PostgresServer(programs)
    try:
        measuring = Measuring(server, options.repeats, options.seconds)
        for part in options.only:
            getattr(measuring, part)()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
