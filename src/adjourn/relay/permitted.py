"""Which tools a client knows, and whether others are permitted now: after a resume, a switch of task, an edited policy.

Owns: that comparison. Must never: decide on a call, or notify the client itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from adjourn.aex import Policy
from adjourn.clients import ClientContext
from adjourn.relay.meta_definitions import DEFINITIONS


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
