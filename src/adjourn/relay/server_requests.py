"""What a server asks of its client: passed on, or refused by the policy, in both eras.

In the handshake revisions these are requests and notifications of the server, in the stateless one members of an answer that asks for
input. Nobody is asked about them: a rule that wants one confirmed refuses it.

Owns: their outcome, and which requests are open. Must never: answer for the client.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.errors import sentences
from adjourn.log import kinds
from adjourn.mcp import frames
from adjourn.mcp.lenient import value_of
from adjourn.relay.request import Connection, is_noted
from adjourn.tasks.call_events import MAX_SHOWN_TOOL
from adjourn.tasks.decision import Block
from adjourn.tasks.methods import OF_SERVER, method_refusal, rule_name

MAX_OPEN = 1000
"""Requests of a server that its client has not answered."""


class _Cancelled(msgspec.Struct, rename="camel"):
    request_id: Any = None


class _Cancel(msgspec.Struct):
    params: _Cancelled | msgspec.UnsetType = msgspec.UNSET


class ServerRequests:
    """One per proxy."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._auto_confirm = connection.context.options.auto_confirm
        self._open: dict[Any, None] = {}
        self._answered: dict[Any, None] = {}
        """Requests that the client has not seen, and may not answer: they have their answer."""
        self._refusals = 0
        self._observed = 0

    def pass_on(self, line: bytes, method: str, request_id: object) -> bool:
        """Whether a request or notification of the server goes to the client. A refused request is answered."""
        is_request = request_id is not msgspec.UNSET
        block = self._judge(method)
        if block is None and is_request:
            block = self._taken(request_id)
        if block is None:
            if is_request:
                self._open[request_id] = None
                self._answered.pop(request_id, None)
            elif method == "notifications/cancelled":
                self._forget(line)
            return True
        self._refused(method, block)
        # An answer to an id in use would be one to the other request.
        if is_request and block.reason != "id_in_use":
            self._answered[request_id] = None
            if len(self._answered) > MAX_OPEN:
                del self._answered[next(iter(self._answered))]
            text = sentences(block.message, block.remedy)
            self._connection.answer_server(frames.error(request_id, frames.INVALID_REQUEST, text))
        return False

    def may_answer(self, request_id: object) -> bool:
        """Whether an answer of the client goes to the server: not to a request that the policy refused. The request is over."""
        self._open.pop(request_id, None)
        return request_id not in self._answered

    def in_answer(self, requests: object) -> Block | None:
        """Why an answer that asks for input may not be delivered, if it may not."""
        if requests is None:
            return None
        for request in list(requests.values()) if isinstance(requests, dict) else [None]:
            method = request.get("method") if isinstance(request, dict) else None
            block = (
                self._judge(method)
                if isinstance(method, str) and frames.is_method(method)
                else Block("unreadable", "the server asks for something without a method", "")
            )
            if block is not None:
                self._refused(method if isinstance(method, str) else "", block)
                return block
        return None

    def _judge(self, method: str) -> Block | None:
        """Why the policy refuses a method, if it does."""
        policy = self._connection.sessions.policy
        block = method_refusal(policy, method, OF_SERVER, auto_confirm=self._auto_confirm)
        if block is None or not policy.observe:
            return block
        self._observed += 1
        if is_noted(self._observed):
            name = rule_name(method)[:MAX_SHOWN_TOOL]
            self._connection.note(
                kinds.PolicyObserved(decision="block", reason=block.reason, rule=block.rule, tool=name)
            )
        return None

    def _taken(self, request_id: object) -> Block | None:
        if request_id in self._open:
            return Block("id_in_use", "the server has an open request with this id", "")
        if len(self._open) >= MAX_OPEN:
            return Block("too_many", f"{MAX_OPEN:,} requests of the server wait for the client", "wait")
        return None

    def _forget(self, line: bytes) -> None:
        """The server takes a request back."""
        try:
            cancel = msgspec.convert(value_of(line), _Cancel)
        except msgspec.DecodeError:
            return
        if isinstance(cancel.params, _Cancelled) and frames.is_id(cancel.params.request_id):
            self._open.pop(cancel.params.request_id, None)

    def _refused(self, method: str, block: Block) -> None:
        """Write down a refusal. A flood of them must not fill the store."""
        self._refusals += 1
        if not is_noted(self._refusals):
            return
        self._connection.report.event("upstream.refused", block.message)
        self._connection.note(
            kinds.UpstreamRefused(method=method[:MAX_SHOWN_TOOL], reason=block.reason, rule=block.rule)
        )
