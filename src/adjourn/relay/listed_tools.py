"""What follows once a server has listed its tools: which ones its client knows, and which rules name none of them.

Owns: whether other tools are permitted than the client knows (after a resume, a switch of task, an edited policy); the lines on stderr
about rules, each once. Must never: decide on a call, or notify the client itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from adjourn.aex import Policy, unmatched_rules
from adjourn.clients import ClientContext
from adjourn.relay.meta_definitions import DEFINITIONS
from adjourn.relay.stderr_log import StderrLog

MAX_LINES = 20
"""Rules that are named; more are in `adjourn doctor`."""


class PermittedTools:
    """The tools of one server and ours, as far as the client has asked for the list."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._known: set[str] = set()
        self._is_whole = True
        self._told: set[str] | None = None
        self._under: Policy | None = None

    def listed(self, names: Iterable[str], *, is_last: bool) -> None:
        """A page of the server's list goes to the client; `names` are the tools on it, also those that it is not shown."""
        if self._is_whole:
            self._known.clear()
        self._known.update(names)
        self._is_whole = is_last
        self._under = self._context.policy
        self._told = self._permitted(self._under)

    def changed(self) -> bool:
        """Whether other tools are permitted than the client knows; once for each change."""
        policy = self._context.policy
        if self._told is None or policy is self._under:
            return False
        before, self._told, self._under = self._told, self._permitted(policy), policy
        return before != self._told

    def _permitted(self, policy: Policy) -> set[str]:
        shown = {name for name in self._known if policy.observe or policy.visible(name)}
        return shown.union(name for name in DEFINITIONS if policy.judge_open(name).effect == "allow")


class RuleCheck:
    """Says which rules name no known tool, once the tools are listed, and again when policy or tools change. One per proxy."""

    def __init__(self, context: ClientContext, report: StderrLog) -> None:
        self._context = context
        self._report = report
        self._told: set[str] = set()

    def tell(self) -> None:
        """Report the findings about the rules that were not reported yet."""
        found = unmatched_rules(self._context.contract.policy, self._context.served.known)
        for one in found[:MAX_LINES]:
            line = f"{one.code} {one.source}:{one.span.line} {one.message} ({one.help})"
            if line not in self._told:
                self._told.add(line)
                self._report.event("rule", line)
