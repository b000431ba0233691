"""Why a call is allowed or refused: the verdict, and how each rule that names the tool contributed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from adjourn.aex.match import glob_path, matches, matches_folded, names_own, shares, split_scope, tool_name_ok
from adjourn.aex.policy import Policy
from adjourn.aex.rule import PathMatcher, Rule, RuleVerdict
from adjourn.log.kinds import full_name

_ANYTHING = Rule("allow", "*", "", 0)


class RuleAnswer(msgspec.Struct, frozen=True):
    """A rule that names the tool, whether the answer comes from it, and why or why not."""

    rule: Rule
    decides: bool
    why: str


class Explanation(msgspec.Struct, frozen=True):
    """`answer` is yes, no or ask; `why` says it in words. `parts` are the rules, those that decide first; where none
    does, those that might have allowed it.
    """

    answer: Literal["yes", "no", "ask"]
    why: str
    parts: list[RuleAnswer] = []


class CallQuery(msgspec.Struct, frozen=True):
    """A call as rules see it: what `Policy.judge_call` takes."""

    tool: str
    arguments: Mapping[str, object] = {}
    paths: Sequence[str] = ()
    matcher: PathMatcher = glob_path
    named_only: bool = False


def explain(policy: Policy, call: CallQuery) -> Explanation:
    r"""What the rules say about a call, and each of them that names its tool.

    >>> policy, _ = from_text('policy p v0\ngoal "Read only"\nallow file.read\n', "policy.aex")
    >>> explain(policy, CallQuery("file.write")).why
    'is allowed by no rule'
    """
    if not tool_name_ok(call.tool):
        return Explanation("no", "is not the name of a tool")
    verdict = policy.judge_call(call.tool, call.arguments, call.paths, call.matcher, named_only=call.named_only)
    parts = [*_denies(policy, call, verdict), *_confirms(policy, call, verdict)]
    if not call.named_only:
        parts += [*_allows(policy, call, verdict), *_counted(policy, call.tool)]
    closed = verdict.effect == "closed"
    parts.sort(key=lambda part: (not part.decides, closed and part.rule.kind != "allow"))
    return Explanation(*_answer(verdict, call), parts)


def _answer(verdict: RuleVerdict, call: CallQuery) -> tuple[Literal["yes", "no", "ask"], str]:
    if verdict.effect == "deny":
        return "no", "is denied"
    if verdict.effect == "closed":
        return "no", "is allowed by no rule"
    if verdict.confirm is not None:
        return "ask", "may be called once a person approves it"
    return "yes", "may be called, because no rule denies it" if call.named_only else "may be called"


def _denies(policy: Policy, call: CallQuery, verdict: RuleVerdict) -> Iterator[RuleAnswer]:
    for rule in policy.deny:
        if _named(rule, policy, call):
            decides = verdict.rule is rule
            denies = "denies it" if decides else "denies it, too"
            if split_scope(rule.pattern)[1] and not call.paths:
                denies += ": the call names no path to check"
            yield RuleAnswer(rule, decides, _misses(rule, policy, call) or denies)


def _confirms(policy: Policy, call: CallQuery, verdict: RuleVerdict) -> Iterator[RuleAnswer]:
    for rule in policy.confirm:
        if not _named(rule, policy, call):
            continue
        if rule in verdict.confirms:
            yield RuleAnswer(rule, decides=True, why="asks a person")
        elif verdict.effect != "allow":
            yield RuleAnswer(rule, decides=False, why="is not evaluated")
        else:
            missed = _misses(rule, policy, call)
            yield RuleAnswer(
                rule, decides=False, why=missed or "does not ask: its pattern has to start with mcp or aex"
            )


def _allows(policy: Policy, call: CallQuery, verdict: RuleVerdict) -> Iterator[RuleAnswer]:
    unclear = policy.unclear_for(call.tool)
    for rule in policy.allow:
        if not _named(rule, policy, call):
            continue
        decides = verdict.rule is rule
        if rule in unclear:
            named = full_name(policy.server, call.tool)
            why = f"does not count, since it may mean the tool of another server; write {named}"
            yield RuleAnswer(rule, decides=False, why=why)
        elif policy.server and not shares(rule.pattern, call.tool):
            named = full_name(policy.server, call.tool)
            text = "give the server another name" if names_own(named) else f"write {named}"
            yield RuleAnswer(rule, decides=False, why=f"does not count: it is for tools of no server; {text}")
        elif not any(matches(split_scope(rule.pattern)[0], name) for name in _names(policy, call)):
            yield RuleAnswer(
                rule, decides=False, why="spells the name differently, and an allow matches only the exact name"
            )
        elif missed := _misses(rule, policy, call):
            yield RuleAnswer(rule, decides, missed)
        else:
            reached = "is not evaluated" if verdict.effect == "deny" else "allows it, too"
            yield RuleAnswer(rule, decides, "allows it" if decides else reached)
    for rule in policy.allow_of_anybody[len(policy.allow) :]:
        if _named(rule, policy, call):
            yield RuleAnswer(rule, decides=False, why="does not hold for a client without a login")


def _names(policy: Policy, call: CallQuery) -> list[str]:
    """The names that rules may have for the tool."""
    servers = () if call.named_only else policy.servers
    return [call.tool, *(f"{server}.{call.tool}" for server in servers)]


def _named(rule: Rule, policy: Policy, call: CallQuery) -> bool:
    """Whether the rule names the tool, in any spelling."""
    pattern = split_scope(rule.pattern)[0]
    return any(matches_folded(pattern, name) for name in _names(policy, call))


def _misses(rule: Rule, policy: Policy, call: CallQuery) -> str:
    """Why a rule that names the tool does not apply to the call; empty where it does, and would without other rules."""
    servers = policy.servers
    if _applies(rule, servers, call, call.paths):
        return ""
    if (bare := _unconditional(rule)) != rule and _applies(bare, servers, call, call.paths):
        held = "certainly met" if rule.kind == "allow" else "met"
        return f"does not apply: its condition is not {held}"
    if not call.paths:
        return "does not apply: it has a scope, and the call names no path"
    if rule.kind != "allow":
        return "does not apply: no path of the call is in its scope"
    outside = [path for path in call.paths if not _applies(bare, servers, call, [path])]
    begin = "allows a part of the call" if len(outside) < len(call.paths) else "does not apply"
    named = next((path for path in outside if path.isprintable()), "a file in the folder")
    return f"{begin}: {named} is not in its scope"


def _applies(rule: Rule, servers: Sequence[str], call: CallQuery, paths: Sequence[str]) -> bool:
    """Whether the rule alone has its effect on the call."""
    allow = (rule,) if rule.kind == "allow" else (_ANYTHING,)
    deny, confirm = (tuple(each for each in (rule,) if each.kind == kind) for kind in ("deny", "confirm"))
    alone = Policy(allow=allow, deny=deny, confirm=confirm, servers=servers)
    verdict = alone.judge_call(call.tool, call.arguments, paths, call.matcher)
    return (verdict.confirm or verdict.rule) is rule


def _unconditional(rule: Rule) -> Rule:
    under = _unconditional(rule.under) if rule.under else None
    return msgspec.structs.replace(rule, where=(), under=under)


def _counted(policy: Policy, tool: str) -> Iterator[RuleAnswer]:
    """The rules that are checked in addition when a call is made: budgets, limits, `once`, checkpoints."""
    before = policy.checkpoint_before(tool)
    rules = [
        *([policy.budget_rule] if policy.budget_rule else []),
        *policy.budgets.values(),
        *policy.workspace_budgets,
        *policy.limits_of(tool),
        *policy.once_of(tool),
        *([before] if before else []),
    ]
    words = {
        "budget": "refuses it when the budget is spent",
        "limit": "refuses it beyond that rate",
        "once": "answers a second call for the same effect with the first one's result",
        "checkpoint": "saves a checkpoint first",
    }
    return (RuleAnswer(rule, decides=False, why=words[rule.kind]) for rule in rules)
