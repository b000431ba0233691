"""`adjourn serve` before `adjourn code`: the code server over HTTP, under the policy of the workspace."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from mcp import Client

from support.code_server import Repo
from support.gateway import GatewayWorkspace, text_of

QUESTION = {"intent": "QUESTION", "query": "why is it so?", "flags": "--no-doc"}
COMMAND = [sys.executable, "-m", "adjourn", "code"]
Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    path = tmp_path_factory.mktemp("served")
    repo = Repo(path)
    repo.root.rename(path / "work")
    settings = f"[servers.code]\ncommand = {json.dumps(COMMAND)}\n"
    rules = ("allow code.*", "deny code.sync_index")
    with GatewayWorkspace(path, *rules, settings=settings, variables=repo.environment) as workspace:
        yield workspace


async def reply(client: Client, tool: str, arguments: dict[str, Any] | None = None) -> Any:
    return json.loads(text_of(await client.call_tool(tool, arguments or {})))


@pytest.mark.parametrize("mode", MODES)
def test_the_code_server_is_served_over_http(work: GatewayWorkspace, mode: Mode) -> None:
    """A client over HTTP gets the permitted tools, answers to searches, and a refusal of a denied tool."""

    async def session(client: Client) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"start_session", "search_text", "find_references"} <= names
        assert "sync_index" not in names
        asked = {"symbol": "apply_discount", "exact_match": True}
        assert "app/cart.py" in text_of(await client.call_tool("find_definitions", asked))
        assert (await client.call_tool("sync_index", {})).is_error

    work.run(session, "/code/mcp", mode=mode)


def test_a_coding_session_is_begun_and_found_again(work: GatewayWorkspace) -> None:
    """A coding session that one client began over HTTP is the one that the next client resumes."""

    async def begin(client: Client) -> Any:
        return (await reply(client, "start_session", QUESTION))["session_id"]

    async def resume(client: Client) -> Any:
        return (await reply(client, "get_session_status"))["session_id"]

    begun = work.run(begin, "/code/mcp", mode="legacy")
    assert work.run(resume, "/code/mcp", mode="legacy") == begun
