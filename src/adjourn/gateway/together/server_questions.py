"""Requests of several servers to one client: each gets an id that the client has not seen, and its answer finds the server again.

Owns: these ids. Must never: answer one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjourn.gateway.together.member import Member
from adjourn.gateway.together.merging import with_id, with_param
from adjourn.mcp import frames, value_of

MAX_OPEN = 10_000


class AskedQuestion(NamedTuple):
    """An open request of a server: its own id, and the token under which it hears of progress."""

    member: Member
    question: Any
    token: Any


class ServerQuestions:
    """Of one client's session."""

    def __init__(self) -> None:
        self._open: dict[int, AskedQuestion] = {}
        self._count = 0

    def asked(self, member: Member, line: bytes) -> bytes:
        """A server's request as the client gets it."""
        body = value_of(line)
        params = body.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        self._count += 1
        self._open[self._count] = AskedQuestion(member, body.get("id"), token)
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return with_id(line, self._count)

    def answered(self, request_id: object) -> AskedQuestion | None:
        """Whose request the client answers. It is over."""
        return self._open.pop(request_id, None) if type(request_id) is int else None

    def taken_back(self, member: Member, line: bytes) -> bytes:
        """A server takes a request back; nothing where the client has none."""
        params = value_of(line).get("params")
        question = params.get("requestId") if isinstance(params, dict) else None
        for number, asked in self._open.items():
            if asked.member is member and asked.question == question and frames.is_id(question):
                del self._open[number]
                return with_param(line, "requestId", number)
        return b""

    def of_token(self, token: object) -> Member | None:
        """Who hears of progress under a token."""
        if not frames.is_id(token):
            return None
        return next((one.member for one in self._open.values() if one.token == token), None)
