"""Says on stderr which rules name no known tool, once the server has listed its tools, and again when policy or tools change.

Owns: those lines, each once. Must never: decide.
"""

from __future__ import annotations

from adjourn.aex import unmatched_rules
from adjourn.clients import ClientContext
from adjourn.policy import OWN_TOOLS
from adjourn.relay.stderr_log import StderrLog

MAX_LINES = 20
"""Rules that are named; more are in `adjourn doctor`."""


class RuleCheck:
    """One per proxy."""

    def __init__(self, context: ClientContext, report: StderrLog) -> None:
        self._context = context
        self._report = report
        self._told: set[str] = set()

    def tell(self) -> None:
        """Report the findings about the rules that were not reported yet."""
        found = unmatched_rules(self._context.contract.policy, self._context.known, own=OWN_TOOLS)
        for one in found[:MAX_LINES]:
            line = f"{one.code} {one.source}:{one.span.line} {one.message} ({one.help})"
            if line not in self._told:
                self._told.add(line)
                self._report.event("rule", line)
