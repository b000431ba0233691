"""The gateway is killed while a server works on requests that are no calls of tools: reading a resource, getting a prompt, completing."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, types

from support.gateway import GatewayWorkspace, text_of

SERVER = Path(__file__).parents[1] / "support" / "slow_server.py"
Mode = Literal["auto", "legacy"]
PATH = "/up/t/job/mcp"


async def read(client: Client) -> str:
    content: Any = (await client.read_resource("notes://slow")).contents[0]
    return str(content.text)


async def prompt(client: Client) -> str:
    content: Any = (await client.get_prompt("greet", {"name": "slow"})).messages[0].content
    return str(content.text)


async def complete(client: Client) -> str:
    argument = {"name": "name", "value": "slow"}
    return (await client.complete(types.PromptReference(name="greet"), argument)).completion.values[0]


ASK: dict[str, Callable[[Client], Awaitable[str]]] = {
    "resources/read": read,
    "prompts/get": prompt,
    "completion/complete": complete,
}
NAMES = ["mcp." + method.replace("/", ".") for method in ASK]


@pytest.fixture(params=["http", "stdio"])
def over(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def work(tmp_path: Path, over: str, confirmed: list[str]) -> Iterator[GatewayWorkspace]:
    rules = ("allow up.write", *(f"confirm before {name}" for name in confirmed))
    with GatewayWorkspace(tmp_path, *rules, over=over, server=SERVER) as workspace:
        yield workspace


async def approve(_context: Any, params: Any) -> types.ElicitResult:
    assert "mcp." in params.message
    return types.ElicitResult(action="accept", content={"approve": True})


def history(work: GatewayWorkspace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in work.adjourn("log", "job", "--json").splitlines()]


@pytest.mark.parametrize(
    ("mode", "confirmed"),
    [
        ("auto", []),
        ("auto", [name for name in NAMES if "completion" not in name]),  # which cannot ask in this era
        ("legacy", []),
        ("legacy", NAMES),
    ],
    ids=["auto", "auto-confirmed", "legacy", "legacy-confirmed"],
)
def test_a_kill_leaves_no_reading_request_counted_or_in_doubt(
    work: GatewayWorkspace, tmp_path: Path, confirmed: list[str], mode: Mode
) -> None:
    """After kill -9 the history verifies, nothing is in doubt, and who asks again is answered. The history has what a person confirmed."""

    killed = []

    async def session(client: Client) -> None:
        assert text_of(await client.call_tool("write", {"text": "before"})) == "tools/call before"
        requests = [asyncio.ensure_future(ask(client)) for ask in ASK.values()]
        for method in ASK:
            await asyncio.to_thread(work.wait_for_call, f"{method} slow")
        killed.append(work.stop(signal.SIGKILL))
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    with suppress(Exception, BaseExceptionGroup):  # whatever the SDK makes of a connection that is gone
        work.run(session, path=PATH, mode=mode, elicitation_callback=approve)
    assert killed == [-signal.SIGKILL]
    before = history(work)
    work.start()
    (tmp_path / "go").touch()

    async def again(client: Client) -> list[str]:
        assert text_of(await client.call_tool("write", {"text": "after"})) == "tools/call after"
        return [await ask(client) for ask in ASK.values()]

    answered = work.run(again, path=PATH, mode=mode, elicitation_callback=approve)
    assert answered == [f"{method} slow" for method in ASK]
    assert Counter(work.called()) == Counter(
        ["tools/call before", "tools/call after"] + [f"{method} slow" for method in ASK] * 2
    )
    allowed = [one["data"] for one in before if one["event"] == "tool.allowed"]
    assert sorted(one["tool"] for one in allowed) == sorted(["write", *confirmed])
    assert [one["tool"] for one in allowed if one.get("effectful")] == ["write"]
    settled = [one["data"]["call"] for one in before if one["event"] == "tool.settled"]
    assert settled == [one["call"] for one in allowed if one["tool"] == "write"]
    status = json.loads(work.adjourn("status", "job", "--json"))
    assert status["callsUsed"] == 2
    assert json.loads(work.adjourn("inbox", "--json"))["waiting"] == []
    assert work.adjourn("verify").startswith("valid: 1 task")
    assert work.stop() == 0
    once = Counter(one["data"]["tool"] for one in history(work) if one["event"] == "tool.allowed")
    assert once == Counter(["write", *confirmed] * 2)
    assert "nothing in doubt" in work.adjourn("status", "job")
