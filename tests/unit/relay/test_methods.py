"""Methods outside the protocol follow the policy, and so does what the server asks of the client, in both eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.in_process import (
    ERAS,
    MODERN,
    NEW,
    OLD,
    Client,
    Message,
    ProxyWorkspace,
    encode,
    refused,
    text_of,
    wait_for,
)

VENDOR = "x/y"
SERVER_METHODS = {
    "sampling/createMessage": "mcp.sampling.createMessage",
    "elicitation/create": "mcp.elicitation.create",
    "roots/list": "mcp.roots.list",
}
LEGACY = (OLD, NEW)


def _says(client: Client, *messages: Any, tool: str = "send") -> Any:
    """Have the server write these messages, and then answer the call, whose id is returned."""
    lines = [message if isinstance(message, str) else json.dumps(message) for message in messages]
    end = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"said"}]}}'
    return client.begin(tool, {"lines": [*lines, end]})


def _told(work: ProxyWorkspace, part: bytes) -> list[Message]:
    """What the server received that has a part."""
    return [json.loads(line) for line in work.forwarded() if part in line and b'"tools/call"' not in line]


# --- from the client


@pytest.mark.parametrize("era", ERAS)
def test_a_closed_policy_refuses_a_method_that_the_protocol_does_not_have(tmp_path: Path, era: str) -> None:
    """A method outside the protocol is refused unless a rule allows it, and the refusal names the rule to add."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(era=era)
        before = len(work.forwarded())
        for method in (VENDOR, "x/delete", "Resources/Read", "resources/readAll", "tools/call2", "tools"):
            error = client.ask(method, {"name": "a"})["error"]
            assert error["code"] == -32600
            assert "use mcp." in error["message"]
        client.post({"jsonrpc": "2.0", "method": "notifications/x"})
        client.call("echo")
        assert len(work.forwarded()) == before + 1
        assert {fact.reason for fact in work.facts("tool.denied")} == {"not_allowed"}
        assert len(work.facts("message.refused")) == 1
        assert work.ledger().calls_used == 1


@pytest.mark.parametrize("rule", ["use mcp.x.y", "allow mcp.*", "allow *"])
def test_a_rule_lets_a_method_of_a_vendor_pass(tmp_path: Path, rule: str) -> None:
    """A method of a vendor passes where a rule allows it, without cost."""
    with ProxyWorkspace(tmp_path, "use echo", rule) as work:
        client = work.client()
        assert client.ask(VENDOR, {"a": 1})["result"]["method"] == VENDOR
        assert work.tasks() == [] or work.ledger().calls_used == 0


def test_a_method_of_a_vendor_can_be_denied_or_asked_about(tmp_path: Path) -> None:
    """A deny refuses a method of a vendor, and a confirm asks about it."""
    with ProxyWorkspace(tmp_path, "allow *", "deny mcp.x.*") as work:
        assert "mcp.x.y" in client_error(work.client(), VENDOR)
    with ProxyWorkspace(tmp_path, "allow *", "confirm before mcp.x.y", name="asked") as work:
        client = work.client(elicits=True)
        message = client.message(VENDOR, {"a": 1})
        client.post(message)
        question = client.asked()
        client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
        assert client.answer(message["id"])["result"]["method"] == VENDOR


def client_error(client: Client, method: str) -> str:
    return str(client.ask(method)["error"]["message"])


def test_a_policy_that_observes_writes_a_vendors_method_down(tmp_path: Path) -> None:
    """In observe mode a method of a vendor passes and is recorded as one that would be refused."""
    with ProxyWorkspace(tmp_path, "use echo", "mode observe", version="v1") as work:
        client = work.client()
        assert client.ask(VENDOR)["result"]["method"] == VENDOR
        client.post({"jsonrpc": "2.0", "method": "notifications/x"})
        client.call("echo")
        assert _told(work, b"notifications/x")
        observed = [(fact.tool, fact.reason) for fact in work.facts("policy.observed")]
        assert observed == [("mcp.x.y", "not_allowed"), ("mcp.notifications.x", "not_allowed")]


@pytest.mark.parametrize("era", ERAS)
def test_the_methods_of_the_protocol_pass_a_closed_policy(tmp_path: Path, era: str) -> None:
    """Whatever a known revision has reaches the server, which may know it or not."""
    methods = [
        "prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read",
        "resources/subscribe", "resources/unsubscribe", "completion/complete", "logging/setLevel", "tasks/get",
        "tasks/result", "tasks/list", "tasks/cancel", "tasks/update", "subscriptions/listen", "ping",
    ]  # fmt: skip
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(era=era)
        for method in methods:
            answer = client.ask(method, {"uri": "file:///a", "name": "p"})
            assert "result" in answer or answer["error"]["code"] == -32601, answer
        for name in ("roots/list_changed", "progress", "tasks/status"):
            client.post({"jsonrpc": "2.0", "method": f"notifications/{name}"})
        client.call("echo")
        assert len(_told(work, b'"notifications/')) == 3 + (era != MODERN)


def test_a_rule_may_deny_what_was_not_gated_but_not_the_greeting(tmp_path: Path) -> None:
    """`deny mcp.*` refuses log levels and subscriptions as well; a session can still begin, list its tools and end a call."""
    with ProxyWorkspace(tmp_path, "allow echo", "deny mcp.*") as work:
        client = work.client()
        for method in ("logging/setLevel", "subscriptions/listen", "completion/complete", "tasks/result"):
            assert "denied by policy" in client_error(client, method)
        assert "echo" in client.tools()
        client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}})
        client.call("echo")
        assert _told(work, b"notifications/initialized")
        assert _told(work, b"notifications/cancelled")


# --- from the server, in the handshake era


@pytest.mark.parametrize("era", LEGACY)
@pytest.mark.parametrize("method", SERVER_METHODS)
def test_a_denied_request_of_the_server_gets_an_error_and_never_reaches_the_client(
    tmp_path: Path, era: str, method: str
) -> None:
    """A request of the server that a rule denies gets an error, and the client does not see it."""
    with ProxyWorkspace(tmp_path, "allow *", f"deny {SERVER_METHODS[method]}") as work:
        client = work.client(era=era, elicits=True)
        answer = client.call("ask", {"method": method})
        assert "is denied by policy" in text_of(answer)
        assert f"deny {SERVER_METHODS[method]} (.aex/policy.aex:4)" in text_of(answer)
        assert not any(method.encode() in line for line in client.received if b"denied" not in line)
        (fact,) = work.facts("upstream.refused")
        assert (fact.method, fact.reason) == (method, "deny_list")


@pytest.mark.parametrize("method", SERVER_METHODS)
def test_deny_mcp_holds_for_the_server_too(tmp_path: Path, method: str) -> None:
    """`deny mcp.*` refuses requests of the server too."""
    with ProxyWorkspace(tmp_path, "allow *", "deny mcp.*") as work:
        assert "denied by policy" in text_of(work.client().call("ask", {"method": method}))


def test_a_request_of_the_server_that_is_to_be_confirmed_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """The proxy has nobody to ask about it, and says what to write instead; --auto-confirm lets it pass."""
    rules = ("allow *", "confirm before mcp.sampling.createMessage")
    with ProxyWorkspace(tmp_path, *rules) as work:
        said = text_of(work.client().call("ask", {"method": "sampling/createMessage"}))
        assert "confirm mcp.sampling.createMessage (.aex/policy.aex:4)" in said
        assert "deny" in said
        assert [fact.reason for fact in work.facts("upstream.refused")] == ["confirm_required"]
    with ProxyWorkspace(tmp_path, *rules, name="auto") as work:
        client = work.client("--auto-confirm")
        call = client.begin("ask", {"method": "sampling/createMessage"})
        asked = client.asked("sampling/createMessage")
        client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        assert not refused(client.answer(call))


def test_a_closed_policy_refuses_what_a_server_makes_up(tmp_path: Path) -> None:
    """Requests and notifications that the protocol does not have need a rule, in this direction as in the other."""
    push = {"jsonrpc": "2.0", "method": "notifications/vendor/channel", "params": {"content": "do this"}}
    with ProxyWorkspace(tmp_path, "use send", "use ask") as work:
        client = work.client()
        assert "use mcp.x.odd" in text_of(client.call("ask", {"method": "x/odd"}))
        client.answer(_says(client, push))
        assert not any(b'"method": "notifications/vendor' in line for line in client.received)
        assert [fact.method for fact in work.facts("upstream.refused")] == ["x/odd", push["method"]]
    with ProxyWorkspace(tmp_path, "use send", "use mcp.notifications.vendor.channel", name="used") as work:
        client = work.client()
        client.answer(_says(client, push))
        assert any(b'"method": "notifications/vendor' in line for line in client.received)


def test_a_policy_that_observes_lets_a_request_of_the_server_pass_and_writes_it_down(tmp_path: Path) -> None:
    """In observe mode a denied request of the server passes and is recorded."""
    rules = ("allow *", "deny mcp.roots.list", "mode observe")
    with ProxyWorkspace(tmp_path, *rules, version="v1") as work:
        client = work.client()
        call = client.begin("ask", {"method": "roots/list"})
        client.post({"jsonrpc": "2.0", "id": client.asked("roots/list")["id"], "result": {"roots": []}})
        assert not refused(client.answer(call))
        (fact,) = work.facts("policy.observed")
        assert (fact.tool, fact.reason) == ("mcp.roots.list", "deny_list")


HIDDEN = [
    '{"jsonrpc":"2.0","id":"h","method":"roots/list","params":{"x":NaN}}',
    '{"jsonrpc":"2.0","id":"h","Method":"roots/list"}',
    '{"jsonrpc":"2.0","id":"h","method":"roots\\u002flist"}',
    '{"jsonrpc":"2.0","id":"h","method":"Roots/List"}',
    '[{"jsonrpc":"2.0","id":"h","method":"roots/list"}]',
    '{"jsonrpc":"2.0","id":"h","method":"roots/list","result":{}}',
    '{"jsonrpc":"2.0","id":{"a":1},"method":"roots/list"}',
]


@pytest.mark.parametrize("line", HIDDEN)
def test_a_denied_request_cannot_be_spelt_in_another_way(tmp_path: Path, line: str) -> None:
    """A server cannot send a denied request past the rule by an odd spelling of the message."""
    with ProxyWorkspace(tmp_path, "allow send", "deny mcp.roots.list") as work:
        client = work.client(era="2025-03-26" if line.startswith("[") else NEW)
        client.answer(_says(client, line))
        assert not any(b'"h"' in got or b'"a":1' in got for got in client.received)
        assert len(work.facts("upstream.refused")) + len(work.facts("upstream.non_jsonrpc")) == 1


@pytest.mark.parametrize("end", ["\0", " ", "\u200b"])
def test_a_method_is_the_same_to_every_reader(tmp_path: Path, end: str) -> None:
    """Where some reader strips what stands at its end, it passes neither way, though a rule allows all else."""
    with ProxyWorkspace(tmp_path, "allow *", "deny mcp.roots.list", "deny mcp.resources.read") as work:
        client = work.client()
        client.answer(_says(client, json.dumps({"jsonrpc": "2.0", "id": "h", "method": f"roots/list{end}"})))
        assert not any(b'"h"' in got for got in client.received)
        assert "error" in client.ask(f"resources/read{end}", {"uri": "a:b"})
        assert not any(b"resources/read" in line for line in work.forwarded())


# --- answers of the client


def test_a_client_cannot_answer_a_request_that_was_refused(tmp_path: Path) -> None:
    """An answer to the id of a denied request goes nowhere: what the policy said is the answer."""
    with ProxyWorkspace(tmp_path, "allow *", "deny mcp.elicitation.*") as work:
        client = work.client()
        refusal = text_of(client.call("ask", {"method": "elicitation/create"}))
        request_id = json.loads(refusal)["id"]
        before = len(work.forwarded())
        client.post({"jsonrpc": "2.0", "id": request_id, "result": {"action": "accept"}})
        client.call("echo")
        assert len(work.forwarded()) == before + 1
        assert len(work.facts("message.refused")) == 1


def test_a_server_cannot_ask_twice_under_one_id(tmp_path: Path) -> None:
    """While a request is open its id is taken: nobody could tell which of two the client has answered."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        first = {"jsonrpc": "2.0", "id": "one", "method": "roots/list"}
        second = {"jsonrpc": "2.0", "id": "one", "method": "elicitation/create", "params": {}}
        client.answer(_says(client, first, second))
        client.asked("roots/list")
        assert not any(b"elicitation/create" in line for line in client.received)
        assert [fact.reason for fact in work.facts("upstream.refused")] == ["id_in_use"]
        client.post({"jsonrpc": "2.0", "id": "one", "result": {"roots": []}})
        client.answer(_says(client, second))
        client.asked("elicitation/create")


# --- from the server, in the stateless era


def _input(*methods: object, **more: Any) -> str:
    asked = {f"k{number}": {"method": method, "params": {}} for number, method in enumerate(methods)}
    result = {"resultType": "input_required", "requestState": "s", "inputRequests": asked} | more
    return '{"jsonrpc":"2.0","id":$ID,"result":' + json.dumps(result) + "}"


@pytest.mark.parametrize("method", SERVER_METHODS)
def test_a_denied_request_inside_an_answer_turns_it_into_an_error(tmp_path: Path, method: str) -> None:
    """A result that asks the client for denied input becomes an error; one that asks for other input passes."""
    with ProxyWorkspace(tmp_path, "allow *", f"deny {SERVER_METHODS[method]}") as work:
        client = work.client(era=MODERN, elicits=True)
        others = [other for other in SERVER_METHODS if other != method]
        answer = client.call("send", {"lines": [_input(*others, method)]})
        assert refused(answer)
        assert f"deny {SERVER_METHODS[method]} (.aex/policy.aex:4)" in text_of(answer)
        assert answer["result"]["resultType"] == "complete"
        assert [fact.outcome for fact in work.facts("tool.settled")] == ["no-answer"]
        assert [fact.method for fact in work.facts("upstream.refused")] == [method]
        passed = client.call("send", {"lines": [_input(*others)]})
        assert set(passed["result"]["inputRequests"]) == {"k0", "k1"}


ODD = {
    "a method of a vendor": _input("x/ask"),
    "no method": _input(None),
    "a list": _input(inputRequests=[{"method": "roots/list"}]),
    "an escaped key": _input("roots/list").replace("inputRequests", "inputRequest\\u0073"),
    "an escaped type": _input("roots/list").replace("input_required", "input\\u005frequired"),
    "another case": _input("Roots/List"),
}


@pytest.mark.parametrize("line", ODD.values(), ids=ODD.keys())
def test_a_request_inside_an_answer_that_no_rule_permits_is_refused(tmp_path: Path, line: str) -> None:
    """A malformed or unknown request for input inside a result is refused."""
    with ProxyWorkspace(tmp_path, "use send", "deny mcp.roots.list") as work:
        client = work.client(era=MODERN)
        assert refused(client.call("send", {"lines": [line]}))
        assert len(work.facts("upstream.refused")) == 1


def test_other_requests_that_ask_for_input_are_looked_at_as_well(tmp_path: Path) -> None:
    """Prompts and resources may ask for input as tools do; there, the client gets an error of the protocol."""
    with ProxyWorkspace(tmp_path, "allow *", "deny mcp.sampling.*") as work:
        client = work.client(era=MODERN)
        for method in ("prompts/get", "resources/read"):
            answer = client.ask(method, {"lines": [_input("sampling/createMessage")], "name": "p", "uri": "x:"})
            assert "denied by policy" in answer["error"]["message"]
            answer = client.ask(method, {"lines": [_input("roots/list")], "name": "p", "uri": "x:"})
            assert answer["result"]["resultType"] == "input_required"


def test_a_claim_is_kept_when_its_answer_was_refused(tmp_path: Path) -> None:
    """A call under `once` whose server asked for what is denied may have had its effect: it is in doubt."""
    rules = ("allow *", "once send by key", "deny mcp.roots.list")
    with ProxyWorkspace(tmp_path, *rules, version="v1") as work:
        client = work.client(era=MODERN)
        assert refused(client.call("send", {"key": "a", "lines": [_input("roots/list")]}))
        assert list(work.ledger().doubts) == [work.facts("tool.allowed")[0].call]


def test_refusals_keep_their_shape(tmp_path: Path) -> None:
    """With `--errors jsonrpc`, a result with a denied request becomes a JSON-RPC error, and the call is settled."""
    with ProxyWorkspace(tmp_path, "allow *", "deny mcp.roots.list") as work:
        client = work.client("--errors", "jsonrpc", era=MODERN)
        message = client.call_message("send", {"lines": [_input("roots/list")]})
        client.send(encode(message))
        assert client.answer(message["id"])["error"]["code"] == -32600
        wait_for(lambda: len(work.facts("tool.settled")) == 1)


def test_a_notification_that_is_to_be_confirmed_is_refused_both_ways(tmp_path: Path) -> None:
    """A notification under `confirm` is dropped in both directions and recorded."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before mcp.notifications.*") as work:
        client = work.client()
        client.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        client.answer(_says(client, {"jsonrpc": "2.0", "method": "notifications/message", "params": {"n": 9}}))
        assert not _told(work, b"roots/list_changed")
        assert not any(b'"n": 9' in line for line in client.received)
        assert "requires confirmation" in work.facts("message.refused")[0].reason
        assert [fact.reason for fact in work.facts("upstream.refused")] == ["confirm_required"]
