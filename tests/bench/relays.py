"""What a relay costs a call: the same calls to the same server directly, and through relays that do more and more.

The pass-through examines nothing. The floor keeps a journal and decides nothing. adjourn decides. All of them run at once
and take turns. Python calls are counted in a run of their own, in which nothing is timed.

Owns: the tables of relays. Must never: count an answer that is not the right one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import machine
from peer import ADJOURN, Peer, child_environment
from profiling import SETTLED_SECONDS, Entered, Profile, profiled
from sizes import Sizes
from tables import Cell, Table, median, percentile
from turns import Ratio, Rounds, median_ratio, take_turns

import adjourn

HERE = Path(__file__).parent
PACKAGE = Path(adjourn.__file__).parent
UPSTREAM = [sys.executable, "-I", "-S", str(HERE / "echo_upstream.py")]
POLICY = 'policy bench v0\n\ngoal "Measure."\n\nuse notes.*, files.*\ndeny network.*, secrets.read\n'
DIRECT, PASS_THROUGH, FLOOR, OURS = "direct", "pass-through", "floor", "adjourn"
READING, EFFECTFUL = "notes.get", "notes.set"
TITLES = {READING: "Relays: a reading call", EFFECTFUL: "Relays: a call with effects"}


class Relay(NamedTuple):
    """A Python program and its arguments; none is the server itself. `source`: where its package is imported from."""

    program: tuple[str, ...] = ()
    source: Path = PACKAGE.parent

    @property
    def command(self) -> list[str]:
        return [sys.executable, *self.program] if self.program else UPSTREAM


class Subject(NamedTuple):
    """One way to the server, and the tool that is called."""

    relay: str
    tool: str


class Turn(NamedTuple):
    """Calls one after the other: microseconds of each, and what the relay's own process computed for one."""

    times: list[float]
    processor: float | None


IN_FLIGHT = 64
CALLS = "Python calls per tool call"
ADDED = "p50 over direct, µs"
RATE = f"calls/s, {IN_FLIGHT} in flight"


class Rate(NamedTuple):
    """Calls a second with many in flight, and what the relay's own process computed for one."""

    calls: float
    processor: float | None


def run(sizes: Sizes, folder: str) -> list[Table]:
    """All tables of this section; files are made in `folder`."""
    proxy = (ADJOURN, "proxy", "--", *UPSTREAM)
    relays = {
        DIRECT: Relay(),
        PASS_THROUGH: Relay((str(HERE / "passthrough.py"), *UPSTREAM)),
        FLOOR: Relay((str(HERE / "floor.py"), *UPSTREAM)),
        OURS: Relay(proxy),
        **{name: Relay(proxy, source) for name, source in sizes.beside.items()},
    }
    counted = _profiles(sizes, folder, relays)
    return [*_calls(sizes, folder, relays, counted), _growth(sizes, folder, relays)]


@contextmanager
def started(folder: str, name: str, relay: Relay, command: list[str] | None = None) -> Iterator[Peer]:
    """A relay in a workspace of its own that has shaken hands. `command`: another one that runs it."""
    workspace = Path(folder, name)
    (workspace / ".aex").mkdir(parents=True, exist_ok=True)
    (workspace / ".aex/policy.aex").write_text(POLICY)
    environment = child_environment(f"{folder}/config") | {"PYTHONPATH": str(relay.source)}
    peer = Peer(command or relay.command, str(workspace), environment)
    try:
        peer.greet()
        yield peer
    finally:
        peer.close()


# --- what is counted


class Counted(NamedTuple):
    """Calls one after the other, and many in flight; `calls` are those of one tool call."""

    sequential: Entered
    sequential_calls: float
    pipelined_calls: float


def _profiles(sizes: Sizes, folder: str, relays: Mapping[str, Relay]) -> dict[Subject, Counted]:
    found = {}
    for name, relay in relays.items():
        if not relay.program:
            continue
        report = Path(folder, f"{name}.json")
        spans = []
        with started(folder, f"profiled {name}", relay, profiled(report, *relay.program)) as peer:
            for tool in TITLES:
                peer.sequential(tool, sizes.warm_up)
                spans.append(_span(partial(peer.sequential, tool, sizes.profiled)))
                spans.append(_span(partial(peer.pipelined, tool, sizes.profiled, IN_FLIGHT)))
        profile = Profile(report, HERE, relay.source / PACKAGE.name)
        entered = [profile.between(*span) for span in spans]
        for number, tool in enumerate(TITLES):
            one, many = entered[2 * number : 2 * number + 2]
            counted = Counted(one, one.calls / sizes.profiled, many.calls / sizes.profiled)
            found[Subject(name, tool)] = counted
    return found


def _span(work: Callable[[], object]) -> tuple[int, int]:
    """When work begins, and when the relay is done with it."""
    time.sleep(SETTLED_SECONDS)
    began = time.perf_counter_ns()
    work()
    time.sleep(SETTLED_SECONDS)
    return began, time.perf_counter_ns()


# --- what is timed


def _calls(sizes: Sizes, folder: str, relays: Mapping[str, Relay], counted: dict[Subject, Counted]) -> list[Table]:
    subjects = [Subject(name, tool) for tool in TITLES for name in relays]
    with ExitStack() as stack:
        peers = {
            subject: stack.enter_context(started(folder, " ".join(subject), relays[subject.relay]))
            for subject in subjects
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
            {subject: partial(_rate, peer, subject.tool, sizes.throughput) for subject, peer in peers.items()},
            sizes.throughput_rounds,
            sizes.idle_seconds,
        )
        peaks = {subject: peer.memory("VmHWM") for subject, peer in peers.items()}
    measured = Measured(list(relays), counted, one, many, peaks)
    return [ToolTable(sizes, tool, measured).table for tool in TITLES]


def _turn(peer: Peer, tool: str, count: int) -> Turn:
    before = machine.processor_seconds(peer.process.pid)
    times = [seconds * 1e6 for seconds in peer.sequential(tool, count)]
    return Turn(times, _since(before, peer, count))


def _rate(peer: Peer, tool: str, count: int) -> Rate:
    before = machine.processor_seconds(peer.process.pid)
    seconds = peer.pipelined(tool, count, IN_FLIGHT)
    return Rate(count / seconds, _since(before, peer, count))


def _since(before: float | None, peer: Peer, count: int) -> float | None:
    """Microseconds of a processor for one of so many calls."""
    after = machine.processor_seconds(peer.process.pid)
    return None if before is None or after is None else (after - before) * 1e6 / count


class Measured(NamedTuple):
    """All that is known of all subjects."""

    relays: list[str]
    counted: dict[Subject, Counted]
    one: Rounds[Subject, Turn]
    many: Rounds[Subject, Rate]
    peaks: dict[Subject, float | None]


class ToolTable:
    """The table of one tool: a column for each relay."""

    def __init__(self, sizes: Sizes, tool: str, measured: Measured) -> None:
        self._relays = measured.relays
        self._subjects = {relay: Subject(relay, tool) for relay in self._relays}
        self._measured = measured
        self.table = Table(
            TITLES[tool],
            ["", *self._relays],
            f"One at a time: {measured.one.note} of {sizes.calls} calls. {IN_FLIGHT} in flight: {measured.many.note} of "
            f"{sizes.throughput:,} calls. Python calls: of {sizes.profiled} calls each.",
        )
        self._add_counts()
        self._add_latencies()
        self._add_rates()
        self._add_processor("CPU per call", measured.one)
        self._add_processor(f"CPU per call, {IN_FLIGHT} in flight", measured.many)
        self._add("peak RSS, MiB", lambda relay: measured.peaks[self._subjects[relay]])

    def _add(self, figure: str, value: Callable[[str], Cell]) -> None:
        self.table.add(figure, *map(value, self._relays))

    def _add_ratio(self, figure: str, values: Callable[[str], Iterable[float | None]], peer: str) -> None:
        """`values`: of a relay, by round."""
        found = [None if relay == DIRECT else _ratio(values(relay), values(peer)) for relay in self._relays]
        self.table.add(f"{figure}, {peer} = 1", *(ratio and ratio.median for ratio in found))
        self.table.add("  ±", *(ratio and ratio.error for ratio in found))

    def _add_counts(self) -> None:
        rows: dict[str, Callable[[Counted], Cell]] = {
            CALLS: lambda found: found.sequential_calls,
            f"Python calls, {IN_FLIGHT} in flight": lambda found: found.pipelined_calls,
            "own functions on the path": lambda found: found.sequential.functions,
            "files that they are in": lambda found: found.sequential.files,
            "lines of these functions": lambda found: found.sequential.lines,
        }
        found = {relay: self._measured.counted.get(subject) for relay, subject in self._subjects.items()}
        for figure, of in rows.items():
            self.table.add(figure, *((counted := found[relay]) and of(counted) for relay in self._relays))

    def _add_latencies(self) -> None:
        turns = {relay: self._measured.one.of(subject) for relay, subject in self._subjects.items()}
        times = {relay: [time_ for turn in turns[relay] for time_ in turn.times] for relay in self._relays}
        medians = {relay: [median(turn.times) for turn in turns[relay]] for relay in self._relays}

        def added(relay: str) -> Iterable[float]:
            return (mine - direct for mine, direct in zip(medians[relay], medians[DIRECT], strict=True))

        found = {part: [percentile(times[relay], part) for relay in self._relays] for part in (0.5, 0.9, 0.99)}
        for part, values in found.items():
            self.table.add(f"p{part * 100:.0f}, µs", *values)
        for part in (0.5, 0.99):
            direct, *others = found[part]
            self.table.add(f"p{part * 100:.0f} over direct, µs", None, *(value - direct for value in others))
        for peer in (PASS_THROUGH, FLOOR):
            self._add_ratio("p50 over direct", added, peer)

    def _add_rates(self) -> None:
        def rates(relay: str) -> list[float]:
            return [rate.calls for rate in self._measured.many.of(self._subjects[relay])]

        self._add(RATE, lambda relay: median(rates(relay)))
        for peer in (PASS_THROUGH, FLOOR):
            self._add_ratio("calls/s", rates, peer)

    def _add_processor(self, figure: str, rounds: Rounds[Subject, Turn] | Rounds[Subject, Rate]) -> None:
        def computed(relay: str) -> list[float | None]:
            return [turn.processor for turn in rounds.of(self._subjects[relay])]

        self._add(f"{figure}, µs", lambda relay: _median(computed(relay)))
        self._add_ratio(figure, computed, FLOOR)


def _ratio(mine: Iterable[float | None], theirs: Iterable[float | None]) -> Ratio | None:
    """By round; what the system does not say is left out."""
    pairs = zip(mine, theirs, strict=True)
    return median_ratio((value, peer) for value, peer in pairs if value is not None and peer is not None)


def _median(values: list[float | None]) -> float | None:
    """None where the system does not say."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


# --- what stays


def _growth(sizes: Sizes, folder: str, relays: Mapping[str, Relay]) -> Table:
    table = Table(
        "Relays: memory by the number of calls",
        ["", *(f"after {count:,}, MiB" for count in sizes.memory), "last step, MiB"],
        "Resident memory (VmRSS) of one process after so many calls. SQLite's page caches and a few bounded buffers fill up "
        "first; then it must stand still.",
    )
    for tool, (name, relay) in product(TITLES, relays.items()):
        if not relay.program:
            continue
        values: list[float | None] = []
        with started(folder, f"grown {name} {tool}", relay) as peer:
            for before, count in pairwise((0, *sizes.memory)):
                peer.pipelined(tool, count - before, IN_FLIGHT)
                values.append(peer.memory("VmRSS"))
        early, late = values[-2:]
        grown = None if early is None or late is None else late - early
        table.add(f"{name}, {'reading' if tool == READING else 'with effects'}", *values, grown)
    return table
