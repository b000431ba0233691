"""A call that asks for input again and again is one call with a bounded number of legs, each of them written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.in_process import ERAS, Client, Message, ProxyWorkspace, refused, text_of

DEFAULT = 8
AGAIN = (
    '{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","requestState":"again",'
    '"inputRequests":{"name":{"method":"elicitation/create","params":{}}}}}'
)
ARGUMENTS: Message = {"lines": [AGAIN]}
GIVEN: Message = {"requestState": "again", "inputResponses": {"name": {"action": "accept", "content": {"name": "ann"}}}}


def _go_on(client: Client, **more: Any) -> Message:
    return client.call("send", ARGUMENTS, **GIVEN, **more)


def _asks(answer: Message) -> bool:
    return bool(answer.get("result", {}).get("resultType") == "input_required")


@pytest.mark.parametrize("era", ERAS)
def test_a_loop_of_input_requests_ends_after_eight_legs(tmp_path: Path, era: str) -> None:
    """The ninth continuation of one counted call is refused; each leg before it is in the history with its number."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(era=era)
        assert _asks(client.call("send", ARGUMENTS))
        for _ in range(DEFAULT):
            assert _asks(_go_on(client))
        for _ in range(2):
            answer = _go_on(client)
            assert refused(answer)
            assert "8 times" in text_of(answer)
        assert len(work.executed()) == 1 + DEFAULT
        assert work.ledger().calls_used == 1
        assert [fact.leg for fact in work.facts("tool.continued")] == list(range(1, DEFAULT + 1))
        assert {(fact.budget, fact.limit) for fact in work.facts("budget.exhausted")} == {("legs", DEFAULT)}


def test_legs_are_counted_over_a_restart(tmp_path: Path) -> None:
    """A new proxy continues counting where the one before it was killed."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first = work.client("--task", "t")
        assert _asks(first.call("send", ARGUMENTS))
        for _ in range(5):
            assert _asks(_go_on(first))
        first.kill()
        second = work.client("--task", "t")
        for _ in range(DEFAULT - 5):
            assert _asks(_go_on(second))
        assert refused(_go_on(second))
        assert len(work.executed()) == 1 + DEFAULT


def test_a_policy_sets_the_number_of_legs(tmp_path: Path) -> None:
    """`budget legs=2` permits two continuations of each call; a new call has its own."""
    with ProxyWorkspace(tmp_path, "allow *", "budget legs=2", version="v1") as work:
        client = work.client()
        for _ in range(2):
            client.call("send", ARGUMENTS)
            assert [_asks(_go_on(client)) for _ in range(3)] == [True, True, False]
        assert work.ledger().calls_used == 2
        assert [fact.leg for fact in work.facts("tool.continued")] == [1, 2, 1, 2]
        assert "budget legs=2 (.aex/policy.aex:4)" in text_of(_go_on(client))


def test_a_policy_that_observes_lets_a_leg_too_many_pass_and_writes_it_down(tmp_path: Path) -> None:
    """In observe mode a leg over the budget passes and is recorded."""
    with ProxyWorkspace(tmp_path, "allow *", "budget legs=1", "mode observe", version="v1") as work:
        client = work.client()
        client.call("send", ARGUMENTS)
        assert [_asks(_go_on(client)) for _ in range(3)] == [True, True, True]
        assert work.ledger().calls_used == 1
        assert [fact.reason for fact in work.facts("policy.observed")] == ["budget_exhausted"] * 2


def test_the_legs_of_a_reading_call_are_legs_of_one_call(tmp_path: Path) -> None:
    """A tool that has no effect is counted once for its loop, too, however soon the client continues."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=9") as work:
        client = work.client(server=["--tools", "reads-send"])
        client.tools()
        client.call("send", ARGUMENTS)
        for _ in range(DEFAULT):
            assert _asks(_go_on(client))
        assert refused(_go_on(client))
        assert work.ledger().calls_used == 1
