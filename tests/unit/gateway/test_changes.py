"""Who hears of a change of a task, whatever a server writes; and how much a client may subscribe to."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from adjourn.gateway.aggregate.listings import MAX_SUBSCRIPTIONS, Changes
from adjourn.gateway.aggregate.watching import MAX_WATCHED
from adjourn.gateway.http_pool import StreamEvent
from adjourn.gateway.replies import ReplyStream
from adjourn.mcp import frames

TASKS = "notifications/tasks"


class Stream(ReplyStream):
    """Keeps what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[bytes] = []

    def put(self, event: StreamEvent, *, is_last: bool = False) -> None:
        self.lines.append(event.data)


def changes() -> Changes:
    own: Any = SimpleNamespace(context=SimpleNamespace(era="modern"))
    return Changes(own)


def subscribed(to: Changes, request_id: object, *tasks: str, resources: int = 0) -> Stream:
    stream = Stream()
    wanted = {"taskIds": tasks, "resourceSubscriptions": [f"a://{number}" for number in range(resources)]}
    to.subscribe(request_id, stream, json.loads(json.dumps(wanted)), lambda _task: True)
    return stream


def test_each_subscriber_of_a_task_gets_its_whole_state_as_the_server_wrote_it() -> None:
    """Marked with the subscription that it belongs to, instead of the server's own mark."""
    found = changes()
    one, two, other = (subscribed(found, number, task) for number, task in enumerate(("up.a", "up.a", "up.b")))
    line = b'{"method":"notifications/tasks","params":{"taskId":"up.a","result":{"n":1.10},"_meta":{"x":1}}}'
    assert found.noted(TASKS, line) == b""
    for number, stream in enumerate((one, two)):
        told = stream.lines[-1]
        assert b'"result":{"n":1.10}' in told
        assert json.loads(told)["params"]["_meta"] == {frames.META_SUBSCRIPTION: number}
    assert len(other.lines) == 1


@pytest.mark.parametrize(
    "params", [b"{}", b"[]", b"null", b'{"taskId":7}', b'{"taskId":{}}', b'{"taskId":["up.a"]}', b'{"taskId":null}']
)
def test_a_change_of_no_task_reaches_nobody(params: bytes) -> None:
    """What names no task by a text is dropped."""
    found = changes()
    stream = subscribed(found, 1, "up.a")
    assert found.noted(TASKS, b'{"method":"notifications/tasks","params":%b}' % params) == b""
    assert len(stream.lines) == 1


def test_what_a_client_may_subscribe_to_is_bounded() -> None:
    """One subscription too many, or one name too many in all of them, is refused, and leaves the others as they are."""
    found = changes()
    for number in range(MAX_SUBSCRIPTIONS):
        subscribed(found, number, "up.a")
    assert json.loads(subscribed(found, "more").lines[0])["error"]["code"] == frames.INVALID_REQUEST
    assert found.leave(0)
    assert not found.leave(0)
    for named in ({"resources": MAX_WATCHED + 1}, {}):
        tasks = () if named else [f"up.{number}" for number in range(MAX_WATCHED)]
        refused = json.loads(subscribed(found, 0, *tasks, **named).lines[0])
        assert "10,000" in refused["error"]["message"]
    assert (set(found.tasks), set(found.resources)) == ({"up.a"}, set())
    assert json.loads(subscribed(found, 0, *tasks[1:]).lines[0])["method"] == frames.ACKNOWLEDGED
