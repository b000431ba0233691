"""Answers to initialize and server/discover: the client learns with them which work can be resumed.

A notice about a long history takes a while to compose, so a worker does it, and the answer waits.

Owns: what is noted of the server, and these answers. Must never: hold an answer back for good.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from adjourn.mcp import frames, value_of
from adjourn.relay.connection import Connection
from adjourn.relay.lists import greeting
from adjourn.relay.meta import MetaTools
from adjourn.relay.ports import Outcome
from adjourn.relay.request import Request


class Greetings:
    """`busy` while one waits."""

    def __init__(self, connection: Connection, meta: MetaTools) -> None:
        self._connection = connection
        self._meta = meta
        self._waiting = 0

    @property
    def busy(self) -> bool:
        return self._waiting > 0

    def take(self, request: Request, line: bytes) -> None:
        """Note what the server says of itself, and hand its answer over once it has what is added."""
        try:
            result = value_of(line)["result"]
        except msgspec.DecodeError:
            result = None
        about: dict[str, Any] = result if isinstance(result, dict) else {}
        self._connection.context.name_server(_server_name(about))
        if request.kind == "initialize":
            revision = about.get("protocolVersion")
            self._connection.upstream.negotiated(revision if isinstance(revision, str) else "")
        request.is_sent = False  # another answer to it is one that nobody asked for
        self._waiting += 1
        self._connection.loop.work(partial(self._completed, line), partial(self._deliver, request, line))

    def _completed(self, line: bytes) -> bytes:
        """In the worker."""
        return greeting(line, self._meta.notice()) or line

    def _deliver(self, request: Request, line: bytes, outcome: Outcome[bytes]) -> None:
        """Hand an answer over, unless its request was answered otherwise meanwhile."""
        self._waiting -= 1
        connection = self._connection
        try:
            line = outcome.get()
        except Exception as error:  # it passes as it is
            connection.report.event("upstream.odd", f"the answer to {request.kind} is malformed: {error}")
        if connection.requests.get(request.id) is request and (out := connection.answer(request, line)):
            connection.client.send(out)


def _server_name(result: dict[str, Any]) -> str:
    """The name that a server gives itself in its answer to initialize or server/discover."""
    meta = result.get("_meta")
    info = result.get("serverInfo") or (meta.get(frames.META_SERVER) if isinstance(meta, dict) else None)
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""
