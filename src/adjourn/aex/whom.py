"""Whom rules hold for, and what remains of a policy for one of them.

Owns: which names behind `for` are somebody's, and the narrowing. Must never: authenticate, judge a call.

What permits holds for those whom it names exactly. What restricts also holds for a name in another case, and where nobody is
known: who comes without a name escapes no restriction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from adjourn.aex.diagnostics import printable
from adjourn.aex.policy import Part, Policy
from adjourn.aex.rule import Rule
from adjourn.log import digest
from adjourn.text import fit_text

MAX_SHOWN = 100
"""Characters of a name in a message."""


class Asker(Protocol):
    """Who stands behind a client. `adjourn.policy.Principal` is one."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def groups(self) -> Sequence[str]: ...
    @property
    def label(self) -> str: ...
    @property
    def shown(self) -> str: ...


KINDS = ("user", "service")


def names_of(asker: Asker) -> list[str]:
    """What rules may call somebody: `user:ann` or `service:ci`, and `group:ops` for each group."""
    kind = "user" if asker.type == "human" else "service"
    return [f"{kind}:{asker.name}", *(f"group:{group}" for group in asker.groups)]


def permits(whom: Sequence[str], asker: Asker | None) -> bool:
    """Whether an allow for `whom` holds for somebody."""
    return asker is not None and not set(whom).isdisjoint(names_of(asker))


def restricts(whom: Sequence[str], asker: Asker | None) -> bool:
    """Whether any other rule for `whom` holds for somebody; in any case of letters, and for all where nobody is known or named.

    It also holds by the label that somebody has, and then whatever they are: another label must not be a way out.
    """
    return asker is None or not whom or _is_named(whom, asker) or _is_labelled(whom, asker)


def _is_named(whom: Sequence[str], asker: Asker) -> bool:
    return not {name.lower() for name in whom}.isdisjoint(name.lower() for name in names_of(asker))


def _is_labelled(whom: Sequence[str], asker: Asker) -> bool:
    if not asker.label:
        return False
    labels = (f"{kind}:{name}".lower() for kind in KINDS for name in (asker.label, asker.name))
    return not {name.lower() for name in whom}.isdisjoint(labels)


def narrowed(policy: Policy, asker: Asker | None) -> Policy:
    """What holds of a policy for somebody (None: nobody is known). The server whose tools are judged stays the same."""
    found = united(policy.parts, asker) if policy.parts else policy
    counted = [_counted_for(rule, asker) for rule in found.workspace_budgets]
    if found is policy and counted == list(policy.workspace_budgets):
        return policy
    return replace(
        found, workspace_budgets=counted, servers=policy.servers, claims=policy.claims, known=policy.known
    )


def united(parts: Sequence[Part], asker: Asker | None) -> Policy:
    """One policy of those parts that hold for somebody. The first part is what holds for all."""
    held = [_apart(part, asker) for part in parts if restricts(part.whom, asker)]
    allow = (part.rules.allow for part in parts if not part.whom or permits(part.whom, asker))
    found = parts[0].rules
    for rules in held[1:]:
        found = smaller_budgets(found, rules)
    return replace(
        found,
        allow=distinct(rule for rules in allow for rule in rules),
        deny=distinct(rule for rules in held for rule in rules.deny),
        confirm=distinct(rule for rules in held for rule in rules.confirm),
        limits=distinct(rule for rules in held for rule in rules.limits),
        workspace_budgets=distinct(rule for rules in held for rule in rules.workspace_budgets),
        parts=(),
    )


def divided(parts: Sequence[Part]) -> Policy:
    """The policy that has these parts. As it is, it says what holds where nobody is known."""
    found = united(parts, None)
    return replace(found, parts=parts) if len(parts) > 1 else found


def smaller_budgets(policy: Policy, other: Policy) -> Policy:
    """The policy with the budgets of another one where these are smaller."""
    budget, rule = policy.budget, policy.budget_rule
    if other.budget is not None and (budget is None or other.budget < budget):
        budget, rule = other.budget, other.budget_rule
    budgets = dict(policy.budgets)
    for key, one in other.budgets.items():
        if key not in budgets or one.amount < budgets[key].amount:
            budgets[key] = one
    return replace(policy, budget=budget, budget_rule=rule, budgets=budgets)


def distinct(rules: Iterable[Rule]) -> list[Rule]:
    """The first of the rules that say the same."""
    first: dict[object, Rule] = {}
    for rule in rules:
        first.setdefault(rule.meaning, rule)
    return list(first.values())


def for_whom(policy: Policy, whom: Sequence[str]) -> Part:
    """The rules of a policy as those that hold for somebody. Where nobody could be read, none of them permits anything."""

    def named(rules: Iterable[Rule]) -> Iterator[Rule]:
        return (replace(rule, whom=tuple(whom)) for rule in rules)

    rules = replace(
        policy,
        allow=[*named(policy.allow)] if whom else (),
        deny=[*named(policy.deny)],
        confirm=[*named(policy.confirm)],
        limits=[*named(policy.limits)],
        budget_rule=policy.budget_rule and replace(policy.budget_rule, whom=tuple(whom)),
        budgets={key: replace(rule, whom=tuple(whom)) for key, rule in policy.budgets.items()},
        workspace_budgets=[_counted_together(rule) for rule in named(policy.workspace_budgets)],
    )
    return Part(tuple(whom), rules)


def _apart(part: Part, asker: Asker | None) -> Policy:
    """The rules of a part. Who is meant only by a label, or by a name in another case, has a count of its own: it must not spend what
    those have who are named.
    """
    groups = {name.lower() for name in part.whom if name.lower().startswith("group:")}
    if (
        asker is None
        or not part.whom
        or permits(part.whom, asker)
        or not groups.isdisjoint(f"group:{group}".lower() for group in asker.groups)
    ):
        return part.rules
    own = digest(asker.id.encode())
    budgets = [replace(rule, counter=f"{rule.counter}/of/{own}") for rule in part.rules.workspace_budgets]
    return replace(part.rules, workspace_budgets=budgets)


def _counted_together(rule: Rule) -> Rule:
    """A budget of all tasks as that of those whom it is for."""
    if rule.each or not rule.whom:
        return rule
    names = ", ".join(sorted({name.lower() for name in rule.whom}))
    return replace(rule, counter=f"{rule.counter}/for/{digest(names.encode())}", owner=", ".join(rule.whom))


def _counted_for(rule: Rule, asker: Asker | None) -> Rule:
    """A budget of each principal as that of one."""
    if asker is None or not rule.each:
        return rule
    counter = f"{rule.per_seconds}/each/{digest(asker.id.encode())}"
    return replace(rule, counter=counter, owner=printable(fit_text(asker.shown, MAX_SHOWN)))
