"""Streams that clients keep open, and whether they may."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from adjourn.gateway.replies import OpenStreams, Scope
from adjourn.policy.principal import Principal


def streams_that_end(may_stay: Mapping[str, bool | None]) -> list[str]:
    """Those of these streams that are ended by one look."""
    ended: list[str] = []

    async def ask(scope: Scope, _principal: Principal | None) -> bool | None:
        return may_stay[scope["path"]]

    async def run() -> None:
        streams = OpenStreams(ask)
        with ExitStack() as stack:
            for path in may_stay:
                scope: dict[str, Any] = {"path": path}
                stack.enter_context(streams.watched(scope, None, partial(ended.append, path)))
            await streams.look()
        count = len(ended)
        await streams.look()
        assert len(ended) == count  # those that are over are not looked at

    asyncio.run(run())
    return ended


def test_only_streams_that_may_not_stay_are_ended() -> None:
    """A look ends the streams of clients that are let in no longer, and none of the others."""
    assert streams_that_end({"a": True, "b": False, "c": True, "d": False}) == ["b", "d"]


def test_no_stream_ends_because_nobody_knows() -> None:
    """While it cannot be looked up who may stay, no stream is ended, and the others are not asked about."""
    assert streams_that_end({"a": None, "b": False}) == []
