"""Rules and budgets of principals behind one gateway, and who is on record for a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from mcp import Client, types

from support.gateway import GatewayWorkspace, text_of
from support.in_process_gateway import InProcessGateway
from support.proxy import wait_for
from support.token_issuer import RESOURCE, TokenIssuer

RULES = (
    "allow up.echo",
    "budget calls=4 per day each principal",
    "for group:ops",
    "  allow up.write",
    "for group:askers",
    "  allow up.ask",
    "  confirm before up.ask",
    "for group:writers",
    "  allow up.write",
    "  confirm before up.write",
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    path: Path = tmp_path_factory.mktemp("principals")
    with InProcessGateway(path, *RULES, settings="[auth]\nkeys = true\n") as workspace:
        yield workspace


def calls(work: GatewayWorkspace, key: str, *tools: str) -> list[str]:
    """What calls of these tools answer whoever has the key."""

    async def session(client: Client) -> list[str]:
        return [text_of(await client.call_tool(tool, {"text": "x"})) for tool in tools]

    return work.run(session, token=key)


def test_rules_and_budgets_are_those_of_whoever_calls(work: GatewayWorkspace) -> None:
    """Only a member of the group may write; what one has spent of a budget of each principal leaves that of the other whole."""
    ann, bob = work.key("ann", "--human", "--group", "ops"), work.key("bob")
    assert calls(work, ann, "write", "echo") == ["written", "x"]
    refused, echoed = calls(work, bob, "write", "echo")
    assert "is not in the allow list" in refused
    assert echoed == "x"
    *_, last = calls(work, ann, "echo", "echo", "echo")
    assert "Call budget of ann exhausted" in last
    assert calls(work, bob, "echo") == ["x"]


def test_what_one_client_was_listed_is_known_of_the_server(work: GatewayWorkspace) -> None:
    """The call of a client that lists no tools is no effect if another client was listed the tool as one that reads."""
    lister, caller = work.key("lea"), work.key("tom")
    work.run(Client.list_tools, token=lister, mode="legacy")
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    call = {"name": "echo", "arguments": {"text": "x"}}
    session: dict[str, str] = {}
    for number, (method, params) in enumerate((("initialize", start), ("tools/call", call))):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        answer = work.post(message, authorization=f"Bearer {caller}", **session)
        session = {"mcp-session-id": answer.headers["mcp-session-id"]} if method == "initialize" else session
        assert answer.status_code == 200
    spent = {one["principalName"]: one for one in json.loads(work.adjourn("tasks", "spend", "--json"))["people"]}
    assert (spent["tom"]["calls"], spent["tom"]["effects"]) == (1, 0)


def test_the_history_says_who_stood_behind_a_call(work: GatewayWorkspace) -> None:
    """The session of each call has the principal's id, name, type and groups."""
    key = work.key("cleo", "--human", "--group", "ops")
    assert calls(work, key, "echo") == ["x"]
    names = []
    for one in json.loads(work.adjourn("tasks", "--json"))["tasks"]:
        for line in work.adjourn("log", one["task"], "--json").splitlines():
            event = json.loads(line)
            if event["event"] == "session.opened" and event["data"].get("principalName") == "cleo":
                names.append((event["data"]["principalType"], event["data"]["principalGroups"]))
    assert names == [("human", ["ops"])]


@pytest.mark.parametrize("credential", ["", "Bearer adj_aaaaaaaaaa_nokey", "Basic YTpi", "Bearer"])
def test_without_a_key_there_is_no_answer(work: GatewayWorkspace, credential: str) -> None:
    """Whoever shows no key of the store is asked for one, at every address of a server, and told nothing else."""
    headers = {"accept": "application/json, text/event-stream"}
    if credential:
        headers["authorization"] = credential
    for path in ("/up/mcp", "/mcp", "/no-such/mcp", "/up/t/release-1/mcp"):
        answer = httpx.post(work.url(path), json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
        assert answer.status_code in (400, 401)
        assert answer.headers["www-authenticate"].startswith('Bearer realm="adjourn"')


def test_a_revoked_key_ends(work: GatewayWorkspace) -> None:
    """Within two seconds a revoked key is one that does not exist."""
    key = work.key("dan")
    assert calls(work, key, "echo") == ["x"]
    (listed,) = [one for one in json.loads(work.adjourn("api-keys", "--json"))["keys"] if one["name"] == "dan"]
    work.adjourn("api-keys", "revoke", listed["id"])
    headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {key}"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    def status() -> int:
        return httpx.post(work.url(), json=message, headers=headers).status_code

    wait_for(lambda: status() == 401)


def test_a_service_is_not_asked_about_its_own_calls(work: GatewayWorkspace) -> None:
    """What needs a person's yes waits for a person elsewhere: a service that answers forms says yes to nothing."""
    asked: list[str] = []

    async def say_yes(_context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True})

    async def session(client: Client) -> None:
        call = asyncio.ensure_future(client.call_tool("ask", {}))
        await asyncio.to_thread(wait_for, lambda: waiting(work))
        await asyncio.sleep(0.5)
        assert not call.done()
        call.cancel()

    work.run(session, token=work.key("robot", "--group", "askers"), elicitation_callback=say_yes)
    assert asked == []
    assert waiting(work) == ["approval"]


def waiting(work: GatewayWorkspace) -> list[str]:
    """What kinds of things wait for a person."""
    return [one["kind"] for one in json.loads(work.adjourn("inbox", "--json"))["waiting"]]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_an_answer_in_the_client_is_by_the_person_who_authenticated(work: GatewayWorkspace, mode: str) -> None:
    """A person who says yes in the client's dialog is on record by name, in both revisions of the protocol."""

    async def say_yes(_context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert "Allow" in params.message
        return types.ElicitResult(action="accept", content={"approve": True})

    async def session(client: Client) -> str:
        return text_of(await client.call_tool("write", {"text": "x"}))

    name = f"eve-{mode}"
    key = work.key(name, "--human", "--group", "writers")
    said = work.run(session, token=key, mode=mode, elicitation_callback=say_yes)
    assert said == "written"
    answers = []
    for one in json.loads(work.adjourn("tasks", "--json"))["tasks"]:
        history = work.adjourn("log", one["task"], "--json").splitlines()
        events = [json.loads(line) for line in history]
        if any(event["data"].get("principalName") == name for event in events):
            answers += [event["by"] for event in events if event["event"] == "confirm.approved"]
            assert f"began, for {name} (human)" in work.adjourn("log", one["task"], "--full")
    assert answers == [{"id": name, "type": "human"}]


def test_a_key_and_a_token_of_one_name_are_two_principals(tmp_path: Path) -> None:
    """Each has tasks, rules, a budget and a name on record of its own, whether the subject or the username is that of the key."""
    rules = (
        "allow up.echo", "budget calls=4 per day each principal", "for user:ann", "  allow up.write",
        "  budget calls=4 per day",
    )  # fmt: skip
    with TokenIssuer() as issuer:
        oauth = (
            f'[auth]\nkeys = true\n[auth.oauth]\nissuer = "{issuer.url}"\nresource = "{RESOURCE}"\n'
            'person = {claim = "kind", values = ["person"]}\n'
        )
        with InProcessGateway(tmp_path, *rules, settings=oauth) as work:
            key = work.key("ann", "--human")
            others = [
                issuer.token({"kind": "person"}),
                issuer.token({"sub": "ann", "kind": "person"}),
                issuer.token({"sub": "ann"}),
            ]
            for other in others:
                written, *echoed = calls(work, other, "write", "echo", "echo")
                assert "is not in the allow list" in written
                assert echoed == ["x", "x"]
            assert calls(work, key, "write", "echo", "echo", "echo") == ["written", "x", "x", "x"]
            opened = []
            for task in (one["task"] for one in json.loads(work.adjourn("tasks", "--json"))["tasks"]):
                events = [json.loads(line) for line in work.adjourn("log", task, "--json").splitlines()]
                opened += [one["data"] for one in events if one["event"] == "session.opened"]
    said = {(one["principal"].partition(":")[0], one["principalName"], one["principalType"]) for one in opened}
    assert ("key", "ann", "human") in said
    assert {one["principalName"] for one in opened if one["principal"] == f"{issuer.url} u1"} == {"ann (u1)"}
    alike = {(one["principalName"], one["principalType"]) for one in opened if one["principal"] == f"{issuer.url} ann"}
    assert alike == {("ann", "service"), (f"ann (another ann ({issuer.url} ann))", "human")}
    assert len({one["principal"] for one in opened}) == 3


def test_a_token_without_a_proof_is_not_asked_and_the_log_says_so(tmp_path: Path) -> None:
    """Where no setting tells people from programs, the gateway names what to set, at its start."""
    with TokenIssuer() as issuer:
        oauth = f'[auth.oauth]\nissuer = "{issuer.url}"\nresource = "{RESOURCE}"\n'
        with InProcessGateway(tmp_path, "allow up.echo", settings=oauth) as work:
            assert calls(work, issuer.token(), "echo") == ["x"]
            gateway = work.gateway
            assert gateway is not None
            gateway.terminate()
            log = gateway.communicate(timeout=30)[1]
    assert "set provider or person in [auth.oauth]" in log
