"""Findings about rules that name no known tool, for the commands that check or show a policy.

Owns: what is known here: the tools in the store, and whether all servers have listed theirs. Must never: start a server.
"""

from __future__ import annotations

import os

from adjourn.aex import NOTHING_KNOWN, KnownTools, Policy, unmatched_rules
from adjourn.cli.shared.context import CommandContext
from adjourn.clients import known_tools
from adjourn.errors import AdjournError
from adjourn.findings import Finding
from adjourn.setup import home, listed_servers


def known_here(context: CommandContext) -> KnownTools:
    """The tools that the servers of the workspace have listed; none without a store that can be read."""
    try:
        store = context.store_or_none()
        return NOTHING_KNOWN if store is None else known_tools(store)
    except AdjournError:
        return NOTHING_KNOWN


def rule_findings(policy: Policy, context: CommandContext) -> list[Finding]:
    """The findings about the rules of a policy that name no known tool."""
    known = known_here(context)
    listed = listed_servers(os.path.realpath(context.root), home(os.environ))
    is_complete = bool(listed) and listed <= known.servers.keys()
    return unmatched_rules(policy, known, listed=listed, is_complete=is_complete)
