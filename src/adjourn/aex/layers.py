"""Layers of permissions: what remains of a contract under a policy, and of a policy for somebody; and where the policy file is.

No contract widens a policy; a call is judged in `policy`. This module loads no parser: a policy that was kept is not parsed again.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from adjourn.aex.policy import Part, Policy
from adjourn.aex.rule import Rule
from adjourn.log.canonical_json import digest
from adjourn.text.fitting import fit_text

MAX_NARROWED = 20_000
"""Most rules that a merge creates; requests of a contract beyond it are not granted."""

UNKNOWN = "clients without a login"
"""The owner of a budget of each principal, where none is known."""
PLACES = (os.path.join(".aex", "policy.aex"), "aex.policy.aex")


def merge(policy: Policy | None, contract: Policy | None) -> Policy:
    r"""The effective permissions. Never wider than the policy; the contract alone where there is no policy.

    A contract's pattern is kept if a policy's allow names all that it names, and dropped otherwise; where that allow
    has a scope or a condition, both sides' have to be met. Refusals, questions, limits, `once` and checkpoints are
    united, policy first. Of each budget the smaller counts. Mode and signers are the policy's, name and goal the
    contract's.

    >>> from adjourn.aex.permissions import from_text
    >>> policy, _ = from_text('policy p v0\ngoal "Read only"\nallow file.*\n', "policy.aex")
    >>> contract, _ = from_text('task t v0\ngoal "Look"\nuse file.read\n\ndo file.read("a") -> text\nreturn text\n', "t.aex")
    >>> merge(policy, contract).visible("file.write")
    False
    """
    if policy is None or contract is None:
        return policy or contract or Policy()
    if policy.parts:
        return divided([Part(part.whom, merge(part.rules, contract)) for part in policy.parts])
    return replace(
        smaller_budgets(policy, contract),
        allow=[each for _, rules in narrowings(policy, contract) for each in rules],
        deny=distinct((*policy.deny, *contract.deny)),
        confirm=distinct((*policy.confirm, *contract.confirm)),
        workspace_budgets=distinct((*policy.workspace_budgets, *contract.workspace_budgets)),
        limits=distinct((*policy.limits, *contract.limits)),
        once=distinct((*policy.once, *contract.once)),
        checkpoints=distinct((*policy.checkpoints, *contract.checkpoints)),
        percents=(*policy.percents, *contract.percents),
        goal=contract.goal,
        name=contract.name,
    )


def narrowings(policy: Policy, contract: Policy) -> Iterator[tuple[Rule, list[Rule]]]:
    """Each allow of the contract with what remains of it."""
    left = MAX_NARROWED
    for rule in contract.allow:
        rules = policy.under(rule)
        if rules != [rule]:
            rules = rules if len(rules) <= left else []
            left -= len(rules)
        yield rule, rules


def discover(directory: str) -> str | None:
    """The policy file of a directory (`.aex/policy.aex`, else `aex.policy.aex`); its parents are not searched."""
    for place in PLACES:
        path = os.path.join(directory, place)
        if os.path.lexists(path):
            return path
    return None


# --- whom rules hold for, and what remains of a policy for one of them
#
# An allow rule applies only to the principals that it names exactly. A restriction also applies to a name in another case, and to calls
# without a principal: nobody escapes a restriction by giving no name.

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


CLIENT = "client:"
"""What the names of clients start with."""


def permits(whom: Sequence[str], asker: Asker | None, client: str = "") -> bool:
    """Whether an allow for `whom` holds for somebody behind a client."""
    names = names_of(asker) if asker is not None else []
    return not set(whom).isdisjoint([*names, CLIENT + client] if client else names)


def restricts(whom: Sequence[str], asker: Asker | None, client: str = "") -> bool:
    """Whether any other rule for `whom` holds for somebody; in any case of letters, and for all where nobody is known or named.

    It also holds by the label that somebody has, and then whatever they are: another label must not be a way out.
    """
    lowered = {name.lower() for name in whom}
    clients = {name for name in lowered if name.startswith(CLIENT)}
    if not whom or (clients and (not client or CLIENT + client.lower() in clients)):
        return True
    if asker is None:
        return lowered != clients
    names = names_of(asker)
    if asker.label:
        names += [f"{kind}:{name}" for kind in KINDS for name in (asker.label, asker.name)]
    return not lowered.isdisjoint(name.lower() for name in names)


def narrowed(policy: Policy, asker: Asker | None, client: str = "") -> Policy:
    """What holds of a policy for somebody (None: nobody is known), and for a client ("": it is not known which). The server whose tools
    are judged stays the same.
    """
    layer = united(policy.parts, asker, client) if policy.parts else policy
    counted = [_counted_for(rule, asker) for rule in layer.workspace_budgets]
    if layer is policy and counted == list(policy.workspace_budgets):
        return policy
    return replace(layer, workspace_budgets=counted, servers=policy.servers, claims=policy.claims, known=policy.known)


def united(parts: Sequence[Part], asker: Asker | None, client: str = "") -> Policy:
    """One policy of those parts that hold for somebody. The first part is what holds for all."""
    held = [_apart(part, asker) for part in parts if restricts(part.whom, asker, client)]
    allow = (part.rules.allow for part in parts if not part.whom or permits(part.whom, asker, client))
    combined = parts[0].rules
    for rules in held[1:]:
        combined = smaller_budgets(combined, rules)
    return replace(
        combined,
        allow=distinct(rule for rules in allow for rule in rules),
        deny=distinct(rule for rules in held for rule in rules.deny),
        confirm=distinct(rule for rules in held for rule in rules.confirm),
        limits=distinct(rule for rules in held for rule in rules.limits),
        workspace_budgets=distinct(rule for rules in held for rule in rules.workspace_budgets),
        parts=(),
    )


def divided(parts: Sequence[Part]) -> Policy:
    """The policy that has these parts. As it is, it says what holds where nobody is known."""
    layer = united(parts, None)
    return replace(layer, parts=parts) if len(parts) > 1 else layer


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
    from adjourn.aex.diagnostics import printable  # few policies count the calls of each principal

    return replace(rule, counter=counter, owner=printable(fit_text(asker.shown, MAX_SHOWN)))
