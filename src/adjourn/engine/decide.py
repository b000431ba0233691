"""The decision on one call. Pure: `decide(policy, ledger, call)` and nothing else.

Order: denied by a rule, allowed by no rule, budget spent, in doubt, to be confirmed, forwarded (deny > allow > budget >
confirm; closed by default). Owns: the order and the words. Must never: write, ask, or look at a clock but the one given.
"""

from __future__ import annotations

import msgspec

from adjourn.aex.policy import Policy
from adjourn.log.event import timestamp
from adjourn.state.ledger import Approval, Ledger
from adjourn.state.ledger import Call as OpenCall


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that wants to be forwarded.

    `digest` is the SHA-256 of its canonical arguments, `arguments` their redacted text, `state` the digest of the
    request state the client brings back (empty: none). `named_only` is for requests that no rule need allow.
    """

    tool: str
    digest: str
    effectful: bool = True
    arguments: str = ""
    state: str = ""
    named_only: bool = False


class Forward(msgspec.Struct, frozen=True):
    """Let it pass. `approval` is the one it uses up, `auto` that --auto-confirm passed it."""

    approval: str = ""
    auto: bool = False


class Continue(msgspec.Struct, frozen=True):
    """Let it pass as the next leg of a call that is already counted."""

    call: str


class Block(msgspec.Struct, frozen=True):
    """Refuse it. `reason` is a word for machines, `message` names the rule, file and line, `remedy` the next step."""

    reason: str
    message: str
    remedy: str
    rule: str = ""


class Ask(msgspec.Struct, frozen=True):
    """Ask a person. `cause` says why, `doubt` names the call in doubt that this one would repeat."""

    cause: str
    doubt: str = ""


Decision = Forward | Continue | Block | Ask


def decide(
    policy: Policy, ledger: Ledger, call: Call, *, now: int, spent: int = 0, auto_confirm: bool = False
) -> Decision:
    """May `call` be forwarded? `now` is milliseconds, `spent` what calls decided just before, not yet written, cost."""
    verdict = policy.judge_open(call.tool) if call.named_only else policy.judge(call.tool)
    if verdict.effect == "deny":
        return Block(
            "deny_list",
            f'tool "{call.tool}" is denied by policy: {verdict.rule}',
            "use another tool, or ask a person to change the rule",
            str(verdict.rule),
        )
    if verdict.effect != "allow":
        return Block(
            "not_allowed",
            f'tool "{call.tool}" is not in the allow list',
            "use a tool that tools/list shows, or ask a person to allow it",
        )
    paused = ledger.paused_calls.get(call.state + call.digest) if call.state else None
    if paused is not None and paused.tool == call.tool:
        return Continue(paused.call)
    if not call.named_only and policy.budget is not None and ledger.calls_used + spent >= policy.budget:
        return Block(
            "budget_exhausted",
            f"Call budget exhausted: {ledger.calls_used + spent} of {policy.budget} calls of task {ledger.task} are spent"
            f" ({policy.budget_rule})",
            "checkpoint the work; a person can raise the budget in the policy",
            str(policy.budget_rule or ""),
        )
    doubt = doubt_repeated_by(ledger, call) if call.effectful and ledger.doubts else None
    if verdict.confirm is None and doubt is None:
        return Forward()
    approval = usable_approval(ledger, call, now, doubt.call if doubt else "")
    if approval is not None:
        return Forward(approval=approval.id)
    if doubt is not None:
        return Ask(f"it repeats call {doubt.call} of {doubt.since}, whose effect is in doubt", doubt.call)
    if auto_confirm:
        return Forward(auto=True)
    return Ask(str(verdict.confirm))


def doubt_repeated_by(ledger: Ledger, call: Call) -> OpenCall | None:
    """The call in doubt with the same tool and arguments, if there is one."""
    for doubt in ledger.doubts.values():
        if doubt.tool == call.tool and doubt.digest == call.digest:
            return doubt
    return None


def usable_approval(ledger: Ledger, call: Call, now: int, doubt: str) -> Approval | None:
    """An unused, unexpired yes for this very call; one that repeats a call in doubt needs a yes to just that."""
    stamp = timestamp(now)
    for approval in ledger.approvals.values():
        same = (approval.tool, approval.digest, approval.doubt) == (call.tool, call.digest, doubt)
        if same and approval.approved and approval.expires > stamp:
            return approval
    return None
