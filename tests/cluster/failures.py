"""The failures: what each does to a stage of cluster, network and replicas, and how it is mended.

Owns: `Stage`, `FAILURES`. Must never: measure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import NamedTuple

from cluster.network import Network
from cluster.patroni import Cluster, Node, wait_until
from support.replicas import Replicas

HOLD_SECONDS = 8.0
"""How long a full disk lasts, and how long a standby or a replica that was killed is away."""
CUT_SECONDS = 13.0
"""How long a cut lasts, and how long a new primary is alone with clients: longer than a statement may take, so that connections are given up."""

LEAD_SECONDS = 0.5
"""How long one standby receives what another does not."""


class Stage(NamedTuple):
    """What failures happen to. `chance` chooses among equals."""

    cluster: Cluster
    network: Network
    replicas: Replicas
    chance: Random

    def any_replica(self) -> int:
        return self.chance.randrange(len(self.replicas.ports))

    async def primary(self) -> Node:
        found = await asyncio.to_thread(self.cluster.primary)
        if found is None:
            raise RuntimeError("the cluster has no primary")
        return found

    async def any_standby(self) -> Node:
        primary = await self.primary()
        return self.chance.choice([node for node in self.cluster.nodes if node is not primary])

    async def another_primary(self, before: Node) -> None:
        """Wait until another node is the primary."""

        def is_there() -> bool:
            return self.cluster.primary() not in (None, before)

        await asyncio.to_thread(wait_until, is_there, "another node is the primary")


Mend = Callable[[], Awaitable[None]]
"""Waits as long as the failure is to last, and ends it."""


class Failure(NamedTuple):
    """`happen` returns once it has happened. `aim` is the longest silence, in seconds, that is aimed at."""

    title: str
    happen: Callable[[Stage], Awaitable[Mend]]
    aim: float | None = None


async def _postmaster(stage: Stage) -> Mend:
    (await stage.primary()).kill_postmaster()
    return _nothing


async def _node(stage: Stage) -> Mend:
    return _killed(stage, await stage.primary())


async def _uneven(stage: Stage) -> Mend:
    node = await stage.primary()
    await asyncio.to_thread(node.hold_back_a_standby)
    await asyncio.sleep(LEAD_SECONDS)
    return _killed(stage, node)


def _killed(stage: Stage, primary: Node) -> Mend:
    primary.kill()

    async def mend() -> None:
        await stage.another_primary(primary)
        stage.cluster.start(primary)

    return mend


async def _silent_node(stage: Stage) -> Mend:
    node = await stage.primary()
    number = stage.cluster.nodes.index(node)
    stage.network.cut_off(number)
    node.kill()

    async def mend() -> None:
        await stage.another_primary(node)
        stage.cluster.start(node)
        await asyncio.sleep(CUT_SECONDS)
        stage.network.mend_of(number)

    return mend


async def _standby(stage: Stage) -> Mend:
    node = await stage.any_standby()
    node.kill()

    async def mend() -> None:
        await asyncio.sleep(HOLD_SECONDS)
        stage.cluster.start(node)

    return mend


async def _silent_standby(stage: Stage) -> Mend:
    node = await stage.any_standby()
    node.halt()

    async def mend() -> None:
        await asyncio.sleep(CUT_SECONDS)
        node.resume()

    return mend


async def _replica(stage: Stage) -> Mend:
    number = stage.any_replica()
    stage.replicas.end(number)

    async def mend() -> None:
        await asyncio.sleep(HOLD_SECONDS)
        await asyncio.to_thread(stage.replicas.start, number)

    return mend


async def _cut(stage: Stage) -> Mend:
    return await _cut_off(stage, [stage.any_replica()])


async def _cut_all(stage: Stage) -> Mend:
    return await _cut_off(stage, range(len(stage.replicas.ports)))


async def _cut_off(stage: Stage, numbers: list[int] | range) -> Mend:
    stage.network.cut(numbers)

    async def mend() -> None:
        await asyncio.sleep(CUT_SECONDS)
        stage.network.mend(numbers)

    return mend


async def _disk(stage: Stage) -> Mend:
    node = await stage.primary()
    await asyncio.to_thread(node.fill_disk)

    async def mend() -> None:
        await asyncio.sleep(HOLD_SECONDS)
        node.free_disk()

    return mend


async def _nothing() -> None:
    """It is mended by Patroni."""


FAILURES = {
    "postmaster": Failure("the primary's postmaster is killed", _postmaster, 6),
    "node": Failure("the primary's node is killed", _node, 30),
    "silent-node": Failure("the same, and it is silent: connections do not end", _silent_node, 30),
    "uneven": Failure("the primary's node is killed, and one standby has received more", _uneven, 30),
    "standby": Failure("a standby's node is killed", _standby, 6),
    "silent-standby": Failure("a standby's node halts: connections do not end", _silent_standby, 10),
    "replica": Failure("a replica of the gateway is killed", _replica, 5),
    "cut": Failure("a replica is cut off from PostgreSQL", _cut),
    "cut-all": Failure("all replicas are cut off from PostgreSQL", _cut_all),
    "disk": Failure("the primary's disk is full", _disk),
}
