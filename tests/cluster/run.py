"""Break a cluster under load, and check that nothing which was acknowledged is lost and no effect is doubled.

    python tests/cluster/run.py                                   each failure 20 times
    python tests/cluster/run.py --only node --count 2 --json FILE

Three etcd, three PostgreSQL under Patroni with two synchronous standbys, three replicas of `adjourn serve`, one server that writes its effects
down, and clients that repeat with an idempotency key what was not answered. Needs root, and: apt-get install patroni etcd-server postgresql

Owns: this command, and what is measured. Must never: leave a process, a mount or a folder behind.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import machine

from cluster.facts import facts, repeated
from cluster.failures import FAILURES, Failure, Stage
from cluster.load import Load
from cluster.network import Network
from cluster.outcomes import Outcome, read, table, write
from cluster.patroni import Cluster, missing
from support.replicas import Replicas

TASKS = ("t0", "t1", "t2", "t3")
CLIENTS = 2
REPLICAS = 3
RULES = ("allow up.soon", "budget calls=1000000")
LARGEST_PAUSE = 1.5


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
                return await _under_load(name, failure, Stage(cluster, network, replicas, chance), count, seed)
            finally:
                await asyncio.to_thread(replicas.close)
        finally:
            network.close()


async def _under_load(name: str, failure: Failure, stage: Stage, count: int, seed: int) -> Outcome:
    load = Load(stage.replicas, list(TASKS), CLIENTS, seed)
    silences: list[float] = []
    loads: list[float] = []
    async with load:
        for _ in range(count):
            await load.all_continue()
            await asyncio.sleep(stage.chance.uniform(0, LARGEST_PAUSE))
            silences.append(await _once(failure, stage, load))
            loads.append(os.getloadavg()[0])
            print(
                f"{name} {len(silences)}/{count}: {silences[-1]:.1f} s, load {loads[-1]:.1f}",
                file=sys.stderr,
                flush=True,
            )
    answers = await afterwards(stage.replicas, load)
    await load.close()
    found = await asyncio.to_thread(facts, stage.replicas, load, answers)
    refusals: Counter[str] = Counter()
    for client in load.clients:
        refusals.update(client.refusals)
    return Outcome(name, seed, silences, loads, found, dict(refusals.most_common()))


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


def _keep_logs(folder: Path, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    for log in folder.rglob("*.log"):
        shutil.copy(log, to / f"{log.parent.name}.{log.name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=FAILURES, help="this failure; repeat it for more")
    parser.add_argument("--count", type=int, default=20, help="how often each failure happens (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is chosen by chance (default: 1)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="add the values as measured to those in FILE")
    parser.add_argument("--keep", metavar="DIR", help="keep the logs there")
    options = parser.parse_args()
    if why := missing():
        parser.error(why)
    about = machine.describe("python tests/cluster/run.py", tempfile.gettempdir())
    outcomes: list[Outcome] = []
    for name in options.only or FAILURES:
        with tempfile.TemporaryDirectory(prefix="adjourn-cluster-") as folder:
            try:
                outcome = asyncio.run(failed(name, options.count, options.seed, Path(folder)))
            finally:
                if options.keep:
                    _keep_logs(Path(folder), Path(options.keep) / name)
        outcomes.append(outcome)
        if options.json:
            write(options.json, [*read(options.json), outcome], about)
    print(table(outcomes).text())
    for one in outcomes:
        if not one.facts.is_right:
            print(f"{one.name}: {one.facts}")
    return int(not all(one.facts.is_right for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
