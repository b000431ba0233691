"""What an endpoint needs of a client's session, whichever servers are behind it.

Owns: this type. Must never: do anything.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Protocol

from adjourn.gateway.replies import ReplyStream


class ClientSession(Protocol):
    """`Exchange`: with one server. `Combined`: with all."""

    used: float
    """When the client last used it (`time.monotonic`)."""
    who: str
    """The client whose limits count."""

    @property
    def waiting(self) -> Sized:
        """The client's open requests."""

    @property
    def is_accepted(self) -> bool:
        """Whether the server has accepted the session, in the revisions that have one."""

    @property
    def listener(self) -> ReplyStream | None:
        """The stream that the client has open for what belongs to no request."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is open that will be answered by itself: a subscription lasts as long as the client likes."""

    def receive(self, line: bytes, stream: ReplyStream, request_id: Any, /) -> None:
        """Take a message of the client. `request_id` is that of a request, whose answer ends the stream; None for any other message."""

    def listen(self, stream: ReplyStream, last_event: bytes, /) -> None:
        """The client opened a stream for what belongs to no request, or to continue a broken one."""

    def leave(self, request_id: Any, stream: ReplyStream, /) -> None:
        """The client no longer reads a stream."""

    def in_use(self, request_id: Any, /) -> bool:
        """Whether a request with this id is open."""

    def close(self, why: str, /) -> None:
        """Answer what is open with an error, and leave the server."""
