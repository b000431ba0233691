"""Whoever speaks to a server over a link, with one request.

Owns: `User`. Must never: answer by itself.
"""

from __future__ import annotations

from typing import Any

from adjourn.gateway.http_pool import Headers, StreamEvent, UnreachableError
from adjourn.gateway.replies import ReplyStream, ServerMessage

LINE = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}\n'


class User:
    """Whoever speaks to the server: it has one request open, and keeps what is said of it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.failed: list[tuple[str, bool]] = []

    def headers_for(self, _request_id: Any, /) -> Headers:
        return ()

    def hear(self, heard: ServerMessage, /) -> None:
        self.heard.append(heard.line)

    def answered_with(self, _request_id: Any, _status: int, /) -> None:
        pass

    def pass_event(self, _about: Any, _event: StreamEvent, /) -> None:
        pass

    def is_open(self, request_id: Any, /) -> bool:
        return request_id == 1 and not any(b'"id":1' in line and b"result" in line for line in self.heard)

    def break_stream(self, _request_id: Any, /) -> None:
        pass

    def stream_ended(self, _stream: ReplyStream, /) -> None:
        pass

    def open_requests(self) -> list[Any]:
        return [1] if self.is_open(1) and not self.failed else []

    def ended(self, _link: object, /) -> None:
        pass

    def forgotten(self, _link: object, _request_id: Any, /) -> bool:
        return False

    def describe(self, error: UnreachableError, /) -> str:
        return error.message

    def fail(self, _request_id: Any, why: str, /, *, was_sent: bool) -> None:
        self.failed.append((why, was_sent))
