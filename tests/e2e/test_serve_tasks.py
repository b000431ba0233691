"""Tasks that servers make of calls, at the address of all servers: each request about one reaches the server that made it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Self

import httpx
import pytest

from support import tools
from support.gateway import GatewayWorkspace
from support.in_process_gateway import InProcessGateway
from support.in_process_servers import InProcessServers
from support.missing import is_missing
from support.proxy import wait_for
from support.servers import Servers

TASK_SERVER = Path(__file__).parents[1] / "support" / "task_server.py"
EVERYTHING = tools.TOOLS / "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
EXTENSION = "io.modelcontextprotocol/tasks"
REVISION = "2026-07-28"
PATIENCE = 60
INVALID, UNKNOWN_METHOD, NOT_DECLARED, MISMATCH = -32602, -32601, -32021, -32020


class Listener:
    """A subscription, and what it has heard."""

    def __init__(self, url: str, message: dict[str, Any]) -> None:
        self.id = message["id"]
        self.heard: list[dict[str, Any]] = []
        self._http = httpx.Client(timeout=httpx.Timeout(30, read=None))
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": REVISION,
            "mcp-method": "subscriptions/listen",
        }
        self._asked = self._http.build_request("POST", url, json=message, headers=headers)
        self._thread = Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._answer = self._http.send(self._asked, stream=True)
        self._thread.start()
        wait_for(lambda: self.heard, PATIENCE)
        return self

    def _read(self) -> None:
        with suppress(httpx.HTTPError, httpx.StreamError):
            for line in self._answer.iter_lines():
                if line.startswith("data: {"):
                    self.heard.append(json.loads(line[6:]))

    def __exit__(self, *_exception: object) -> None:
        sock = self._answer.extensions["network_stream"].get_extra_info("socket")
        with suppress(OSError):
            sock.shutdown(2)
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._answer.close()
        self._http.close()

    @property
    def acknowledged(self) -> list[str]:
        """The tasks that the gateway has agreed to tell of."""
        told: list[str] = self.heard[0]["params"]["notifications"].get("taskIds", [])
        return told

    def states(self, task: str) -> list[str]:
        """What it has heard of a task."""
        told = [one["params"] for one in self.heard if one.get("method") == "notifications/tasks"]
        return [one["status"] for one in told if one["taskId"] == task]

    def has_heard(self, task: str, state: str) -> bool:
        """Whether that is the last that it has heard of a task."""
        return self.states(task)[-1:] == [state]


class Asker:
    """A client that writes its requests itself. `revision` may be one with a handshake."""

    def __init__(self, url: str, revision: str = REVISION, *, declares: bool = True) -> None:
        self._url, self._revision, self._count = url, revision, 0
        extensions: dict[str, Any] = {"extensions": {EXTENSION: {}}} if declares else {}
        self._capabilities = {"elicitation": {}} | extensions
        self._session: dict[str, str] = {}
        if revision != REVISION:
            hello = {
                "protocolVersion": revision,
                "capabilities": {"sampling": {}, "tasks": {"list": {}}},
                "clientInfo": {"name": "asker", "version": "1"},
            }
            self.offered = self.ask("initialize", hello)["result"]["capabilities"]
            self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            self.offered = self.ask("server/discover")["result"]["capabilities"]

    def ask(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> Any:
        """The answer to a request."""
        self._count += 1
        given = dict(params or {})
        about: dict[str, str] = {}
        if self._revision == REVISION:
            given["_meta"] = self.meta()
            name = given.get("taskId", given.get("name"))
            about = {"mcp-method": method} | ({"mcp-name": name} if isinstance(name, str) else {})
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": given}
        answer = self._post(message, **(about | headers))
        bodies = [answer.text] if answer.text.startswith("{") else [
            line[6:] for line in answer.text.splitlines() if line.startswith("data: ")
        ]  # fmt: skip
        return next(body for body in map(json.loads, filter(None, bodies)) if body.get("id") == self._count)

    def meta(self) -> dict[str, Any]:
        """What each request of the stateless revision says of the client."""
        return {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": {"name": "asker", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self._capabilities,
        }

    @contextmanager
    def listening(self, *tasks: str) -> Iterator[Listener]:
        """Hear of changes of tasks."""
        self._count += 1
        params = {"notifications": {"taskIds": tasks}, "_meta": self.meta()}
        message = {"jsonrpc": "2.0", "id": self._count, "method": "subscriptions/listen", "params": params}
        with Listener(self._url, message) as listener:
            yield listener

    def _post(self, message: object, **headers: str) -> httpx.Response:
        about = {"accept": "application/json, text/event-stream"} | self._session | headers
        if self._revision == REVISION or self._session:
            about["mcp-protocol-version"] = self._revision
        answer = httpx.post(self._url, json=message, headers=about, timeout=30)
        if session := answer.headers.get("mcp-session-id"):
            self._session = {"mcp-session-id": session}
        return answer

    def task(self, tool: str, **arguments: object) -> str:
        """The id of the task that a server makes of a call."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert result["resultType"] == "task", result
        return str(result["taskId"])

    def state(self, task: str, *wanted: str) -> dict[str, Any]:
        """What the server says of a task, once it has come to one of these states."""
        found: list[dict[str, Any]] = []

        def has_come() -> bool:
            found.append(self.ask("tasks/get", {"taskId": task})["result"])
            return found[-1]["status"] in wanted

        wait_for(has_come)
        return found[-1]

    def code(self, method: str, task: object, **headers: str) -> int:
        """The code of the error that a request about a task is answered with."""
        params = {"taskId": task} | ({"inputResponses": {}} if method == "tasks/update" else {})
        return int(self.ask(method, params, **headers)["error"]["code"])


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    """`up` and `git-like` make tasks, `plain` makes none."""
    path = tmp_path_factory.mktemp("tasks")
    servers = InProcessServers(path).http("git-like", program=TASK_SERVER).pipe("plain")
    rules = ("allow *", "deny git_like.greet", "deny mcp.tasks.update", "budget calls=1000")
    with servers, InProcessGateway(path, *rules, server=TASK_SERVER, settings=servers.toml) as workspace:
        yield workspace


def made(work: GatewayWorkspace, server: str) -> list[str]:
    """The ids of the tasks that a server has made."""
    return (work.root.parent / f"tasks-{server}").read_text(encoding="utf-8").split()


def subscriptions(folder: Path, server: str) -> list[int]:
    """To how many tasks each open subscription of a server is, in the order in which they began."""
    opened: list[tuple[str, int]] = []
    file = folder / f"listens-{server}"
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        sign, key, count = line.split()
        opened = [one for one in opened if one[0] != key]
        opened += [(key, int(count))] if sign == "+" else []
    return [count for _, count in opened]


def test_a_task_is_asked_for_at_the_server_that_made_it(work: GatewayWorkspace) -> None:
    """Each id names its server, whatever else is asked about it; the server gets the id that it gave."""
    client = Asker(work.url("/mcp"))
    assert client.offered["extensions"] == {EXTENSION: {}}
    tasks = {name: client.task(f"{name}.slow_compute", seconds=0.1) for name in ("up", "git_like")}
    assert tasks == {"up": f"up.{made(work, 'up')[-1]}", "git_like": f"git_like.{made(work, 'git-like')[-1]}"}
    for name, server in (("up", "up"), ("git_like", "git-like")):
        state = client.state(tasks[name], "completed")
        assert state["taskId"] == tasks[name]
        assert state["result"]["content"][0]["text"] == f"slow_compute of {server}"
    slow = client.task("git_like.slow_compute", seconds=60)
    assert client.ask("tasks/cancel", {"taskId": slow})["result"]["resultType"] == "complete"
    assert client.state(slow, "cancelled")["taskId"] == slow


@pytest.mark.parametrize("path", ["/up/t/one/mcp", "/t/all/mcp"])
def test_a_task_is_decided_on_and_recorded_as_at_its_server_alone(work: GatewayWorkspace, path: str) -> None:
    """The call counts, requests about the task do not; a rule that denies one of them refuses it; the history has the call's answer."""
    client = Asker(work.url(path))
    prefix = "up." if path == "/t/all/mcp" else ""
    task = client.task(f"{prefix}confirm_delete")
    assert client.state(task, "input_required")["inputRequests"]["sure"]["method"] == "elicitation/create"
    refused = client.ask("tasks/update", {"taskId": task, "inputResponses": {}})["error"]
    assert '"mcp.tasks.update" is denied by policy' in refused["message"]
    name = path.split("/")[-2]
    status = json.loads(work.adjourn("status", name, "--json"))
    assert status["callsUsed"] == 1
    events = [json.loads(line) for line in work.adjourn("log", name, "--json").splitlines()]
    kinds = [one["event"] for one in events if one["event"].startswith("tool.")]
    assert kinds == ["tool.allowed", "tool.settled", "tool.denied"]
    assert next(one["data"]["tool"] for one in events if one["event"] == "tool.denied") == "mcp.tasks.update"
    assert work.adjourn("verify").startswith("valid")


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
def test_an_id_reaches_no_other_server(work: GatewayWorkspace, method: str) -> None:
    """Of another server's task, of no server, of no text: each is refused as the protocol wants it, and by whom it asks."""
    client = Asker(work.url("/mcp"))
    task = client.task("up.slow_compute", seconds=60)
    own = task.removeprefix("up.")
    unknown = [
        own,
        f"git_like.{own}",
        f"up.{task}",
        f"plain2.{own}",
        "up.",
        f".{own}",
        "",
        "x" * 5000,
        f"up.{'x' * 5000}",
    ]
    assert [client.code(method, one) for one in unknown] == [INVALID] * len(unknown)
    assert client.code(method, None) == INVALID
    assert [client.code(method, one) for one in (7, [task], {"a": task})] == [MISMATCH] * 3  # no header says that
    assert client.code(method, f"plain.{own}") == UNKNOWN_METHOD  # what that server says
    assert client.code(method, task, **{"mcp-name": f"git_like.{own}"}) == MISMATCH
    stranger = Asker(work.url("/mcp"), declares=False)
    assert [stranger.code(method, one) for one in (task, own)] == [NOT_DECLARED] * 2
    for removed in ("tasks/result", "tasks/list"):
        assert client.ask(removed, {"taskId": task})["error"]["code"] == UNKNOWN_METHOD
    assert client.state(task, "working")["taskId"] == task


def test_servers_without_tasks_have_no_such_method(tmp_path: Path) -> None:
    """Where no server makes tasks, none are offered, and requests about them are answered as by such a server."""
    servers = InProcessServers(tmp_path).pipe("plain")
    with servers, InProcessGateway(tmp_path, "allow *", settings=servers.toml) as work:
        for revision in (REVISION, "2025-11-25"):
            client = Asker(work.url("/mcp"), revision)
            assert EXTENSION not in client.offered.get("extensions", {})
            assert "tasks" not in client.offered
            assert [client.code(method, "up.x") for method in ("tasks/get", "tasks/cancel")] == [UNKNOWN_METHOD] * 2
        assert client.ask("tasks/list")["error"]["code"] == UNKNOWN_METHOD


def test_a_task_survives_the_gateway(tmp_path: Path) -> None:
    """The id leads to the task at a gateway that has never seen it: after kill -9, another asks the server."""
    servers = Servers(tmp_path).http("other", program=TASK_SERVER)
    with servers, GatewayWorkspace(tmp_path, "allow *", settings=servers.toml) as work:
        task = Asker(work.url("/mcp")).task("other.slow_compute", seconds=0)
        work.stop(signal.SIGKILL)
        work.start()
        client = Asker(work.url("/mcp"))
        assert client.state(task, "completed")["result"]["content"][0]["text"] == "slow_compute of other"


def test_who_subscribes_to_tasks_hears_of_these(work: GatewayWorkspace) -> None:
    """Of tasks at servers over a pipe and over HTTP the state there is, then each change; nothing of another client's tasks."""
    ann, bob = Asker(work.url("/t/ann/mcp")), Asker(work.url("/t/bob/mcp"))
    for name in ("up", "git_like"):
        task, other = (one.task(f"{name}.slow_compute", seconds=60) for one in (ann, bob))
        asked, done = ann.task(f"{name}.confirm_delete"), ann.task(f"{name}.slow_compute", seconds=0)
        ann.state(done, "completed")
        with ann.listening(task, asked, done, "none.x", "plain.x", "x") as hers, bob.listening(other) as his:
            assert hers.acknowledged == [task, asked, done]
            for one, state in ((task, "working"), (asked, "input_required"), (done, "completed")):
                wait_for(partial(hers.has_heard, one, state), PATIENCE)
            bob.ask("tasks/cancel", {"taskId": other})
            ann.ask("tasks/cancel", {"taskId": task})
            wait_for(partial(hers.has_heard, task, "cancelled"), PATIENCE)
            wait_for(partial(his.has_heard, other, "cancelled"), PATIENCE)
            assert not hers.states(other)
            assert not his.states(task)
            for message in hers.heard:
                assert message["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": hers.id}
            told = next(one["params"] for one in hers.heard if one["params"].get("taskId") == done)
            assert told["result"] == ann.state(done, "completed")["result"]


def test_the_address_of_one_server_has_its_subscriptions(work: GatewayWorkspace) -> None:
    """There the server itself acknowledges, and tells of its tasks by its own ids."""
    client = Asker(work.url("/up/mcp"))
    task = client.task("slow_compute", seconds=60)
    with client.listening(task, "x") as listener:
        assert listener.acknowledged == [task]
        client.ask("tasks/cancel", {"taskId": task})
        wait_for(partial(listener.has_heard, task, "cancelled"), PATIENCE)


def test_a_server_has_one_subscription_of_a_client(tmp_path: Path) -> None:
    """However many the client has and ends; it is to what they name, and nobody misses a change meanwhile."""
    servers = InProcessServers(tmp_path).http("other", program=TASK_SERVER)
    with servers, InProcessGateway(tmp_path, "allow *", settings=servers.toml) as work:
        client = Asker(work.url("/mcp"))
        tasks = [client.task("other.slow_compute", seconds=60) for _ in range(5)]
        with ExitStack() as stack:
            opened = [stack.enter_context(client.listening(task)) for task in tasks]
            for task, listener in zip(tasks, opened, strict=True):
                client.ask("tasks/cancel", {"taskId": task})
                wait_for(partial(listener.has_heard, task, "cancelled"), PATIENCE)
            wait_for(lambda: subscriptions(tmp_path, "other") == [5], PATIENCE)
        wait_for(lambda: subscriptions(tmp_path, "other") == [0], PATIENCE)


def test_only_a_client_that_knows_tasks_subscribes_to_them(work: GatewayWorkspace) -> None:
    """One that has not declared the extension is refused, and the error names what it has to declare."""
    task = Asker(work.url("/mcp")).task("up.slow_compute", seconds=0)
    stranger = Asker(work.url("/mcp"), declares=False)
    error = stranger.ask("subscriptions/listen", {"notifications": {"taskIds": [task]}})["error"]
    assert error["code"] == NOT_DECLARED
    assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


def test_a_rule_that_denies_subscriptions_keeps_the_state_of_tasks(tmp_path: Path) -> None:
    """A subscriber sees what `tasks/get` shows, so whoever denies that denies `subscriptions/listen`, too."""
    servers = InProcessServers(tmp_path).http("other", program=TASK_SERVER)
    rules = ("allow *", "deny mcp.tasks.get", "deny mcp.subscriptions.listen")
    with servers, InProcessGateway(tmp_path, *rules, settings=servers.toml) as work:
        client = Asker(work.url("/mcp"))
        task = client.task("other.slow_compute", seconds=0)
        for method, params in (
            ("tasks/get", {"taskId": task}),
            ("subscriptions/listen", {"notifications": {"taskIds": [task]}}),
        ):
            assert "is denied by policy" in client.ask(method, params)["error"]["message"]


CURIOUS = """
import json, sys

def say(**body):
    print(json.dumps({"jsonrpc": "2.0", **body}), flush=True)

def answer(request, **result):
    say(id=request["id"], result=result)

for line in sys.stdin:
    body = json.loads(line)
    method = body.get("method")
    if method == "initialize":
        known = body["params"]["capabilities"]
        info = {"name": "curious", "version": "1"}
        answer(body, protocolVersion="2025-11-25", capabilities={"tools": {}}, serverInfo=info)
    elif method == "tools/list":
        answer(body, tools=[{"name": "look", "inputSchema": {"type": "object"}}])
    elif method == "tools/call":
        call = body
        say(id="q", method="tasks/list", params={})
    elif body.get("id") == "q":
        answer(call, content=[{"type": "text", "text": json.dumps([known, body["error"]["code"]])}])
    elif "id" in body:
        say(id=body["id"], error={"code": -32601, "message": "no"})
"""


def test_a_server_sees_no_tasks_of_the_client(tmp_path: Path) -> None:
    """The client may have made them for another server: it offers none there, and a server that asks gets an error."""
    program = tmp_path / "curious.py"
    program.write_text(CURIOUS, encoding="utf-8")
    more = f"[servers.curious]\ncommand = {json.dumps([sys.executable, str(program)])}\n"
    with InProcessGateway(tmp_path, "allow *", settings=more) as work:
        client = Asker(work.url("/mcp"), "2025-11-25")
        answer = client.ask("tools/call", {"name": "curious.look", "arguments": {}})["result"]
        assert json.loads(answer["content"][0]["text"]) == [{"sampling": {}}, UNKNOWN_METHOD]


def test_tasks_of_the_handshake_revision_are_joined(tmp_path: Path) -> None:
    """With two official servers of 2025-11-25: the call, the state, the result, and one list of the tasks of both.

    A client of 2026-07-28 is offered none, and its calls are made without.
    """
    if not EVERYTHING.exists():
        is_missing("the everything-server is not installed: run `python tests/support/tools.py`")
    command = json.dumps(["node", str(EVERYTHING), "stdio"])
    more = "".join(f"[servers.{name}]\ncommand = {command}\n" for name in ("one", "two"))
    with InProcessGateway(tmp_path, "allow *", settings=more) as work:
        client = Asker(work.url("/mcp"), "2025-11-25")
        assert "list" in client.offered["tasks"]
        tasks = {}
        for server in ("one", "two"):
            call = {"name": f"{server}.simulate-research-query", "arguments": {"topic": server}}
            created = client.ask("tools/call", call | {"task": {"ttl": 60_000}})["result"]["task"]
            tasks[server] = created["taskId"]
        assert [task.partition(".")[0] for task in tasks.values()] == ["one", "two"]
        for server, task in tasks.items():
            assert client.ask("tasks/get", {"taskId": task})["result"]["taskId"] == task
            result = client.ask("tasks/result", {"taskId": task})["result"]
            assert server in result["content"][0]["text"]
            assert result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"] == task
        listed = client.ask("tasks/list")["result"]["tasks"]
        assert [one["taskId"] for one in listed] == list(tasks.values())
        own = tasks["one"].removeprefix("one.")
        assert [client.code("tasks/get", one) for one in (own, "none.x", 7)] == [INVALID] * 3
        assert "result" not in client.ask("tasks/get", {"taskId": f"two.{own}"})
        modern = Asker(work.url("/mcp"))
        assert not {"tasks", "extensions"} & modern.offered.keys()
        call = {"name": "one.echo", "arguments": {"message": "hi"}, "task": {"ttl": 60_000}}
        assert "hi" in modern.ask("tools/call", call)["result"]["content"][0]["text"]
        assert work.adjourn("verify").startswith("valid")
