"""Ids of tasks at the address of all servers: where they stand in messages, whatever a server writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adjourn.gateway.aggregate import task_handles
from adjourn.mcp import frames
from adjourn.mcp.frames import Message

RELATED = {"io.modelcontextprotocol/related-task": {"taskId": "x.1"}}
SHOWN = {"io.modelcontextprotocol/related-task": {"taskId": "up.x.1"}}


def shown(line: bytes, method: object = None) -> Any:
    return json.loads(task_handles.shown(line, method, "up"))


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ({"resultType": "task", "taskId": "x.1"}, {"resultType": "task", "taskId": "up.x.1"}),
        ({"task": {"taskId": "x.1", "status": "working"}}, {"task": {"taskId": "up.x.1", "status": "working"}}),
        ({"content": [], "_meta": RELATED}, {"content": [], "_meta": SHOWN}),
        ({"taskId": ""}, {"taskId": "up."}),
        ({"taskId": 7}, {"taskId": 7}),
        ({"task": "x.1", "structuredContent": {"taskId": "x.1"}}, None),
        ([{"taskId": "x.1"}], None),
        (None, None),
    ],
)
def test_the_id_of_a_task_in_an_answer_says_which_server_has_it(result: Any, wanted: Any) -> None:
    """Of a handle, a state and what belongs to a task, in either era; what only looks like an id keeps its text."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
    if wanted is None:
        assert task_handles.shown(line, None, "up") == line
    else:
        assert shown(line) == {"jsonrpc": "2.0", "id": 1, "result": wanted}


@pytest.mark.parametrize(
    "result",
    [
        rb'{"task\u0049d":"other.1"}',
        rb'{"t\u0061sk":{"taskId":"other.1"}}',
        rb'{"taskId":"other.1","taskId":"other.1"}',
        rb'{"taskId":"x","task\u0049d":"other.1"}',
        rb'{"task":{},"task":{"taskId":"other.1"}}',
    ],
)
def test_no_spelling_of_an_answer_leads_to_another_server(result: bytes) -> None:
    """Members that stand twice or are written with escapes name the server that wrote them, too."""
    line = task_handles.shown(b'{"id":1,"result":%b}' % result, None, "up")
    assert b'"other.1"' not in line
    assert b'"up.other.1"' in line


def test_numbers_and_texts_beside_the_id_keep_their_text() -> None:
    """Only the id changes."""
    line = rb'{"id":1,"result":{"taskId":"x","ttlMs":1e4,"big":12345678901234567890123,"said":"\u00e9"}}'
    assert task_handles.shown(line, None, "up") == line.replace(b'"x"', b'"up.x"')


def test_what_a_server_tells_and_asks_names_its_tasks() -> None:
    """A change of a task has its id; a question of a server about a task of the client keeps the client's."""
    about = json.dumps({"params": {"taskId": "x.1", "_meta": RELATED}}).encode()
    for method in ("notifications/tasks", "notifications/tasks/status"):
        assert shown(about, method)["params"] == {"taskId": "up.x.1", "_meta": SHOWN}
    assert shown(about, "elicitation/create")["params"] == {"taskId": "x.1", "_meta": SHOWN}
    answer = json.dumps({"id": 1, "result": {"taskId": "up.x", "_meta": SHOWN}}).encode()
    assert json.loads(task_handles.own(answer, "up"))["result"] == {"taskId": "up.x", "_meta": RELATED}


@pytest.mark.parametrize("task", [None, 7, True, "", ".", "up", "up.", ".x", ["up.x"], {"up": "x"}])
def test_what_is_no_id_has_no_server(task: object) -> None:
    """An id is a text with a server's name, a dot, and the server's own id."""
    assert task_handles.split(task) is None


@pytest.mark.parametrize(
    "declared", [None, 7, [], {}, {"extensions": []}, {"extensions": {"other": {}}}, {"tasks": {}}]
)
def test_a_client_has_to_declare_the_extension(declared: object) -> None:
    """Whatever stands for its capabilities: a task of no server is unknown only to clients that may ask about tasks."""
    meta = {frames.META_VERSION: "2026-07-28", frames.META_CAPABILITIES: declared}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": "x", "_meta": meta}})
    message = frames.read(line.encode(), Message)
    assert isinstance(message, Message)
    assert task_handles.problem_of(message).code == -32021
