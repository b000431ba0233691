"""The policy: what is permitted here and where that is written, and whether a call would be.

The page changes no policy: a person edits the file, and a program of theirs can review it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from adjourn.aex.diagnostics import render
from adjourn.aex.layers import discover
from adjourn.aex.match import NOTHING_KNOWN
from adjourn.aex.permissions import effective, read_layer
from adjourn.aex.policy import Policy
from adjourn.aex.rule import Rule
from adjourn.clients.explaining import Stopped, replay_calls
from adjourn.errors import AdjournError, NotFoundError, RefusedError, UsageError
from adjourn.handover.answering import diff_lines
from adjourn.log.canonical_json import digest
from adjourn.log.kinds import tool_name
from adjourn.policy.contract import Contract
from adjourn.setup import places
from adjourn.setup.tightening import without_confirm
from adjourn.store.base import Store
from adjourn.tasks.budgets import workspace_spent
from adjourn.tasks.entries import Approval
from adjourn.tasks.ledger import Ledger
from adjourn.ui.site import MAX_EDITED, Form, Notice, Site, WebPage

if TYPE_CHECKING:
    from adjourn.clients.explaining import ExplainedCall

MAX_RULES = 500
"""Rules of one kind that are shown."""
MAX_ARGUMENTS = 20_000
MAX_EVENTS = 200_000
"""Events that are decided on again for one answer: some ten seconds."""
MAX_STOPPED = 100
MAX_TOOLS = 4


class RuleGroup(NamedTuple):
    """The rules of one kind; `left` are too many to show."""

    title: str
    kind: str
    rules: Sequence[Rule]
    left: int


class StoppedCalls(NamedTuple):
    """Calls that one rule would have stopped. `tools` are the first of them, with how often."""

    decision: str
    calls: int
    last: str
    tools: Sequence[tuple[str, int]]
    left: int
    rule: str


class Replayed(NamedTuple):
    """What a text would have done with the recorded calls, and what the present policy would have: refused, asked about."""

    judged: int
    refused: int
    asked: int
    now_refused: int
    now_asked: int
    untold: int
    left: int
    rows: Sequence[StoppedCalls]
    more: int
    """Rules that have no row."""


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The rules, what is wrong with them, and the answer about the call that the address names."""
    path = discover(site.root)
    permissions, findings = effective(path or None, None, root=site.root)
    tool, arguments = fields.get("tool", "").strip()[:200], fields.get("args", "").strip()[:MAX_ARGUMENTS]
    problem: AdjournError | None = None
    answers: list[ExplainedCall] = []
    if tool and path:
        try:
            answers = _explained(site, permissions, path, tool, arguments)
        except AdjournError as error:
            problem = error
    return {
        "path": os.path.relpath(path, site.root) if path else "",
        "policy": permissions,
        "place": partial(_place, site.root),
        "groups": [group for group in _groups(permissions) if group.rules],
        "findings": [render(finding).replace(f"{site.root}/", "") for finding in findings[:50]],
        "tool": tool,
        "arguments": arguments,
        "answers": answers,
        "unlooked": bool(tool) and not arguments and permissions.looks_at_arguments(tool),
        "problem": problem,
        "text": _text(site, path or ""),
        "replayed": None,
        "text_findings": (),
    }


def _text(site: Site, path: str) -> str:
    """The policy as it is written; "" where it is no text of the language, or too long for a form."""
    if not path.endswith(".aex"):
        return ""
    try:
        text = places.read_plain(path, site.root)
    except AdjournError:
        return ""
    return text if len(text.encode()) <= MAX_EDITED else ""


def replay(site: Site, form: Form) -> Notice:
    """What a text, as a policy, would have done with the recorded calls. Nothing is written."""
    text = form.get("text", "").replace("\r\n", "\n")
    path = discover(site.root)
    store = site.find_store()
    if path is None or store is None:
        raise NotFoundError("there is no policy, or no store yet", "start a session behind `adjourn proxy`")
    policy, findings = read_layer(text, os.path.relpath(path, site.root), "policy")
    quoted = [render(finding, text) for finding in findings[:50]]
    values = {**query(site, {}), "text": text, "text_findings": quoted}
    if any(finding.severity == "error" for finding in findings):
        return Notice("This text is not a policy that a proxy would start with.", "bad", shown=values)
    return Notice("", shown={**values, "replayed": _replayed(site, store, policy, path)})


def _replayed(site: Site, store: Store, policy: Policy, path: str) -> Replayed:
    outcome, left = replay_calls(store, policy, site.tree, max_events=MAX_EVENTS)
    now, _ = replay_calls(store, effective(path, None, root=site.root)[0], site.tree, max_events=MAX_EVENTS)
    rows = sorted((row for row in outcome.stopped if not row.recorded), key=lambda row: (-row.calls, row.rule))
    return Replayed(
        outcome.judged,
        outcome.count("block"),
        outcome.count("ask"),
        now.count("block"),
        now.count("ask"),
        outcome.untold.total(),
        left,
        [_stopped(row) for row in rows[:MAX_STOPPED]],
        max(0, len(rows) - MAX_STOPPED),
    )


def _stopped(row: Stopped) -> StoppedCalls:
    tools = row.tools.most_common()
    return StoppedCalls(row.decision, row.calls, row.last, tools[:MAX_TOOLS], max(0, len(tools) - MAX_TOOLS), row.rule)


def _place(root: str, rule: Rule) -> str:
    """Where a rule is written: the file as seen from the workspace, and the line."""
    source = os.path.relpath(rule.source, root) if os.path.isabs(rule.source) else rule.source
    return f"{source}:{rule.line}"


def _groups(permissions: Policy) -> list[RuleGroup]:
    titled = (
        ("Denied", "deny", permissions.deny),
        ("A person confirms", "confirm", permissions.confirm),
        ("Allowed", "allow", permissions.allow_of_anybody),
        ("Limits", "limit", permissions.limits),
        ("At most once", "once", permissions.once),
        ("Checkpoint before", "checkpoint", permissions.checkpoints),
        ("Signed by one of", "require", permissions.require),
    )
    return [RuleGroup(title, kind, rules[:MAX_RULES], max(0, len(rules) - MAX_RULES)) for title, kind, rules in titled]


def _explained(site: Site, permissions: Policy, path: str, tool: str, arguments: str) -> list[ExplainedCall]:
    """The answer for each server that the name may mean, in the state of the task that was used last."""
    from adjourn.clients.client_process import ClientOptions
    from adjourn.clients.explaining import CallSetting, explain_call
    from adjourn.clients.served_tools import known_tools

    try:
        call_arguments = msgspec.json.decode(arguments or "{}", type=dict[str, object])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            f"the arguments are not a JSON object: {error}", 'write them as in {"path": "src/a.py"}'
        ) from error
    store = site.find_store()
    options = ClientOptions(
        root=os.path.realpath(site.root), contract=Contract(policy=permissions, policy_files=(path,))
    )
    setting = CallSetting(
        permissions,
        options,
        site.clock(),
        _ledger(site, store),
        known_tools(store) if store is not None else NOTHING_KNOWN,
        workspace_spent(store, permissions.workspace_budgets, site.clock()) if store else {},
    )
    return explain_call(setting, tool, call_arguments)


def _ledger(site: Site, store: Store | None) -> Ledger:
    newest = next(iter(site.overview.look(store).rows), None) if store is not None else None
    if store is None or newest is None or newest.problem:
        return Ledger(task="")
    return site.task(store, newest.id).ledger


PAGE = WebPage("/policy", "Policy", "policy.html", query, {"replay": replay}, reading=frozenset(("replay",)))


# --- always allow a tool: the policy without the rule that asks before it, as a diff, and written when a person says
# so. Only a policy that a person has seen is written


class _Proposal(NamedTuple):
    """A policy file as it is and as it would be. `still` are patterns that would ask all the same."""

    path: str
    name: str
    before: str
    after: str
    still: list[str]


def propose_always(site: Site, fields: Form) -> Mapping[str, Any]:
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


ALWAYS = WebPage("/always", "Always allow", "always.html", propose_always, {"write": write}, after="/", is_listed=False)
