"""Clients are killed in the middle of their effects, and whoever continues does not repeat one: neither another client, with a task of its
own, nor the same client that repeats all that it got no answer for.

Short here; ADJOURN_CAMPAIGN=1 kills 500 clients and 3,000 proxies.
"""

from __future__ import annotations

import os
import queue
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from support.proxy import NEW, Client, Message, ProxyWorkspace, decoded, refused, text_of, wait_for

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
CLIENTS, PROXIES = (500, 3000) if CAMPAIGN else (4, 12)
WINDOW = 8
_BEFORE_THE_ANSWER = """
import os, random, signal, sys
from adjourn.relay.answers import Answers

chance, share = random.Random(int(sys.argv[1])), float(sys.argv[2])
deliver = Answers._deliver

def killed(self, delivery):
    if delivery.settled and chance.random() < share:
        os.kill(os.getpid(), signal.SIGKILL)
    deliver(self, delivery)

Answers._deliver = killed
from adjourn.__main__ import main
sys.argv = sys.argv[sys.argv.index("adjourn"):]
main()
"""
"""A proxy that is killed after it has written that a call is settled, and before its client has the answer, in a share of such moments."""


def _executed(work: ProxyWorkspace) -> Counter[int]:
    """How often each numbered call reached the server."""
    return Counter(call["arguments"]["n"] for call in work.forwarded_calls() if "n" in call["arguments"])


def _dying(work: ProxyWorkspace, seed: int, share: float, *options: str) -> Client:
    return work.client(*options, era=NEW, python=("-c", _BEFORE_THE_ANSWER, str(seed), str(share)))


@pytest.mark.timeout(7200 if CAMPAIGN else 300)
def test_another_client_does_not_repeat_what_a_killed_one_was_doing(tmp_path: Path) -> None:
    """A client of its own, with a task of its own, is asked about the call that was cut off; one with other arguments passes."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        for number in range(CLIENTS):
            first = work.client(name="claude-code", foreign=True)
            first.begin("silent", {"n": number})
            wait_for(lambda number=number: _executed(work)[number] == 1)  # type: ignore[misc]
            first.kill()
            second = work.client("--confirm-timeout", "0", name="codex", foreign=True)
            answer = second.call("silent", {"n": number})
            assert refused(answer)
            assert "in doubt" in text_of(answer)
            assert not refused(second.call("echo", {"n": -1 - number}))
            second.kill()
            work.clients.clear()
        assert set(_executed(work).values()) == {1}


@pytest.mark.timeout(300)
def test_what_was_done_is_told_to_a_client_that_did_not_get_the_answer(tmp_path: Path) -> None:
    """After a kill between the settlement and the answer, the same call of another client is not made; the next hand-over says it."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first = _dying(work, 1, 1.0, "--task", "t")
        first.begin("echo", {"n": 1})
        assert first.process.wait(30) == -9
        other = work.client(name="codex", foreign=True)
        told = text_of(other.call("echo", {"n": 1}))
        (done,) = work.ledger("t").unseen.values()
        assert all(part in told for part in (done.call, done.ended, done.answer))
        assert _executed(work)[1] == 1
        assert not refused(other.call("echo", {"n": 1}))  # now on purpose
        assert _executed(work)[1] == 2
        assert not work.ledger("t").unseen


@pytest.mark.timeout(300)
def test_a_client_that_was_killed_did_not_get_the_last_answer(tmp_path: Path) -> None:
    """A proxy whose client has gone settles the call that it waited for, and the next client learns that it was done."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first = work.client("--task", "t", foreign=True)
        first.begin("slow", {"seconds": 0.3, "n": 1})
        wait_for(lambda: _executed(work)[1] == 1)
        first.stdout.close()
        first.stdin.close()
        wait_for(lambda: not work.ledger("t").sessions)
        answer = work.client("--confirm-timeout", "0", foreign=True).call("slow", {"seconds": 0.3, "n": 1})
        assert refused(answer)
        assert _executed(work)[1] == 1


@pytest.mark.timeout(7200 if CAMPAIGN else 300)
def test_a_client_that_repeats_what_it_got_no_answer_for_repeats_no_effect(tmp_path: Path) -> None:
    """The proxy alone is killed under load, at any time and between a settlement and its answer; no call reaches the server twice."""
    chooser = random.Random(int(os.environ.get("ADJOURN_SEED", "7")))
    waiting: list[int] = []
    number = kills = told = 0
    with ProxyWorkspace(tmp_path, "allow *") as work:
        while kills < PROXIES:
            share = chooser.choice((0.0, 0.05, 0.3))
            client = _dying(work, chooser.getrandbits(30), share, "--confirm-timeout", "0")
            client.tools()
            ends = time.monotonic() + chooser.uniform(0, 0.3)
            sent: dict[str, int] = {}
            while client.process.poll() is None and time.monotonic() < ends:
                while len(sent) < WINDOW:
                    if not waiting:
                        number += 1
                        waiting.append(number)
                    call = waiting.pop(0)
                    sent[f"k{call}"] = call
                    params: Message = {"name": "echo", "arguments": {"n": call}}
                    with suppress(BrokenPipeError):
                        client.post(client.message("tools/call", params, request_id=f"k{call}"))
                told += _take(client, sent, 0.005)
            client.kill()
            told += _take(client, sent, 0)
            kills += 1
            waiting += sent.values()
            work.clients.clear()
        executed = _executed(work)
        assert number > PROXIES
        assert {call: times for call, times in executed.items() if times > 1} == {}
        print(f"{kills} kills, {len(executed)} effects, {told} repetitions answered as done or in doubt")


def _take(client: Client, sent: dict[str, int], seconds: float) -> int:
    """Take the answers that are there. Returns how many refused to repeat a call."""
    told = 0
    with suppress(queue.Empty):
        while (line := client.line(seconds) if seconds else client.line()) is not None:
            if line.endswith(b"\n"):
                answer = decoded(line)
                if sent.pop(str(answer.get("id")), None) is not None:
                    told += refused(answer)
    return told
