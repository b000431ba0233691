"""`adjourn code --http`: the same server for several clients of this machine, and for nobody else."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ListRootsResult

from adjourn.code.server.replies import MAX_REPLY
from support.code_server import LARGE, Repo

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
QUESTION = {"intent": "QUESTION", "query": "why is it so?", "flags": "--no-doc"}


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return Repo(tmp_path_factory.mktemp("served"), LARGE)


@contextmanager
def serving(repo: Repo, address: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "adjourn", "code", "--http", address],
        cwd=repo.root, env=repo.environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        found = re.search(r"http://\S+/mcp", process.stderr.readline())
        assert found is not None
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(scope="module")
def url(repo: Repo) -> Iterator[str]:
    with serving(repo, "0") as found:
        yield found


@asynccontextmanager
async def client(url: str) -> AsyncIterator[ClientSession]:
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


async def text_of(
    session: ClientSession, tool: str, arguments: dict[str, Any] | None = None, **more: Any
) -> str:
    result = await session.call_tool(tool, arguments or {}, **more)
    return str(result.content[0].text)


async def call(
    session: ClientSession, tool: str, arguments: dict[str, Any] | None = None, **more: Any
) -> Any:
    return json.loads(await text_of(session, tool, arguments, **more))


def status_of(url: str, **headers: str) -> int:
    request = urllib.request.Request(
        url,
        json.dumps(INITIALIZE).encode(),
        {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_other_hosts_and_origins_are_refused(url: str) -> None:
    """A page of the web that reaches the port by a name of its own, or from its own origin, is not answered."""
    port = url.split(":")[2].partition("/")[0]
    assert status_of(url) == 200
    assert status_of(url, Origin=f"http://localhost:{port}") == 200
    assert status_of(url, Host=f"evil.example:{port}") == 421
    assert status_of(url, Host="evil.example") == 421
    assert status_of(url, Origin="http://evil.example") == 403
    assert status_of(url, Origin=f"http://localhost.evil.example:{port}") == 403
    assert status_of(url, Origin="null") == 403
    assert status_of(url, **{"Content-Type": "text/plain"}) in {400, 415}


@pytest.mark.parametrize(
    ("address", "begin"), [("[::1]:0", "http://[::1]:"), ("localhost:0", "http://localhost:")]
)
def test_the_other_names_of_this_machine(repo: Repo, address: str, begin: str) -> None:
    """The printed address can be called as it is."""
    with serving(repo, address) as found:
        assert found.startswith(begin)
        assert status_of(found) == 200


def test_only_this_machine_is_listened_to(url: str) -> None:
    """The socket is bound to the loopback address alone."""
    port = f"{int(url.split(':')[2].partition('/')[0]):04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    assert {line[1] for line in lines if line[1].endswith(f":{port}") and line[3] == "0A"} == {
        f"0100007F:{port}"
    }


def test_other_machines_are_not_served(repo: Repo) -> None:
    """An address that other machines reach is refused, in words."""
    assert "stays on this machine" in repo.cli("code", "--http", "0.0.0.0:0", code=2)


def test_replies_are_those_of_stdio(url: str) -> None:
    """Unknown tools, replies that are cut and their cursors, progress and cancelling are the same over HTTP."""

    async def talk() -> None:
        told: list[float] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told.append(done)

        async with client(url) as session:
            assert len((await session.list_tools()).tools) == 21
            assert await call(session, "record_outcome") == {"error": "Unknown tool: record_outcome"}
            asked: dict[str, Any] = {"pattern": "needle", "max_results": 10_000, "format": "json"}
            text = await text_of(session, "search_text", asked)
            assert len(text.encode()) <= MAX_REPLY
            reply = json.loads(text)
            assert (reply["truncated"], reply["total_matches"]) == (True, 10_000)
            assert reply["returned_matches"] == len(reply["matches"])
            more = await call(session, "search_text", {**asked, "cursor": reply["cursor"]})
            assert more["matches"][0] not in reply["matches"]
            with anyio.move_on_after(0.002) as scope:  # far less than an answer over HTTP takes
                await session.call_tool("sync_index", {"force": True})
            assert scope.cancelled_caught
            done = await call(session, "sync_index", {"force": True}, progress_callback=progress)
            assert done["success"] is True
            assert told == sorted(told)

    anyio.run(talk)


def test_two_clients_have_two_sessions(url: str, tmp_path: Path) -> None:
    """Each client works on a session of its own, in the repository that it named."""
    roots = [str(Repo(tmp_path / name).root) for name in ("one", "other")]

    async def talk() -> None:
        async with client(url) as first, client(url) as second:
            for session, root in zip((first, second), roots, strict=True):
                await call(session, "start_session", {**QUESTION, "query": root, "repo_path": root})
            assert [
                (await call(session, "get_session_status"))["query"] for session in (first, second)
            ] == roots

    anyio.run(talk)


def test_a_client_that_says_goodbye_leaves_its_session(url: str) -> None:
    """When a client ends its MCP session, the next one takes up the coding session at once."""

    async def talk() -> None:
        async with client(url) as first:
            await call(first, "cleanup_stale_branches")  # what other tests left
            started = await call(first, "start_session", QUESTION)
        async with client(url) as second:
            status = await call(second, "get_session_status")
            assert (status["session_id"], status["recovered_from_checkpoint"]) == (
                started["session_id"],
                True,
            )

    anyio.run(talk)


def test_a_session_that_another_client_works_on_is_named_and_not_taken(url: str) -> None:
    """A second client in the same work tree learns which session is worked on, and that it cannot have it now."""

    async def talk() -> None:
        async with client(url) as first, client(url) as second:
            await call(first, "cleanup_stale_branches")  # what other tests left
            started = await call(first, "start_session", QUESTION)
            held = await call(second, "get_session_status")
            assert (held["error"], held["sessions_of_others"]) == (
                "no_active_session",
                [started["session_id"]],
            )
            assert "other clients hold" in held["message"]
            assert (await call(first, "get_session_status"))["session_id"] == started["session_id"]

    anyio.run(talk)


def test_a_port_that_is_taken_is_an_error_with_a_remedy(repo: Repo) -> None:
    """One line that names the address, and what to do; no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "adjourn", "code", "--http", str(port)],
            cwd=repo.root, env=repo.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot listen on 127.0.0.1, port {port}" in done.stderr
    assert "--http 0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_folder_that_the_client_has_not_opened_is_refused(url: str, tmp_path: Path, mode: str) -> None:
    """A client is asked for its roots, by a request or by the result of its call, and works in no other folder."""
    opened, other = Repo(tmp_path / "a"), Repo(tmp_path / "b")

    async def told(context: Any) -> ListRootsResult:
        del context
        return ListRootsResult.model_validate({"roots": [{"uri": opened.root.as_uri()}]})

    async def ask() -> list[Any]:
        async with Client(url, list_roots_callback=told, mode=mode) as client:
            found = [
                await client.call_tool("start_session", {**QUESTION, "repo_path": str(repo.root)})
                for repo in (other, opened)
            ]
        return [json.loads(one.content[0].text) for one in found]  # type: ignore[union-attr]

    refused, started = anyio.run(ask)
    assert (refused["error"], str(other.root) in refused["message"]) == ("refused", True)
    assert started["success"] is True
