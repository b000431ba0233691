"""What a relay costs a call: the same calls to the same server directly, and through relays that do more and more.

The pass-through looks at nothing. The floor keeps a journal and decides nothing. adjourn decides. All of them run at once
and take turns. Python calls are counted in a run of their own, in which nothing is timed.

Owns: the tables of relays. Must never: count an answer that is not the right one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import machine
from peer import ADJOURN, Peer, child_environment
from profiling import SETTLED_SECONDS, Entered, Profile, profiled
from sizes import Sizes
from tables import Cell, Table, median, percentile
from turns import Rounds, median_ratio, take_turns

import adjourn

HERE = Path(__file__).parent
PACKAGE = Path(adjourn.__file__).parent
UPSTREAM = [sys.executable, "-I", "-S", str(HERE / "echo_upstream.py")]
POLICY = 'policy bench v0\n\ngoal "Measure."\n\nuse notes.*, files.*\ndeny network.*, secrets.read\n'
DIRECT, PASS_THROUGH, FLOOR, OURS = "direct", "pass-through", "floor", "adjourn"
PROGRAMS = {
    PASS_THROUGH: [str(HERE / "passthrough.py"), *UPSTREAM],
    FLOOR: [str(HERE / "floor.py"), *UPSTREAM],
    OURS: [ADJOURN, "proxy", "--", *UPSTREAM],
}
RELAYS = (DIRECT, *PROGRAMS)
READING, EFFECTFUL = "notes.get", "notes.set"
TITLES = {READING: "Relays: a reading call", EFFECTFUL: "Relays: a call with effects"}


class Subject(NamedTuple):
    """One way to the server, and the tool that is called."""

    relay: str
    tool: str


class Turn(NamedTuple):
    """Calls one after the other: microseconds of each, and what the relay's own process computed for one."""

    times: list[float]
    processor: float | None


IN_FLIGHT = 64
RATE = f"calls/s, {IN_FLIGHT} in flight"
SUBJECTS = [Subject(relay, tool) for tool in TITLES for relay in RELAYS]


def run(sizes: Sizes, folder: str) -> list[Table]:
    """All tables of this section; files are made in `folder`."""
    entered = _profiles(sizes, folder)
    return [*_calls(sizes, folder, entered), _growth(sizes, folder)]


@contextmanager
def _started(folder: str, name: str, command: list[str]) -> Iterator[Peer]:
    """A relay in a workspace of its own that has shaken hands."""
    workspace = Path(folder, name)
    (workspace / ".aex").mkdir(parents=True, exist_ok=True)
    (workspace / ".aex/policy.aex").write_text(POLICY)
    peer = Peer(command, str(workspace), child_environment(f"{folder}/config"))
    try:
        peer.greet()
        yield peer
    finally:
        peer.close()


def _command(relay: str) -> list[str]:
    return UPSTREAM if relay == DIRECT else [sys.executable, *PROGRAMS[relay]]


# --- what is counted


class Counted(NamedTuple):
    """Calls one after the other, and many in flight; `calls` are those of one tool call."""

    sequential: Entered
    sequential_calls: float
    pipelined_calls: float


def _profiles(sizes: Sizes, folder: str) -> dict[Subject, Counted]:
    found = {}
    for relay, program in PROGRAMS.items():
        report, name = Path(folder, f"{relay}.json"), f"profiled {relay}"
        spans = []
        with _started(folder, name, profiled(report, *program)) as peer:
            for tool in TITLES:
                peer.sequential(tool, sizes.warm_up)
                spans.append(_span(partial(peer.sequential, tool, sizes.profiled)))
                spans.append(_span(partial(peer.pipelined, tool, sizes.profiled, IN_FLIGHT)))
        profile = Profile(report, HERE, PACKAGE)
        entered = [profile.between(*span) for span in spans]
        for number, tool in enumerate(TITLES):
            one, many = entered[2 * number : 2 * number + 2]
            counted = Counted(one, one.calls / sizes.profiled, many.calls / sizes.profiled)
            found[Subject(relay, tool)] = counted
    return found


def _span(work: Callable[[], object]) -> tuple[int, int]:
    """When work begins, and when the relay is done with it."""
    time.sleep(SETTLED_SECONDS)
    began = time.perf_counter_ns()
    work()
    time.sleep(SETTLED_SECONDS)
    return began, time.perf_counter_ns()


# --- what is timed


def _calls(sizes: Sizes, folder: str, counted: dict[Subject, Counted]) -> list[Table]:
    with ExitStack() as stack:
        peers = {
            subject: stack.enter_context(_started(folder, " ".join(subject), _command(subject.relay)))
            for subject in SUBJECTS
        }
        for subject, peer in peers.items():
            peer.sequential(subject.tool, sizes.warm_up)
        one = take_turns(
            {subject: partial(_turn, peer, subject.tool, sizes.calls) for subject, peer in peers.items()},
            sizes.rounds,
            sizes.idle_seconds,
        )
        for subject, peer in peers.items():
            peer.pipelined(subject.tool, sizes.warm_up, IN_FLIGHT)
        many = take_turns(
            {subject: partial(_rate, peer, subject.tool, sizes) for subject, peer in peers.items()},
            sizes.throughput_rounds,
            sizes.idle_seconds,
        )
        peaks = {subject: peer.memory("VmHWM") for subject, peer in peers.items()}
    return [_table(sizes, tool, Measured(counted, one, many, peaks)) for tool in TITLES]


def _turn(peer: Peer, tool: str, count: int) -> Turn:
    before = machine.processor_seconds(peer.process.pid)
    times = [seconds * 1e6 for seconds in peer.sequential(tool, count)]
    after = machine.processor_seconds(peer.process.pid)
    return Turn(times, None if before is None or after is None else (after - before) * 1e6 / count)


def _rate(peer: Peer, tool: str, sizes: Sizes) -> float:
    return sizes.throughput / peer.pipelined(tool, sizes.throughput, IN_FLIGHT)


class Measured(NamedTuple):
    """All that is known of all subjects."""

    counted: dict[Subject, Counted]
    one: Rounds[Subject, Turn]
    many: Rounds[Subject, float]
    peaks: dict[Subject, float | None]


def _table(sizes: Sizes, tool: str, measured: Measured) -> Table:
    counted, one, many, peaks = measured
    table = Table(
        TITLES[tool],
        ["", *RELAYS],
        f"One at a time: {one.note} of {sizes.calls} calls. {IN_FLIGHT} in flight: {many.note} of "
        f"{sizes.throughput:,} calls. Python calls: of {sizes.profiled} calls each.",
    )
    subjects = {relay: Subject(relay, tool) for relay in RELAYS}
    times = {
        relay: sorted(time_ for turn in one.of(subject) for time_ in turn.times)
        for relay, subject in subjects.items()
    }

    def add(figure: str, value: Callable[[str], Cell]) -> None:
        table.add(figure, *map(value, RELAYS))

    def add_ratio(figure: str, pairs: Callable[[str], Iterator[tuple[float, float]]]) -> None:
        found = [None if relay == DIRECT else median_ratio(pairs(relay)) for relay in RELAYS]
        table.add(figure, *(ratio and ratio.median for ratio in found))
        table.add("  ±", *(ratio and ratio.error for ratio in found))

    def count(of: Callable[[Counted], Cell]) -> Callable[[str], Cell]:
        return lambda relay: None if relay == DIRECT else of(counted[subjects[relay]])

    def over_direct(part: float) -> Callable[[str], Cell]:
        return lambda relay: (
            None if relay == DIRECT else percentile(times[relay], part) - percentile(times[DIRECT], part)
        )

    add("Python calls per tool call", count(lambda found: found.sequential_calls))
    add(f"Python calls, {IN_FLIGHT} in flight", count(lambda found: found.pipelined_calls))
    add("own functions on the path", count(lambda found: found.sequential.functions))
    add("files that they are in", count(lambda found: found.sequential.files))
    add("lines of these functions", count(lambda found: found.sequential.lines))
    for part in (0.5, 0.9, 0.99):
        add(f"p{part * 100:.0f}, µs", lambda relay, part=part: percentile(times[relay], part))  # type: ignore[misc]
    add("p50 over direct, µs", over_direct(0.5))
    add("p99 over direct, µs", over_direct(0.99))
    for peer in (PASS_THROUGH, FLOOR):
        add_ratio(f"p50 over direct, {peer} = 1", lambda relay, peer=peer: _added(one, subjects, relay, peer))  # type: ignore[misc]
    add(RATE, lambda relay: median(many.of(subjects[relay])))
    for peer in (PASS_THROUGH, FLOOR):
        add_ratio(f"calls/s, {peer} = 1", lambda relay, peer=peer: _shares(many, subjects, relay, peer))  # type: ignore[misc]
    add("CPU per call, µs", lambda relay: _median([turn.processor for turn in one.of(subjects[relay])]))
    add("peak RSS, MiB", lambda relay: peaks[subjects[relay]])
    return table


def _added(
    one: Rounds[Subject, Turn], subjects: dict[str, Subject], relay: str, peer: str
) -> Iterator[tuple[float, float]]:
    """By round: what a relay adds to the median, and what its peer adds."""
    for turns in one.kept:
        direct, mine, theirs = (median(turns[subjects[name]].times) for name in (DIRECT, relay, peer))
        yield mine - direct, theirs - direct


def _shares(
    many: Rounds[Subject, float], subjects: dict[str, Subject], relay: str, peer: str
) -> Iterator[tuple[float, float]]:
    """By round: the calls a second of a relay, and of its peer."""
    for rates in many.kept:
        yield rates[subjects[relay]], rates[subjects[peer]]


def _median(values: list[float | None]) -> float | None:
    """None where the system does not tell."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


# --- what stays


def _growth(sizes: Sizes, folder: str) -> Table:
    table = Table(
        "Relays: memory by the number of calls",
        ["", *(f"after {count:,}, MiB" for count in sizes.memory), "last step, MiB"],
        "Resident memory (VmRSS) of one process after so many calls. SQLite's page caches and a few bounded buffers fill up "
        "first; then it must stand still.",
    )
    for relay, tool in SUBJECTS:
        if relay == DIRECT:
            continue
        values: list[float | None] = []
        with _started(folder, f"grown {relay} {tool}", _command(relay)) as peer:
            for before, count in pairwise((0, *sizes.memory)):
                peer.pipelined(tool, count - before, IN_FLIGHT)
                values.append(peer.memory("VmRSS"))
        early, late = values[-2:]
        grown = None if early is None or late is None else late - early
        table.add(f"{relay}, {'reading' if tool == READING else 'with effects'}", *values, grown)
    return table
