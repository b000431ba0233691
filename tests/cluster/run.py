"""Break a cluster under load, and check that nothing which was acknowledged is lost and no effect is doubled.

    python tests/cluster/run.py                                   each failure 20 times
    python tests/cluster/run.py --only node --count 2 --json FILE

Three etcd, three PostgreSQL under Patroni with a synchronous standby, three replicas of `adjourn serve`, one server that writes its effects
down, and clients that repeat with an idempotency key what was not answered. Needs root, and: apt-get install patroni etcd-server postgresql

Owns: this command, and what is measured. Must never: leave a process, a mount or a folder behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import machine
from tables import Table, median

from cluster.facts import Facts, facts, repeated
from cluster.failures import FAILURES, Failure, Stage
from cluster.load import Load
from cluster.network import Network
from cluster.patroni import Cluster, missing
from support.replicas import Replicas

TASKS = ("t0", "t1", "t2", "t3")
CLIENTS = 2
REPLICAS = 3
RULES = ("allow up.soon", "budget calls=1000000")
LARGEST_PAUSE = 1.5


class Outcome(NamedTuple):
    """Of one kind of failure. `silences` are the longest times, in seconds, in which any client had no call acknowledged."""

    name: str
    silences: list[float]
    facts: Facts
    told: dict[str, int]
    """What clients got in place of an answer, and how often."""


async def failed(name: str, count: int, seed: int, folder: Path) -> Outcome:
    """Let one kind of failure happen so often, on a cluster of its own."""
    failure, chance = FAILURES[name], Random(f"{seed} {name}")
    network = Network()
    with Cluster(folder) as cluster:
        await network.connect(REPLICAS, [node.port for node in cluster.nodes])
        try:
            urls = [cluster.url(network.ports(number)) for number in range(REPLICAS)]
            replicas = await asyncio.to_thread(Replicas, folder / "gateways", urls, *RULES, count=REPLICAS)
            try:
                return await _under_load(
                    name, failure, Stage(cluster, network, replicas, chance), count, seed
                )
            finally:
                await asyncio.to_thread(replicas.close)
        finally:
            network.close()


async def _under_load(name: str, failure: Failure, stage: Stage, count: int, seed: int) -> Outcome:
    load = Load(stage.replicas, list(TASKS), CLIENTS, seed)
    silences = []
    async with load:
        for _ in range(count):
            await load.all_continue()
            await asyncio.sleep(stage.chance.uniform(0, LARGEST_PAUSE))
            silences.append(await _once(failure, stage, load))
            print(f"{name} {len(silences)}/{count}: {silences[-1]:.1f} s", file=sys.stderr, flush=True)
    answers = await afterwards(stage.replicas, load)
    await load.close()
    found = await asyncio.to_thread(facts, stage.replicas, load, answers)
    told: Counter[str] = Counter()
    for client in load.clients:
        told.update(client.told)
    return Outcome(name, silences, found, dict(told.most_common()))


async def _once(failure: Failure, stage: Stage, load: Load) -> float:
    """One failure, until all is whole again; returns the longest silence of a client."""
    began = time.monotonic()
    mend = await failure.happen(stage)
    await mend()
    await load.all_continue()
    await asyncio.to_thread(stage.cluster.wait_until_whole)
    await load.all_continue()
    return load.silence(began)


async def afterwards(replicas: Replicas, load: Load) -> dict[str, str]:
    """End all replicas but one new one, and repeat what was not answered."""
    for number in range(len(replicas.ports)):
        await asyncio.to_thread(replicas.end, number, 15)
    await asyncio.to_thread(replicas.start, 0)
    answers = await repeated(load, 0)
    await asyncio.to_thread(replicas.end, 0, 15)
    return answers


def table(outcomes: Sequence[Outcome]) -> Table:
    """The table of the outcomes."""
    columns = "failure, times, silence: median s, longest s, aim s, acknowledged, lost, doubled, refunded, invalid, in doubt, wrongly"
    found = Table("Failures of a cluster under load", columns.split(", "))
    for one in outcomes:
        failure, its = FAILURES[one.name], one.facts
        aim = "-" if failure.aim is None else f"≤ {failure.aim:g}"
        wrong = (its.lost, its.doubled, its.refunded, its.invalid)
        found.add(
            failure.title, len(one.silences), median(one.silences), max(one.silences), aim, its.acknowledged,
            *map(len, wrong), len(its.in_doubt), len(its.wrong_doubts) + len(its.without_intent),
        )  # fmt: skip
    return found


def _keep_logs(folder: Path, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    for log in folder.rglob("*.log"):
        shutil.copy(log, to / f"{log.parent.name}.{log.name}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=FAILURES, help="this failure; repeat it for more")
    parser.add_argument("--count", type=int, default=20, help="how often each failure happens (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is chosen by chance (default: 1)")
    parser.add_argument("--json", metavar="FILE", help="write the values as measured")
    parser.add_argument("--keep", metavar="DIR", help="keep the logs there")
    options = parser.parse_args()
    if why := missing():
        parser.error(why)
    outcomes = []
    for name in options.only or FAILURES:
        with tempfile.TemporaryDirectory(prefix="adjourn-cluster-") as folder:
            try:
                outcomes.append(asyncio.run(failed(name, options.count, options.seed, Path(folder))))
            finally:
                if options.keep:
                    _keep_logs(Path(folder), Path(options.keep) / name)
    found = table(outcomes)
    print(found.text())
    for one in outcomes:
        if not one.facts.is_right:
            print(f"{one.name}: {one.facts}")
    if options.json:
        about = machine.describe("python tests/cluster/run.py", tempfile.gettempdir())
        values: dict[str, Any] = {
            "machine": about,
            "seed": options.seed,
            "failures": [{**one._asdict(), "facts": one.facts._asdict()} for one in outcomes],
        }
        Path(options.json).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return int(not all(one.facts.is_right for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
