"""What the gateway subscribes to at a server of the stateless revision, for a client: no change is missed between two subscriptions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, cast

import pytest

from adjourn.gateway.aggregate import watching
from adjourn.gateway.aggregate.handshake import ServerSession
from adjourn.gateway.aggregate.watching import Watching
from adjourn.gateway.http_pool import UnreachableError
from adjourn.gateway.links import ServerLink
from adjourn.mcp import frames

EXTENSION = "io.modelcontextprotocol/tasks"


class Upstream:
    """A session with a server that notes what it is asked, and answers when the test says so."""

    era: str | None = "modern"
    is_stateless = True

    def __init__(self) -> None:
        self.link: ServerLink | None = self  # type: ignore[assignment]  # only `abandon` is used
        self.opened: dict[str, asyncio.Future[bytes]] = {}
        self.wanted: dict[str, dict[str, Any]] = {}
        self.abandoned: list[str] = []
        self.got: list[str] = []
        self.said: list[Any] = []
        self.is_silent = False
        self._ids = count(1)
        self.watching = Watching(cast("ServerSession", self))

    def meta(self, _level: str) -> dict[str, Any]:
        return {frames.META_CAPABILITIES: {"elicitation": {}}}

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"

    async def ask(self, method: str, params: dict[str, Any], seconds: float, *, request_id: str = "") -> bytes:
        del seconds
        if method == "tasks/get":
            self.got.append(params["taskId"])
            if self.is_silent:
                raise TimeoutError
            return frames.result(7, {"resultType": "complete", "taskId": params["taskId"], "status": "working"})
        assert method == "subscriptions/listen"
        self.wanted[request_id] = params
        self.opened[request_id] = asyncio.get_running_loop().create_future()
        try:
            return await self.opened[request_id]
        finally:
            del self.opened[request_id]

    def abandon(self, request_id: str) -> None:
        self.abandoned.append(request_id)

    def say(self, line: bytes, about: Any) -> None:
        assert about is None
        self.said.append(json.loads(line))

    def acknowledge(self, request_id: object) -> None:
        about = {"notifications": {}, "_meta": {frames.META_SUBSCRIPTION: request_id}}
        self.watching.acknowledged(frames.notification(frames.ACKNOWLEDGED, about))


def run(test: Callable[[Upstream], Awaitable[None]]) -> None:
    async def whole() -> None:
        upstream = Upstream()
        try:
            await test(upstream)
        finally:
            upstream.watching.close()
            await settle()

    asyncio.run(whole())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_subscription_ends_when_the_next_one_is_acknowledged() -> None:
    """Not before; and by nothing else that a server says."""

    async def test(upstream: Upstream) -> None:
        upstream.watching.want(["a://1"], [])
        await settle()
        upstream.acknowledge("id-1")
        upstream.watching.want(["a://1", "a://2"], ["t"])
        await settle()
        wrong: list[object] = ["id-1", "other", None, 7, ["id-2"], {}]
        for one in wrong:
            upstream.acknowledge(one)
        upstream.watching.acknowledged(frames.notification(frames.ACKNOWLEDGED, [1]))
        await settle()
        assert (list(upstream.opened), upstream.abandoned) == (["id-1", "id-2"], [])
        upstream.acknowledge("id-2")
        await settle()
        assert (list(upstream.opened), upstream.abandoned) == (["id-2"], ["id-1"])
        wanted = upstream.wanted["id-2"]["notifications"]
        assert (wanted["resourceSubscriptions"], wanted["taskIds"]) == (["a://1", "a://2"], ["t"])

    run(test)


def test_only_a_subscription_to_tasks_declares_them() -> None:
    """The client has declared that it knows tasks when it subscribed to some, perhaps not when it was met."""

    async def test(upstream: Upstream) -> None:
        upstream.watching.want([], [])
        await settle()
        upstream.watching.want([], ["t"])
        await settle()
        without, declared = (params["_meta"] for params in upstream.wanted.values())
        assert without == upstream.meta("")
        assert declared[frames.META_CAPABILITIES] == {"elicitation": {}, "extensions": {EXTENSION: {}}}

    run(test)


def test_the_state_of_each_task_is_told_once_for_each_subscription_that_was_lost() -> None:
    """Of tasks that are new in a subscription; and of all when the server has ended one, since it may have changed meanwhile."""

    async def test(upstream: Upstream) -> None:
        upstream.watching.want([], ["a", "b"])
        await settle()
        upstream.acknowledge("id-1")
        await settle()
        upstream.watching.want([], ["a", "b", "c"])
        await settle()
        upstream.acknowledge("id-2")
        await settle()
        assert upstream.got == ["a", "b", "c"]
        assert upstream.said[-1] == {
            "jsonrpc": "2.0", "method": "notifications/tasks", "params": {"taskId": "c", "status": "working"},
        }  # fmt: skip
        upstream.opened["id-2"].set_exception(UnreachableError("gone", was_sent=True))
        await settle()
        upstream.acknowledge("id-3")
        await settle()
        assert upstream.got[3:] == ["a", "b", "c"]
        upstream.watching.update(is_new=True)  # the session was lost, and begun again
        await settle()
        upstream.acknowledge("id-4")
        await settle()
        assert upstream.got[6:] == ["a", "b", "c"]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(watching, "AGAIN_SECONDS", 0)
        run(test)


def test_a_state_that_could_not_be_got_is_asked_for_again() -> None:
    """A server that did not answer is asked again once the next subscription is acknowledged."""

    async def test(upstream: Upstream) -> None:
        upstream.is_silent = True
        upstream.watching.want([], ["a"])
        await settle()
        upstream.acknowledge("id-1")
        await settle()
        upstream.is_silent = False
        upstream.watching.want([], ["a", "b"])
        await settle()
        upstream.acknowledge("id-2")
        await settle()
        assert upstream.got == ["a", "a", "b"]
        assert [one["params"]["taskId"] for one in upstream.said] == ["a", "b"]

    run(test)


def test_a_server_without_subscriptions_is_not_asked_again() -> None:
    """It has no such method; one that ends a subscription is asked for another."""

    async def test(upstream: Upstream) -> None:
        upstream.watching.want([], [])
        await settle()
        upstream.opened["id-1"].set_result(frames.result(1, {}))
        await settle()
        assert list(upstream.opened) == ["id-2"]
        upstream.opened["id-2"].set_result(frames.error(1, frames.METHOD_NOT_FOUND, "no"))
        await settle()
        assert not upstream.opened

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(watching, "AGAIN_SECONDS", 0)
        run(test)
