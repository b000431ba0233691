"""Decisions for another gateway, which asks by Envoy's external authorization before it passes a message on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import grpc
import pytest

from support.data_plane import Answer, DataPlane, check_request
from support.gateway import GatewayWorkspace, wait_for_port
from support.in_process_gateway import InProcessGateway, command_here
from support.ports import free_port

RULES = (
    "allow up.echo, up.read_file, up.write, up.pay",
    "deny up.remove, mcp.resources.read",
    "confirm before up.pay",
    "once up.write by id",
    "budget calls=40 per day each principal",
)


class Served:
    """A gateway that decides for another one, and serves nothing itself."""

    def __init__(self, path: Path, kind: type[GatewayWorkspace], *rules: str) -> None:
        port = free_port()
        settings = f'[auth]\nkeys = true\n[authorize]\nlisten = "127.0.0.1:{port}"\n[limits]\nbody_bytes = 100000\n'
        self.work = kind(path, *rules, over="", settings=settings)
        self.plane = DataPlane(f"127.0.0.1:{port}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.plane.close()
        self.work.__exit__()

    def approve(self) -> None:
        """Say yes to the one question that waits."""
        [item] = json.loads(command_here(self.work.root, "inbox", "--json"))["waiting"]
        command_here(self.work.root, "approve", item["id"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("authorize"), InProcessGateway, *RULES) as served:
        yield served


@pytest.fixture(scope="module")
def ann(served: Served) -> str:
    return served.work.key("ann")


def message(method: str, params: object = None, **members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}} | members).encode()


def test_a_call_passes_or_its_agent_reads_why_not(served: Served, ann: str) -> None:
    """What the policy allows passes; else the client gets a result of the tool that names the reason, as from the server."""
    assert served.plane.call("echo", token=ann, text="x").passes
    refused = served.plane.call("remove", token=ann, text="x")
    assert (refused.passes, refused.status, refused.code) == (False, 200, 7)
    assert refused.headers == {"content-type": "application/json"}
    assert "remove" in refused.text
    assert json.loads(refused.body)["id"] == 1
    assert json.loads(refused.body)["result"]["isError"] is True
    assert "is not in the allow list" in served.plane.call("other", token=ann).text


def test_an_allowed_call_is_recorded_and_never_in_doubt(served: Served, ann: str) -> None:
    """The history has the call with no answer seen, and its effect waits for nobody; what may happen once is not repeated."""
    assert served.plane.call("write", token=ann, text="kept", id="1").passes
    again = served.plane.call("write", token=ann, text="kept", id="1")
    assert not again.passes
    assert "happened already" in again.text
    task = json.loads(served.work.adjourn("tasks", "--json"))["tasks"][0]
    assert task["inDoubt"] == []
    events = [json.loads(line) for line in served.work.adjourn("log", task["task"], "--json").splitlines()]
    kinds = [(event["event"], event["data"].get("outcome", "")) for event in events if "kept" in json.dumps(event)]
    assert ("tool.allowed", "") in kinds


@pytest.mark.usefixtures("unattended")
def test_budgets_and_approvals_are_those_of_whoever_calls(tmp_path: Path) -> None:
    """An approval lets one call of that principal pass once; what one has spent leaves the other's budget whole."""
    rules = ("allow up.echo, up.pay", "confirm before up.pay", "budget calls=2 per day each principal")
    with Served(tmp_path, InProcessGateway, *rules) as served:
        ann, bob = served.work.key("ann"), served.work.key("bob")
        asked = served.plane.call("pay", token=ann, amount=3)
        assert "adjourn approve" in asked.text
        served.approve()
        assert not served.plane.call("pay", token=bob, amount=3).passes
        assert served.plane.call("pay", token=ann, amount=3).passes
        assert "requires confirmation" in served.plane.call("pay", token=ann, amount=3).text
        assert served.plane.call("echo", token=ann).passes
        assert "budget" in served.plane.call("echo", token=ann).text
        assert served.plane.call("echo", token=bob).passes


CALL = message("tools/call", {"name": "echo", "arguments": {"text": "x"}}, id=7)


@pytest.mark.parametrize(
    ("shown", "status", "said"),
    [
        (check_request(None), 403, "no whole message"),
        (check_request(CALL[:-2]), 400, "not one JSON-RPC message"),
        (check_request(CALL, size=len(CALL) + 1), 403, "no whole message"),
        (check_request(CALL, headers={"x-envoy-auth-partial-body": "true"}), 403, "no whole message"),
        (check_request(CALL.decode().replace("x", "\ufffd")), 403, "no whole message"),
        (check_request(b"[" + CALL + b"]"), 400, "no batch"),
        (check_request(CALL, headers={"content-type": "application/json; charset=utf-7"}), 415, "UTF-8"),
        (check_request(CALL, headers={"content-type": "text/plain"}), 415, "UTF-8"),
        (check_request(CALL, headers={"content-encoding": "br"}), 415, "without a content encoding"),
        (check_request(b"\x1f\x8b"), 400, "not one JSON-RPC message"),
        (check_request(CALL, server=""), 403, "which server"),
        (check_request(CALL, server="../up"), 403, "which server"),
        (check_request(CALL, method="PUT"), 405, "use POST"),
        (check_request(CALL.replace(b'"name"', b'"name": "echo", "name"')), 200, "name"),
        (check_request(message("resources/read", {"uri": "x:y"}, id=1)), 200, "resources"),
        (check_request(message("vendor/erase", id=1)), 200, "mcp.vendor.erase"),
        (check_request(message("tools/call", {"name": "echo"})), 403, "does not let this message pass"),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_on_does_not_pass(served: Served, ann: str, shown: Any, status: int, said: str) -> None:
    """A message that is not shown whole, is none, or that nobody allows is refused, with the reason."""
    request = type(shown)()
    request.CopyFrom(shown)
    request.attributes.request.http.headers["authorization"] = f"Bearer {ann}"
    answer = served.plane.ask(request)
    assert (answer.passes, answer.status) == (False, status)
    assert said in answer.text


@pytest.mark.parametrize(
    "shown",
    [
        check_request(message("initialize", {"clientInfo": {"name": "c", "version": "1"}}, id=1)),
        check_request(message("notifications/initialized")),
        check_request(message("tools/list", id="a")),
        check_request(b'{"jsonrpc": "2.0", "id": 3, "result": {}}'),
        check_request(CALL.decode()),
        check_request(CALL, headers={"content-type": 'application/json; charset="UTF-8"'}),
        check_request(None, method="GET"),
        check_request(None, method="DELETE"),
    ],
)
def test_what_no_rule_names_passes(served: Served, ann: str, shown: Any) -> None:
    """The rest of the protocol passes, and a call whose body is text; streams and ends of sessions have no message."""
    request = type(shown)()
    request.CopyFrom(shown)
    request.attributes.request.http.headers["authorization"] = f"Bearer {ann}"
    answer: Answer = served.plane.ask(request)
    assert answer.passes, answer


def test_nobody_passes_without_a_credential(served: Served) -> None:
    """No request passes without a valid key, not even one without a message; the challenge goes to the client."""
    for request in (check_request(CALL), check_request(CALL, token="adj_wrong"), check_request(None, method="GET")):
        answer = served.plane.ask(request)
        assert (answer.passes, answer.status, answer.code) == (False, 401, 16)
        assert "www-authenticate" in answer.headers


def test_a_question_beyond_the_limits_is_an_error(served: Served, ann: str) -> None:
    """A body over `body_bytes`, and bytes that are no question, are errors of gRPC, which let nothing pass."""
    with pytest.raises(grpc.RpcError) as large:
        served.plane.call("echo", token=ann, text="x" * 200_000)
    assert large.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    class Garbage:
        def SerializeToString(self) -> bytes:  # noqa: N802  # as protobuf has it
            return b"\xff\xff"

    with pytest.raises(grpc.RpcError) as odd:
        served.plane.ask(Garbage())
    assert odd.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.usefixtures("unattended")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_an_approval_survives_a_kill(
    tmp_path: Path, store: str, new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked, killed, approved, killed: the repeated call passes once; killed once more, its effect is not in doubt."""
    if store == "postgres":
        monkeypatch.setenv("ADJOURN_STORE", new_postgres_url())
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    with Served(tmp_path, GatewayWorkspace, "allow up.echo, up.pay", "confirm before up.pay") as served:
        ann, bob = served.work.key("ann"), served.work.key("bob")
        assert "adjourn approve" in served.plane.call("pay", token=ann, amount=3).text
        assert served.plane.call("echo", token=bob, text="x").passes
        served.work.stop(signal.SIGKILL)
        served.approve()
        served.work.start()
        assert not served.plane.call("pay", token=bob, amount=3).passes
        served.work.stop(signal.SIGKILL)
        served.work.start()
        assert served.plane.call("pay", token=ann, amount=3).passes
        assert "requires confirmation" in served.plane.call("pay", token=ann, amount=3).text
        served.work.stop(signal.SIGKILL)
        tasks = json.loads(served.work.adjourn("tasks", "--json"))["tasks"]
        assert len(tasks) == 2
        assert [task["inDoubt"] for task in tasks] == [[], []]


def test_two_services_spend_one_budget(tmp_path: Path) -> None:
    """Calls that come to two services at once pass as often as the budget of their task says, and the history stays valid."""
    with Served(tmp_path, GatewayWorkspace, "allow up.*", "budget calls=20") as served, ExitStack() as closing:
        work, ask, listen = served.work, free_port(), free_port()
        text = f'listen = "127.0.0.1:{listen}"\n[auth]\nkeys = true\n[authorize]\nlisten = "127.0.0.1:{ask}"\n'
        (work.root / "second.toml").write_text(text, encoding="utf-8")
        words = [sys.executable, "-m", "adjourn", "serve", "--config", "second.toml"]
        second = subprocess.Popen(
            words, cwd=work.root, env=work.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        closing.callback(second.wait)
        closing.callback(second.terminate)
        wait_for_port(listen)
        key, planes = work.key("ann"), (served.plane, DataPlane(f"127.0.0.1:{ask}"))
        closing.callback(planes[1].close)
        with ThreadPoolExecutor(8) as threads:
            answers = list(
                threads.map(lambda number: planes[number % 2].call("write", token=key, text=str(number)), range(40))
            )
        assert sum(answer.passes for answer in answers) == 20
        assert all("budget" in answer.text for answer in answers if not answer.passes)
        [task] = json.loads(work.adjourn("tasks", "--json"))["tasks"]
        assert (task["callsUsed"], task["inDoubt"]) == (20, [])
        assert work.adjourn("verify").startswith("valid")
