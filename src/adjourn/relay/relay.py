"""The parts of a relay, put together for one client and one server.

Owns: `Relay`. Must never: know how lines come and go.
"""

from __future__ import annotations

from typing import NamedTuple

from adjourn.clients import ClientContext
from adjourn.relay.answers import Answers
from adjourn.relay.approvals import Confirmations
from adjourn.relay.budget_notices import BudgetNotices
from adjourn.relay.connection import Connection
from adjourn.relay.gate import Gate
from adjourn.relay.meta import MetaTools
from adjourn.relay.ports import MAX_WAITING, EventLoop
from adjourn.relay.server_requests import ServerRequests
from adjourn.relay.stderr_log import StderrLog


class RelayOptions(NamedTuple):
    """What a person chose: the values of --errors, --tool-names, --meta-tools, --confirm-timeout and --no-budget-notice."""

    errors: str = "tool"
    tool_names: str = "auto"
    meta_tools: str = "once"
    confirm_seconds: int = 50
    has_notices: bool = True


class Relay:
    """`gate` takes lines of the client, `answers` those of the server, each only while it `may_read` that side."""

    def __init__(
        self, loop: EventLoop, context: ClientContext, report: StderrLog, options: RelayOptions
    ) -> None:
        self.connection = connection = Connection(loop, context, report, errors=options.errors)
        meta = MetaTools(
            context, report, errors=options.errors, style=options.tool_names, listing=options.meta_tools
        )
        requests = ServerRequests(connection)
        confirmations = Confirmations(connection, seconds=options.confirm_seconds)
        self.gate = Gate(connection, meta, confirmations, requests)
        self.answers = Answers(
            connection, meta, requests, BudgetNotices(meta) if options.has_notices else None
        )

    def may_read_client(self) -> bool:
        """Whether another line of the client may be given to the gate."""
        connection = self.connection
        return (
            not self.gate.admission.busy
            and connection.server.size <= MAX_WAITING
            and connection.client.size <= MAX_WAITING
        )

    def may_read_server(self) -> bool:
        """Whether another line of the server may be given to the answers."""
        return not self.answers.busy and self.connection.client.size <= MAX_WAITING
