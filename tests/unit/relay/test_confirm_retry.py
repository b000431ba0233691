"""Protocol 2026-07-28: the answer of a call is a question, and the client repeats the call with the person's reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from adjourn.tasks.decision import APPROVAL_MILLISECONDS
from support.confirming import ACCEPT, ARGUMENTS, CANCEL, DECLINE, POLICY
from support.in_process import META, MODERN, Client, Message, ProxyWorkspace, encode, only, refused, text_of
from support.requirements import requirement


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
def test_a_retry_that_accepts_is_forwarded_without_what_is_ours_and_keeps_every_number(tmp_path: Path) -> None:
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
    replies = [DECLINE, CANCEL, {}, None, 5, "accept", ["accept"], {"action": "accept", "content": {"approve": 1}}]
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
            client.message("tools/call", {"name": "file.write", "arguments": ARGUMENTS} | params) for _ in range(5)
        ]
        client.post(*calls)
        answers = [client.answer(call["id"])["result"] for call in calls]
        passed = [answer for answer in answers if not answer.get("isError")]
        assert [answer["resultType"] for answer in passed] == ["complete"]
        assert work.executed() == ["file.write"]


def test_an_expired_question_cannot_be_answered(tmp_path: Path) -> None:
    """An approval after the question expired is refused, and the next call is asked about again."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(era=MODERN, elicits=True)
        question = _question(client)
        work.relay.advance(APPROVAL_MILLISECONDS / 1000 + 0.2)
        assert refused(_retry(client, question, ACCEPT))
        assert work.executed() == []
        assert _question(client)["requestState"] != question["requestState"]


def test_a_modern_client_that_cannot_ask_is_held_not_asked(tmp_path: Path) -> None:
    """A client without the elicitation capability gets no question; its call waits and is refused."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--confirm-timeout", "0", era=MODERN)
        assert refused(client.call("file.write", ARGUMENTS))
        caps = {"_meta": {f"{META}clientCapabilities": {"elicitation": "yes"}}}
        assert refused(client.call("file.write", ARGUMENTS, **caps))


# --- the server asks for itself


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
