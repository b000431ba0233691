"""One client connected to one MCP server: what all parts of a proxy share.

Owns: the form of refusals, notes in the history that a failing store may lose. Must never: decide.
"""

from __future__ import annotations

from adjourn.checkpoints import GuardedSession
from adjourn.clients import ClientContext
from adjourn.errors import AdjournError
from adjourn.log import kinds
from adjourn.mcp import Message, frames
from adjourn.proxy.lists import ListEdit
from adjourn.proxy.pipes import Wire
from adjourn.tasks import Block
from adjourn.text import visible_lines

MAX_NOTED = 100
"""Odd messages of one side that are noted in the history one by one."""
MAX_SAMPLED = 1024
"""Bytes of an odd message that are searched for secrets before a part of it is shown."""


def is_noted(number: int) -> bool:
    """Whether the odd message of this number is noted: each of the first, then only powers of ten."""
    return number <= MAX_NOTED or str(number).strip("0") == "1"


class UpstreamFacts:
    """What the server's answers say of it: the protocol revision, and the hints of its tools by name."""

    def __init__(self) -> None:
        self.revision = ""
        """As answered to `initialize`; empty in protocol revisions without it (2026-07-28 and later)."""
        self.read_only: dict[str, bool] = {}
        self.destructive: set[str] = set()

    def negotiated(self, revision: str) -> None:
        """The server answered `initialize` with this protocol revision."""
        self.revision = revision

    def listed(self, edit: ListEdit) -> None:
        """The server listed tools. What it said of them earlier does not count any more."""
        self.read_only.update(edit.read_only)
        self.destructive.difference_update(edit.names)
        self.destructive |= edit.destructive


class Connection:
    """The pipes, the client's store and sessions, and the server's facts. `errors` is the value of --errors."""

    def __init__(self, wire: Wire, context: ClientContext, *, errors: str) -> None:
        self.wire = wire
        self.context = context
        self.report = wire.report
        self.upstream = UpstreamFacts()
        self._errors = errors

    def refusal(self, message: Message, block: Block) -> bytes:
        """The answer to a refused request, in the form that --errors names. Requests other than tools/call get errors."""
        is_call = message.method == "tools/call"
        return self.refusal_of(message.id, block, is_call=is_call, modern=message.modern)

    def refusal_of(self, request_id: object, block: Block, *, is_call: bool, modern: bool) -> bytes:
        """The same for a request of which only the id is left."""
        text = (
            f"{block.message}. {block.remedy[:1].upper()}{block.remedy[1:]}."
            if block.remedy
            else block.message
        )
        text = visible_lines(text)
        if self._errors == "jsonrpc" or not is_call:
            return frames.error(request_id, frames.INVALID_REQUEST, text)
        return frames.result(request_id, frames.tool_result(text, modern=modern, is_error=True))

    def note(self, data: kinds.Data) -> None:
        """Write an event into the client's session. A failing store is reported, not raised."""
        try:
            self.context.session().note(data)
        except AdjournError as error:
            self.report.event("store.error", str(error))

    def settle(self, session: GuardedSession, settled: kinds.ToolSettled) -> None:
        """Write what became of a call. A failing store is reported, not raised."""
        try:
            session.settle([settled])
        except AdjournError as error:
            self.report.event("store.error", str(error))
