"""Servers over HTTP behind the stdio proxy: `adjourn proxy --url`, and `adjourn connect` alone."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from mcp import Client, StdioServerParameters, types

from support.gateway import GatewayWorkspace, text_of
from support.in_process_gateway import InProcessGateway

RULES = ("allow up.echo, up.write, up.ask", "deny up.drop", "budget calls=20")
Mode = Literal["auto", "legacy"]
_T = TypeVar("_T")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[GatewayWorkspace]:
    """A server over HTTP; the gateway before it is not used here."""
    with InProcessGateway(tmp_path, *RULES) as workspace:
        workspace.stop()
        yield workspace


def run(work: GatewayWorkspace, session: Callable[[Client], Awaitable[_T]], *words: str, **options: Any) -> _T:
    """Do something with a client that starts `adjourn WORDS`."""
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "adjourn", *words], cwd=str(work.root), env=work.environment
    )

    async def use() -> _T:
        async with Client(started, **options) as client:
            return await session(client)

    return asyncio.run(asyncio.wait_for(use(), 30))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_over_http_is_governed_like_any_other(work: GatewayWorkspace, mode: Mode) -> None:
    """In both eras: tools, progress, an effect, a refusal, a resource; the history has it all."""
    heard: list[str] = []

    async def session(client: Client) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["echo", "write"]

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            heard.append(f"{progress} {total} {message}")

        answers = await asyncio.gather(
            *(client.call_tool("echo", {"text": f"ü{number}"}, progress_callback=progress) for number in range(5))
        )
        assert [text_of(answer) for answer in answers] == [f"ü{number}" for number in range(5)]
        assert text_of(await client.call_tool("write", {"text": "one"})) == "written"
        assert (await client.call_tool("drop", {})).is_error
        read = (await client.read_resource("notes://one")).contents[0]
        assert isinstance(read, types.TextResourceContents)
        assert read.text == "a note"

    run(work, session, "proxy", "--name", "up", "--url", f"http://127.0.0.1:{work.server_port}/mcp", mode=mode)
    assert heard == ["1.0 2.0 half"] * 5
    assert work.called() == ["one"]
    assert work.adjourn("verify").startswith("valid: 1 task")
    (task,) = json.loads(work.adjourn("tasks", "--json"))["tasks"]
    assert task["callsUsed"] == 6


def test_a_question_of_the_server_is_answered(work: GatewayWorkspace) -> None:
    """What the server asks on the stream of a call reaches the client, and the answer the server."""

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        assert params.message == "Which colour?"
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    async def session(client: Client) -> str:
        return text_of(await client.call_tool("ask", {}))

    url = f"http://127.0.0.1:{work.server_port}/mcp"
    assert "blue" in run(work, session, "connect", url, mode="legacy", elicitation_callback=answer)


def test_a_server_that_is_gone_is_named(work: GatewayWorkspace) -> None:
    """A server that does not listen: each request gets an error that names it."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})
    done = subprocess.run(
        [sys.executable, "-m", "adjourn", "connect", "http://127.0.0.1:9/mcp"],
        input=line + "\n", capture_output=True, text=True, timeout=20, check=True, cwd=work.root, env=work.environment,
    )  # fmt: skip
    assert "cannot connect to 127.0.0.1:9" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("connect", "ftp://h/"), "not an http or https address"),
        (("connect", "http://h/", "--bearer-env", "NO_SUCH"), "NO_SUCH has no token"),
        (("connect", "http://h/", "--header-env", "Mcp-Session-Id=X"), "cannot use 'Mcp-Session-Id'"),
        (("connect", "http://h/", "--header-env", "X-Org"), "cannot use 'X-Org'"),
        (("proxy", "--url", "http://h/", "--", "x"), "two servers"),
    ],
)
def test_a_wrong_command_line_is_explained(work: GatewayWorkspace, words: tuple[str, ...], said: str) -> None:
    """An address that is none, a variable that is not set, two servers at once: exit code 2, and the remedy."""
    done = subprocess.run(
        [sys.executable, "-m", "adjourn", *words],
        capture_output=True, text=True, timeout=20, check=False, cwd=work.root, env=work.environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr


def test_headers_come_from_variables(work: GatewayWorkspace, tmp_path: Path) -> None:
    """The command names the variables; the server gets what they have, and a header of the protocol's own is refused."""
    heads: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heads.extend(f"{name}: {value}" for name, value in self.headers.items())
            self.send_error(404)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        line = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
        )
        words = ["connect", "--header-env", "Authorization=HEADER_A,X-Org=HEADER_B", url]
        environment = work.environment | {"HEADER_A": "Bearer hush", "HEADER_B": "blue, red"}
        subprocess.run(
            [sys.executable, "-m", "adjourn", *words],
            input=line + "\n", capture_output=True, text=True, timeout=20, check=True, cwd=work.root, env=environment,
        )  # fmt: skip
        server.shutdown()
    lowered = [head.lower() for head in heads]
    assert "authorization: bearer hush" in lowered
    assert "x-org: blue, red" in lowered
