"""An effect that may happen only once: answered from the record, over crashes, clients and machines, and never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.in_process import ERAS, MODERN, NEW, Client, Message, ProxyWorkspace, refused, text_of, wait_for
from support.requirements import requirement

POLICY = ("allow *", "once payments.charge by invoice", "once send, silent, fail, error, big, ask by invoice")
BILL = {"invoice": "A-7", "amount": 3}
ANSWER = '{"content":[{"type":"text","text":"paid \\u00e9"}],"x":[1.0,1e2,12345678901234567890123]}'


def workspace(path: Path, *policy: str, name: str = "work") -> ProxyWorkspace:
    return ProxyWorkspace(path, *(policy or POLICY), name=name, version="v1")


def lines(answer: str, **more: Any) -> Message:
    """Arguments for a tool that answers with this very text."""
    return {"lines": ['{"jsonrpc":"2.0","id":$ID,"result":' + answer + "}"], "invoice": "A-7"} | more


@requirement("V1 once")
@pytest.mark.parametrize("first", ERAS)
def test_the_second_call_is_answered_with_the_recorded_bytes(tmp_path: Path, first: str) -> None:
    """A second call for the same effect is not forwarded; it gets the recorded result byte for byte."""
    with workspace(tmp_path) as work:
        client = work.client(era=first)
        client.call("send", lines(ANSWER))
        client.call("send", lines('{"content":[]}'))  # other arguments, the same invoice
        assert client.received[-1].count(ANSWER.encode()[1:-1]) == 1
        assert work.executed() == ["send"]
        ledger = work.ledger()
        assert (ledger.calls_used, ledger.calls_refused) == (1, 0)
        (fact,) = work.facts("tool.replayed")
        assert (fact.tool, fact.call) == ("send", work.facts("tool.allowed")[0].call)


@requirement("V1 once")
def test_a_long_answer_is_kept_short_and_replayed_whole(tmp_path: Path) -> None:
    """The store compresses it, and a second call gets it byte for byte."""
    answer = ANSWER.replace("paid", "paid, paid" * 5000)
    with workspace(tmp_path) as work:
        client = work.client()
        client.call("send", lines(answer))
        client.call("send", lines('{"content":[]}'))
        assert client.received[-1].count(answer.encode()[1:-1]) == 1
        with work.store() as store:
            assert max(size for _, size in store.blobs()) < len(answer) / 10


@requirement("V1 once")
@pytest.mark.parametrize(("first", "second"), [(NEW, MODERN), (MODERN, NEW), (NEW, NEW)])
def test_a_killed_session_and_another_client_change_nothing(tmp_path: Path, first: str, second: str) -> None:
    """After a kill, another client of another protocol era gets the recorded result."""
    with workspace(tmp_path) as work:
        client = work.client("--task", "t", era=first, name="claude-code")
        paid = client.call("payments.charge", BILL)["result"]
        client.kill()
        client = work.client("--task", "t", era=second, name="codex", foreign=True)
        again = client.call("payments.charge", BILL | {"amount": 4})["result"]
        assert again["content"] == paid["content"]
        assert again.get("resultType") == ("complete" if MODERN in (first, second) else None)
        assert not refused(client.call("payments.charge", BILL | {"invoice": "A-8"}))
        assert work.executed() == ["payments.charge"] * 2


@requirement("V1 once")
def test_an_effect_that_cannot_be_named_is_refused(tmp_path: Path) -> None:
    """A call without a usable value of the key argument is refused."""
    with workspace(tmp_path) as work:
        client = work.client()
        wanting: tuple[dict[str, object], ...] = (
            {},
            {"invoice": None},
            {"invoice": ""},
            {"Invoice": "A-7"},
            {"invoice": []},
            {"invoice": 10**30},  # some readers round it, and two numbers would be one effect
        )
        for arguments in wanting:
            assert "without the argument `invoice`" in text_of(client.call("payments.charge", arguments)), arguments
        assert work.executed() == []
        assert not refused(client.call("payments.charge", {"invoice": 10**15}))
        assert not refused(client.call("payments.charge", {"invoice": 10**15}))
        assert work.executed() == ["payments.charge"]


@requirement("V1 once doubt")
def test_an_error_can_be_tried_again(tmp_path: Path) -> None:
    """A call that failed is forwarded again when it is repeated."""
    with workspace(tmp_path) as work:
        client = work.client()
        for tool in ("fail", "error"):
            client.call(tool, BILL)
            client.call(tool, BILL)
        assert work.executed() == ["fail", "fail", "error", "error"]


def _cut_off(work: ProxyWorkspace) -> Client:
    """A session that dies in the middle of the call, and the next one."""
    client = work.client("--task", "t")
    client.begin("silent", BILL)
    wait_for(lambda: work.executed() == ["silent"])
    client.kill()
    return work.client("--task", "t", "--confirm-timeout", "0", foreign=True)


@requirement("V1 once doubt")
@pytest.mark.parametrize("happened", [True, False])
def test_a_call_cut_off_waits_for_a_persons_word(tmp_path: Path, happened: bool) -> None:
    """A call for an effect in doubt is refused until a person settles what happened."""
    with workspace(tmp_path) as work:
        client = _cut_off(work)
        for arguments in (BILL, BILL | {"amount": 4}):
            answer = client.call("silent", arguments)
            assert refused(answer)
            assert "which is in doubt" in text_of(answer)
        work.settle(happened=happened)
        if happened:
            assert "happened already" in text_of(client.call("silent", BILL))
            assert work.executed() == ["silent"]
        else:
            client.begin("silent", BILL)
            wait_for(lambda: work.executed() == ["silent", "silent"])


@requirement("V1 once doubt")
def test_a_persons_yes_repeats_it_once(tmp_path: Path) -> None:
    """After an approval, a call for an effect in doubt is forwarded again."""
    with workspace(tmp_path) as work:
        client = _cut_off(work)
        client.call("silent", BILL)
        work.decide(yes=True)
        client.begin("silent", BILL)
        wait_for(lambda: work.executed() == ["silent", "silent"])
        assert "is under way" in text_of(client.call("silent", BILL | {"amount": 9}))


@requirement("V1 once doubt")
def test_an_answer_that_is_not_strict_json_is_no_reason_to_pay_again(tmp_path: Path) -> None:
    """An answer with NaN reaches the client and is recorded: the effect is done, and the call is not forwarded again."""
    with workspace(tmp_path) as work:
        client = work.client("--confirm-timeout", "0")
        odd = {"lines": ['{"jsonrpc":"2.0","id":$ID,"result":NaN}'], "invoice": "A-7"}
        for _ in range(2):
            client.call("send", odd)
            assert b'"result":NaN' in client.received[-1]
        assert work.executed() == ["send"]


@requirement("V1 once")
def test_an_answer_too_long_to_keep_is_no_reason_to_pay_again(tmp_path: Path) -> None:
    """When the answer was too long to record, a repeated call is not forwarded, and the refusal says so."""
    with workspace(tmp_path) as work:
        client = work.client()
        big = {"size": 1 << 21, "invoice": "A-7"}
        assert len(text_of(client.call("big", big))) == 1 << 21
        assert "its answer was not kept" in text_of(client.call("big", big))
        assert work.executed() == ["big"]


@requirement("V1 once doubt")
def test_a_call_that_its_client_gave_up_is_in_doubt_until_it_answers(tmp_path: Path) -> None:
    """A cancelled call is in doubt until the server answers it; then its result is recorded."""
    with workspace(tmp_path) as work:
        client = work.client("--confirm-timeout", "0")
        call = client.begin("ask", {"method": "roots/list", "invoice": "A-7"})
        question = client.asked("roots/list")
        client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
        wait_for(lambda: work.ledger().doubts)
        assert "in doubt" in text_of(client.call("ask", {"method": "roots/list", "invoice": "A-7"}))
        client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        wait_for(lambda: not work.ledger().doubts)
        assert "roots" in text_of(client.call("ask", {"method": "roots/list", "invoice": "A-7"}))
        assert work.executed() == ["ask"]
