"""What a run is about: the costs that were measured, and the plan that is tried.

Owns: `Costs`, `Plan` and their defaults. Must never: hold a measured figure; those are in `costs.toml`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

FILE = Path(__file__).with_name("costs.toml")


class Costs(msgspec.Struct, frozen=True):
    """Measured costs of one thing each; what is meant and how it was measured is in `costs.toml`. Times are in microseconds."""

    gateway_reading_us: float
    gateway_effect_us: float
    gateway_session_us: float
    gateway_first_us: float
    gateway_statement_us: float
    gateway_row_us: float
    gateway_base_mib: float
    gateway_task_kib: float
    database_statement_us: float
    database_row_us: float
    flush_us: float
    flush_sigma: float
    notify_us: float
    standby_us: float
    heartbeat_gateway_us: float
    heartbeat_database_us: float
    heartbeat_statements: float
    first_rows: float
    intent_bytes: float
    settlement_bytes: float
    wal_row_bytes: float
    wal_page_bytes: float
    heartbeat_wal_bytes: float
    rows_per_index_page: float
    row_bytes: float

    @classmethod
    def load(cls) -> Costs:
        return msgspec.convert({name: one["value"] for name, one in figures().items()}, cls)


def figures() -> dict[str, dict[str, Any]]:
    """Each figure with `value`, `unit`, `how` and `when`."""
    found: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text("utf-8"))["cost"]
    return found


def measured() -> dict[str, list[dict[str, Any]]]:
    """The points that the model must reproduce, by what was measured."""
    found: dict[str, list[dict[str, Any]]] = tomllib.loads(FILE.read_text("utf-8"))["measured"]
    return found


class Plan(msgspec.Struct, frozen=True):
    """One situation. The defaults are the size that is planned for; times are in seconds."""

    gateways: int = 50
    tasks: int = 1_000_000
    rate: float = 10_000.0
    """Calls per second that arrive, whatever is still open."""
    in_flight: int = 0
    """Instead of `rate`: so many clients, each on its own task, that call again at once."""
    sessions: int = 0
    """Open sessions of the handshake: those of a gateway that is killed start again elsewhere with their next call."""
    starts: float = 0.0
    """Sessions that start a second: `initialize`, a list of tools, and a first call, beside those of `rate`."""
    burst: float = 1.0
    """How many calls a client makes at once, on average (geometric)."""
    effects: float = 0.5
    """The share of calls that have an effect."""
    upstream: float = 0.05
    """Mean service time of the servers behind the gateway."""
    upstream_sigma: float = 1.2
    """Of its lognormal distribution; 1.2 means that the slowest 0.1 % take 20 times the mean."""
    hop: float = 0.0003
    """A round trip between gateway and database, and between primary and standby."""
    cores: int = 16
    """Processors of the database."""
    standby: bool = True
    notify: Literal["append", "never"] = "append"
    """Whether the transaction of each batch notifies."""
    batching: bool = True
    """False: a gateway appends one entry after the other in its event loop."""
    writers: int = 2
    most: int = 512
    """Entries of a batch."""
    flush: float = 1.0
    """Times the measured time of a flush."""
    bandwidth: float = 500e6
    """Bytes a second that the write-ahead log can be written with."""
    leases: Literal["session", "replica"] = "replica"
    lease_interval: float = 1.0
    lease_seconds: float = 3.0
    """After how long without renewal the tasks of a replica can be taken."""
    affinity: bool = True
    """Whether a task's calls go to the gateway that has it."""
    kill_replica: float = 0.0
    """When a gateway is killed; 0: never."""
    kill_primary: float = 0.0
    gap: float = 5.0
    """How long no append is acknowledged after the primary was killed."""
    warm: float = 2.0
    seconds: float = 10.0
    """How long is measured, after `warm`."""
    seed: int = 1
