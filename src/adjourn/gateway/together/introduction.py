"""What a client has said of itself at the beginning of its session, for servers that join it later.

Owns: these messages. Must never: say them to a server twice.
"""

from __future__ import annotations

from secrets import token_hex

from adjourn.gateway.http_pool import Headers
from adjourn.gateway.replies import ReplyStream
from adjourn.gateway.together.member import Collector, Member
from adjourn.mcp import Message, frames


class Introduction:
    """Of one client's session. In the stateless revision there is none: each message says who sends it."""

    def __init__(self) -> None:
        self._hello: Message | None = None
        self._headers: Headers = ()
        self._finished: bytes = b""

    def met(self, message: Message, stream: ReplyStream) -> None:
        """The client begins."""
        if message.method == "initialize":
            self._hello, self._headers = message, stream.headers

    def finished(self, message: Message) -> None:
        """The client has begun: it takes notifications."""
        self._finished = message.raw

    def to(self, member: Member) -> None:
        """Begin with a server that joins the session."""
        if self._hello is None:
            return
        member.relay.gate.sampling = None  # the own member asks the client's model
        finished = self._finished  # else it comes, and goes to all servers

        def answered(line: bytes) -> None:
            if line and finished:
                member.receive(finished, ReplyStream(self._headers), None)

        request_id = f"adjourn-{token_hex(6)}"
        line = frames.request(request_id, "initialize", self._hello.params)
        member.receive(line, Collector(self._headers, None, answered), request_id)
