"""What must be true after failures: of what clients got, of the effects that the server counted, and of the histories.

Owns: `Facts` and how they are found. Must never: ask a gateway.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from contextlib import closing
from typing import NamedTuple

from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import decode
from adjourn.log.kinds import ToolAllowed, ToolSettled, data_of, facts_of
from adjourn.store import Store, open_store
from cluster.load import TOOL, Load
from support.replicas import Replicas


class Facts(NamedTuple):
    """Texts of calls by what is wrong with them; all but `in_doubt` and the counts are empty where nothing is."""

    acknowledged: int
    effects: int
    in_doubt: list[str]
    lost: list[str]
    """Acknowledged, and not in the history as settled, or without an effect."""
    doubled: list[str]
    without_intent: list[str]
    refunded: list[str]
    """Tasks whose budget counts fewer calls than were made."""
    wrong_doubts: list[str]
    """In doubt although answered, or not listed, or neither answered nor in doubt nor repeated with success."""
    invalid: list[str]
    """What `adjourn verify` finds."""

    @property
    def is_right(self) -> bool:
        return not any((self.lost, self.doubled, self.without_intent, self.refunded, self.wrong_doubts, self.invalid))


class History(NamedTuple):
    """The digests of the arguments of the calls of a task: of all that were counted, of those that were made, and of those in doubt."""

    counted: list[str]
    made: set[str]
    in_doubt: set[str]


async def repeated(load: Load, replica: int) -> dict[str, str]:
    """Repeat each call whose end its client does not know, once; returns what the answers were. No load must run."""
    calls = [(client, text) for client in load.clients for text in client.unclear]
    at_once = asyncio.Semaphore(16)

    async def one(number: int) -> str:
        async with at_once:
            client, text = calls[number]
            return await client.attempt(text, replica)

    answers = await asyncio.gather(*map(one, range(len(calls))))
    return {text: answer for (_, text), answer in zip(calls, answers, strict=True)}


def facts(replicas: Replicas, load: Load, answers: dict[str, str]) -> Facts:
    """See above. `answers` are those to what was repeated; no gateway runs."""
    acknowledged = {text for client in load.clients for text in client.acknowledged}
    acknowledged |= {text for text, answer in answers.items() if answer == f"{TOOL}: {text}"}
    open_ends = answers.keys() - acknowledged
    effects = replicas.called()
    names = {_digest(text): text for text in (*acknowledged, *open_ends, *effects)}
    tasks = sorted({client.task for client in load.clients})
    counted: set[str] = set()
    settled: set[str] = set()
    in_doubt: set[str] = set()
    refunded = []
    with closing(open_store(replicas.environment["ADJOURN_STORE"])) as store:
        for task in tasks:
            history = _history(store, task)
            for digests, into in zip(history, (counted, settled, in_doubt), strict=True):
                into |= {names.get(one, one) for one in digests}
            used = replicas.status(task)["callsUsed"]
            if used != len(history.counted) or used < sum(text.startswith(f"{task}.") for text in effects):
                refunded.append(task)
    made = Counter(effects)
    return Facts(
        acknowledged=len(acknowledged),
        effects=len(effects),
        in_doubt=sorted(in_doubt),
        lost=sorted(acknowledged - (settled & made.keys())),
        doubled=sorted(text for text, count in made.items() if count > 1),
        without_intent=sorted(made.keys() - counted),
        refunded=refunded,
        wrong_doubts=sorted((in_doubt & acknowledged) | (in_doubt ^ _listed(replicas)) | (open_ends - in_doubt)),
        invalid=_invalid(replicas),
    )


def _history(store: Store, task: str) -> History:
    sent: dict[str, str] = {}
    made: set[str] = set()
    in_doubt: dict[str, str] = {}
    for data in (data_of(fact) for entry in store.read(task) for fact in facts_of(decode(entry.data))):
        if isinstance(data, ToolAllowed):
            sent[data.call] = in_doubt[data.call] = data.digest
        elif isinstance(data, ToolSettled) and data.outcome != "no-answer":
            in_doubt.pop(data.call, None)
            if data.outcome == "ok":
                made.add(sent[data.call])
    return History(list(sent.values()), made, set(in_doubt.values()))


def _digest(text: str) -> str:
    return digest(canonical({"text": text}))


def _invalid(replicas: Replicas) -> list[str]:
    try:
        replicas.adjourn("verify")
    except subprocess.CalledProcessError as error:
        return [str(error.stdout)]
    return []


def _listed(replicas: Replicas) -> set[str]:
    """The texts of the calls that the inbox lists as in doubt."""
    found = json.loads(replicas.adjourn("inbox", "--json"))["waiting"]
    return {json.loads(one["context"])["text"] for one in found if one["kind"] == "in-doubt"}
