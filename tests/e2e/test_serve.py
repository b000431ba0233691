"""`adjourn serve`: MCP servers over HTTP, decided on and recorded as behind the proxy."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from mcp import Client, types

from adjourn.host.process import Process, current
from adjourn.store import SqliteStore
from support.gateway import SERVER, GatewayWorkspace, text_of
from support.in_process_gateway import InProcessGateway
from support.proxy import wait_for

RULES = ("allow up.echo, up.write, up.slow, up.ask", "deny up.drop", "budget calls=20")
Mode = Literal["auto", "legacy"]


@pytest.fixture(params=["http", "stdio"])
def work(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GatewayWorkspace]:
    with InProcessGateway(tmp_path, *RULES, over=request.param) as workspace:
        yield workspace


@pytest.fixture(params=["http", "stdio"])
def process(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GatewayWorkspace]:
    """A gateway that is a process, as it is started."""
    with GatewayWorkspace(tmp_path, *RULES, over=request.param) as workspace:
        yield workspace


@pytest.fixture
def over_http(tmp_path: Path) -> Iterator[GatewayWorkspace]:
    with InProcessGateway(tmp_path, *RULES, "confirm before up.write") as workspace:
        yield workspace


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_works_through_the_gateway(work: GatewayWorkspace, mode: Mode) -> None:
    """In both protocol eras, before a server over HTTP and one over pipes: tools, progress, resources, refusals, meta-tools, the journal."""
    heard: list[str] = []

    async def session(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[:4] == ["echo", "write", "slow", "ask"]
        assert "aex.checkpoint" in names

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            assert (progress, total) == (1, 2)
            heard.append(message or "")

        assert text_of(await client.call_tool("echo", {"text": "hi\nthere"}, progress_callback=progress)) == "hi\nthere"
        assert text_of(await client.call_tool("write", {"text": "one"})) == "written"
        refused = await client.call_tool("drop", {})
        assert refused.is_error
        assert "up.drop" in text_of(refused)
        read = (await client.read_resource("notes://one")).contents[0]
        assert isinstance(read, types.TextResourceContents)
        assert read.text == "a note"
        saved = text_of(await client.call_tool("aex.checkpoint", {"name": "half"}))
        assert json.loads(saved)["path"] == ".aex/checkpoints/half/"

    work.run(session, mode=mode)
    assert heard == ["half"]
    assert work.called() == ["one"]
    assert work.adjourn("verify").startswith("valid: 1 task")
    (task,) = json.loads(work.adjourn("tasks", "--json"))["tasks"]
    assert task["callsUsed"] == 2


def test_a_question_of_the_server_is_answered(over_http: GatewayWorkspace) -> None:
    """An elicitation reaches the client on the stream of its call, and the answer the server."""

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        assert params.message == "Which colour?"
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    async def session(client: Client) -> str:
        return text_of(await client.call_tool("ask", {}))

    assert "blue" in over_http.run(session, mode="legacy", elicitation_callback=answer)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_person_confirms_at_the_client(over_http: GatewayWorkspace, mode: Mode) -> None:
    """A rule that asks is answered by the client's dialog, in both eras; the call is made once."""

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        assert "up.write" in params.message
        return types.ElicitResult(action="accept", content={"approve": True})

    async def session(client: Client) -> str:
        return text_of(await client.call_tool("write", {"text": "asked"}))

    assert over_http.run(session, mode=mode, elicitation_callback=answer) == "written"
    assert over_http.called() == ["asked"]


def test_a_task_is_named_in_the_path(work: GatewayWorkspace) -> None:
    """Two clients work on the task of the path, with one budget; without one, each client has its own."""

    async def session(client: Client) -> None:
        await client.call_tool("write", {"text": "x"})

    for name in ("first", "second"):
        work.run(session, path="/up/t/release-1/mcp", client_info=types.Implementation(name=name, version="1"))
    work.run(session, path="/mcp", client_info=types.Implementation(name="first", version="1"))
    tasks = {one["task"]: one["callsUsed"] for one in json.loads(work.adjourn("tasks", "--json"))["tasks"]}
    assert len(tasks) == 2
    assert tasks["release-1"] == 2


def test_two_clients_take_turns_at_a_task(work: GatewayWorkspace) -> None:
    """A task of the path is at each call the caller's, as long as the other client has no call open."""

    async def take_turns() -> None:
        url = work.url("/up/t/release-1/mcp")
        async with (
            Client(url, client_info=types.Implementation(name="first", version="1")) as first,
            Client(url, client_info=types.Implementation(name="second", version="1")) as second,
        ):
            for number in range(3):
                for name, client in (("first", first), ("second", second)):
                    answer = await client.call_tool("write", {"text": f"{name} {number}"})
                    assert text_of(answer) == "written"

    asyncio.run(asyncio.wait_for(take_turns(), 30))
    assert work.called() == [f"{name} {number}" for number in range(3) for name in ("first", "second")]
    (task,) = json.loads(work.adjourn("tasks", "--json"))["tasks"]
    assert (task["task"], task["callsUsed"]) == ("release-1", 6)
    assert work.adjourn("verify").startswith("valid: 1 task")


def test_a_task_that_cannot_be_is_named(over_http: GatewayWorkspace) -> None:
    """An id that no task may have is refused with the rule."""
    for task in (".hidden", "-x", "x" * 65):
        answer = httpx.post(over_http.url(f"/up/t/{task}/mcp"), json={})
        assert (answer.status_code, "not a task id" in answer.text) == (400, True)


STUBBORN = """
import os, runpy, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(os.path.join(sys.argv[2], "started"), "a") as file:
    print(os.getpid(), os.getcwd(), file=file)
runpy.run_path({server!r}, run_name="__main__")
time.sleep(3600)
"""


def test_a_server_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """A command that ignores the end of its input and SIGTERM is not left behind; it runs in the workspace's folder."""
    server = tmp_path / "stubborn.py"
    server.write_text(STUBBORN.format(server=str(SERVER)), encoding="utf-8")

    async def session(client: Client) -> str:
        return text_of(await client.call_tool("echo", {"text": "x"}))

    with GatewayWorkspace(tmp_path, *RULES, over="stdio", server=server) as work:
        assert work.run(session, mode="legacy") == "x"
        assert work.stop() == 0
        for line in (tmp_path / "started").read_text(encoding="utf-8").splitlines():
            pid, folder = line.split(" ", 1)
            assert not Path(f"/proc/{pid}").exists()
            assert folder == str(work.root)


def test_many_calls_at_once_are_each_answered(work: GatewayWorkspace) -> None:
    """Of several clients with the same ids, in both eras, each gets its own answers."""

    async def one(number: int, mode: Mode) -> None:
        async with Client(work.url(), mode=mode) as client:
            texts = [f"{number}-{call}" for call in range(8)]
            answers = await asyncio.gather(*(client.call_tool("echo", {"text": text}) for text in texts))
            assert [text_of(answer) for answer in answers] == texts

    async def all_of_them() -> None:
        await asyncio.gather(*(one(number, "auto" if number % 2 else "legacy") for number in range(6)))

    (work.root / ".aex" / "policy.aex").write_text("policy shop v1\nallow up.echo\n", encoding="utf-8")
    asyncio.run(asyncio.wait_for(all_of_them(), 60))
    assert work.adjourn("verify").startswith("valid")


def test_a_kill_loses_nothing_and_repeats_nothing(process: GatewayWorkspace) -> None:
    """After kill -9 in the middle of a call the next gateway knows the budget and the call in doubt; the effect happened once."""

    async def session(client: Client) -> None:
        await client.call_tool("write", {"text": "before"})
        call = asyncio.ensure_future(client.call_tool("slow", {"text": "in the middle"}))
        await asyncio.to_thread(wait_for, lambda: "in the middle" in process.called())
        process.stop(signal.SIGKILL)
        call.cancel()

    with pytest.raises(BaseException):  # noqa: B017, PT011  # whatever the SDK makes of a connection that is gone
        process.run(session, path="/t/job/mcp", mode="legacy")
    process.start()
    status = json.loads(process.adjourn("status", "job", "--json"))
    assert status["callsUsed"] == 2

    async def again(client: Client) -> str:
        return text_of(await client.call_tool("aex.list_tasks", {}))

    assert "job" in process.run(again, path="/t/job/mcp")
    wait_for(lambda: json.loads(process.adjourn("inbox", "--json"))["waiting"])
    (doubt,) = json.loads(process.adjourn("inbox", "--json"))["waiting"]
    assert doubt["kind"] == "in-doubt"
    assert process.called() == ["before", "in the middle"]


def test_a_server_that_is_gone_is_named(over_http: GatewayWorkspace, tmp_path: Path) -> None:
    """A call to a server that does not listen gets an error that names it, at once, and is not in doubt."""
    config = over_http.root / "adjourn.toml"
    config.write_text(config.read_text().replace(str(over_http.server_port), "9"), encoding="utf-8")
    over_http.stop()
    over_http.start()
    answer = over_http.post(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
        }
    )
    assert "the server cannot be reached (error " in answer.text
    assert tmp_path.exists()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"mcp-session-id": "guessed"}, 404),
        ({"content-type": "text/plain"}, 415),
        ({"accept": "text/html"}, 406),
        ({}, 400),
    ],
)
def test_requests_that_are_not_a_clients_are_refused(
    over_http: GatewayWorkspace, headers: dict[str, str], status: int
) -> None:
    """A page in a browser, a rebound name, a guessed session, another type of content, a message without a session."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert over_http.post(message, **headers).status_code == status
    assert over_http.post(b"{", **({"mcp-session-id": "x"} if not headers else {})).status_code == 400


def test_the_end_is_orderly(process: GatewayWorkspace) -> None:
    """SIGTERM ends the gateway with a checkpoint of the work, and no server is left."""

    async def session(client: Client) -> None:
        await client.call_tool("write", {"text": "x"})

    process.run(session, path="/t/job/mcp", mode="legacy")
    assert process.stop() == 0
    assert json.loads(process.adjourn("checkpoint", "show", "job", "--json"))["callsUsed"] == 1
    events = [json.loads(line)["event"] for line in process.adjourn("log", "job", "--json").splitlines()]
    assert "session.closed" in events


def test_a_gateway_deletes_once_what_dead_ones_left(over_http: GatewayWorkspace) -> None:
    """Registrations of a gateway that was killed are gone after a start; sessions do not look for any."""
    here = current()
    left = f"proxy/gateway/x/{Process(here.host, here.pid, here.started + 1)}@key"
    path = over_http.root / ".aex" / "adjourn.db"
    with closing(SqliteStore(path)) as store:
        store.swap(left, "x", expect=None)
        over_http.run(Client.list_tools, mode="legacy")
        assert store.ref(left) == "x"
        over_http.stop()
        over_http.start()
        over_http.run(Client.list_tools, mode="legacy")
        assert store.ref(left) is None
