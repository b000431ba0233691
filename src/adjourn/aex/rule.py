"""One rule as written, the verdict of rules, and rules of one kind compiled.

Owns: `Rule`, `RuleVerdict`, `RuleSet`, which of the rules that name a tool apply to a call. Must never: parse, say which kind
of rule wins (that is `rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from adjourn.aex.match import PatternIndex, fold_pattern, split_scope
from adjourn.aex.where import Guard, PathMatcher, Test

EACH = " each principal"
"""The end of the clauses of a budget that each principal has."""


class Rule(msgspec.Struct, frozen=True):
    """One rule as written. `kind` is allow, deny, confirm, budget, limit, once, checkpoint or require; `line` is 1-based.

    `clauses` is what followed the pattern, and the fields behind it what that means: `where` for allow, deny and
    confirm; `by` who may confirm ("" and "human": any person), or the argument that names the effect of a `once`;
    `within_seconds` how long a confirmation waits, and `otherwise` (deny, allow) what silence means; `amount` the calls
    of a limit or the size of a budget; `per_seconds` the unit of a limit. `whom` are those that it holds for (none: all). A budget
    with a unit is counted by `counter`, and is that of `owner` (empty: of all tasks together); with `each`, both become those of a
    principal when the policy is narrowed for it. `under` is the rule of the policy that a
    contract's rule is narrowed by: both have to be met.
    """

    kind: str
    pattern: str
    source: str
    line: int
    clauses: str = ""
    where: tuple[Test, ...] = ()
    by: str = ""
    within_seconds: int | None = None
    otherwise: str = "deny"
    amount: float = 0
    per_seconds: int = 0
    under: Rule | None = None
    whom: tuple[str, ...] = ()
    each: bool = False
    counter: str = ""
    owner: str = ""

    @property
    def text(self) -> str:
        """The pattern with its clauses, as written, and whom it holds for."""
        text = f"{self.pattern} {self.clauses}" if self.clauses else self.pattern
        return f"{text} for {', '.join(self.whom)}" if self.whom else text

    @property
    def period(self) -> str:
        """Of a budget with a unit: `per day`."""
        return self.clauses.removesuffix(EACH)

    @property
    def meaning(self) -> tuple[object, ...]:
        """Equal for two rules of a kind that say the same, in any file and line, for whomever they hold."""
        return (
            self.pattern, self.where, self.by, self.within_seconds, self.otherwise, self.amount, self.per_seconds,
            self.under, self.counter,
        )  # fmt: skip

    def narrowed_by(self, outer: Rule) -> Rule:
        """The rule with the additional requirement that `outer` is met."""
        return msgspec.structs.replace(self, under=self.under.narrowed_by(outer) if self.under else outer)

    def __str__(self) -> str:
        under = f" under {self.under}" if self.under else ""
        return f"{self.kind} {self.text} ({self.source}:{self.line}){under}"


class RuleVerdict(msgspec.Struct, frozen=True):
    """What the rules say about one call.

    `effect` is allow, deny or closed (no rule allows it); `rule` the one that allows or denies; `confirm` the rule
    for which a person must be asked first, only ever set on an allow. Where several rules ask, `confirm` is the first
    of them with the strictest clauses of all (see `Policy.judge_call`), and `confirms` are all of them as written.
    """

    effect: str
    rule: Rule | None = None
    confirm: Rule | None = None
    confirms: tuple[Rule, ...] = ()


CLOSED = RuleVerdict("closed")


Named = tuple[Rule, Guard | None]
"""A rule that names a tool, with its guard if it has a scope or a condition."""


class RuleSet:
    """Rules of one kind, compiled for look-up by tool. Those that refuse or ask (`refusal`) go by the folded name."""

    __slots__ = ("_guards", "_index", "_rules")

    def __init__(self, rules: tuple[Rule, ...], *, refusal: bool) -> None:
        self._rules = rules
        self._guards: dict[int, Guard] = {}
        tools = []
        for position, rule in enumerate(rules):
            tool = rule.pattern
            if rule.where or rule.under or ":" in tool:
                tool = split_scope(tool)[0]
                self._guards[position] = _guard(rule, refusal=refusal)
            tools.append((position, fold_pattern(tool) if refusal else tool))
        self._index = PatternIndex(tools)

    @property
    def guarded(self) -> bool:
        """Whether any of the rules has a scope or a condition."""
        return bool(self._guards)

    def naming(self, *names: str) -> list[Named]:
        """The rules that name a tool by one of its names, in their order; for refusals these are folded."""
        if not self._rules:
            return []
        positions = sorted({position for name in names for position in self._index.all(name)})
        return [(self._rules[position], self._guards.get(position)) for position in positions]


def applying(
    named: Iterable[Named], arguments: Mapping[str, object], paths: Sequence[str], matcher: PathMatcher
) -> Iterator[Rule]:
    """The refusals or questions that may apply to a call."""
    for rule, guard in named:
        if guard is None or (guard.touches(paths, matcher) and guard.possibly(arguments)):
            yield rule


def allowing(
    named: Iterable[Named], arguments: Mapping[str, object], paths: Sequence[str], matcher: PathMatcher
) -> Rule | None:
    """The allow under which a call passes: one that surely holds and has no scope, or some whose scopes hold all paths."""
    scoped: list[tuple[Rule, Guard]] = []
    for rule, guard in named:
        if guard is None:
            return rule
        if guard.certainly(arguments):
            if not guard.scopes:
                return rule
            scoped.append((rule, guard))
    granting: Rule | None = None
    for path in paths:
        hit = next((rule for rule, guard in scoped if guard.covers(path, matcher)), None)
        if hit is None:
            return None
        granting = granting or hit
    return granting


def _guard(rule: Rule, *, refusal: bool) -> Guard:
    """The scopes and tests of a rule and of all that it is under."""
    scopes: list[str] = []
    tests: list[Test] = []
    each: Rule | None = rule
    while each is not None:
        if scope := split_scope(each.pattern)[1]:
            scopes.append(scope)
        tests += each.where
        each = each.under
    return Guard(scopes, tests, refusal=refusal)


def asking(allowed: Rule | None, asked: Iterable[Rule]) -> RuleVerdict:
    """An allow that needs confirmation: the first rule that asks, with the strictest clauses of all of them."""
    rules = tuple(asked)
    if len(rules) < 2:
        return RuleVerdict("allow", allowed, rules[0] if rules else None, rules)
    times = [rule.within_seconds for rule in rules if rule.within_seconds is not None]
    people = sorted((rule.by for rule in rules if rule.by), key=lambda by: by == "human")
    strictest = msgspec.structs.replace(
        rules[0],
        by=people[0] if people else "",
        within_seconds=min(times, default=None),
        otherwise="deny" if any(rule.otherwise != "allow" for rule in rules) else "allow",
    )
    return RuleVerdict("allow", allowed, strictest, rules)
