"""Always allow a tool: the policy without the rule that asks before it, as a diff, and written when a person says so.

Only a policy that a person has seen is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from adjourn.aex.layers import discover
from adjourn.errors import AdjournError, NotFoundError, RefusedError
from adjourn.handover.answering import diff_lines
from adjourn.log.canonical_json import digest
from adjourn.log.kinds import tool_name
from adjourn.setup import places
from adjourn.setup.tightening import without_confirm
from adjourn.tasks.entries import Approval
from adjourn.ui.site import Form, Notice, Site, WebPage


class _Proposal(NamedTuple):
    """A policy file as it is and as it would be. `still` are patterns that would ask all the same."""

    path: str
    name: str
    before: str
    after: str
    still: list[str]


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The proposal for the tool of a call that waits, or why there is none."""
    approval = _asked(site, fields)
    values = {"asked": approval, "tool": tool_name(approval), "task": fields.get("task", "")}
    try:
        proposal = _proposal(site, approval)
    except AdjournError as error:
        return {**values, "proposal": None, "problem": error, "diff": [], "seen": ""}
    diff = diff_lines([(proposal.before, proposal.after)])
    return {**values, "proposal": proposal, "problem": None, "diff": diff, "seen": _mark(proposal)}


def write(site: Site, form: Form) -> Notice:
    """Write the policy that was shown."""
    approval = _asked(site, form)
    proposal = _proposal(site, approval)
    if _mark(proposal) != form.get("seen", ""):
        raise RefusedError(f"{proposal.name} was changed since you saw the proposal", "look at it again")
    places.replace(proposal.path, site.root, proposal.after.encode(), expect=proposal.before.encode())
    return Notice(
        f"Written: {proposal.name} no longer asks before {tool_name(approval)}. The call that waits still needs your answer."
    )


def _asked(site: Site, fields: Form) -> Approval:
    store = site.find_store()
    if store is None:
        raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
    approval = site.task(store, fields.get("task", "")).ledger.approvals.get(fields.get("id", ""))
    if approval is None:
        raise NotFoundError("this question is not open any more", "go back to the inbox")
    return approval


def _proposal(site: Site, approval: Approval) -> _Proposal:
    path = discover(site.root)
    if path is None:
        raise NotFoundError("the workspace has no policy", "write one: adjourn init")
    name, before = os.path.relpath(path, site.root), places.read_plain(path, site.root)
    after, still = without_confirm(before, name, (approval.tool, tool_name(approval)))
    return _Proposal(path, name, before, after, still)


def _mark(proposal: _Proposal) -> str:
    """Names the change that was seen."""
    return digest(f"{proposal.before}\0{proposal.after}".encode())


PAGE = WebPage("/always", "Always allow", "always.html", query, {"write": write}, after="/", is_listed=False)
