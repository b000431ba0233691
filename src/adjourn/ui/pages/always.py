"""Always allow a tool: the policy without the rule that asks before it, as a diff, and written when a person says so.

Owns: what the page shows, and that what was seen is what is written. Must never: write a policy that nobody has seen.
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
from adjourn.setup import files
from adjourn.setup.tightening import without_confirm
from adjourn.tasks.ledger import Approval
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
    asked = _asked(site, fields)
    shown = {"asked": asked, "tool": tool_name(asked), "task": fields.get("task", "")}
    try:
        found = _proposal(site, asked)
    except AdjournError as error:
        return {**shown, "proposal": None, "problem": error, "diff": [], "seen": ""}
    diff = diff_lines([(found.before, found.after)])
    return {**shown, "proposal": found, "problem": None, "diff": diff, "seen": _mark(found)}


def write(site: Site, form: Form) -> Notice:
    """Write the policy that was shown."""
    asked = _asked(site, form)
    found = _proposal(site, asked)
    if _mark(found) != form.get("seen", ""):
        raise RefusedError(f"{found.name} was changed since you saw the proposal", "look at it again")
    files.replace(found.path, site.root, found.after.encode(), expect=found.before.encode())
    return Notice(
        f"Written: {found.name} no longer asks before {tool_name(asked)}. The call that waits still needs your answer."
    )


def _asked(site: Site, fields: Form) -> Approval:
    store = site.find_store()
    if store is None:
        raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
    found = site.task(store, fields.get("task", "")).ledger.approvals.get(fields.get("id", ""))
    if found is None:
        raise NotFoundError("this question is not open any more", "go back to the inbox")
    return found


def _proposal(site: Site, asked: Approval) -> _Proposal:
    path = discover(site.root)
    if path is None:
        raise NotFoundError("the workspace has no policy", "write one: adjourn init")
    name, before = os.path.relpath(path, site.root), files.read_plain(path, site.root)
    after, still = without_confirm(before, name, (asked.tool, tool_name(asked)))
    return _Proposal(path, name, before, after, still)


def _mark(found: _Proposal) -> str:
    """Names the change that was seen."""
    return digest(f"{found.before}\0{found.after}".encode())


PAGE = WebPage("/always", "Always allow", "always.html", query, {"write": write}, after="/", is_listed=False)
