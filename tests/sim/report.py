"""The answers of the study as tables and plots, and their places in docs/explanation/scaling.md and tests/sim/RESULTS.md.

Owns: how they are shown. Must never: compute one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from page import filled
from tables import Table

from sim.plot import Axis, draw
from sim.settings import figures

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "explanation" / "scaling.md", Path(__file__).with_name("RESULTS.md"))
ASSETS = DOCS / "assets"
PLACE = "<!-- figures: {} -->"
_COLUMNS = {
    "per_s": "calls/s",
    "p50": "p50 ms",
    "p99": "p99 ms",
    "p999": "p99.9 ms",
    "commits": "commits/s",
    "rows": "rows/s",
    "wal": "WAL MB/s",
    "leases": "lease statements/s",
    "gateway": "gateway CPU %",
    "cores": "database cores",
}
_FAILURES = {
    "calls": "calls",
    "longest": "longest wait s",
    "before": "open before",
    "most": "open, most",
    "drained": "drained after s",
    "in_doubt": "in doubt",
    "taken_over": "taken over",
    "lost": "lost",
    "doubled": "doubled",
}

_DEVELOPERS = {
    "starts": "starts/s",
    "start_p50": "start p50 ms",
    "start_p99": "start p99 ms",
    "p99": "call p99 ms",
    "gateway": "gateway CPU %",
    "cores": "database cores",
    "mib": "MiB a gateway",
}


def page(answers: Mapping[str, Any], text: str) -> str:
    """The page with the answers that it has places for."""
    found = tables(answers)
    return filled(text, {title: found[title].markdown() for title in found if PLACE.format(title) in text})


def tables(answers: Mapping[str, Any]) -> dict[str, Table]:
    return {
        "steps": _rows("plan", _COLUMNS, answers["steps"]),
        "variants": _rows("plan", _COLUMNS, answers["variants"]),
        "failures": _rows("failure", _FAILURES, answers["failures"]),
        "developers": _rows("plan", _DEVELOPERS, answers["developers"]),
        "limits": _limits(answers["limits"]),
        "points": _points(answers["points"]),
        "costs": _costs(),
    }


def pictures(answers: Mapping[str, Any]) -> dict[str, str]:
    """File names and SVG."""
    across = Axis("calls per second that arrive (50 gateways, 1,000,000 tasks)", (100, 300, 1_000, 3_000, 10_000))
    up = Axis("ms added to a call: p99", (1, 10, 100, 1_000, 10_000))
    curves = {name: [(row[0], row[2]) for row in rows] for name, rows in answers["curves"].items()}
    backlog = {name: one["waiting"] for name, one in answers["failures"].items()}
    most = max(number for rows in backlog.values() for _, number in rows)
    step = next(step for step in (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000) if step * 8 >= most)
    ticks = [step * number for number in range(9)]
    return {
        "scaling-latency.svg": draw("What breaks first, and what each change gives", across, up, curves),
        "scaling-failures.svg": draw(
            "Calls that wait after a failure at second 3 (15 gateways, 3,000 calls/s)",
            Axis("seconds", [float(second) for second in range(0, 41, 5)], logarithmic=False),
            Axis("calls in the system", ticks, logarithmic=False),
            backlog,
        ),
    }


def _rows(first: str, columns: Mapping[str, str], rows: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table("", [first, *columns.values()])
    for name, row in rows.items():
        table.add(name, *(row[column] for column in columns))
    return table


def _limits(found: Mapping[str, float]) -> Table:
    table = Table("", ["resource", "at the planned size", "reaches its limit at"])
    table.add(
        "connections to PostgreSQL, 3 a gateway",
        f"{found['connections']:.0f}",
        f"{found['gateways_at_100_connections']:.0f} gateways with the default `max_connections = 100`",
    )
    table.add(
        "sessions of one server on a gateway",
        f"{found['tasks_per_gateway']:,.0f}",
        f"{found['sessions_limit']:,.0f}: the next session is refused with 503",
    )
    table.add("memory of a gateway", f"{found['gateway_mib'] / 1024:.1f} GiB", "the memory of its machine")
    table.add(
        "a lease for each session, renewed one after the other",
        f"{found['renewal_round_s']:.1f} s a round",
        f"{found['tasks_until_late']:,.0f} sessions a gateway (a round takes 20 s), "
        f"{found['tasks_until_expired']:,.0f} (leases expire)",
    )
    table.add(
        "the same, at PostgreSQL",
        f"{found['session_statements_per_s']:,.0f} statements/s, {found['session_database_cores']:.1f} cores",
        "the cores of the database",
    )
    table.add("a lease for each replica", f"{found['replica_statements_per_s']:,.0f} statements/s", "not reached")
    table.add(
        "write-ahead log",
        f"{found['row_wal_mb_s']:.0f} MB/s for rows, {found['page_wal_mb_s']:.0f} MB/s for whole pages",
        "the disk and the network to the standby",
    )
    table.add("table and index", f"{found['gib_per_day']:,.0f} GiB a day", "the disk: retention is needed")
    return table


def _points(points: list[Any]) -> Table:
    table = Table("", ["measured here", "measured /s", "simulated /s", "simulated / measured"])
    for what, seen, said, ratio in points:
        table.add(what, round(seen), round(said), ratio)
    return table


def _costs() -> Table:
    table = Table("", ["cost", "value", "how it was measured"])
    for name, one in figures().items():
        table.add(name.replace("_", " "), f"{one['value']:g} {one['unit']}".strip(), f"{one['how']} ({one['when']})")
    return table
