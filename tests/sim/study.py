"""The questions that docs/explanation/scaling.md answers, as plans, and the answers as data.

Owns: which plans are run, and what is kept of them. Must never: format anything for the page.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sim import validate
from sim.model import BUCKET, TAIL, Result, run, whole_pages
from sim.settings import Costs, Plan

HERE = Path(__file__).parent
PLANNED = Plan(notify="never", warm=1.0, seconds=4.0)
"""The planned size, with all that this page recommends."""
NOTIFYING = replace(PLANNED, notify="append")
SESSIONS = replace(NOTIFYING, leases="session")
ALONE = replace(SESSIONS, batching=False)
LINES = {
    "one append at a time": ALONE,
    "appends together": SESSIONS,
    "… and one lease a replica": NOTIFYING,
    "… and no NOTIFY in a commit": PLANNED,
}
"""What is plotted over the rate of calls: each adds one thing to the one before."""
RATES = (100, 300, 1_000, 3_000, 10_000)
VARIANTS = {
    "planned": PLANNED,
    "no affinity": replace(PLANNED, affinity=False),
    "bursts of 8 calls": replace(PLANNED, burst=8.0),
    "all calls have an effect": replace(PLANNED, effects=1.0),
    "no standby": replace(PLANNED, standby=False),
    "standby 10 ms away": replace(PLANNED, hop=0.010),
    "flush 4 times as slow": replace(PLANNED, flush=4.0),
    "10 gateways": replace(PLANNED, gateways=10),
    "4 database cores": replace(PLANNED, cores=4),
}
_FAILING = replace(PLANNED, rate=3_000.0, gateways=15, tasks=300_000, seconds=14.0)
FAILURES = {
    "a replica killed": replace(_FAILING, kill_replica=3.0),
    "primary killed, gap 5 s": replace(_FAILING, kill_primary=3.0, gap=5.0, seconds=16.0),
    "the same, with NOTIFY": replace(_FAILING, kill_primary=3.0, gap=5.0, seconds=16.0, notify="append"),
    "node lost, gap 24 s": replace(_FAILING, kill_primary=3.0, gap=24.0, seconds=40.0),
}
_TEAM = replace(PLANNED, tasks=50_000, sessions=50_000, rate=1_000.0, starts=2.0, seconds=8.0)
DEVELOPERS = {
    f"{gateways} gateways, {what}": replace(_TEAM, gateways=gateways, **members)
    for gateways in (3, 10)
    for what, members in (
        ("a day", {}),
        ("all start in 10 min", {"starts": 50_000 / 600}),
        ("all start in 5 min", {"starts": 50_000 / 300}),
        ("one is killed", {"kill_replica": 2.0, "seconds": 12.0}),
    )
}
"""10,000 developers with five servers each: a session of the handshake at each, and a call every ten seconds."""
GOOD = 0.1
"""Seconds that may be added to 99 of 100 calls."""
SOURCES = ("costs.toml", "database.py", "gateway.py", "loop.py", "model.py", "settings.py", "study.py", "validate.py")


def stamp() -> str:
    """A digest of all that the answers depend on."""
    whole = hashlib.sha256()
    for name in SOURCES:
        whole.update((HERE / name).read_bytes())
    return whole.hexdigest()[:16]


def answers() -> dict[str, Any]:
    """Everything that the page says, in a few minutes."""
    costs = Costs.load()
    return {
        "stamp": stamp(),
        "curves": {
            name: [[rate, *_times(run(replace(plan, rate=float(rate)), costs))] for rate in RATES]
            for name, plan in LINES.items()
        },
        "steps": {name: _row(run(plan, costs)) for name, plan in LINES.items()},
        "variants": {name: _row(run(plan, costs)) for name, plan in VARIANTS.items()},
        "failures": {name: _failure(plan, run(plan, costs)) for name, plan in FAILURES.items()},
        "developers": developers(costs),
        "limits": limits(costs),
        "points": [[*point, point.ratio] for point in validate.points()],
    }


def _times(found: Result) -> list[float]:
    return [round(found.percentile(part) * 1e3, 2) for part in (0.5, 0.99, 0.999)]


def _row(found: Result) -> dict[str, float]:
    p50, p99, p999 = _times(found)
    return {
        "per_s": round(found.per_s),
        "p50": p50,
        "p99": p99,
        "p999": p999,
        "commits": round(found.commits_per_s),
        "rows": round(found.rows_per_s),
        "wal": round(found.wal_bytes_per_s / 1e6, 1),
        "leases": round(found.lease_statements_per_s),
        "gateway": round(found.gateway_busy * 100),
        "cores": round(found.database_cores, 1),
    }


def developers(costs: Costs) -> dict[str, Any]:
    """What 10,000 developers lead to."""
    return {name: _team(plan, run(plan, costs)) for name, plan in DEVELOPERS.items()}


def _team(plan: Plan, found: Result) -> dict[str, float]:
    """`gateway` is the share of the busiest processor; whoever has 100 % is overloaded, and times grow as long as it lasts."""
    starts = found.started
    return {
        "starts": round(len(starts) / (plan.seconds - TAIL), 1),
        "start_p50": round(starts[len(starts) // 2] * 1e3, 1),
        "start_p99": round(starts[int(len(starts) * 0.99)] * 1e3, 1),
        "p99": round(found.percentile(0.99) * 1e3, 1),
        "gateway": round(found.gateway_busy * 100),
        "cores": round(found.database_cores, 1),
        "mib": round(found.gateway_mib),
    }


def _failure(plan: Plan, found: Result) -> dict[str, Any]:
    killed = plan.kill_replica or plan.kill_primary
    before = max(number for at, number in found.waiting if plan.warm <= at <= killed)
    over = [at for at, number in found.waiting if at > killed and number > 1.2 * before]
    outcomes = found.outcomes
    return {
        "calls": found.arrived,
        "p99": round(found.percentile(0.99), 2),
        "longest": round(found.percentile(1), 2),
        "before": before,
        "most": max(number for _, number in found.waiting),
        "drained": round(over[-1] + BUCKET - killed, 1) if over else 0.0,
        "in_doubt": outcomes.get("in doubt", 0),
        "recorded": outcomes.get("recorded answer", 0),
        "taken_over": found.taken_over,
        "lost": found.arrived - found.still_open - sum(outcomes.values()),
        "doubled": found.executed_twice,
        "waiting": found.waiting,
    }


def limits(costs: Costs) -> dict[str, float]:
    """What does not need a simulation: how far each resource reaches, for the planned size."""
    plan = PLANNED
    rows = plan.rate * 2
    size = (costs.intent_bytes + costs.settlement_bytes) / 2 + costs.wal_row_bytes
    per_gateway = plan.tasks / plan.gateways
    renewal = (costs.heartbeat_gateway_us + costs.heartbeat_database_us) / 1e6 + costs.heartbeat_statements * plan.hop
    return {
        "gateways_at_100_connections": 97 // 3,
        "connections": plan.gateways * 3,
        "tasks_per_gateway": per_gateway,
        "sessions_limit": 20_000,
        "renewal_us": renewal * 1e6,
        "renewal_round_s": per_gateway * renewal,
        "tasks_until_late": 20 / renewal,
        "tasks_until_expired": 60 / renewal,
        "session_statements_per_s": plan.tasks / 20 * costs.heartbeat_statements,
        "session_database_cores": plan.tasks / 20 * costs.heartbeat_database_us / 1e6,
        "replica_statements_per_s": plan.gateways / plan.lease_interval * costs.heartbeat_statements,
        "gateway_mib": costs.gateway_base_mib + per_gateway * costs.gateway_task_kib / 1024,
        "row_wal_mb_s": rows * size / 1e6,
        "page_wal_mb_s": whole_pages(plan, costs, rows) / 1e6,
        "gib_per_day": rows * costs.row_bytes * 86_400 / 2**30,
        "row_bytes": costs.row_bytes,
        "flush_ms": costs.flush_us / 1e3,
    }
