"""A call to be confirmed waits for a person, who answers in the client's dialog or from another terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.confirming import ACCEPT, ARGUMENTS, CANCEL, DECLINE, POLICY
from support.in_process import (
    ERAS,
    MODERN,
    NEW,
    OLD,
    Client,
    Message,
    ProxyWorkspace,
    adjourn,
    encode,
    refused,
    text_of,
    wait_for,
)
from support.requirements import requirement


def _reply(client: Client, question: Message, result: Message | None) -> None:
    body = {"result": result} if result is not None else {"error": {"code": -1, "message": "cannot ask"}}
    client.post({"jsonrpc": "2.0", "id": question["id"]} | body)


# --- protocol 2025-11-25 and earlier: the client shows a dialog


@requirement("D40")
@pytest.mark.parametrize("era", [OLD, NEW])
def test_an_accepted_call_goes_on_once_as_the_very_bytes_that_were_sent(tmp_path: Path, era: str) -> None:
    """After the client's dialog accepts, the call is forwarded once, byte for byte."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=era, elicits=True)
        message = client.call_message("file.write", ARGUMENTS)
        line = encode(message).replace(b'"text"', b' "text" ')
        client.send(line)
        question = client.asked()
        assert work.executed() == []
        assert (question["method"], question["params"]["mode"]) == ("elicitation/create", "form")
        shown = question["params"]["message"]
        assert "file.write" in shown
        assert "src/a.py" in shown
        assert "confirm file.write (.aex/policy.aex:4)" in shown
        assert "s3cret" not in shown
        schema = question["params"]["requestedSchema"]
        assert schema["properties"]["approve"]["type"] == "boolean"
        _reply(client, question, ACCEPT)
        assert json.loads(text_of(client.answer(message["id"]))) == ARGUMENTS
        assert work.forwarded()[-1] == line
        assert not any(b"accept" in line for line in work.forwarded())
        assert work.ledger().calls_used == 1
        assert [fact.via for fact in work.facts("confirm.approved")] == ["elicitation:accept"]
        assert work.facts("tool.allowed")[0].approval == work.facts("confirm.required")[0].approval


@requirement("D40", "D31")
def test_anything_but_a_clear_yes_refuses(tmp_path: Path) -> None:
    """Each answer of a dialog other than a clear yes refuses the call."""
    replies: list[tuple[Message, str]] = [
        (DECLINE, "decline"),
        (CANCEL, "cancel"),
        ({"action": "accept", "content": {"approve": False}}, "no"),
        ({"action": "accept", "content": {"approve": "yes"}}, "no"),
        ({"action": "ACCEPT"}, "none"),
        ({"action": True}, "none"),
        ({"action": ["accept"]}, "none"),
        ({}, "none"),
    ]
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        for result, action in replies:
            call = client.begin("file.write", ARGUMENTS)
            _reply(client, client.asked(), result)
            answer = client.answer(call)
            assert refused(answer), result
            assert "requires confirmation (confirm file.write (.aex/policy.aex:4))" in text_of(answer)
            way = f"adjourn approve {work.facts('confirm.required')[-1].approval}"
            assert (way in text_of(answer)) == (action != "no"), "after a person's no nobody is told how to get a yes"
        assert work.executed() == []
        assert work.ledger().calls_used == 0
        assert [fact.via for fact in work.facts("confirm.denied")] == [f"elicitation:{via}" for _, via in replies]


@requirement("D40")
def test_a_client_that_fails_to_ask_leaves_it_to_another_terminal(tmp_path: Path) -> None:
    """When the client answers the dialog with an error, the call waits for `adjourn approve`."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        call = client.begin("file.write", ARGUMENTS)
        _reply(client, client.asked(), None)
        assert client.silent()
        work.decide(yes=True)
        assert not refused(client.answer(call))
        assert work.executed() == ["file.write"]


def test_a_late_or_repeated_answer_to_a_question_goes_nowhere(tmp_path: Path) -> None:
    """A second or forged answer to a dialog changes nothing and is not forwarded."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        call = client.begin("file.write", ARGUMENTS)
        question = client.asked()
        _reply(client, question, DECLINE)
        client.answer(call)
        _reply(client, question, ACCEPT)
        _reply(client, question | {"id": question["id"][:-1] + "999"}, ACCEPT)
        assert refused_again(client)
        assert work.executed() == ["echo"]
        assert not any(b"accept" in line for line in work.forwarded())


def refused_again(client: Client) -> bool:
    """Whether a fresh repeat of the call is asked about again, and the connection is alive."""
    client.call("echo")
    call = client.begin("file.write", ARGUMENTS)
    _reply(client, client.asked(), DECLINE)
    return refused(client.answer(call))


def test_calls_wait_side_by_side_and_other_calls_pass_meanwhile(tmp_path: Path) -> None:
    """Several calls wait for their own answers while other calls pass."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        calls = [client.begin("file.write", {"n": n}) for n in range(3)]
        questions = [client.asked() for _ in calls]
        assert not refused(client.call("echo"))
        replies: list[Message] = [ACCEPT, DECLINE, ACCEPT]
        for question, result in zip(reversed(questions), replies, strict=True):
            _reply(client, question, result)
        assert [refused(client.answer(call)) for call in calls] == [False, True, False]
        assert [call["arguments"] for call in work.forwarded_calls()] == [{}, {"n": 2}, {"n": 0}]


@requirement("D40")
def test_a_held_call_that_is_cancelled_is_never_forwarded(tmp_path: Path) -> None:
    """A waiting call that the client cancels is not forwarded, even after an approval."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        call = client.begin("file.write", ARGUMENTS)
        question = client.asked()
        odd: list[Any] = [["a"], {}, None, True, 1.5, "x"]
        for request_id in [*odd, call]:
            params = {"requestId": request_id}
            client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        client.call("echo")
        _reply(client, question, ACCEPT)
        client.call("echo")
        assert work.executed() == ["echo", "echo"]
        assert not any(body.get("id") == call for body in map(json.loads, client.received))
        assert [fact.via for fact in work.facts("confirm.denied")] == ["cancelled"]


def test_a_late_yes_to_one_call_is_none_to_another_that_took_its_id(tmp_path: Path) -> None:
    """The dialog of a cancelled call may still be open when the client uses the call's id again."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        staging, production = (
            client.message("tools/call", {"name": "file.write", "arguments": {"to": to}}, request_id=77)
            for to in ("staging", "production")
        )
        client.post(staging)
        late = client.asked()
        work.decide(yes=False)
        assert refused(client.answer(77))
        client.post(production)
        question = client.asked()
        _reply(client, late, ACCEPT)
        client.call("echo")
        assert client.silent()
        assert work.executed() == ["echo"]
        _reply(client, question, ACCEPT)
        assert json.loads(text_of(client.answer(77))) == {"to": "production"}


def test_a_call_that_is_cancelled_in_the_same_breath_is_not_asked_about_for_long(tmp_path: Path) -> None:
    """The call is only held when its line has been examined, which its cancellation must not overtake."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        call = client.call_message("file.write", ARGUMENTS)
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": call["id"]}}
        client.post(call, {"jsonrpc": "2.0"} | cancelled)
        _reply(client, client.asked(), ACCEPT)
        client.call("echo")
        assert work.executed() == ["echo"]
        assert [fact.via for fact in work.facts("confirm.denied")] == ["cancelled"]
        assert not any(b"notifications/cancelled" in line for line in work.forwarded())


# --- no dialog: another terminal answers, or the call times out


@requirement("D40")
@pytest.mark.parametrize("era", ERAS)
def test_another_terminal_can_approve_a_held_call(tmp_path: Path, era: str) -> None:
    """An approval from another terminal forwards the waiting call; stderr names the command for it."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=era)
        call = client.begin("file.write", ARGUMENTS)
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        assert client.silent(0.05)
        work.decide(yes=True)
        assert not refused(client.answer(call))
        assert work.executed() == ["file.write"]
        assert f"adjourn approve {work.facts('confirm.required')[0].approval}" in client.stderr()


@requirement("D30", "D40")
def test_a_request_whose_answer_may_not_ask_is_held(tmp_path: Path) -> None:
    """In 2026-07-28, where a completion may not be answered with a question, it waits for another terminal."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before mcp.completion.complete") as work:
        client = work.client(era=MODERN, elicits=True)
        message = client.message("completion/complete", {"ref": {"type": "ref/prompt", "name": "a"}})
        client.post(message)
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        work.decide(yes=True)
        assert client.answer(message["id"])["result"]["method"] == "completion/complete"


@requirement("D40")
def test_another_terminal_can_refuse_a_held_call(tmp_path: Path) -> None:
    """A no from another terminal refuses the waiting call."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client()
        call = client.begin("file.write", ARGUMENTS)
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        work.decide(yes=False)
        assert refused(client.answer(call))
        assert work.executed() == []


@requirement("D40")
def test_the_reason_of_a_person_reaches_the_waiting_agent_and_the_next(tmp_path: Path) -> None:
    """What a person says with an answer is passed on to the waiting agent, the next session, the log and the status."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client()
        call = client.begin("file.write", ARGUMENTS)
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        adjourn(work, "deny", work.facts("confirm.required")[-1].approval, "--because", "still used by BI")
        answer = text_of(client.answer(call))
        assert 'a person refused it, and said "still used by BI"' in answer
        assert "adjourn approve" not in answer
        assert "do not reach the same effect another way" in answer
        other = client.begin("file.write", ARGUMENTS | {"path": "b.py"})
        wait_for(lambda: len(work.facts("confirm.required")) == 2)
        adjourn(work, "approve", work.facts("confirm.required")[-1].approval, "--note", "only this file")
        client.answer(other)
        client.meta("aex.checkpoint", name="cp")
        told = client.meta("aex.resume", name="cp")
        assert re.search('src/a.py: refused by .*, who said "still used by BI"', told["refused"][0])
        assert "adjourn approve" not in told["refused"][0]
        assert re.search("approved .*file.write b.py: only this file", told["decisions"][0])
        for shown in (("log",), ("log", "-v"), ("status",)):
            out = adjourn(work, *shown).out
            assert "still used by BI" in out, shown
            assert "only this file" in out, shown


@requirement("D40")
def test_silence_refuses_and_a_later_yes_serves_the_repeated_call_once(tmp_path: Path) -> None:
    """A call that nobody answered is refused; a later yes passes the same call once."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--confirm-timeout", "0")
        answer = client.call("file.write", ARGUMENTS)
        assert refused(answer)
        assert "nobody answered within 0 s" in text_of(answer)
        work.decide(yes=True)
        assert refused(client.call("file.write", ARGUMENTS | {"path": "b"}))  # another call
        assert not refused(client.call("file.write", ARGUMENTS))
        assert refused(client.call("file.write", ARGUMENTS))
        assert work.executed() == ["file.write"]
        assert work.ledger().calls_used == 1


def test_an_approval_is_used_by_the_next_session_too(tmp_path: Path) -> None:
    """An approval is still valid for the same call in the client's next session, once."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--confirm-timeout", "0", "--task", "t")
        client.call("file.write", ARGUMENTS)
        client.close()
        work.decide(yes=True)
        client = work.client("--confirm-timeout", "0", "--task", "t", era=MODERN, foreign=True)
        assert not refused(client.call("file.write", ARGUMENTS))
        assert refused(client.call("file.write", ARGUMENTS))


def test_two_calls_alike_in_one_write_share_a_question_but_not_the_yes(tmp_path: Path) -> None:
    """Two equal calls cause one question, and one yes forwards one of them."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client()
        calls = [client.call_message("file.write", ARGUMENTS) for _ in range(2)]
        client.post(*calls)
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        work.decide(yes=True)
        assert sorted(refused(client.answer(call["id"])) for call in calls) == [False, True]
        assert work.executed() == ["file.write"]


def test_of_two_held_calls_alike_the_second_is_refused_with_the_question_that_it_needs(tmp_path: Path) -> None:
    """One approval from a terminal releases one call. The refusal of the other names a question of its own, and an approval of that serves it."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client()
        first = client.begin("file.write", ARGUMENTS)
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        second = client.begin("file.write", ARGUMENTS)
        wait_for(lambda: client.stderr().count("confirm.required") == 2)
        work.decide(yes=True)
        assert not refused(client.answer(first))
        told = text_of(client.answer(second))
        asked = work.facts("confirm.required")[-1].approval
        assert "no approval is left for it" in told
        assert f"adjourn approve {asked}" in told
        work.decide(yes=True, approval=asked)
        assert not refused(client.call("file.write", ARGUMENTS))
        assert work.executed() == ["file.write"] * 2


def test_two_yeses_in_two_dialogs_release_two_calls_alike(tmp_path: Path) -> None:
    """Each call has a dialog, and each yes serves its own call."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        calls = [client.begin("file.write", ARGUMENTS) for _ in range(2)]
        for question in (client.asked(), client.asked()):
            _reply(client, question, ACCEPT)
        assert not any(refused(client.answer(call)) for call in calls)
        assert work.executed() == ["file.write"] * 2
        assert len(work.facts("confirm.approved")) == 2
        assert work.ledger().approvals == {}


def test_a_yes_and_a_no_in_two_dialogs_release_one_of_two_calls_alike(tmp_path: Path) -> None:
    """A no to the one is no yes to it because the other has one."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(elicits=True)
        calls = [client.begin("file.write", ARGUMENTS) for _ in range(2)]
        questions = [client.asked(), client.asked()]
        _reply(client, questions[0], ACCEPT)
        assert not refused(client.answer(calls[0]))
        _reply(client, questions[1], DECLINE)
        assert refused(client.answer(calls[1]))
        assert work.executed() == ["file.write"]


def test_auto_confirm_passes_and_says_so(tmp_path: Path) -> None:
    """With --auto-confirm the call is forwarded, and the event says that nobody was asked."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--auto-confirm")
        assert not refused(client.call("file.write", ARGUMENTS))
        assert work.executed() == ["file.write"]
        assert [fact.tool for fact in work.facts("confirm.auto_approved")] == ["file.write"]


@requirement("D30", "D40")
def test_a_resource_can_be_put_under_confirm(tmp_path: Path) -> None:
    """A `confirm` of an MCP method asks for each request, and an approval of one does not approve another."""
    with ProxyWorkspace(
        tmp_path, "allow *", "confirm before mcp.resources.read", "confirm before mcp.prompts.get"
    ) as work:
        client = work.client("--confirm-timeout", "1", elicits=True)
        message = client.message("resources/read", {"uri": "file:///a"})
        client.post(message)
        _reply(client, client.asked(), ACCEPT)
        assert client.answer(message["id"])["result"]["method"] == "resources/read"
        assert work.ledger().calls_used == 0
        for name in ("one", "two"):  # an approval of one prompt does not approve another
            message = client.message("prompts/get", {"name": name, "arguments": {"x": "1"}})
            client.post(message)
            _reply(client, client.asked(), DECLINE)
            assert client.answer(message["id"])["error"]["code"] == -32600
        assert len({fact.digest for fact in work.facts("confirm.required")}) == 3


@pytest.mark.parametrize("answer", [ACCEPT, DECLINE])
def test_calls_that_come_with_an_answer_to_a_question_are_made_in_their_order(tmp_path: Path, answer: Message) -> None:
    """One write holds a call, the answer, and another call: both calls are made, and the held one goes by its answer."""
    with ProxyWorkspace(tmp_path, *POLICY, "allow echo") as work:
        client = work.client(elicits=True)
        held = client.begin("file.write", ARGUMENTS)
        question = client.asked()
        before, after = client.call_message("echo", {"n": 1}), client.call_message("echo", {"n": 2})
        client.post(before, {"jsonrpc": "2.0", "id": question["id"], "result": answer}, after)
        assert json.loads(text_of(client.answer(before["id"]))) == {"n": 1}
        assert refused(client.answer(held)) == (answer is not ACCEPT)
        assert json.loads(text_of(client.answer(after["id"]))) == {"n": 2}
        assert work.executed() == ["echo", *["file.write"] * (answer is ACCEPT), "echo"]
        assert "proxy.bug" not in client.stderr()
