"""Several gateways before one PostgreSQL store: whose task is whose, when a replica lives and when it was killed."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.proxy import wait_for
from support.replicas import HEADERS, Replicas, text_of

RULES = ("allow up.read, up.write, up.slow, up.held", "budget calls=50")


@pytest.fixture
def replicas(tmp_path: Path, url: str) -> Iterator[Replicas]:
    with Replicas(tmp_path, url, *RULES, count=2) as replicas:
        yield replicas


def test_a_client_continues_through_any_replica(replicas: Replicas) -> None:
    """A load balancer may send each call of a client elsewhere: one task, one budget, one chain."""
    for number in range(6):
        assert replicas.call(number % 2, "write", f"w{number}") == f"write: w{number}"
    assert replicas.called() == [f"w{number}" for number in range(6)]
    assert replicas.status("job")["callsUsed"] == 6
    assert replicas.adjourn("verify").startswith("valid: 1 task")


def test_another_client_gets_the_task_from_a_living_replica(replicas: Replicas) -> None:
    """Two clients at two replicas take turns at one task: the replica that has it is asked, and gives it back between two calls."""
    for number in range(4):
        client = f"client{number % 2}"
        assert replicas.call(number % 2, "write", f"w{number}", client=client) == f"write: w{number}"
    assert replicas.status("job")["callsUsed"] == 4
    assert replicas.adjourn("verify").startswith("valid: 1 task")


def test_another_replica_takes_over_after_a_kill(replicas: Replicas) -> None:
    """A killed replica's task is another client's within seconds, and the call that was open then is in doubt; nothing is refunded."""
    assert replicas.call(0, "write", "before") == "write: before"
    with ThreadPoolExecutor() as pool:
        open_call = pool.submit(replicas.call, 0, "slow", "open")
        wait_for(lambda: "open" in replicas.called())
        replicas.end(0)
        with pytest.raises(httpx.HTTPError):
            open_call.result()
    killed = time.monotonic()
    while replicas.call(1, "write", "after", client="another") != "write: after":
        assert time.monotonic() - killed < 60
    print(f"taken over after {time.monotonic() - killed:.1f} s")
    assert replicas.status("job")["callsUsed"] == 3
    (doubt,) = json.loads(replicas.adjourn("inbox", "--json"))["waiting"]
    assert doubt["kind"] == "in-doubt"
    assert replicas.called() == ["before", "open", "after"]
    assert "replica.gone" in replicas.log(1)


def test_a_repeated_call_has_one_effect(replicas: Replicas) -> None:
    """Repeated with its key through another replica, a call gets the recorded answer; another call with the key is refused."""
    for number in (0, 1, 0):
        assert replicas.call(number, "write", "paid", key="k1") == "write: paid"
    assert "idempotency key was given to call" in replicas.call(1, "write", "other", key="k1")
    assert replicas.call(1, "write", "paid", key="k2") == "write: paid"
    assert "is not a text of 1 to 255" in replicas.call(1, "write", "paid", key="k" * 256)
    assert replicas.called() == ["paid", "paid"]
    assert replicas.status("job")["callsUsed"] == 2


def test_a_call_outlives_the_connection_of_a_client_that_will_repeat_it(replicas: Replicas) -> None:
    """A client with a key whose connection broke learns that the call is under way, and gets its answer then; without one it gave up."""
    for key in ("k1", ""):
        message = replicas.message("held", f"cut {key}", key=key)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(replicas.url(0, "job"), json=message, headers=HEADERS, timeout=1)
    assert "under way" in replicas.call(1, "held", "cut k1", key="k1")
    replicas.effects.with_name(f"{replicas.effects.name}.free").touch()
    wait_for(lambda: replicas.call(1, "held", "cut k1", key="k1") == "held: cut k1")
    assert replicas.called() == ["cut k1", "cut "]

    def doubts() -> list[Any]:
        waiting: list[Any] = json.loads(replicas.adjourn("inbox", "--json"))["waiting"]
        return waiting

    wait_for(lambda: len(doubts()) == 1)
    assert "cut " in json.dumps(doubts())


def test_a_call_whose_replica_was_killed_is_in_doubt(replicas: Replicas) -> None:
    """Repeated with its key elsewhere, it is under way until the replica is known to be gone; then a person is asked. It is not made again."""
    with ThreadPoolExecutor() as pool:
        open_call = pool.submit(replicas.call, 0, "held", "open", key="k1")
        wait_for(lambda: "open" in replicas.called())
        replicas.end(0)
        with pytest.raises(httpx.HTTPError):
            open_call.result()

    def is_held() -> bool:
        message = replicas.message("held", "open", key="k1")
        try:
            answer = httpx.post(replicas.url(1, "job"), json=message, headers=HEADERS, timeout=3)
        except httpx.ReadTimeout:
            return True
        assert "under way" in text_of(answer.json())
        return False

    wait_for(is_held)
    waiting = json.loads(replicas.adjourn("inbox", "--json"))["waiting"]
    assert {one["kind"] for one in waiting} == {"in-doubt", "approval"}
    assert replicas.called() == ["open"]
    assert replicas.status("job")["callsUsed"] == 1


def test_a_replica_that_ends_gives_its_tasks_back(replicas: Replicas) -> None:
    """After SIGTERM another client has the task at once: the session was closed with a checkpoint, nothing is in doubt."""
    assert replicas.call(0, "write", "before") == "write: before"
    replicas.end(0, signal.SIGTERM)
    assert replicas.call(1, "write", "after", client="another") == "write: after"
    assert json.loads(replicas.adjourn("inbox", "--json"))["waiting"] == []
