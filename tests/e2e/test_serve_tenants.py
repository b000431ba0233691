"""Principals behind one gateway: none sees, resumes or disturbs the work of another, whatever it asks by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, Literal

import httpx
import pytest
from mcp import Client, types

from support.gateway import GatewayWorkspace, text_of, with_token
from support.in_process_gateway import InProcessGateway
from support.proxy import wait_for

RULES = ("allow up.echo, up.write, up.log, up.touch", "budget calls=20")
Mode = Literal["auto", "legacy"]
NOTE = "the secret plan of ann"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    settings = '[auth]\nkeys = true\nshared = ["ops"]\n'
    with InProcessGateway(tmp_path_factory.mktemp("tenants"), *RULES, settings=settings) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def of_ann(work: GatewayWorkspace) -> tuple[str, str]:
    """Ann's key, and the id of her task with a note, a question and a checkpoint, whatever other tasks there are already."""
    key = work.key("ann", "--human")
    before = set(tasks_of(work))

    async def session(client: Client) -> None:
        await client.call_tool("write", {"text": "of ann"})
        await client.call_tool("adjourn.note", {"kind": "fact", "text": NOTE})
        await client.call_tool("adjourn.ask", {"question": "may ann do it?"})
        await client.call_tool("aex.checkpoint", {"name": "half", "description": NOTE})

    work.run(session, path="/up/t/release-1/mcp", token=key, mode="legacy")
    (task,) = set(tasks_of(work)) - before
    return key, task


@pytest.fixture(scope="module")
def ann(of_ann: tuple[str, str]) -> str:
    return of_ann[0]


@pytest.fixture(scope="module")
def theirs(of_ann: tuple[str, str]) -> str:
    return of_ann[1]


@pytest.fixture(scope="module")
def bob(work: GatewayWorkspace) -> str:
    return work.key("bob")


def call(
    work: GatewayWorkspace, key: str, tool: str, arguments: dict[str, Any], **options: Any
) -> types.CallToolResult:
    async def session(client: Client) -> types.CallToolResult:
        return await client.call_tool(tool, arguments, **options)

    return work.run(session, token=key)


def tasks_of(work: GatewayWorkspace) -> dict[str, int]:
    return {one["task"]: one["callsUsed"] for one in json.loads(work.adjourn("tasks", "--json"))["tasks"]}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_nobody_resumes_the_work_of_another(
    work: GatewayWorkspace, ann: str, theirs: str, bob: str, mode: Mode
) -> None:
    """A checkpoint of another principal is one that does not exist: by name, by task and name, by a beginning of the task's id."""
    task = theirs

    async def session(client: Client) -> list[str]:
        names = ("half", f"{task}/half", "release-1/half", task, task[:12], "release-1", "no-such")
        return [text_of(await client.call_tool("aex.resume", {"name": name})) for name in names]

    said = work.run(session, token=bob, mode=mode)
    assert all(NOTE not in text and "of ann" not in text for text in said)
    shapes = {text.replace(name, "NAME") for text, name in ((said[0], "half"), (said[6], "no-such"))}
    assert len(shapes) == 1, shapes
    assert "not a checkpoint name" in said[1]
    resumed = text_of(call(work, ann, "aex.resume", {"name": "half"}))
    assert NOTE in resumed


def test_lists_have_ones_own_work_only(work: GatewayWorkspace, ann: str, bob: str) -> None:
    """Lists of tasks, the instructions of a new session, and hints in errors name nothing of another principal."""

    async def session(client: Client) -> str:
        instructions = client.instructions or ""
        listed = text_of(await client.call_tool("aex.list_tasks", {}))
        near = text_of(await client.call_tool("aex.resume", {"name": "hal"}))
        record = text_of(await client.call_tool("adjourn.record", {}))
        return instructions + listed + near + record

    seen = work.run(session, token=bob, mode="legacy")
    assert not [word for word in ("half", NOTE, "release-1", "may ann") if word in seen], seen
    seen = work.run(session, token=ann, mode="legacy")
    assert "half" in seen


def test_a_name_of_a_task_is_each_ones_own(work: GatewayWorkspace, theirs: str, bob: str) -> None:
    """The name, and the whole id, of another's task lead to a task of one's own, as any name does."""
    before = tasks_of(work)

    async def session(client: Client) -> None:
        assert text_of(await client.call_tool("write", {"text": "of bob"})) == "written"

    for name in ("release-1", theirs):
        work.run(session, path=f"/up/t/{name}/mcp", token=bob)
    call(work, bob, "write", {"text": "by meta"}, meta={"dev.adjourn/task": theirs})
    after = tasks_of(work)
    assert after[theirs] == before[theirs]
    mine = {name: used for name, used in after.items() if name not in before}
    assert sorted(mine.values()) == [1, 2]
    assert work.adjourn("verify").startswith("valid")


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")  # the newest revision lacks it
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_who_listens_hears_nothing_of_another(work: GatewayWorkspace, ann: str, bob: str, mode: Mode) -> None:
    """While Bob's client listens, a server logs in a call of Ann's and says that her resource has changed: Bob hears of his alone."""
    heard: list[Any] = []

    async def noted(message: Any) -> None:
        heard.append(message)

    async def subscribed(client: Client, stack: AsyncExitStack, uri: str) -> None:
        if mode == "legacy":
            await client.subscribe_resource(uri)
        else:
            await stack.enter_async_context(client.listen(resource_subscriptions=[uri]))

    async def session(client: Client) -> None:
        async with AsyncExitStack() as stack:
            await subscribed(client, stack, "page://bob")
            hers = await stack.enter_async_context(Client(with_token(work.url(), ann), mode=mode))
            await subscribed(hers, stack, "page://ann")
            await hers.call_tool("log", {})
            await hers.call_tool("touch", {"uri": "page://ann"})
            while not heard:
                await client.call_tool("touch", {"uri": "page://bob"})
                await asyncio.sleep(0.1)

    work.run(session, token=bob, mode=mode, message_handler=noted)
    assert {str(message.params.uri) for message in heard} == {"page://bob"}


def test_a_session_is_its_principals(work: GatewayWorkspace, ann: str, bob: str) -> None:
    """The session id of another principal is answered as one that was never given: POST, GET and DELETE."""
    opened = post(work, ann, initialize())
    session = opened.headers["mcp-session-id"]
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    for number in (session, "never-given"):
        answers = [
            post(work, bob, message, session=number),
            request(work, "GET", bob, session=number),
            request(work, "DELETE", bob, session=number),
        ]
        assert [(one.status_code, one.json()["error"]["message"]) for one in answers] == [
            (404, "there is no such session. Send initialize to begin one.")
        ] * 3
    assert post(work, ann, message, session=session).status_code == 200


def test_contracts_of_others_cannot_be_reviewed(work: GatewayWorkspace, ann: str, bob: str) -> None:
    """`aex.review_task` reads contracts of the workspace, and no file that another principal's work left there."""
    del ann
    (work.root / "tasks").mkdir(exist_ok=True)
    (work.root / "tasks" / "ours.aex").write_text('task ours v1\ngoal "shared"\nallow up.echo\n', encoding="utf-8")
    folder = work.root / ".aex" / "runs"
    folder.mkdir(exist_ok=True)
    (folder / "r.aex").write_text('task r v1\ngoal "private"\n', encoding="utf-8")
    texts = [
        text_of(call(work, bob, "aex.review_task", {"task": path}))
        for path in (".aex/runs/r.aex", ".aex/runs/none.aex")
    ]
    assert texts[0].replace("r.aex", "X") == texts[1].replace("none.aex", "X")
    assert "private" not in text_of(call(work, bob, "aex.list_tasks", {}))
    assert "no contract" not in text_of(call(work, bob, "aex.review_task", {"task": "tasks/ours.aex"}))


def test_members_of_a_shared_group_share_their_tasks(work: GatewayWorkspace, bob: str) -> None:
    """What one member of a group named in `shared` began, another one lists and resumes; who is in no such group does not."""
    first, second = work.key("carl", "--group", "ops"), work.key("dora", "--group", "ops", "--group", "x")

    async def begin(client: Client) -> None:
        await client.call_tool("write", {"text": "of ops"})
        await client.call_tool("aex.checkpoint", {"name": "ops-half", "description": "begun by carl"})

    async def resume(client: Client) -> str:
        return text_of(await client.call_tool("aex.resume", {"name": "ops-half"}))

    work.run(begin, token=first, path="/up/t/joint/mcp", mode="legacy")
    wait_for(lambda: "begun by carl" in work.run(resume, token=second))
    assert "no checkpoint is named" in work.run(resume, token=bob)


def test_the_history_says_who_stood_behind_a_session(work: GatewayWorkspace, theirs: str) -> None:
    """The event that opens a session has the principal's id, name, type and groups."""
    lines = work.adjourn("log", theirs, "--json").splitlines()
    opened = [one["data"] for line in lines if (one := json.loads(line))["event"] == "session.opened"]
    assert {(one["principalName"], one["principalType"], one["principal"][:4]) for one in opened} == {
        ("ann", "human", "key:")
    }


def initialize() -> dict[str, Any]:
    params = {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
    }  # fmt: skip
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def post(work: GatewayWorkspace, key: str, message: object, session: str = "") -> httpx.Response:
    headers = {"mcp-session-id": session} if session else {}
    return work.post(message, authorization=f"Bearer {key}", **headers)


def request(work: GatewayWorkspace, method: str, key: str, session: str) -> httpx.Response:
    headers = {
        "authorization": f"Bearer {key}", "mcp-session-id": session, "accept": "text/event-stream",
    }  # fmt: skip
    return httpx.request(method, work.url(), headers=headers, timeout=20)
