"""A proxy under load is killed at random times, again and again: nothing answered is forgotten, nothing is uncounted.

Short here; ADJOURN_CAMPAIGN=1 kills 500 times.
"""

from __future__ import annotations

import json
import os
import queue
import random
import time
from pathlib import Path
from typing import NamedTuple

from harness import ERAS, Client, Workspace

from adjourn.log.canonical import canonical, digest
from adjourn.log.chain import verify_chain
from adjourn.log.event import GENESIS, decode
from adjourn.log.kinds import ToolAllowed, ToolSettled, data_of

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
KILLS = 500 if CAMPAIGN else 20
WINDOW = 12
TOOLS = ("echo", "echo", "file.read", "slow", "fail")


class Round(NamedTuple):
    """One life of a proxy: the calls that were answered, and those that were not, by number; value: the tool."""

    answered: dict[int, str]
    in_flight: dict[int, str]


def _work_until_killed(client: Client, chooser: random.Random, number: int) -> Round:
    """Keep a window of calls in flight until the time is up, then kill. Numbers make every call's arguments unique."""
    client.tools()
    answered: dict[int, str] = {}
    in_flight: dict[int, str] = {}
    until = time.monotonic() + chooser.uniform(0, 0.12)
    while time.monotonic() < until:
        while len(in_flight) < WINDOW and chooser.random() < 0.9:
            number += 1
            tool = chooser.choice(TOOLS)
            in_flight[number] = tool
            arguments = {"n": number} | ({"seconds": 0.02} if tool == "slow" else {})
            client.post(
                client.message("tools/call", {"name": tool, "arguments": arguments}, request_id=f"k{number}")
            )
        try:
            _take(client.line(0.005), answered, in_flight)
        except queue.Empty:
            continue
    client.kill()
    while (line := client.line()) is not None:
        if line.endswith(b"\n"):
            _take(line, answered, in_flight)
    return Round(answered, in_flight)


def _take(line: bytes | None, answered: dict[int, str], in_flight: dict[int, str]) -> None:
    assert line is not None
    body = json.loads(line)
    assert "result" in body, body
    number = int(body["id"][1:])
    answered[number] = in_flight.pop(number)


def _digest(number: int, tool: str) -> str:
    return digest(canonical({"n": number} | ({"seconds": 0.02} if tool == "slow" else {})))


def test_kills_at_any_time_lose_nothing_that_was_answered_and_refund_nothing(tmp_path: Path) -> None:
    chooser = random.Random(int(os.environ.get("ADJOURN_SEED", "11")))
    head, seen, number, answers, doubts, most = GENESIS, 0, 0, 0, 0, 0
    allowed: dict[str, ToolAllowed] = {}
    settled: set[str] = set()
    with Workspace(tmp_path, "allow *") as work:
        for kill in range(KILLS):
            client = work.client("--task", "kill", era=ERAS[kill % 3], name=f"client-{kill % 2}")
            life = _work_until_killed(client, chooser, number)
            work.clients.clear()
            number = max([number, *life.answered, *life.in_flight])

            with work.store() as store:
                entries = list(store.read("kill", seen)) if store.streams() else []
            result = verify_chain(entries, after=head)
            assert result.valid
            head, seen = result.head, seen + len(entries)
            for entry in entries:
                data = data_of(decode(entry.data))
                if isinstance(data, ToolAllowed):
                    allowed[data.digest] = data
                elif isinstance(data, ToolSettled):
                    settled.add(data.call)
            for one, tool in life.answered.items():
                fact = allowed[_digest(one, tool)]
                assert (fact.tool, fact.effectful) == (tool, tool != "file.read")
                assert fact.call in settled or not fact.effectful
            if not entries:
                assert not life.answered
                continue

            ledger = work.ledger("kill")
            assert ledger.calls_used == len(allowed) >= len(work.executed())
            open_now = [call for call in ledger.open_calls.values() if call.effectful]
            flying = [tool for tool in life.in_flight.values() if tool != "file.read"]
            assert len(open_now) <= len(flying)
            assert len(ledger.doubts) == doubts  # those of this life are told by the next one
            doubts += len(open_now)
            answers += len(life.answered)
            most = max(most, len(open_now))

        client = work.client("--task", "kill")
        client.call("echo", {"last": True})
        assert client.close() == 0
        ledger = work.ledger("kill")
        assert work.tasks() == ["kill"]
        assert len(ledger.doubts) == doubts
        assert not ledger.sessions
        assert not ledger.open_calls
        assert ledger.calls_used == len(allowed) + 1 >= len(work.executed())
        assert len(work.events("kill")) == ledger.seq + 1
        print(
            f"{KILLS} kills, {ledger.calls_used} calls counted, {len(work.executed())} executed upstream, "
            f"{answers} answered, {doubts} in doubt (at most {most} after one kill), {ledger.seq + 1} events"
        )
