"""Three PostgreSQL servers under Patroni and etcd, on loopback, each with its data on a small disk of its own.

Owns: `Cluster`: these processes, disks and their folder. Must never: leave one of them behind, or write to a file system that is not its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import httpx
import psycopg

from support import tools
from support.ports import free_port
from support.processes import below

DISK_MIB = 640
PATIENCE = 120.0
TTL_SECONDS = 20
"""How long Patroni's leader key outlives its node; Patroni takes no shorter one."""
REAPER = [sys.executable, str(Path(__file__).with_name("reaper.py"))]
USER = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
_SETTINGS = {
    "ttl": TTL_SECONDS,
    "loop_wait": 1,
    "retry_timeout": 3,
    "primary_start_timeout": 0,
    "synchronous_mode": True,
    "synchronous_mode_strict": True,
    "synchronous_node_count": 2,
    "postgresql": {
        "use_pg_rewind": True,
        "use_slots": False,
        "parameters": {
            "synchronous_commit": "on",
            "wal_retrieve_retry_interval": "100ms",
            "wal_sender_timeout": "5s",
            "dynamic_shared_memory_type": "mmap",
            "max_connections": 60,
            "shared_buffers": "32MB",
            "max_wal_size": "96MB",
            "min_wal_size": "32MB",
            "wal_keep_size": "64MB",
        },
    },
}


def missing() -> str:
    """Why a cluster cannot be made here, and how to change that; empty where it can."""
    if os.geteuid() != 0:
        return "only root can mount disks and start PostgreSQL as its own user"
    absent = [name for name in ("etcd", "patroni", "setpriv", "mkfs.ext4") if not shutil.which(name)]
    if absent or tools.postgres_programs() is None:
        return f"not installed: {', '.join(absent) or 'postgresql'}: apt-get install patroni etcd-server postgresql"
    return ""


class Node:
    """A machine: Patroni, the PostgreSQL server that it runs, and their disk."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.port, self.rest = free_port(), free_port()
        self.etcd = (free_port(), free_port())
        """The ports of etcd for clients, and for its peers."""
        self.folder = folder / name
        self.disk = self.folder / "disk"
        self.data = self.disk / "data"
        self.patroni: subprocess.Popen[bytes] | None = None

    def postmaster(self) -> int:
        """The process id of the PostgreSQL server; 0 where none is known."""
        with suppress(OSError, ValueError, IndexError):
            return int((self.data / "postmaster.pid").read_text().splitlines()[0])
        return 0

    def kill_postmaster(self) -> None:
        os.kill(self.postmaster(), signal.SIGKILL)

    def kill(self) -> None:
        """End all at once, as if the machine lost its power."""
        if self.patroni is None:
            return
        self._signal_all(signal.SIGKILL)
        self.patroni.wait()
        self.patroni = None

    def halt(self) -> None:
        """Stop all at once, as a machine that hangs: what is sent to it is taken, and not answered."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        if self.patroni is not None:
            for process in (self.patroni.pid, *below(self.patroni.pid)):
                with suppress(ProcessLookupError):
                    os.kill(process, number)

    def hold_back_a_standby(self) -> None:
        """Send nothing more to a synchronous standby, until this node is killed."""
        with psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres") as connection:
            found = connection.execute("SELECT pid FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()
        if found is None:
            raise RuntimeError(f"{self.name} has no synchronous standby")
        os.kill(found[0], signal.SIGSTOP)

    def fill_disk(self) -> None:
        """Leave no block free. Blocks are reserved, and not written: the server's own writes would have to wait behind them."""
        end = 0
        with (self.disk / "balloon").open("ab") as balloon:
            for size in (16 * 1024 * 1024, 1024 * 1024, 4096):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(balloon.fileno(), end, size)
                        end += size

    def free_disk(self) -> None:
        (self.disk / "balloon").unlink(missing_ok=True)


class Cluster:
    """See above. A context: it is whole when it begins, and nothing is left of it when it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes = [Node(f"node{number}", folder) for number in range(3)]
        self._closing = ExitStack()
        self._etcd: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self.folder.chmod(0o755)
            for node in self.nodes:
                self._make_disk(node)
            members = ",".join(f"{node.name}=http://127.0.0.1:{node.etcd[1]}" for node in self.nodes)
            for node in self.nodes:
                self._start_etcd(node, members)
            for node in self.nodes:
                self._write_settings(node)
                self.start(node)
            self.wait_until_whole()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._end()

    def _end(self) -> None:
        for node in self.nodes:
            node.kill()
        for etcd in self._etcd:
            etcd.kill()
            etcd.wait()
        self._closing.close()

    def _make_disk(self, node: Node) -> None:
        node.disk.mkdir(parents=True)
        image = node.folder / "image"
        with image.open("wb") as file:
            file.truncate(DISK_MIB * 1024 * 1024)
        _run("mkfs.ext4", "-q", "-m", "0", str(image))
        _run("mount", "-o", "loop", str(image), str(node.disk))
        self._closing.callback(_unmount, node.disk)
        shutil.chown(node.disk, "postgres", "postgres")
        node.disk.chmod(0o700)

    def _start_etcd(self, node: Node, members: str) -> None:
        clients, peers = (f"http://127.0.0.1:{port}" for port in node.etcd)
        options = {
            "name": node.name,
            "data-dir": str(node.folder / "etcd"),
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": members,
            "log-level": "error",
        }
        command = ["etcd", *(f"--{name}={value}" for name, value in options.items())]
        self._etcd.append(_started(command, node.folder / "etcd.log"))

    def _write_settings(self, node: Node) -> None:
        programs = tools.postgres_programs()
        settings = {
            "scope": "adjourn",
            "name": node.name,
            "restapi": {"listen": f"127.0.0.1:{node.rest}", "connect_address": f"127.0.0.1:{node.rest}"},
            "etcd3": {"hosts": [f"127.0.0.1:{one.etcd[0]}" for one in self.nodes]},
            "bootstrap": {
                "dcs": _SETTINGS,
                "initdb": [{"encoding": "UTF8"}, "data-checksums"],
                "pg_hba": ["local all all trust", *_trusted("all"), *_trusted("replication")],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{node.port}",
                "connect_address": f"127.0.0.1:{node.port}",
                "data_dir": str(node.data),
                "bin_dir": str(programs),
                "pgpass": str(node.disk / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres"},
                    "replication": {"username": "replicator"},
                    "rewind": {"username": "postgres"},
                },
                "parameters": {"unix_socket_directories": str(node.disk)},
            },
        }
        # JSON is YAML, too.
        (node.folder / "patroni.yml").write_text(json.dumps(settings), encoding="utf-8")

    def start(self, node: Node) -> None:
        """Start a node, or start it again."""
        command = [*REAPER, *USER, "patroni", str(node.folder / "patroni.yml")]
        node.patroni = _started(command, node.folder / "patroni.log")

    def members(self) -> list[dict[str, Any]]:
        """What Patroni says of its members, by the first node that answers."""
        for node in self.nodes:
            with suppress(httpx.HTTPError, ValueError, KeyError):
                found: list[dict[str, Any]] = httpx.get(f"http://127.0.0.1:{node.rest}/cluster", timeout=2).json()[
                    "members"
                ]
                return found
        return []

    def primary(self) -> Node | None:
        """The node that has the leader key, and takes writes."""
        for node in self.nodes:
            with suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{node.rest}/primary", timeout=2).status_code == 200:
                    return node
        return None

    def is_whole(self) -> bool:
        """Whether there is a primary that two synchronous standbys follow, and Patroni knows it."""
        roles = sorted(one["role"] for one in self.members() if one["state"] in ("running", "streaming"))
        return roles == ["leader", "sync_standby", "sync_standby"] and self.standbys() == ["sync", "sync"]

    def standbys(self) -> list[str]:
        """How the standbys follow that the primary sends its log to, as it says itself: what Patroni says of members may be old."""
        if (primary := self.primary()) is None:
            return []
        with suppress(httpx.HTTPError, ValueError):
            found = httpx.get(f"http://127.0.0.1:{primary.rest}/patroni", timeout=2).json()
            return sorted(one["sync_state"] for one in found.get("replication", ()) if one["state"] == "streaming")
        return []

    def wait_until_whole(self) -> None:
        wait_until(self.is_whole, "the cluster is whole")

    def url(self, ports: Sequence[int]) -> str:
        """The store, where its nodes are reached by these ports."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write&connect_timeout=2"


def wait_until(look: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)


def _trusted(database: str) -> list[str]:
    return [f"host {database} all 127.0.0.1/32 trust"]


def _started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=log.parent)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _unmount(disk: Path) -> None:
    wait_until(
        lambda: subprocess.run(["umount", str(disk)], check=False, capture_output=True).returncode == 0,
        f"umount {disk}",
        20,
    )
