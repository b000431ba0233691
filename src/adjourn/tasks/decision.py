"""The decision on one call. Pure: `decide(policy, ledger, call, under)` and nothing else.

Order: at a protected place (also where the policy only observes), denied by a rule, allowed by no rule, done already where it may be done once, a budget or a rate spent, in doubt,
to be confirmed, forwarded (deny > allow > budget > confirm; closed by default). A policy that only observes lets pass
what it would have stopped. Owns: the order and the words. Must never: write, ask, or read a clock but the one given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from adjourn.aex.match import glob_path
from adjourn.aex.policy import Policy
from adjourn.aex.rule import SESSION_CALLS, PathMatcher, Rule, RuleVerdict
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.log.kinds import full_name
from adjourn.policy.protected.words import ambiguous, reason_for
from adjourn.tasks.entries import NONE_SPENT, Approval, OpenCall, Sitting, rate_key, rate_used
from adjourn.tasks.ledger import ALREADY_DONE, Ledger, definition_key, is_same_tool

APPROVAL_MILLISECONDS = 15 * 60_000
"""How long a question may be answered where no rule says so, and an approval be used."""
MAX_LEGS = 8
"""How often one call may continue with an answer to what it asked for, where no `budget legs=` says so."""
NOTHING: Mapping[str, object] = MappingProxyType({})
NONE_COUNTED: Mapping[str, int] = MappingProxyType({})


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that wants to be forwarded.

    `digest` is the SHA-256 of its canonical arguments, `arguments` their redacted text, `state` the digest of the
    request state the client brings back (empty: none). `named_only` is for requests that no rule need allow, `vendor`
    for those among them that the protocol does not have, and a rule has to; `destructive` for
    tools that say they may destroy something. `params` is the digest of what its request says beside tool, arguments and
    transport, `given_back` that of what it gives back to the server (empty: nothing); `server` names the one that offers the tool (empty: it
    is not known), `shown` is what the agent calls the tool (empty: `tool`), `command` stands for the command that started it, `definition` is the digest of what it was listed as (empty: not yet). Where a rule examines arguments, `given` are they,
    `paths` what scopes are matched with (`policy.call_paths`), by `matcher`. `protected` is the protected place that the call
    would touch (empty: none): whoever makes the request finds it, since only that one knows the working directory and how the
    tool spells its arguments. `may_clash`: two keys of the arguments may be one to some reader. `key` stands for the client and its idempotency key (empty: none). `behind`: the
    client has not read all answers before it.
    """

    tool: str
    digest: str
    effectful: bool = True
    arguments: str = ""
    state: str = ""
    named_only: bool = False
    vendor: bool = False
    destructive: bool = False
    params: str = ""
    given_back: str = ""
    server: str = ""
    shown: str = ""
    command: str = ""
    definition: str = ""
    given: Mapping[str, object] = NOTHING
    paths: Sequence[str] = ()
    matcher: PathMatcher = glob_path
    protected: str = ""
    may_clash: bool = False
    key: str = ""
    behind: bool = False


class OnceClaim(msgspec.Struct, frozen=True):
    """An effect that may happen only once, as far as it is known: `key` names it, `call` was for it.

    Where several rules limit the tool, `key` has a name for each, and the claim is that of the strictest state. `state` is free, open (under way), doubt, done, or another (the client has given
    its key to another call); `answer` the digest of the recorded answer, empty where there is
    none. `missing` is the argument that should have named it. `is_retry`: the client repeats this very call with its idempotency key.
    `owner` is the task of `call`.
    """

    key: str = ""
    state: Literal["free", "open", "doubt", "done", "another"] = "free"
    call: str = ""
    answer: str = ""
    missing: str = ""
    is_retry: bool = False
    owner: str = ""


class Forward(msgspec.Struct, frozen=True):
    """Let it pass. `approval` is the one it uses up, `auto` that --auto-confirm passed it.

    `observed` is what a policy that only observes would have decided; `limits` the rates it counts for.
    """

    approval: str = ""
    auto: bool = False
    observed: Block | Ask | RecordedAnswer | None = None
    limits: tuple[str, ...] = ()


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


class Continue(msgspec.Struct, frozen=True):
    """Let it pass as the next leg of a call that is already counted: number `leg`, from 1.

    `observed` is what a policy that only observes would have decided.
    """

    call: str
    leg: int = 0
    observed: Block | None = None


class Ask(msgspec.Struct, frozen=True):
    """Ask a person. `cause` says why, `doubt` names the call in doubt that this one would repeat.

    `who` is the one that may answer, if the rule names one; `within` how many milliseconds the question waits, if the rule
    says so; `otherwise` what silence means. `definition` is what the tool is known as, `changed` that nobody has said yes
    to it since the server changed that.
    """

    cause: str
    doubt: str = ""
    who: str = ""
    within: int | None = None
    otherwise: Literal["deny", "allow"] = "deny"
    definition: str = ""
    changed: bool = False


class RecordedAnswer(msgspec.Struct, frozen=True):
    """Answer it with the recorded answer of the call that had this effect."""

    call: str
    once: str
    answer: str


class WorkspaceState(msgspec.Struct, frozen=True):
    """What is known beside the task: `spent` of the budgets of all tasks, by their counters; and what is open in other tasks about the
    very call that is decided on: `doubts`, calls `unseen` (`Ledger.unseen`), `approvals`. `session` is the one that wants to make it.
    """

    session: str = ""
    spent: Mapping[str, int] = NONE_SPENT
    doubts: Sequence[OpenCall] = ()
    unseen: Sequence[OpenCall] = ()
    approvals: Mapping[str, Approval] = MappingProxyType({})


ALONE = WorkspaceState()


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision depends on besides policy, ledger and call.

    `now` is milliseconds. `spent` is what calls decided just before, not yet written, cost of the budget, and `counted` of each rate; a
    call that was counted already has a `spent` of -1. `workspace` is what other tasks say, `claim` what is known of the effect, for a tool
    that a `once` rule names. `auto_confirm`: a question that names nobody is answered with yes.
    """

    now: int
    spent: int = 0
    counted: Mapping[str, int] = NONE_COUNTED
    workspace: WorkspaceState = ALONE
    auto_confirm: bool = False
    claim: OnceClaim | None = None


FORWARD = Forward()
Decision = Forward | Continue | Block | Ask | RecordedAnswer


def decide(  # noqa: C901, PLR0912  # one pass, on the path of every call
    policy: Policy, ledger: Ledger, call: ToolRequest, under: Circumstances
) -> Decision:
    """May `call` be forwarded?"""
    if call.protected:
        return protected_refusal(call)
    if call.may_clash and (unclear := unclear_refusal(policy, call)) is not None:
        return unclear
    rules = policy.tools.get(call.tool) or policy.rules_of(call.tool)
    is_method = call.named_only and not call.vendor
    judge, strict = (rules.judge_open, rules.strict_open) if is_method else (rules.judge, rules.strict)
    verdict = judge(call.given, call.paths, call.matcher) if rules.guarded else strict
    spent, workspace, claim = under.spent, under.workspace, under.claim
    refused = None
    if verdict.effect != "allow" or call.state or claim is not None:
        refused = _refusal(policy, ledger, call, verdict, claim)
    if refused is None and policy.counts and not call.named_only:
        if policy.budgets or (policy.budget is not None and ledger.calls_used + spent >= policy.budget):
            refused = _budget_spent(policy, ledger, spent)
        if refused is None and policy.workspace_budgets:
            refused = _workspace_spent(policy, workspace.spent, spent)
        if refused is None and policy.limits:
            refused = _rate_spent(policy, ledger, call, under)
    if policy.observe and claim is not None and claim.is_retry and (repeated := _claimed(call, claim)):
        return repeated  # the client's own wish, whatever the policy does
    if isinstance(refused, Continue) or (refused is not None and not policy.observe):
        return refused
    is_open = call.effectful and bool(ledger.doubts or ledger.unseen or workspace.doubts or workspace.unseen)
    if is_open and claim is None and (done := _done_unseen(policy, ledger, call, workspace)) is not None:
        return done
    found: Forward | Ask = FORWARD
    if verdict.confirm is not None or is_open or claim is not None:
        found = _asked(policy, ledger, call, verdict, under)
    if isinstance(found, Ask):
        if found.doubt or not policy.observe:
            return found
        found = Forward(observed=refused or found)
    elif refused is not None:
        found = msgspec.structs.replace(found, observed=refused)
    if policy.limits and not call.named_only:
        limits = tuple(_rate_of(rule) for rule in policy.limits_of(call.tool))
        return msgspec.structs.replace(found, limits=limits) if limits else found
    return found


def protected_refusal(call: ToolRequest) -> Block:
    """Why a call that would touch a protected place is refused, whatever the policy says, and without one as well."""
    may_not, remedy = reason_for(call.protected)
    what = call.tool if call.named_only else f'tool "{call.shown or call.tool}"'
    return Block("protected", f"{what} {may_not}", remedy, rule=call.protected)


_MAX_KEY = 100
"""Characters that are shown of an argument's name."""


def unclear_refusal(policy: Policy, call: ToolRequest) -> Block | None:
    """The refusal of a call with arguments that a rule and the server could read differently; None if there are none."""
    if (keys := ambiguous(policy, call.tool, call.given)) is None:
        return None
    text = " and ".join(repr(key[:_MAX_KEY]) for key in keys)
    what = call.tool if call.named_only else f'tool "{call.shown or call.tool}"'
    why = f"{what} was called with the keys {text}, which are the same to some readers of JSON"
    return Block("unclear", why, "keep one of them")


def _refusal(
    policy: Policy, ledger: Ledger, call: ToolRequest, verdict: RuleVerdict, claim: OnceClaim | None
) -> Block | RecordedAnswer | Continue | None:
    """Decide what needs neither budget nor a person: a call that no rule permits, that continues, or that already had its effect."""
    if verdict.effect != "allow":
        return _not_allowed(policy, call, verdict)
    paused = ledger.paused_calls.get(call.state + call.digest) if call.state else None
    if paused is not None and is_same_tool(paused, call) and paused.params == call.params:
        return _continued(policy, paused)
    return None if claim is None else _claimed(call, claim)


def _continued(policy: Policy, paused: OpenCall) -> Continue | Block:
    """The next leg of a call that asked for input, if there may be one more."""
    rule = policy.budgets.get("legs")
    limit = MAX_LEGS if rule is None else int(rule.amount)
    if paused.legs < limit:
        return Continue(paused.call, paused.legs + 1)
    spent = Block(
        "budget_exhausted",
        f'tool "{paused.tool}" asked for input too often: call {paused.call} continued {paused.legs} times'
        f" ({rule or f'budget legs={MAX_LEGS}, the default'})",
        "call it again without requestState, as a new call; a person can raise `budget legs`",
        str(rule or ""),
        budget="legs",
        used=paused.legs,
        limit=limit,
    )
    return Continue(paused.call, paused.legs + 1, spent) if policy.observe else spent


def _done_unseen(policy: Policy, ledger: Ledger, call: ToolRequest, workspace: WorkspaceState) -> Block | None:
    """That a call happened before, and its client lacks the answer. A session that has learnt so, and makes it again, means to."""
    if not workspace.session:
        return None
    for done in (*ledger.unseen.values(), *workspace.unseen):
        if is_repeated(policy, done, call) and ledger.told.get(done.call) != workspace.session:
            lost = f"its answer did not reach a client; SHA-256 {done.answer}"
            return Block(
                ALREADY_DONE,
                f'tool "{call.shown or call.tool}" was not called again: call {done.call} with the same arguments was sent '
                f"{done.since} and done {done.ended} ({f'{done.by} says so' if done.by else lost})",
                "continue without repeating it; to repeat it on purpose, make the same call once more",
                rule=done.call,
            )
    return None


def _asked(
    policy: Policy, ledger: Ledger, call: ToolRequest, verdict: RuleVerdict, under: Circumstances
) -> Forward | Ask:
    """Whether a person has to say yes, and has. Silence never says it for what would repeat a call in doubt."""
    workspace, claim = under.workspace, under.claim
    doubts = (*ledger.doubts.values(), *workspace.doubts) if call.effectful else ()
    doubt = next((doubt for doubt in doubts if is_repeated(policy, doubt, call)), None)
    doubted = doubt.call if doubt else claim.call if claim is not None and claim.state == "doubt" else ""
    asks = verdict.confirm
    if asks is None and not doubted:
        return Forward()
    who = asks.by if asks is not None and asks.by != "human" else ""
    silence = asks is not None and not doubted and asks.otherwise == "allow"
    approval = usable_approval(
        ledger, call, under.now, doubted, who=who, silence=silence, elsewhere=workspace.approvals
    )
    if approval is not None:
        return Forward(approval=approval.id)
    if asks is not None and not doubted and under.auto_confirm and not asks.by:
        return Forward(auto=True)
    since = f" of {doubt.since}" if doubt else ""
    return Ask(
        f"it repeats call {doubted}{since}, which is in doubt" if doubted else str(asks),
        doubted,
        who=who,
        within=None if asks is None or asks.within_seconds is None else asks.within_seconds * 1000,
        otherwise="allow" if silence else "deny",
        definition=definition_of(ledger, call),
        changed=definition_key(call.command, call.tool) in ledger.changed,
    )


def _not_allowed(policy: Policy, call: ToolRequest, verdict: RuleVerdict) -> Block:
    """Why the rules refuse a call."""
    if verdict.effect == "deny":
        return Block(
            "deny_list",
            f'tool "{call.shown or call.tool}" is denied by policy: {verdict.rule}',
            "use another tool, or ask a person to change the rule",
            str(verdict.rule),
        )
    if call.vendor:
        return Block(
            "not_allowed",
            f"{call.tool} is not a method of the protocol, and no rule allows it",
            f"a person can write: use {call.tool}",
        )
    if unclear := policy.unclear_for(call.tool):
        return Block(
            "not_allowed",
            f'tool "{call.shown or call.tool}" is not allowed: {unclear[0]} may mean the tool of another server',
            f"a person can write: use {full_name(policy.server, call.tool)}",
            str(unclear[0]),
        )
    if policy.looks_at_arguments(call.tool) and policy.visible(call.tool):
        return Block(
            "not_allowed",
            f'tool "{call.shown or call.tool}" is allowed, but not with these arguments',
            f"keep to what the policy permits; `adjourn policy explain {full_name(policy.server, call.tool)}` shows it",
        )
    is_new = call.tool in (tool.name for tool in policy.known.servers.get(policy.server, ()))
    return Block(
        "not_allowed",
        f'tool "{call.shown or call.tool}" is not in the allow list',
        "use a tool that tools/list shows, or ask a person to allow it"
        + ("; for a new tool of a server `adjourn init` proposes a rule" if is_new else ""),
    )


def _claimed(call: ToolRequest, claim: OnceClaim) -> Block | RecordedAnswer | None:
    """The decision on a call of a `once` rule if an earlier call settles it; else None."""
    if claim.missing:
        return Block(
            "once_unnamed",
            f'tool "{call.shown or call.tool}" was called without the argument `{claim.missing}`, which names its effect',
            f"give `{claim.missing}`, a whole number beyond 2^53 - 1 as a text",
        )
    if claim.state == "another":
        return Block(
            "key_reused",
            f"the idempotency key was given to call {claim.call}, of another tool or with other arguments",
            "give each call its own key; use the same key only to repeat a call",
        )
    if claim.state == "open":
        return Block("busy", f"call {claim.call} for the same effect is under way", "wait for its answer")
    if claim.state == "done" and claim.answer:
        return RecordedAnswer(claim.call, claim.key, claim.answer)
    if claim.state == "done":
        return Block(
            "once_done",
            f"the effect of this call happened already, in call {claim.call}; its answer was not kept",
            "continue without repeating it",
        )
    return None


def _budget_spent(policy: Policy, ledger: Ledger, spent: int) -> Block | None:
    """The refusal when a budget leaves no room for the call."""
    for key, written, limit in ledger.budgets_used(policy):
        used = written + spent if key in ("calls", SESSION_CALLS) else written
        if used < limit:
            continue
        if key == SESSION_CALLS:
            return _session_spent(policy, ledger.sitting, int(used))
        rule = policy.budget_rule if key == "calls" else policy.budgets[key]
        is_over = key == "calls" and ledger.over
        over = f", which starts the unfinished task {ledger.over} over," if is_over else ""
        finish = f", or end that task: adjourn tasks finish {ledger.over}" if is_over else ""
        unit = 1_000_000 if key == "usd" else 1
        return Block(
            "budget_exhausted",
            f"{'Call budget' if key == 'calls' else 'Budget'} exhausted: {_amount(used)} of {_amount(limit)} {key} of task"
            f" {ledger.task}{over} are spent ({rule})",
            f"{_last_step(policy)}; a person can raise the budget in the policy{finish}",
            str(rule or ""),
            budget="" if key == "calls" else key,
            used=int(used * unit),
            limit=int(limit * unit),
        )
    return None


def _session_spent(policy: Policy, sitting: Sitting, used: int) -> Block:
    """The refusal when this session's calls are spent, and those of the task are not."""
    rule = policy.budgets[SESSION_CALLS]
    why, then = "", "end the session: the next one continues with calls of its own"
    if sitting.carried:
        why = f", {sitting.carried} of them in sessions before that neither completed an effect nor made a checkpoint"
        then = "this session then has calls of its own"
    elif not sitting.got_on:
        then = "else the next session starts with none: this one completed no effect"
    return Block(
        "budget_exhausted",
        f"Call budget of this session exhausted: {used} of {_amount(rule.amount)} calls are spent{why} ({rule})",
        f"{_last_step(policy)}; {then}",
        str(rule),
        budget=SESSION_CALLS,
        used=used,
        limit=int(rule.amount),
    )


def _workspace_spent(policy: Policy, workspace: Mapping[str, int], spent: int) -> Block | None:
    """The refusal when a budget over all tasks leaves no room for the call."""
    for rule in policy.workspace_budgets:
        used = workspace.get(rule.counter, 0) + spent
        if used >= rule.amount:
            owner, period = rule.owner or "the workspace", rule.period
            text = f"{rule.owner or 'its tasks'} made {used} of {rule.amount:.0f} calls {period}"
            return Block(
                "budget_exhausted",
                f"Call budget of {owner} exhausted: {text} ({rule})",
                f"{_last_step(policy)}; wait until calls are older than that, or a person can raise the budget in the policy",
                str(rule),
                budget=f"calls {period} of {owner}" if rule.owner else f"calls {period}",
                used=used,
                limit=int(rule.amount),
            )
    return None


def _last_step(policy: Policy) -> str:
    """What an agent without budget can still do: meta-tools cost nothing."""
    if policy.judge_open("aex.checkpoint").effect == "allow":
        return "call aex.checkpoint, which is still allowed, with your progress and a resumptionPoint"
    return "checkpoint the work"


def _amount(number: float) -> str:
    return f"{round(number, 3):.15g}"


def _rate_spent(policy: Policy, ledger: Ledger, call: ToolRequest, under: Circumstances) -> Block | None:
    """The refusal when a rate leaves no room for the call."""
    for rule in policy.limits_of(call.tool):
        key = _rate_of(rule)
        used = rate_used(ledger.rates, key, under.now) + under.counted.get(key, 0) + min(under.spent, 0)
        if used >= rule.amount:
            period = f"{rule.per_seconds} s"
            return Block(
                "rate_limit",
                f'tool "{call.shown or call.tool}" is called too often: {used} calls of {rule.pattern} in the last {period} ({rule})',
                f"wait; at most {rule.amount:.0f} in {period} are permitted",
                str(rule),
            )
    return None


def _rate_of(rule: Rule) -> str:
    return rate_key(rule.amount, rule.per_seconds, rule.pattern)


def is_repeated(policy: Policy, before: OpenCall, call: ToolRequest) -> bool:
    """Whether a call is the same as one before, by tool and arguments; also one of a server that may be this one under the name that it
    had before.
    """
    return before.digest == call.digest and (
        is_same_tool(before, call) or (before.tool == call.tool and policy.may_be(before.server))
    )


def definition_of(ledger: Ledger, call: ToolRequest) -> str:
    """What the tool of a call is known as: as it was listed now, else when the task last saw it; "" for neither."""
    return call.definition or ledger.definitions.get(definition_key(call.command, call.tool), "")


def shown_params(call: ToolRequest) -> str:
    """What an approval of a call is bound to beside tool, arguments and definition: all that goes to the server with them."""
    return digest(f"{call.params} {call.given_back}".encode()) if call.given_back else call.params


def usable_approval(
    ledger: Ledger,
    call: ToolRequest,
    now: int,
    doubt: str,
    *,
    who: str = "",
    silence: bool = True,
    elsewhere: Mapping[str, Approval] = ALONE.approvals,
) -> Approval | None:
    """An unused, unexpired yes for this very call, with all its params and its tool as it is listed now; one that repeats a
    call in doubt needs an approval of just that. An approval from before the tool was listed does not cover what the list says.

    `who` has to have been asked, where it is named. Where `silence` means yes, a question that nobody answered in its time
    is one, if it said so when it was put. `elsewhere` are approvals of other tasks of the workspace.
    """
    if not ledger.approvals and not elsewhere:
        return None
    stamp = timestamp(now)
    wanted = (call.digest, doubt, shown_params(call), definition_of(ledger, call))
    for approval in (*ledger.approvals.values(), *elsewhere.values()):
        if subject(approval)[1:] != wanted or (who and approval.who != who):
            continue
        # a question of before servers had names names none: then the tool has to be listed in the very same words
        if approval.tool != call.tool or approval.server not in (
            call.server,
            "" if approval.definition else call.server,
        ):
            continue
        if (approval.approved and approval.expires > stamp) or (silence and _silent_yes(approval, now)):
            return approval
    return None


def subject(approval: Approval) -> tuple[str, ...]:
    """What a question is about."""
    return (f"{approval.server} {approval.tool}", approval.digest, approval.doubt, approval.params, approval.definition)


def _silent_yes(approval: Approval, now: int) -> bool:
    if approval.otherwise != "allow" or approval.refused:
        return False
    return timestamp(now - APPROVAL_MILLISECONDS) < approval.expires <= timestamp(now)
