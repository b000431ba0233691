"""The decision on one call. Pure: `decide(policy, ledger, call)` and nothing else.

Order: denied by a rule, allowed by no rule, done already where it may be done once, a budget or a rate spent, in doubt,
to be confirmed, forwarded (deny > allow > budget > confirm; closed by default). A policy that only observes lets pass
what it would have stopped. Owns: the order and the words. Must never: write, ask, or look at a clock but the one given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from adjourn.aex.match import glob_path
from adjourn.aex.policy import Policy
from adjourn.aex.rules import Verdict
from adjourn.aex.where import PathMatcher
from adjourn.log.event import milliseconds, timestamp
from adjourn.state.ledger import Approval, Ledger, rate_key, rate_used
from adjourn.state.ledger import Call as OpenCall

APPROVAL_MILLISECONDS = 15 * 60_000
"""How long a question may be answered where no rule says so, and a yes be used."""
NOTHING: Mapping[str, object] = MappingProxyType({})


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that wants to be forwarded.

    `digest` is the SHA-256 of its canonical arguments, `arguments` their redacted text, `state` the digest of the
    request state the client brings back (empty: none). `named_only` is for requests that no rule need allow. Where a
    rule looks at arguments, `given` are they, `paths` what scopes are matched with (`engine.paths`), by `matcher`.
    """

    tool: str
    digest: str
    effectful: bool = True
    arguments: str = ""
    state: str = ""
    named_only: bool = False
    given: Mapping[str, object] = NOTHING
    paths: Sequence[str] = ()
    matcher: PathMatcher = glob_path


class Claim(msgspec.Struct, frozen=True):
    """An effect that may happen only once, as far as it is known: `key` names it, `call` was for it.

    `state` is free, open (under way), doubt, or done; `answer` the digest of the recorded answer, empty where there is
    none. `missing` is the argument that should have named it.
    """

    key: str = ""
    state: Literal["free", "open", "doubt", "done"] = "free"
    call: str = ""
    answer: str = ""
    missing: str = ""


class Forward(msgspec.Struct, frozen=True):
    """Let it pass. `approval` is the one it uses up, `auto` that --auto-confirm passed it.

    `observed` is what a policy that only observes would have decided; `limits` the rates it counts for.
    """

    approval: str = ""
    auto: bool = False
    observed: Block | Ask | Replay | None = None
    limits: tuple[str, ...] = ()


class Continue(msgspec.Struct, frozen=True):
    """Let it pass as the next leg of a call that is already counted."""

    call: str


class Block(msgspec.Struct, frozen=True):
    """Refuse it. `reason` is a word for machines, `message` names the rule, file and line, `remedy` the next step.

    Where a budget is spent, `budget` is its name, `used` and `limit` are calls, minutes, tokens or millionths of a dollar.
    """

    reason: str
    message: str
    remedy: str
    rule: str = ""
    budget: str = ""
    used: int = 0
    limit: int = 0


class Ask(msgspec.Struct, frozen=True):
    """Ask a person. `cause` says why, `doubt` names the call in doubt that this one would repeat.

    `who` is the one that may answer, if the rule names one; `within` how many milliseconds the question waits, if the rule
    says so; `otherwise` what silence means.
    """

    cause: str
    doubt: str = ""
    who: str = ""
    within: int | None = None
    otherwise: Literal["deny", "allow"] = "deny"


class Replay(msgspec.Struct, frozen=True):
    """Answer it with the recorded answer of the call that had this effect."""

    call: str
    once: str
    answer: str


Decision = Forward | Continue | Block | Ask | Replay

_UNITS = {"calls": 1, "minutes": 60_000, "tokens": 1, "usd": 1_000_000}


def decide(
    policy: Policy,
    ledger: Ledger,
    call: Call,
    *,
    now: int,
    spent: int = 0,
    auto_confirm: bool = False,
    claim: Claim | None = None,
) -> Decision:
    """May `call` be forwarded? `now` is milliseconds, `spent` what calls decided just before, not yet written, cost.

    `claim` is what is known of the effect, for a tool that a `once` rule names.
    """
    verdict = policy.judge_call(call.tool, call.given, call.paths, call.matcher, named_only=call.named_only)
    found = _decide(
        policy, ledger, call, verdict, now=now, spent=spent, auto_confirm=auto_confirm, claim=claim
    )
    if isinstance(found, Forward):
        if policy.limits and not call.named_only:
            limits = tuple(
                rate_key(rule.amount, rule.per_seconds, rule.pattern) for rule in policy.limits_of(call.tool)
            )
            return msgspec.structs.replace(found, limits=limits) if limits else found
        return found
    if not policy.observe or isinstance(found, Continue) or (isinstance(found, Ask) and found.doubt):
        return found
    return Forward(observed=found)


def _decide(
    policy: Policy,
    ledger: Ledger,
    call: Call,
    verdict: Verdict,
    *,
    now: int,
    spent: int,
    auto_confirm: bool,
    claim: Claim | None,
) -> Decision:
    if verdict.effect == "deny":
        return Block(
            "deny_list",
            f'tool "{call.tool}" is denied by policy: {verdict.rule}',
            "use another tool, or ask a person to change the rule",
            str(verdict.rule),
        )
    if verdict.effect != "allow":
        return _not_allowed(policy, call)
    paused = ledger.paused_calls.get(call.state + call.digest) if call.state else None
    if paused is not None and paused.tool == call.tool:
        return Continue(paused.call)
    if claim is not None and (known := _claimed(call, claim)) is not None:
        return known
    if not call.named_only and (block := _spent(policy, ledger, call, now, spent)) is not None:
        return block
    doubt = doubt_repeated_by(ledger, call) if call.effectful and ledger.doubts else None
    doubted = doubt.call if doubt else claim.call if claim is not None and claim.state == "doubt" else ""
    asks = verdict.confirm
    if asks is None and not doubted:
        return Forward()
    approval = usable_approval(ledger, call, now, doubted)
    if approval is not None:
        return Forward(approval=approval.id)
    if doubted:
        since = f" of {doubt.since}" if doubt else ""
        return Ask(f"it repeats call {doubted}{since}, whose effect is in doubt", doubted)
    assert asks is not None
    if auto_confirm and not asks.by:
        return Forward(auto=True)
    return Ask(
        str(asks),
        who="" if asks.by == "human" else asks.by,
        within=None if asks.within_seconds is None else asks.within_seconds * 1000,
        otherwise="allow" if asks.otherwise == "allow" else "deny",
    )


def _not_allowed(policy: Policy, call: Call) -> Block:
    if policy.looks_at_arguments(call.tool) and policy.visible(call.tool):
        return Block(
            "not_allowed",
            f'tool "{call.tool}" is allowed, but not with these arguments',
            f"keep to what the policy permits; `adjourn effective --explain {call.tool}` shows it",
        )
    return Block(
        "not_allowed",
        f'tool "{call.tool}" is not in the allow list',
        "use a tool that tools/list shows, or ask a person to allow it",
    )


def _claimed(call: Call, claim: Claim) -> Block | Replay | None:
    """What a call comes to whose effect may happen only once, if that is settled by what happened before."""
    if claim.missing:
        return Block(
            "once_unnamed",
            f'tool "{call.tool}" was called without `{claim.missing}`, which says which effect it has',
            f"give `{claim.missing}`",
        )
    if claim.state == "open":
        return Block("busy", f"call {claim.call} for the same effect is under way", "wait for its answer")
    if claim.state == "done" and claim.answer:
        return Replay(claim.call, claim.key, claim.answer)
    if claim.state == "done":
        return Block(
            "once_done",
            f"the effect of this call happened already, in call {claim.call}; its answer was not kept",
            "go on without repeating it",
        )
    return None


def _spent(policy: Policy, ledger: Ledger, call: Call, now: int, spent: int) -> Block | None:
    """The refusal when a budget or a rate leaves no room for the call."""
    used = ledger.calls_used + spent
    if policy.budget is not None and used >= policy.budget:
        return Block(
            "budget_exhausted",
            f"Call budget exhausted: {used} of {policy.budget} calls of task {ledger.task} are spent"
            f" ({policy.budget_rule})",
            "checkpoint the work; a person can raise the budget in the policy",
            str(policy.budget_rule or ""),
            used=used,
            limit=policy.budget,
        )
    for key, rule in policy.budgets.items():
        used = {"minutes": ledger.worked, "tokens": ledger.tokens, "usd": ledger.micro_usd}.get(key, 0)
        unit = _UNITS[key]
        if used >= rule.amount * unit:
            return Block(
                "budget_exhausted",
                f"Budget exhausted: {used / unit:.4g} of {rule.amount:g} {key} of task {ledger.task} are spent ({rule})",
                "checkpoint the work; a person can raise the budget in the policy",
                str(rule),
                budget=key,
                used=used // (unit if key == "minutes" else 1),
                limit=int(rule.amount * (1 if key == "minutes" else unit)),
            )
    for rule in policy.limits_of(call.tool) if policy.limits else ():
        used = rate_used(ledger, rate_key(rule.amount, rule.per_seconds, rule.pattern), now)
        if used + spent >= rule.amount:
            return Block(
                "rate_limit",
                f'tool "{call.tool}" was called {used + spent} times in the last {rule.per_seconds} s ({rule})',
                f"wait; at most {rule.amount:.0f} calls in {rule.per_seconds} s are permitted",
                str(rule),
            )
    return None


def doubt_repeated_by(ledger: Ledger, call: Call) -> OpenCall | None:
    """The call in doubt with the same tool and arguments, if there is one."""
    for doubt in ledger.doubts.values():
        if doubt.tool == call.tool and doubt.digest == call.digest:
            return doubt
    return None


def usable_approval(ledger: Ledger, call: Call, now: int, doubt: str) -> Approval | None:
    """An unused, unexpired yes for this very call; one that repeats a call in doubt needs a yes to just that.

    Where silence means yes, a question that nobody answered in its time is one.
    """
    stamp = timestamp(now)
    for approval in ledger.approvals.values():
        same = (approval.tool, approval.digest, approval.doubt) == (call.tool, call.digest, doubt)
        if same and (_silent_yes(approval, now, stamp) or (approval.approved and approval.expires > stamp)):
            return approval
    return None


def _silent_yes(approval: Approval, now: int, stamp: str) -> bool:
    if approval.otherwise != "allow" or approval.refused or approval.expires > stamp:
        return False
    return milliseconds(approval.expires) + APPROVAL_MILLISECONDS > now
