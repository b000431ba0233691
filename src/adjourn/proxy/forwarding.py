"""What is done with an admitted call: it is forwarded, or answered from the history or by a meta-tool.

Owns: requests under way that are not written yet. Must never: forward a call that was not admitted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import msgspec

from adjourn.checkpoints import GuardedSession
from adjourn.log import kinds
from adjourn.mcp import Message, frames
from adjourn.proxy.calls import GIVEN_BACK, GatedCall, is_ours
from adjourn.proxy.connection import Connection
from adjourn.proxy.meta import MetaTools
from adjourn.proxy.meta_definitions import DEFINITIONS
from adjourn.proxy.pipes import Pending, Written
from adjourn.tasks import Admitted, Block, Continue, RecordedAnswer

UNREAD = "the MCP server no longer reads its input: it has exited, or it hangs"


class Forwarder:
    """One per proxy, for the client's thread; `proceed` is for any thread."""

    def __init__(self, connection: Connection, meta: MetaTools) -> None:
        self._connection = connection
        self._wire = connection.wire
        self._meta = meta
        self._unsent: set[Any] = set()

    def track(self, message: Message, pending: Pending) -> None:
        """Expect an answer to a request that is about to be written."""
        self._unsent.add(message.id)
        self._wire.pending[message.id] = pending

    def send(self, lines: list[bytes]) -> None:
        """Write the lines of all requests tracked so far. They are answered with errors if the server does not read them."""
        if lines and (written := self._wire.to_upstream(b"".join(lines))) != "all":
            self._fail(written, self._unsent)
        self._unsent.clear()

    def drop(self) -> None:
        """Forget the requests that were tracked, but not written."""
        for request_id in self._unsent:
            self._wire.pending.pop(request_id, None)
        self._unsent.clear()

    def proceed(self, gated: GatedCall, admitted: Admitted, session: GuardedSession) -> None:
        """Go on with a call that was held, in the thread in which the person's answer arrived."""
        if gated.call.tool in DEFINITIONS:
            self._wire.to_client(self._wire.answer(gated.batch, self.meta_answer(gated, admitted, session)))
        else:
            written = self._wire.to_upstream(self.line_of(gated, admitted, session))
            if written != "all":
                self._fail(written, [gated.message.id])
            self._unsent.discard(gated.message.id)

    def line_of(self, gated: GatedCall, admitted: Admitted, session: GuardedSession) -> bytes:
        """The line of an admitted call, to be written. Its answer is expected from now on."""
        message, call = gated.message, admitted.call
        opened = session.task.ledger.open_calls.get(call)
        self._unsent.add(message.id)
        self._wire.pending[message.id] = Pending(
            "other" if gated.call.named_only and opened is None else "call",
            modern=message.modern,
            batch=gated.batch,
            session=session,
            call=call,
            effectful=gated.call.effectful,
            kept=opened is not None and opened.once != "",
        )
        state = message.params.get("requestState")
        if not isinstance(admitted.decision, Continue) and isinstance(state, str) and is_ours(state):
            return frames.without_params(message.raw, GIVEN_BACK)
        return message.raw

    def meta_answer(self, gated: GatedCall, admitted: Admitted, session: GuardedSession) -> bytes:
        """The answer of a meta-tool whose call was admitted."""
        answer = self._meta.handle(gated.message, gated.call.tool)
        if admitted.call in session.task.ledger.open_calls:
            session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok")], later=True)
        return answer

    def recorded_answer(self, gated: GatedCall, replay: RecordedAnswer, session: GuardedSession) -> bytes:
        """The recorded answer to a call whose effect may happen only once."""
        message = gated.message
        kept = session.task.store.get_blob(replay.answer)
        self._wire.report.event("tool.replayed", f"{gated.call.tool}: the answer of call {replay.call}")
        if kept is None:
            reason = f"call {replay.call} already had this effect, and its answer was not kept"
            block = Block("once_done", reason, "continue without repeating the call")
            return self._connection.refusal(message, block)
        if (
            message.modern and kept[:1] == b"{"
        ):  # the first answer may have been in an earlier protocol revision
            fields = msgspec.json.decode(kept, type=dict[str, msgspec.Raw])
            kept = msgspec.json.encode({"resultType": "complete"} | fields)
        return frames.result(message.id, msgspec.Raw(kept))

    def _fail(self, written: Written, request_ids: Collection[Any]) -> None:
        """Answer requests of which the server may have read a part at most."""
        self._wire.report.event("upstream.gone", UNREAD)
        outcome: Literal["error", "no-answer"] = "error" if written == "nothing" else "no-answer"
        for request_id in list(request_ids):
            pending = self._wire.pending.pop(request_id, None)
            if pending is None or pending.cancelled:
                continue
            if pending.kind == "call" and pending.session is not None:
                settled = kinds.ToolSettled(call=pending.call, outcome=outcome)
                self._connection.settle(pending.session, settled)
            error = frames.error(request_id, frames.UPSTREAM_GONE, UNREAD)
            self._wire.to_client(self._wire.reply(pending, error))
