"""Effective permissions: the verdict on a call, and what else the rules say of a tool.

The order is deny > allow > closed, with confirm on top of an allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import msgspec

from adjourn.aex.match import (
    NOTHING_KNOWN,
    KnownTools,
    as_client_names_it,
    canonical_server,
    fold,
    glob_path,
    matches,
    names_own,
    shares,
    split_scope,
)
from adjourn.aex.rule import (
    BUILT_IN,
    CLOSED,
    Named,
    PathMatcher,
    Rule,
    RuleSet,
    RuleVerdict,
    allowing,
    applying,
    asking,
)

CACHE_MAX = 4096
_OPEN_PREFIXES = ("mcp", "aex", "adjourn")
_LOOKED_UP = ("allow", "deny", "confirm", "limits", "once", "checkpoints")
"""Rules that are looked up by the name of a tool."""
_ASKED = {"aex.rollback": Rule("confirm", "aex.rollback", BUILT_IN, 0)}
"""Meta-tools that a person is asked about unless a rule allows them by their very name."""
_NO_ARGUMENTS: Mapping[str, object] = MappingProxyType({})


class Policy(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The effective permissions of a workspace or a task. Immutable; safe to share between threads.

    An empty `allow` permits nothing. `budget` is the number of calls, None for no limit; `budgets` are those beside
    it, by key (minutes, tokens, usd; legs of each call), each a rule with its `amount`. `workspace_budgets` are calls that are
    counted over all tasks, of all, of some or of each principal, `amount` in `per_seconds`. `checkpoints` name the tools
    before which a checkpoint is made, `percents` the shares of a budget at which one is. `observe`: decide and record,
    block nothing.
    `require` names who may sign contracts: one of them must have, if any is named.

    Rules name a tool as `inv.remove_item`, or as `remove_item` for short. `servers` are the spellings of the name of the one
    server whose tools are judged (`at_server`), the canonical one first; none: a tool has just the name that is asked for.
    `claims` are names that it gives itself, and that are not its own. `known` are the tools that servers have listed.

    A policy with rules for somebody has `parts`: the first for all, each other one for some. On its own it judges calls
    without a principal; `narrowed(principal)` has the rules that apply to that principal.
    """

    allow: Sequence[Rule] = ()
    deny: Sequence[Rule] = ()
    confirm: Sequence[Rule] = ()
    budget: int | None = None
    budget_rule: Rule | None = None
    budgets: Mapping[str, Rule] = MappingProxyType({})
    workspace_budgets: Sequence[Rule] = ()
    limits: Sequence[Rule] = ()
    once: Sequence[Rule] = ()
    checkpoints: Sequence[Rule] = ()
    percents: Sequence[float] = ()
    observe: bool = False
    require: Sequence[Rule] = ()
    goal: str = ""
    name: str = ""
    servers: Sequence[str] = ()
    claims: Sequence[str] = ()
    known: KnownTools = NOTHING_KNOWN
    parts: Sequence[Part] = ()
    tools: dict[str, ToolRules] = {}

    def __post_init__(self) -> None:
        for name in (*_LOOKED_UP, "require", "servers", "claims", "workspace_budgets", "parts"):
            msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))
        msgspec.structs.force_setattr(self, "tools", {})
        msgspec.structs.force_setattr(self, "percents", tuple(sorted(set(self.percents))))
        msgspec.structs.force_setattr(self, "budgets", MappingProxyType(dict(self.budgets)))

    @cached_property
    def _sets(self) -> dict[str, RuleSet]:
        return {kind: RuleSet(tuple(getattr(self, kind)), refusal=kind != "allow") for kind in _LOOKED_UP}

    @cached_property
    def is_guarded(self) -> bool:
        """Whether a scope or a condition of any rule examines the arguments of calls."""
        return any(self._sets[kind].guarded for kind in ("allow", "deny", "confirm"))

    @cached_property
    def counts(self) -> bool:
        """Whether calls may spend something, so that each has to be written down before the next is decided on."""
        return self.budget is not None or bool(
            self.budgets or self.workspace_budgets or self.limits or self.once or self.checkpoints
        )

    @property
    def allow_of_anybody(self) -> Sequence[Rule]:
        """What is allowed to all, and to somebody."""
        return [*self.allow, *(rule for part in self.parts[1:] for rule in part.rules.allow)]

    @property
    def signers(self) -> tuple[str, ...]:
        """The names of which one must have signed a contract; none: no signature is asked for."""
        return tuple(rule.pattern for rule in self.require)

    @property
    def server(self) -> str:
        """The canonical name of the server whose tools are judged; "" where none is known."""
        return self.servers[0] if self.servers else ""

    def at_server(self, name: str, known: KnownTools = NOTHING_KNOWN, *, claim: str = "") -> Policy:
        """The same permissions for the tools of one server, which are asked for by the names that the server gives them.

        A refusal, a question, a limit, a `once` and a checkpoint rule count by either form of a tool's name. An allow by the
        short form does not where it may mean another server: one of those `known` that has a tool of that name, or that the
        first part of the pattern names. Nor does one that names a tool of no server: `git.*` is not for the server `git`.

        For a server without a name, `claim` is the one that it would like: by that, refusals and the like count, allows do not.
        """
        canonical = canonical_server(name)
        servers = tuple(dict.fromkeys((canonical, as_client_names_it(name)))) if canonical else ()
        claims = (claim,) if claim and not servers else ()
        if (servers, claims, known) == (self.servers, self.claims, self.known):
            return self
        bound = msgspec.structs.replace(self, servers=servers, claims=claims, known=known)
        bound.__dict__["_sets"] = self._sets
        return bound

    def is_another(self, server: str) -> bool:
        """Whether a server is known to be another than the one whose tools are judged."""
        return bool(self.server) and server != self.server and server in self.known.servers

    def may_be(self, server: str) -> bool:
        """Whether the server whose tools are judged may be known by this name: the same command started that one."""
        commands = self.known.commands
        return not self.is_another(server) or commands.get(server) == commands.get(self.server, "")

    def judge(self, tool: str) -> RuleVerdict:
        """The verdict on an upstream tool whose arguments are not examined.

        Where a rule with a scope or a condition names the tool the answer is the strict one: such a deny denies the
        whole tool, such an allow allows nothing. A caller that knows the arguments asks `judge_call`.
        """
        return self.rules_of(tool).strict

    def judge_open(self, name: str) -> RuleVerdict:
        """The verdict on a name that is allowed unless a rule names it: `mcp.*` requests, `aex.*` and `adjourn.*` meta-tools.

        `deny *` names it too; `confirm` names it only by a pattern that itself starts with one of these.
        """
        return self.rules_of(name).strict_open

    def judge_call(
        self,
        tool: str,
        arguments: Mapping[str, object],
        paths: Sequence[str] = (),
        matcher: PathMatcher = glob_path,
        *,
        named_only: bool = False,
    ) -> RuleVerdict:
        """The verdict on one call: its decoded arguments, and every path it names, resolved and relative to the workspace.

        A scoped deny (or confirm) applies when any path is in its scope, in any case of letters, and also when
        there are no paths to check; its condition applies unless it surely does not hold. Scoped allows apply when
        every path is in the scope of one of them; the condition of an allow has to hold surely. `matcher` is
        `glob_text` for tools whose scope is a command. `named_only` judges as `judge_open` does.

        Of several rules that ask, the first is given, with the shortest time, with `deny` if any of them says so, and
        with the first name that any of them gives.
        """
        rules = self.tools.get(tool) or self.rules_of(tool)
        if not rules.guarded:
            return rules.strict_open if named_only else rules.strict
        judge = rules.judge_open if named_only else rules.judge
        return judge(arguments, paths, matcher)

    def looks_at_arguments(self, tool: str) -> bool:
        """Whether a rule with a scope or a condition names the tool, so that `judge` is not enough."""
        return self.rules_of(tool).guarded

    def visible(self, tool: str) -> bool:
        """Whether some call of the tool could be allowed: what a listing of tools keeps."""
        rules = self.rules_of(tool)
        return bool(rules.allowed) and all(guard is not None for _, guard in rules.denied)

    def grants(self, pattern: str) -> bool:
        """Whether an allow names all the tools that the pattern names, so that a contract may ask for it."""
        return bool(self._granting(pattern))

    def under(self, rule: Rule) -> list[Rule]:
        """What remains of a contract's allow: itself, or one rule for each of the allows here that narrow it."""
        named = self._granting(rule.pattern)
        if any(guard is None for _, guard in named):
            return [rule]
        return [rule.narrowed_by(outer) for outer, _ in named]

    def _granting(self, pattern: str) -> list[Named]:
        """The allows that name all the tools that the pattern names. One for tools of no server grants none of a server."""
        named = self._sets["allow"].naming(split_scope(pattern)[0])
        return [entry for entry in named if names_own(pattern) or not names_own(entry[0].pattern)]

    def limits_of(self, tool: str) -> tuple[Rule, ...]:
        """The rates that a call of the tool counts for: `amount` calls in `per_seconds`, all tools of a rule together."""
        return self.rules_of(tool).limits

    def once_of(self, tool: str) -> tuple[Rule, ...]:
        """The rules by which an effect of the tool happens at most once: `by` is the path of the argument that names it."""
        return self.rules_of(tool).once

    def arguments_read(self, tool: str) -> tuple[tuple[str, ...], ...]:
        """The paths of the arguments that a condition or a `once` rule for the tool examines."""
        rules = self.rules_of(tool)
        guards = (guard for _, guard in (*rules.denied, *rules.asked, *rules.allowed) if guard is not None)
        named = [*(path for guard in guards for path in guard.paths), *(rule.by for rule in rules.once)]
        return tuple(tuple(path.split(".")) for path in dict.fromkeys(named) if path)

    def checkpoint_before(self, tool: str) -> Rule | None:
        """The first rule that asks for a checkpoint before a call of the tool."""
        return next(iter(self.rules_of(tool).checkpoints), None)

    def unclear_for(self, tool: str) -> tuple[Rule, ...]:
        """The allows by a short form that do not count for the tool, since they may mean another server's."""
        return self.rules_of(tool).unclear

    def rules_of(self, name: str) -> ToolRules:
        """The rules that name a tool; kept in `tools` from now on."""
        rules = self.tools.get(name)
        if rules is None:
            if len(self.tools) >= CACHE_MAX:
                self.tools.clear()
            rules = self.tools[name] = ToolRules(self._sets, name, self)
        return rules

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and all(
            getattr(self, name) == getattr(other, name) for name in self.__struct_fields__ if name != "tools"
        )

    def __hash__(self) -> int:
        return hash((self.allow, self.deny, self.confirm, self.budget, self.name))

    def __repr__(self) -> str:
        counts = f"{len(self.allow)} allow, {len(self.deny)} deny, {len(self.confirm)} confirm"
        return f"<Policy {self.name or 'unnamed'}: {counts}, budget {self.budget}>"


class Part(msgspec.Struct, frozen=True):
    """Rules that hold for `whom` (none: for all): `user:ann`, `service:ci`, `group:ops` or `client:codex`."""

    whom: tuple[str, ...]
    rules: Policy


class ToolRules:
    """The rules that name one tool. `guarded`: the arguments of a call decide which of them apply.

    `denied_open` and `asked_open` are those that name it without a server: what counts for a request that no rule need allow.
    `unclear` are the allows that do not count, since they may mean the tool of another server.
    """

    __slots__ = (
        "allowed", "asked", "asked_open", "checkpoints", "denied", "denied_open", "guarded", "limits", "once",
        "strict", "strict_open", "unclear",
    )  # fmt: skip

    def __init__(self, sets: Mapping[str, RuleSet], name: str, policy: Policy) -> None:
        servers, claims, tools = policy.servers, policy.claims, policy.known
        folded = fold(name)
        forms = [folded, *(fold(f"{server}.{name}") for server in (*servers, *claims))]
        self.denied = sets["deny"].naming(*forms)
        self.asked = sets["confirm"].naming(*forms)
        self.limits, self.once, self.checkpoints = (
            tuple(rule for rule, _ in sets[kind].naming(*forms)) for kind in ("limits", "once", "checkpoints")
        )
        self.denied_open = sets["deny"].naming(folded) if servers or claims else self.denied
        asked = sets["confirm"].naming(folded) if servers or claims else self.asked
        self.asked_open = [
            named for named in asked if fold(split_scope(named[0].pattern)[0]).partition(".")[0] in _OPEN_PREFIXES
        ]
        allowed = _allows_of(sets["allow"], name, servers)
        if name in _ASKED and not any(rule.pattern == name for rule, _ in allowed):
            self.asked_open.append((_ASKED[name], None))
        if servers or claims:
            allowed = [named for named in allowed if shares(named[0].pattern, name)]
        self.unclear = _unclear_of(allowed, name, policy) if tools and (servers or claims) else ()
        counting = [named for named in allowed if named[0] not in self.unclear]
        plain = [named for named in counting if named[1] is None]
        self.allowed = plain or counting  # an allow that needs no look makes the others superfluous
        self.guarded = any(guard for _, guard in (*self.denied, *self.allowed, *self.asked))
        self.strict = self.judge(_NO_ARGUMENTS, (), glob_path)
        """The verdict on a call of which nothing is known."""
        self.strict_open = self.judge_open(_NO_ARGUMENTS, (), glob_path)
        """The same for a name that no rule need allow."""

    def judge(self, arguments: Mapping[str, object], paths: Sequence[str], matcher: PathMatcher) -> RuleVerdict:
        for rule in applying(self.denied, arguments, paths, matcher):
            return RuleVerdict("deny", rule)
        allowed = allowing(self.allowed, arguments, paths, matcher)
        if allowed is None:
            return CLOSED
        return asking(allowed, applying(self.asked, arguments, paths, matcher))

    def judge_open(self, arguments: Mapping[str, object], paths: Sequence[str], matcher: PathMatcher) -> RuleVerdict:
        for rule in applying(self.denied_open, arguments, paths, matcher):
            return RuleVerdict("deny", rule)
        return asking(None, applying(self.asked_open, arguments, paths, matcher))


def _allows_of(allows: RuleSet, name: str, servers: Sequence[str]) -> list[Named]:
    """The allows that name a tool. What is of the protocol, or named as if it were adjourn's own, is named without a server."""
    if name.partition(".")[0] in _OPEN_PREFIXES:
        return allows.naming(name)
    return allows.naming(name, *(f"{server}.{name}" for server in servers))


def _unclear_of(allowed: Sequence[Named], name: str, policy: Policy) -> tuple[Rule, ...]:
    """Those of the allows that name a tool by its short form, and may mean the tool of another server."""
    others = policy.known.servers.keys() - {policy.server}
    is_elsewhere = not (others - set(policy.claims)).isdisjoint(policy.known.with_tool(name))
    names = [f"{server}.{name}" for server in policy.servers]

    def is_unclear(pattern: str) -> bool:
        if pattern == "*" or any(matches(pattern, full) for full in names):
            return False
        return is_elsewhere or canonical_server(pattern.partition(".")[0]) in others

    return tuple(rule for rule, _ in allowed if is_unclear(split_scope(rule.pattern)[0]))
