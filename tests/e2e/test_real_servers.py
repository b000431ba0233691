"""Real MCP servers, asked directly and through the proxy: every answer is the same, byte for byte.

What may differ is written down per server (`support/real/servers.py`, `Varying`) with its reason, and nothing else does:
clocks and random ids of the servers. The list of tools is the server's, then the four meta-tools.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult

from adjourn.mcp.frames import one_line
from support.real import explore
from support.real.lines import MODERN, Exchange, LineClient, Object
from support.real.servers import LEGACY, SERVERS, Place, Server, reply, web
from support.real.starting import POLICY, command_of, prepare, proxied

MATRIX = [
    pytest.param(server, revision, id=f"{server.name}-{revision}")
    for server in SERVERS
    for revision in server.revisions
]
GIT = next(server for server in SERVERS if server.name == "git")
ONLY_LEGACY = [pytest.param(server, id=server.name) for server in SERVERS if MODERN not in server.revisions]


@pytest.fixture(scope="module")
def web_address() -> Iterator[str]:
    with web() as address:
        yield address


@pytest.fixture
def place(tmp_path: Path, web_address: str) -> Place:
    return Place(tmp_path / "work", web_address)


def left_behind(place: Place) -> dict[str, bytes]:
    """What a run left on its ground, but for the files that hold times."""
    return {
        str(path.relative_to(place.site)): path.read_bytes()
        for path in sorted(place.site.rglob("*"))
        if path.is_file() and ".git" not in path.parts and path.suffix != ".db"
    }


def connect(server: Server, command: Sequence[str], place: Place, revision: str) -> LineClient:
    environment = place.environment() | dict(server.environment)
    return LineClient(command, cwd=place.root, env=environment, revision=revision, reply=reply(place))


def steady(server: Server, label: str, line: bytes) -> bytes:
    """The line without what varies in answers of this label."""
    for part in server.varying:
        if label.startswith(part.label):
            line = re.sub(part.pattern, b"<varies>", line)
    return line


def label_of(message: bytes) -> str:
    found = re.search(rb'"method":"([^"]+)"', message)
    return found.group(1).decode() if found else ""


def assert_same_list(direct: Exchange, through: Exchange) -> None:
    """The server's tools byte for byte, then the meta-tools, on the last page."""
    ours, theirs = through.result, direct.result
    names = [tool["name"] for tool in theirs["tools"]]
    added = [] if theirs.get("nextCursor") else list(explore.META_TOOLS)
    assert [tool["name"] for tool in ours["tools"]] == names + added
    assert {key: ours[key] for key in ours if key != "tools"} == {key: theirs[key] for key in theirs if key != "tools"}
    start = direct.answer.index(b'"tools":[') + len(b'"tools":[')
    end = start + len(_array(direct.answer, start))
    assert direct.answer[start:end].rstrip(b"] ") in through.answer


def _array(line: bytes, start: int) -> bytes:
    """The inside of the array that begins at `start`."""
    depth, position, quoted = 1, start, False
    while depth:
        char = line[position : position + 1]
        if quoted and char == b"\\":
            position += 1
        elif char == b'"':
            quoted = not quoted
        elif not quoted:
            depth += char in (b"[", b"{")
            depth -= char in (b"]", b"}")
        position += 1
    return line[start : position - 1]


def assert_same(server: Server, direct: LineClient, through: LineClient) -> None:
    assert [exchange.label for exchange in through.exchanges] == [exchange.label for exchange in direct.exchanges]
    for one, other in zip(direct.exchanges, through.exchanges, strict=True):
        if one.method == "tools/list" and "result" in one.body:
            assert_same_list(one, other)
        else:
            expected = steady(server, one.label, one_line(one.answer))
            if one.method in (
                "initialize",
                "server/discover",
            ):  # what is permitted changes with the task and the policy
                expected = expected.replace(b'"tools":{"listChanged":false}', b'"tools":{"listChanged":true}')
            assert steady(server, other.label, other.answer) == expected, one.label
    assert [steady(server, "task", line) for line in through.asked] == [
        steady(server, "task", line) for line in direct.asked
    ]
    # notifications may overtake answers, and each other where a timer sends them
    assert Counter(steady(server, label_of(line), line) for line in through.notified) == Counter(
        steady(server, label_of(line), line) for line in direct.notified
    )
    assert not direct.odd
    assert not through.odd


@pytest.mark.parametrize(("server", "revision"), MATRIX)
def test_every_answer_is_the_same_through_the_proxy(server: Server, revision: str, place: Place) -> None:
    """Every tool called, every resource read, every prompt got, errors included."""
    command = command_of(server, place)
    prepare(server, place)
    with connect(server, command, place, revision) as direct:
        called = explore.walk(direct, server, place)
    left = left_behind(place)
    prepare(server, place)
    with connect(server, proxied(command), place, revision) as through:
        assert explore.walk(through, server, place) == called
        assert through.close() == 0
    assert left_behind(place) == left
    listed = [tool["name"] for one in explore.tools_lists(direct.exchanges) for tool in one.result["tools"]]
    assert called == set(listed)
    assert_same(server, direct, through)


@pytest.mark.parametrize("server", ONLY_LEGACY)
def test_a_probe_for_the_modern_era_falls_back_through_the_proxy(server: Server, place: Place) -> None:
    """Clients of both eras ask `server/discover` first, and shake hands on the same connection when that fails."""
    command = command_of(server, place)
    runs: list[LineClient] = []
    for run in (command, proxied(command)):
        prepare(server, place)
        with connect(server, run, place, MODERN) as client:
            probe = client.greet()
            assert "error" in probe.body
            client.revision, client.modern = LEGACY, False
            client.greet()
            if server.asks_first:
                client.until_asked(server.asks_first)
            explore.pages(client, "tools/list", "tools")
        runs.append(client)
    assert_same(server, *runs)


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_calls_in_flight_together_find_their_answers(revision: str, place: Place) -> None:
    """Two hundred calls are sent before the first answer is read; each answer belongs to its own call."""
    command = command_of(GIT, place)
    prepare(GIT, place)
    with connect(GIT, proxied(command), place, revision) as client:
        client.greet()
        explore.pages(client, "tools/list", "tools")
        here: Object = {"repo_path": str(place.site)}
        asked = {
            client.send("tools/call", {"name": tool, "arguments": here | more}): text
            for _ in range(50)
            for tool, more, text in (
                ("git_log", {"max_count": 1}, "8 bytes"),
                ("git_status", {}, "On branch main"),
                ("git_diff_unstaged", {}, "+TWO"),
                ("git_show", {"revision": "no-such-revision"}, "no-such-revision"),
            )
        }
        for request_id, text in asked.items():
            assert text in str(client.wait(request_id).result["content"])


# --- the official SDK's client ---------------------------------------------------------------------------------------

ASKING_POLICY = POLICY.replace("budget calls=100000", "budget calls=5\n\nconfirm before git_add")
ERAS = ["legacy", "auto"]  # what the SDK calls them; `auto` finds the modern era where the server has it


@asynccontextmanager
async def sdk_client(place: Place, era: str, *answers: str) -> AsyncIterator[Client]:
    """The SDK's client at work through the proxy on the git server; its user gives these answers, then cancels."""
    left = list(answers)

    async def user(context: Any, params: Any) -> ElicitResult:
        action: Any = left.pop(0) if left else "cancel"
        content: dict[str, Any] | None = {"approve": True} if action == "accept" else None
        return ElicitResult(action=action, content=content)

    command = proxied(command_of(GIT, place))
    with (place.root / "sdk.log").open("a") as log:
        parameters = StdioServerParameters(
            command=command[0], args=command[1:], env=place.environment(), cwd=place.root
        )
        transport = stdio_client(parameters, errlog=log)
        async with Client(transport, mode=era, elicitation_callback=user) as client:
            assert (client.protocol_version >= MODERN) == (era == "auto")
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether the call went well, and the text of its answer."""
    result = await client.call_tool(tool, arguments)
    return not result.is_error, "".join(getattr(part, "text", "") for part in result.content)


@pytest.mark.parametrize("second", ERAS)
@pytest.mark.parametrize("first", ERAS)
def test_the_sdk_s_client_works_and_a_second_one_goes_on(first: str, second: str, place: Place) -> None:
    """List, call, checkpoint, end; then another client, of the same or the other era, resumes."""
    prepare(GIT, place)
    site = str(place.site)

    async def story() -> None:
        async with sdk_client(place, first) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[0] == "git_status"
            assert names[-len(explore.META_TOOLS) :] == list(explore.META_TOOLS)
            assert (await call(client, "git_status", repo_path=site))[0]
            assert (await call(client, "git_log", repo_path=site))[0]
            good, text = await call(client, "aex.checkpoint", name="half-way", description="read the log")
            assert good, text
        async with sdk_client(place, second) as client:
            good, text = await call(client, "aex.resume", name="half-way")
            assert good, text
            told = json.loads(text)
            assert told["callsUsed"] == 2
            assert told["budgetRemaining"] == 99_998
            assert told["toolsCalled"] == ["git_status", "git_log"]  # as tools/list has them
            assert (await call(client, "git_show", repo_path=site, revision="HEAD"))[0]

    asyncio.run(story())


@pytest.mark.parametrize("era", ERAS)
def test_a_person_at_the_sdk_s_client_decides(era: str, place: Place) -> None:
    """An approval lets the call through and costs one call; a no and a cancel cost none, and nothing is done."""
    prepare(GIT, place, ASKING_POLICY)
    site = str(place.site)

    async def story() -> None:
        async with sdk_client(place, era, "decline", "accept", "cancel") as client:
            good, text = await call(client, "git_add", repo_path=site, files=["a.txt"])
            assert not good
            assert "decline" in text
            assert "no changes added" in (await call(client, "git_status", repo_path=site))[1]
            good, text = await call(client, "git_add", repo_path=site, files=["a.txt"])
            assert good, text
            assert "to be committed" in (await call(client, "git_status", repo_path=site))[1]
            good, text = await call(client, "git_add", repo_path=site, files=["."])
            assert not good
            assert "cancel" in text
            good, _ = await call(client, "aex.checkpoint", name="asked")
            assert good
            told = json.loads((await call(client, "aex.resume", name="asked"))[1])
            assert told["callsUsed"] == 3
            assert told["budgetRemaining"] == 2

    asyncio.run(story())
