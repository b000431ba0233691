"""What a proxy costs: the same calls to the same server directly, through a bare pass-through, and through adjourn.

All of them run at once and take turns, a few calls each, so that whatever else the machine does hits all alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from peer import ADJOURN, Peer, child_environment
from sizes import Sizes
from tables import Table, median, percentile, ratio

HERE = Path(__file__).parent
UPSTREAM = [sys.executable, "-I", "-S", str(HERE / "echo_upstream.py")]
POLICY = 'policy bench v0\n\ngoal "Measure."\n\nuse notes.*, files.*\ndeny network.*, secrets.read\n'
DIRECT, BARE, JOURNAL = "direct", "bare pass-through", "pass-through with a journal"
READING, EFFECTFUL = "adjourn, reading", "adjourn, effectful"


@dataclass(frozen=True)
class Subject:
    """One way to the upstream. `tool` is what is called."""

    name: str
    command: list[str]
    tool: str


SUBJECTS = (
    Subject(DIRECT, UPSTREAM, "notes.get"),
    Subject(BARE, [sys.executable, str(HERE / "passthrough.py"), *UPSTREAM], "notes.get"),
    Subject(JOURNAL, [sys.executable, str(HERE / "journaling.py"), *UPSTREAM], "notes.get"),
    Subject(READING, [ADJOURN, "proxy", "--", *UPSTREAM], "notes.get"),
    Subject(EFFECTFUL, [ADJOURN, "proxy", "--", *UPSTREAM], "notes.set"),
)


def run(sizes: Sizes, folder: str) -> list[Table]:
    """All tables of this section; files are made in `folder`."""
    for number, _ in enumerate(SUBJECTS):
        place = Path(folder, str(number))
        (place / ".aex").mkdir(parents=True)
        (place / ".aex/policy.aex").write_text(POLICY)
    starts = _starts(sizes, folder)
    calls = _calls(sizes, folder)
    return [starts, *calls, _growth(sizes, folder)]


@contextmanager
def _started(folder: str, subject: Subject) -> Iterator[Peer]:
    number = SUBJECTS.index(subject)
    peer = Peer(subject.command, f"{folder}/{number}", child_environment(f"{folder}/config"))
    try:
        yield peer
    finally:
        peer.close()


def _starts(sizes: Sizes, folder: str) -> Table:
    first: dict[str, list[float]] = {subject.name: [] for subject in SUBJECTS}
    called: dict[str, list[float]] = {subject.name: [] for subject in SUBJECTS}
    for number in range(sizes.starts + 1):
        for subject in SUBJECTS:
            with _started(folder, subject) as peer:
                greeted, answered = peer.greet(), peer.first_call(subject.tool)
            if number:  # the first of all fills the caches, and makes the store
                first[subject.name].append(greeted * 1e3)
                called[subject.name].append(answered * 1e3)
    table = Table(
        "Proxy: cold start",
        [
            "",
            "start, min ms",
            "median ms",
            "over direct",
            "first call, min ms",
            "median ms",
            "over direct",
            "target",
        ],
        "From starting the process to the answer of `initialize`, and to the answer of a first `tools/call`, which "
        "for adjourn opens the session; in a workspace whose store is there already. "
        f"{sizes.starts} starts each, taking turns; *over direct* is between the fastest of each.",
    )
    own, own_call = (min(times[DIRECT]) for times in (first, called))
    for subject in SUBJECTS:
        times, more = first[subject.name], called[subject.name]
        start_over = None if subject.name == DIRECT else min(times) - own
        call_over = None if subject.name == DIRECT else min(more) - own_call
        target = "≤ +60 ms to `initialize`" if subject.name in (READING, EFFECTFUL) else ""
        starts = (min(times), median(times), start_over)
        table.add(subject.name, *starts, min(more), median(more), call_over, target)
    return table


def _calls(sizes: Sizes, folder: str) -> list[Table]:
    times: dict[str, list[float]] = {subject.name: [] for subject in SUBJECTS}
    rates: dict[str, list[float]] = {subject.name: [] for subject in SUBJECTS}
    peaks: dict[str, float | None] = {}
    spent: dict[str, float | None] = {}
    peers = [
        Peer(subject.command, f"{folder}/{number}", child_environment(f"{folder}/config"))
        for number, subject in enumerate(SUBJECTS)
    ]
    turns = list(zip(SUBJECTS, peers, strict=True))
    try:
        for subject, peer in turns:
            peer.greet()
            peer.sequential(subject.tool, sizes.warm_up)
            spent[subject.name] = peer.processor_time()
        for _ in range(sizes.rounds):
            for subject, peer in turns:
                times[subject.name] += [took * 1e6 for took in peer.sequential(subject.tool, sizes.calls)]
        for subject, peer in turns:
            before, after = spent[subject.name], peer.processor_time()
            whole = None if before is None or after is None else after - before
            spent[subject.name] = None if whole is None else whole * 1e6 / sizes.rounds / sizes.calls
        for _ in range(sizes.throughput_rounds):
            for subject, peer in turns:
                took = peer.pipelined(subject.tool, sizes.throughput, sizes.in_flight)
                rates[subject.name].append(sizes.throughput / took)
        for subject, peer in turns:
            peaks[subject.name] = None if subject.name == DIRECT else peer.memory("VmHWM")
    finally:
        for peer in peers:
            peer.close()
    return [_latency(sizes, times, spent), _throughput(sizes, rates, peaks)]


def _latency(sizes: Sizes, times: dict[str, list[float]], spent: dict[str, float | None]) -> Table:
    table = Table(
        "Proxy: one call at a time",
        [
            "",
            "p50 µs",
            "p90 µs",
            "p99 µs",
            "p50 over direct",
            "p99 over direct",
            "pass-through = 1",
            "journal = 1",
            "CPU µs",
            "target",
        ],
        f"{sizes.rounds * sizes.calls:,} `tools/call` each, {sizes.calls} at a turn. *pass-through = 1*: the "
        "median overhead as a multiple of that of a bare Python pass-through in the same run; *journal = 1*: of that of one "
        "which keeps a chain of calls in SQLite, and neither decides nor shares it. *CPU*: what the "
        "process computes for a call, on any core, before and after its answer. Reading calls are journalled "
        "before they leave; calls with effects are on disk before they leave (`synchronous=FULL`).",
    )
    direct = times[DIRECT]
    floors = [percentile(times[name], 0.5) - percentile(direct, 0.5) for name in (BARE, JOURNAL)]
    targets = {READING: "p50 ≤ +90 µs and ≤ 3; p99 ≤ +150 µs", EFFECTFUL: "one synchronous write more"}
    for subject in SUBJECTS:
        mine = times[subject.name]
        p50, p90, p99 = (percentile(mine, part) for part in (0.5, 0.9, 0.99))
        over: list[float | None] = [None] * 4
        if subject.name != DIRECT:
            more = p50 - percentile(direct, 0.5)
            over = [more, p99 - percentile(direct, 0.99), *(ratio(more, floor) for floor in floors)]
        table.add(subject.name, p50, p90, p99, *over, spent[subject.name], targets.get(subject.name, ""))
    return table


def _throughput(sizes: Sizes, rates: dict[str, list[float]], peaks: dict[str, float | None]) -> Table:
    table = Table(
        f"Proxy: {sizes.in_flight} calls in flight",
        ["", "calls/s", "of direct", "peak RSS, MiB", "target"],
        f"The median of {sizes.throughput_rounds} rounds of {sizes.throughput:,} calls, and the peak of resident memory "
        "(VmHWM) of the proxy's own process after all of this.",
    )
    direct = median(rates[DIRECT])
    for subject in SUBJECTS:
        mine = median(rates[subject.name])
        target = "≥ 0.45; ≤ 30 MiB" if subject.name in (READING, EFFECTFUL) else ""
        table.add(subject.name, mine, ratio(mine, direct), peaks[subject.name], target)
    return table


def _growth(sizes: Sizes, folder: str) -> Table:
    table = Table(
        "Proxy: memory by the number of calls",
        ["", *(f"after {count:,}, MiB" for count in sizes.memory), "last step, MiB", "target"],
        "Resident memory (VmRSS) of one proxy process after so many calls. SQLite's page caches and a few bounded "
        "buffers fill up first; then it must stand still.",
    )
    for subject in SUBJECTS[1:]:
        values: list[float | None] = []
        with _started(folder, subject) as peer:
            peer.greet()
            for before, count in pairwise((0, *sizes.memory)):
                peer.pipelined(subject.tool, count - before, sizes.in_flight)
                values.append(peer.memory("VmRSS"))
        early, late = values[-2:]
        grown = None if early is None or late is None else late - early
        table.add(
            subject.name, *values, grown, "does not grow" if subject.name in (READING, EFFECTFUL) else ""
        )
    return table
