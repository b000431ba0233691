"""Effective permissions: rules that say where they were written, and the verdict on a tool name.

Owns: `Rule`, `Verdict`, `Policy` and the order deny > allow > closed, with confirm on top of an allow.
Must never: parse, read files, count calls, look at a call's arguments (the caller hands in the paths).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from adjourn.aex.match import Index, fold, fold_pattern, glob_path, split_scope, within

CACHE_MAX = 4096
_OPEN_PREFIXES = ("mcp", "aex")


class Rule(msgspec.Struct, frozen=True):
    """One permission as written. `kind` is allow, deny, confirm or budget; `line` is 1-based."""

    kind: str
    pattern: str
    source: str
    line: int

    def __str__(self) -> str:
        return f"{self.kind} {self.pattern} ({self.source}:{self.line})"


class Verdict(msgspec.Struct, frozen=True):
    """What the rules say about one name.

    `effect` is allow, deny or closed (no rule allows it); `rule` the one that allows or denies;
    `confirm` the rule for which a person must be asked first, only ever set on an allow.
    """

    effect: str
    rule: Rule | None = None
    confirm: Rule | None = None


CLOSED = Verdict("closed")


class Policy:
    """The effective permissions of a workspace or a task. Immutable; safe to share between threads.

    An empty `allow` permits nothing. `budget` is the number of calls, None for no limit.
    """

    __slots__ = (
        "_allowed", "_allowed_scoped", "_asked", "_cache", "_cache_open", "_denied",
        "allow", "budget", "budget_rule", "confirm", "deny", "goal", "name",
    )  # fmt: skip

    def __init__(
        self,
        *,
        allow: Sequence[Rule] = (),
        deny: Sequence[Rule] = (),
        confirm: Sequence[Rule] = (),
        budget: int | None = None,
        budget_rule: Rule | None = None,
        goal: str = "",
        name: str = "",
    ) -> None:
        self.allow: Final = tuple(allow)
        self.deny: Final = tuple(deny)
        self.confirm: Final = tuple(confirm)
        self.budget: Final = budget
        self.budget_rule: Final = budget_rule
        self.goal: Final = goal
        self.name: Final = name
        split = [split_scope(rule.pattern) for rule in self.allow]
        self._allowed = Index((i, tool) for i, (tool, scope) in enumerate(split) if not scope)
        self._allowed_scoped = Index((i, tool) for i, (tool, scope) in enumerate(split) if scope)
        self._denied = _folded_index(self.deny)
        self._asked = _folded_index(self.confirm)
        self._cache: dict[str, Verdict] = {}
        self._cache_open: dict[str, Verdict] = {}

    def judge(self, tool: str) -> Verdict:
        """The verdict on an upstream tool whose arguments are not looked at.

        Where a scoped rule names the tool the answer is the strict one: a scoped deny denies the whole tool,
        a scoped allow allows nothing. A caller that knows the paths asks `judge_scoped`.
        """
        verdict = self._cache.get(tool)
        if verdict is None:
            verdict = self._keep(self._cache, tool, self.judge_scoped(tool, ()))
        return verdict

    def judge_open(self, name: str) -> Verdict:
        """The verdict on a name that is allowed unless a rule names it: `mcp.*` requests, `aex.*` meta-tools.

        `deny *` names it too; `confirm` names it only by a pattern that itself begins with `mcp` or `aex`.
        """
        verdict = self._cache_open.get(name)
        if verdict is None:
            verdict = self._keep(self._cache_open, name, self._judge_open(name))
        return verdict

    def scoped(self, tool: str) -> bool:
        """Whether a rule with a scope names the tool, so that the verdict depends on the paths of the call."""
        folded = fold(tool)
        if self._allowed_scoped.first(tool) is not None:
            return True
        named = [self.deny[i] for i in self._denied.all(folded)]
        named += [self.confirm[i] for i in self._asked.all(folded)]
        return any(split_scope(rule.pattern)[1] for rule in named)

    def visible(self, tool: str) -> bool:
        """Whether some call of the tool could be allowed: what a listing of tools keeps."""
        denied = (self.deny[i] for i in self._denied.all(fold(tool)))
        if any(not split_scope(rule.pattern)[1] for rule in denied):
            return False
        return self._allowed.first(tool) is not None or self._allowed_scoped.first(tool) is not None

    def grants(self, pattern: str) -> bool:
        """Whether one allow names all that the pattern names, so that a contract may ask for it."""
        tool = split_scope(pattern)[0]
        if self._allowed.first(tool) is not None:
            return True
        return any(within(pattern, self.allow[i].pattern) for i in self._allowed_scoped.all(tool))

    def judge_scoped(
        self, tool: str, paths: Sequence[str], matcher: Callable[[str, str], bool] = glob_path
    ) -> Verdict:
        """The verdict on one call, given every path it names, resolved and relative to the workspace.

        A scoped deny (or confirm) applies when any path is in its scope, in any case of letters, and also when
        there are no paths to tell by. Scoped allows apply when every path is in the scope of one of them.
        `matcher` is `glob_text` for tools whose scope is a command.
        """
        folded = fold(tool)
        if denied := _applies(self.deny, self._denied, folded, paths, matcher):
            return Verdict("deny", denied)
        first = self._allowed.first(tool)
        allowed = self.allow[first] if first is not None else self._allow_scoped(tool, paths, matcher)
        if allowed is None:
            return CLOSED
        return Verdict("allow", allowed, _applies(self.confirm, self._asked, folded, paths, matcher))

    def _allow_scoped(
        self, tool: str, paths: Sequence[str], matcher: Callable[[str, str], bool]
    ) -> Rule | None:
        rules = [self.allow[i] for i in self._allowed_scoped.all(tool)]
        granting: Rule | None = None
        for path in paths:
            hit = next((rule for rule in rules if matcher(split_scope(rule.pattern)[1], path)), None)
            if hit is None:
                return None
            granting = granting or hit
        return granting

    def _judge_open(self, name: str) -> Verdict:
        folded = fold(name)
        if (denied := self._denied.first(folded)) is not None:
            return Verdict("deny", self.deny[denied])
        asked = (self.confirm[i] for i in self._asked.all(folded))
        return Verdict("allow", None, next((rule for rule in asked if _names_open(rule)), None))

    @staticmethod
    def _keep(cache: dict[str, Verdict], name: str, verdict: Verdict) -> Verdict:
        if len(cache) >= CACHE_MAX:
            cache.clear()
        cache[name] = verdict
        return verdict

    def _key(self) -> tuple[object, ...]:
        return (self.allow, self.deny, self.confirm, self.budget, self.budget_rule, self.goal, self.name)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Policy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        counts = f"{len(self.allow)} allow, {len(self.deny)} deny, {len(self.confirm)} confirm"
        return f"<Policy {self.name or 'unnamed'}: {counts}, budget {self.budget}>"


def _folded_index(rules: Sequence[Rule]) -> Index:
    return Index((i, fold_pattern(split_scope(rule.pattern)[0])) for i, rule in enumerate(rules))


def _applies(
    rules: Sequence[Rule],
    index: Index,
    folded: str,
    paths: Sequence[str],
    matcher: Callable[[str, str], bool],
) -> Rule | None:
    for position in index.all(folded):
        rule = rules[position]
        scope = split_scope(rule.pattern)[1]
        if not scope or not paths:
            return rule
        if any(matcher(scope.lower(), path.lower()) for path in paths):
            return rule
    return None


def _names_open(rule: Rule) -> bool:
    return fold(split_scope(rule.pattern)[0]).partition(".")[0] in _OPEN_PREFIXES
