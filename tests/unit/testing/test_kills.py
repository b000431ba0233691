"""Kills of a program at each of its writes, and the model provider, as a test of an agent uses them."""

from __future__ import annotations

import urllib.request

import pytest

from adjourn import RefusedError, Store, TaskRecord
from adjourn.testing import MemoryStore, ModelServer, ScriptedReply, kill_points
from adjourn.testing._kills import Killed


def test_a_program_is_killed_before_and_after_each_of_its_writes() -> None:
    """The next process finds each state in turn: nothing, what the first write left, and so on to the whole."""

    def run(store: Store) -> None:
        for name in ("a", "b"):
            store.swap(name, "1", expect=None)

    states = [sorted(store.refs()) for store in kill_points(run)]
    assert states == [[], ["a"], ["a"], ["a", "b"], ["a", "b"]]


def test_a_killed_program_writes_nothing_more() -> None:
    """Neither `except Exception` nor `finally` of the dead program reaches the store."""

    def run(store: Store) -> None:
        try:
            store.put_blob(b"x")
        finally:
            store.swap("cleaned", "1", expect=None)

    first = next(iter(kill_points(run)))
    assert first.refs() == {}
    assert not issubclass(Killed, Exception)


def test_an_effect_that_nobody_can_check_is_never_made_twice() -> None:
    """Without a probe, an effect that was claimed and not settled waits for a person."""
    sent: list[str] = []

    def run(store: Store) -> None:
        with TaskRecord(store, "t").effect("mail", "send", {"to": "a"}) as mail:
            if mail.run:
                sent.append("a")
                mail.outputs = {"id": 1}

    refused = 0
    for store in kill_points(run):
        try:
            run(store)
        except RefusedError:
            refused += 1
        else:
            assert sent == ["a"]
        assert len(sent) <= 1
        sent.clear()
    assert refused > 0


def test_a_model_server_answers_in_order_and_keeps_what_it_was_asked() -> None:
    """The last reply is given again and again."""
    with ModelServer("one", ScriptedReply("no", status=400), "two") as model:
        answers = []
        for _ in range(4):
            request = urllib.request.Request(
                f"{model.url}/v1/messages", b'{"model": "m", "messages": [{"content": "hi"}]}'
            )
            try:
                with urllib.request.urlopen(request) as response:
                    answers.append(response.read())
            except urllib.error.HTTPError as error:
                answers.append(str(error.code).encode())
    assert [b"one" in answers[0], answers[1], b"two" in answers[2], b"two" in answers[3]] == [True, b"400", True, True]
    assert [asked.prompt for asked in model.asked] == ["hi"] * 4


@pytest.mark.parametrize("store", [MemoryStore()])
def test_a_store_that_outlives_its_killer_takes_writes_again(store: Store) -> None:
    """What is yielded is a store like any other."""
    last = list(kill_points(lambda mortal: mortal.swap("a", "1", expect=None)))[-1]
    last.swap("b", "2", expect=None)
    store.swap("b", "2", expect=None)
    assert last.refs("b") == store.refs("b")


def test_a_program_that_swallows_its_kill_is_killed_at_each_point_all_the_same() -> None:
    """Also where it catches everything, each of its writes is a point."""

    def run(store: Store) -> None:
        for name in ("a", "b"):
            try:
                store.swap(name, "1", expect=None)
            except BaseException:  # that is the test
                return

    assert [sorted(store.refs()) for store in kill_points(run)] == [[], ["a"], ["a"], ["a", "b"], ["a", "b"]]
