"""A call to be confirmed waits for a person: in both eras, by whatever way the client has, and never without one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from adjourn.tasks.decision import APPROVAL_MILLISECONDS
from support.proxy import (
    ERAS,
    META,
    MODERN,
    NEW,
    OLD,
    Client,
    Message,
    ProxyWorkspace,
    encode,
    only,
    refused,
    text_of,
    wait_for,
)
from support.requirements import requirement

POLICY = ("allow *", "confirm before file.write", "budget calls=9")
ARGUMENTS = {"path": "src/a.py", "text": "hello", "token": "s3cret"}
ACCEPT: Message = {"action": "accept", "content": {"approve": True}}
DECLINE: Message = {"action": "decline"}
CANCEL: Message = {"action": "cancel"}


def _reply(client: Client, question: Message, result: Message | None) -> None:
    body = {"result": result} if result is not None else {"error": {"code": -1, "message": "cannot ask"}}
    client.post({"jsonrpc": "2.0", "id": question["id"]} | body)


# --- the handshake era: the call is held, the client is asked


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
        for result, _ in replies:
            call = client.begin("file.write", ARGUMENTS)
            _reply(client, client.asked(), result)
            answer = client.answer(call)
            assert refused(answer), result
            assert "requires confirmation (confirm file.write (.aex/policy.aex:4))" in text_of(answer)
            assert f"adjourn approve {work.facts('confirm.required')[-1].approval}" in text_of(answer)
        assert work.executed() == []
        assert work.ledger().calls_used == 0
        assert [fact.via for fact in work.facts("confirm.denied")] == [
            f"elicitation:{via}" for _, via in replies
        ]


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
    """Whether a fresh repeat of the call is asked about anew, and the connection is alive."""
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
    """A waiting call that the client cancels is not forwarded, even after a yes."""
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
    """The dialog of a call that was given up may still be open when the client uses the call's id again."""
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
    """The call is only held when its line has been looked at, which its cancellation must not overtake."""
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


# --- without a way to ask: another terminal, or a time-out


@requirement("D40")
@pytest.mark.parametrize("era", ERAS)
def test_another_terminal_can_approve_a_held_call(tmp_path: Path, era: str) -> None:
    """A yes from another terminal forwards the waiting call; stderr names the command for it."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=era)
        call = client.begin("file.write", ARGUMENTS)
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        assert client.silent(0.05)
        work.decide(yes=True)
        assert not refused(client.answer(call))
        assert work.executed() == ["file.write"]
        assert f"adjourn approve {work.facts('confirm.required')[0].approval}" in client.stderr()


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
    """A yes is still valid for the same call in the client's next session, once."""
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


def test_auto_confirm_passes_and_says_so(tmp_path: Path) -> None:
    """With --auto-confirm the call is forwarded, and the event says that nobody was asked."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--auto-confirm")
        assert not refused(client.call("file.write", ARGUMENTS))
        assert work.executed() == ["file.write"]
        assert [fact.tool for fact in work.facts("confirm.auto_approved")] == ["file.write"]


@requirement("D30", "D40")
def test_a_resource_can_be_put_under_confirm(tmp_path: Path) -> None:
    """A `confirm` of an MCP method asks for each request, and a yes to one is no yes to another."""
    with ProxyWorkspace(
        tmp_path, "allow *", "confirm before mcp.resources.read", "confirm before mcp.prompts.get"
    ) as work:
        client = work.client("--confirm-timeout", "1", elicits=True)
        message = client.message("resources/read", {"uri": "file:///a"})
        client.post(message)
        _reply(client, client.asked(), ACCEPT)
        assert client.answer(message["id"])["result"]["method"] == "resources/read"
        assert work.ledger().calls_used == 0
        for name in ("one", "two"):  # a yes to one prompt is no yes to another
            message = client.message("prompts/get", {"name": name, "arguments": {"x": "1"}})
            client.post(message)
            _reply(client, client.asked(), DECLINE)
            assert client.answer(message["id"])["error"]["code"] == -32600
        assert len({fact.digest for fact in work.facts("confirm.required")}) == 3


# --- the stateless era: the question is the answer, and the call comes again


def _question(client: Client, tool: str = "file.write", arguments: Message | None = None) -> Message:
    result: Message = client.call(tool, ARGUMENTS if arguments is None else arguments)["result"]
    assert result["resultType"] == "input_required"
    return result


def _retry(client: Client, question: Message, reply: Any, **changes: Any) -> Message:
    params = {
        "name": "file.write",
        "arguments": ARGUMENTS,
        "inputResponses": dict.fromkeys(question["inputRequests"], reply),
        "requestState": question["requestState"],
    } | changes
    message = client.message("tools/call", params)
    client.post(message)
    return client.answer(message["id"])


@requirement("D40", "D9")
def test_a_retry_that_accepts_is_forwarded_without_what_is_ours_and_keeps_every_number(
    tmp_path: Path,
) -> None:
    """The repeated call of an approved question is forwarded without the proxy's own members, and with its numbers as written."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        numbers = {"a": 12345678901234567890123, "b": 1}
        question = _question(client, arguments=numbers)
        asked = question["inputRequests"][only(question["inputRequests"])]
        assert asked["method"] == "elicitation/create"
        assert "file.write" in asked["params"]["message"]
        responses = {only(question["inputRequests"]): {"action": "accept", "content": {"approve": True}}}
        params = {"inputResponses": responses, "requestState": question["requestState"]}
        message = client.message("tools/call", {"name": "file.write", "arguments": numbers} | params)
        line = encode(message).replace(b'"b":1', b'"b": 1,"c":{"d":1.0,"e":1e2}')
        client.send(line)
        assert refused(client.answer(message["id"]))  # other arguments than were approved
        line = encode(message).replace(b'"b":1', b'"b": 1')
        client.send(line)
        assert not refused(client.answer(message["id"]))
        forwarded = work.forwarded()[-1]
        sent = json.loads(line)
        for name in ("inputResponses", "requestState"):
            del sent["params"][name]
        assert json.loads(forwarded) == sent
        assert b'"arguments":{"a":12345678901234567890123,"b": 1}' in forwarded
        assert work.ledger().calls_used == 1


def test_numbers_of_an_approved_call_keep_their_text(tmp_path: Path) -> None:
    """An approved call is forwarded with the text of each number as the client wrote it."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        text = b'"arguments":{"a":1.0,"b":1e2,"c":-0,"d":[1.50,10E-1],"e":9007199254740993}'
        message = client.message("tools/call", {"name": "file.write"})
        line = encode(message).replace(b'"name"', text + b',"name"', 1)
        client.send(line)
        question = client.answer(message["id"])["result"]
        reply = encode(dict.fromkeys(question["inputRequests"], ACCEPT)).strip()
        state = question["requestState"].encode()
        more = b'"requestState":"%s","inputResponses":%s,"name"' % (state, reply)
        client.send(line.replace(b'"name"', more, 1))
        client.answer(message["id"])
        assert text in work.forwarded()[-1]
        assert b"requestState" not in work.forwarded()[-1]


@requirement("D40")
def test_a_retry_without_a_clear_yes_is_refused(tmp_path: Path) -> None:
    """A repeated call whose answer is no clear yes is refused."""
    replies = [
        DECLINE,
        CANCEL,
        {},
        None,
        5,
        "accept",
        ["accept"],
        {"action": "accept", "content": {"approve": 1}},
    ]
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        for count, reply in enumerate(replies, 1):
            question = _question(client)
            assert refused(_retry(client, question, reply)), reply
            assert refused(_retry(client, question, ACCEPT)), reply  # the state has served
            assert len(work.facts("confirm.denied")) == count
        assert work.executed() == []
        assert not refused(_retry(client, _question(client), ACCEPT))


def _forged(state: str) -> list[Any]:
    prefix, text, mac = state.split(".")
    other = ("A" if text[0] != "A" else "B") + text[1:]
    return [
        f"{prefix}.{other}.{mac}",
        f"{prefix}.{text}.{mac[::-1]}",
        f"{prefix}.{text}.",
        f"{prefix}.{text}",
        f"{prefix}.",
        f"{prefix}..{mac}",
        f"{prefix}.{text}.{mac} ",
        f"{prefix}.{text}.\u00e9{mac[1:]}",
        f"{state}.{mac}",
    ]


@requirement("D40")
def test_forged_states_are_refused_and_the_true_one_serves_once(tmp_path: Path) -> None:
    """A changed or replayed requestState is refused; the true one passes its own call once."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        question = _question(client)
        for state in _forged(question["requestState"]):
            answer = _retry(client, question, ACCEPT, requestState=state)
            assert refused(answer), state
        assert refused(_retry(client, question, ACCEPT, arguments={"path": "elsewhere"}))
        assert refused(_retry(client, question, ACCEPT, name="echo"))
        assert work.executed() == []
        assert not refused(_retry(client, question, ACCEPT))
        assert refused(_retry(client, question, ACCEPT))  # replayed
        assert work.executed() == ["file.write"]
        assert work.ledger().calls_used == 1


def test_a_state_that_is_no_text_asks_anew(tmp_path: Path) -> None:
    """A requestState that is no text is ignored, and the question is asked again."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        question = _question(client)
        for state in (5, None, ["adjourn1."], {"a": 1}):
            result = _retry(client, question, ACCEPT, requestState=state)["result"]
            assert result.get("resultType") == "input_required", state
        assert work.executed() == []


def test_replays_of_one_state_that_race_forward_one_call(tmp_path: Path) -> None:
    """Of several calls at once with the same requestState, one is forwarded."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        question = _question(client)
        responses = dict.fromkeys(question["inputRequests"], ACCEPT)
        params = {"inputResponses": responses, "requestState": question["requestState"]}
        calls = [
            client.message("tools/call", {"name": "file.write", "arguments": ARGUMENTS} | params)
            for _ in range(5)
        ]
        client.post(*calls)
        answers = [client.answer(call["id"])["result"] for call in calls]
        passed = [answer for answer in answers if not answer.get("isError")]
        assert [answer["resultType"] for answer in passed] == ["complete"]
        assert work.executed() == ["file.write"]


@requirement("D40")
def test_a_pending_question_survives_a_restart_of_the_proxy(tmp_path: Path) -> None:
    """A question that a killed proxy asked can be answered to the next one, once."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        question = _question(client)
        client.kill()
        client = work.client(era=MODERN, elicits=True)
        assert not refused(_retry(client, question, ACCEPT))
        assert work.executed() == ["file.write"]
        client.kill()
        client = work.client(era=MODERN, elicits=True)
        assert refused(_retry(client, question, ACCEPT))
        assert work.executed() == ["file.write"]


def test_a_state_of_another_user_is_refused(tmp_path: Path) -> None:
    """A requestState that another user's secret signed is refused."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "t", era=MODERN, elicits=True)
        question = _question(client)
        client.close()
        other = {"ADJOURN_CONFIG": str(tmp_path / "other")}
        client = work.client("--task", "t", era=MODERN, elicits=True, env=other)
        assert refused(_retry(client, question, ACCEPT))
        assert work.executed() == []


def test_an_expired_question_cannot_be_answered(tmp_path: Path) -> None:
    """A yes after the question expired is refused, and the next call is asked about again."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True, python=("-c", _SHORT_LIVED))
        question = _question(client)
        time.sleep(0.6)
        assert refused(_retry(client, question, ACCEPT))
        assert work.executed() == []
        assert _question(client)["requestState"] != question["requestState"]


_SHORT_LIVED = f"""
import sys
from adjourn.tasks import session
assert session.APPROVAL_MILLISECONDS == {APPROVAL_MILLISECONDS}
session.APPROVAL_MILLISECONDS = 400
from adjourn.__main__ import main
sys.argv = sys.argv[sys.argv.index("adjourn"):]
main()
"""


def test_a_modern_client_that_cannot_ask_is_held_not_asked(tmp_path: Path) -> None:
    """A client without the elicitation capability gets no question; its call waits and is refused."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--confirm-timeout", "0", era=MODERN)
        assert refused(client.call("file.write", ARGUMENTS))
        caps = {"_meta": {f"{META}clientCapabilities": {"elicitation": "yes"}}}
        assert refused(client.call("file.write", ARGUMENTS, **caps))


# --- the upstream asks for itself


def test_the_upstreams_own_question_passes_and_its_retry_is_counted_once(tmp_path: Path) -> None:
    """A server's own request for input passes, and the call with the answer is no second call of the budget."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=1") as work:
        client = work.client(era=MODERN, elicits=True)
        first = client.begin("paused", {"a": 1})
        result = client.answer(first)["result"]
        assert (result["resultType"], result["requestState"]) == ("input_required", "up-1")
        more = {"requestState": "up-1", "inputResponses": {"name": {"action": "accept", "content": {"x": 1}}}}
        assert refused(client.call("paused", {"a": 2}, **more))  # another call: the budget is spent
        second = client.call("paused", {"a": 1}, **more)
        assert text_of(second) == 'up-1 {"name": {"action": "accept", "content": {"x": 1}}}'
        assert work.executed() == ["paused", "paused"]
        assert work.forwarded_calls()[-1]["requestState"] == "up-1"
        assert work.ledger().calls_used == 1
        assert refused(client.call("paused", {"a": 1}, **more))  # the state was used
        assert [fact.outcome for fact in work.facts("tool.settled")] == ["input-required", "ok"]


def test_a_call_that_was_confirmed_and_then_paused_by_the_upstream_is_one_call(tmp_path: Path) -> None:
    """A call that a person approved and the server then paused is asked about once and counted once."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before paused", "budget calls=1") as work:
        client = work.client(era=MODERN, elicits=True)
        question = _question(client, "paused")
        result = _retry(client, question, ACCEPT, name="paused")["result"]
        assert (result["resultType"], result["requestState"]) == ("input_required", "up-1")
        answer = client.call("paused", ARGUMENTS, requestState="up-1", inputResponses={"name": DECLINE})
        assert "up-1" in text_of(answer)
        assert work.ledger().calls_used == 1
        assert len(work.facts("confirm.required")) == 1
