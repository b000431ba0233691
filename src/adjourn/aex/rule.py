"""One rule as written, its conditions on a call's arguments, and rules of one kind compiled.

A condition is true, false or undecided. It is undecided where the argument is missing, null or an empty list, of a type that the
operator does not take, or a number beyond 2^53 - 1. What permits asks for *certainly*: every value passes. What refuses or asks a person
takes *possibly*: some value passes, or is undecided. Texts are compared as written by the former, and in any case of letters by the
latter. No arguments make it raise, or take more than linear time.

Which kind of rule wins is said by `policy`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

import msgspec

from adjourn.aex.match import PatternIndex, fold_pattern, glob_text, split_scope
from adjourn.log.canonical_json import MAX_SAFE_INTEGER

# --- conditions on the arguments of a call

PathMatcher = Callable[[str, str], bool]
Answer = bool | None
"""True: it holds; False: it does not; None: it is undecided."""

_Compiled = tuple[list[str], Callable[[object], Answer]]

REGEX_MAX = 1_000


class Test(msgspec.Struct, frozen=True):
    """`path operator value`; `in` has several values. Numbers are whole where they were written so."""

    path: str
    operator: str
    values: tuple[str | int | float | bool, ...]


class Guard:
    """Scopes and tests that a call has to meet. Tests are compiled at the first call."""

    __slots__ = ("_compiled", "_refusal", "_tests", "scopes")

    def __init__(self, scopes: Sequence[str], tests: Sequence[Test], *, refusal: bool) -> None:
        self.scopes = tuple(scopes)
        self._tests = tests
        self._refusal = refusal
        self._compiled: list[_Compiled] | None = None

    def certainly(self, arguments: Mapping[str, object]) -> bool:
        """Whether every test is true of every value that it applies to."""
        for path, holds in self._compiled or self._compile():
            for value in values_at(arguments, path):
                if holds(value) is not True:
                    return False
        return True

    def possibly(self, arguments: Mapping[str, object]) -> bool:
        """Whether no test is false of all values that it applies to."""
        for path, holds in self._compiled or self._compile():
            if not any(holds(value) is not False for value in values_at(arguments, path)):
                return False
        return True

    def _compile(self) -> list[_Compiled]:
        self._compiled = [(test.path.split("."), _operation(test, refusal=self._refusal)) for test in self._tests]
        return self._compiled

    @property
    def paths(self) -> list[str]:
        """The dotted paths of the arguments that it examines."""
        return [test.path for test in self._tests]

    def covers(self, path: str, matcher: PathMatcher) -> bool:
        """Whether a path is in all the scopes."""
        return all(matcher(scope, path) for scope in self.scopes)

    def touches(self, paths: Sequence[str], matcher: PathMatcher) -> bool:
        """Whether any path is in all the scopes, in any case of letters; also when there are no paths."""
        if not self.scopes or not paths:
            return True
        return any(all(matcher(scope.lower(), path.lower()) for scope in self.scopes) for path in paths)


def values_at(arguments: Mapping[str, object], path: Sequence[str]) -> list[object]:
    """The values at a dotted path. A list on the way, or at the end, stands for its elements, at any depth.

    None stands for what is not there: a missing argument, an element without it, an empty list. Never empty.
    """
    level: list[object] = [arguments.get(path[0])]
    if len(path) == 1 and not isinstance(level[0], list | tuple):
        return level
    for part in path[1:]:
        level = [value.get(part) if isinstance(value, dict) else None for value in _flat(level)]
    return _flat(level)


def _flat(values: list[object]) -> list[object]:
    if not any(isinstance(value, list | tuple) for value in values):
        return values
    flat: list[object] = []
    waiting = values[::-1]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting.extend(reversed(value) if value else (None,))
        else:
            flat.append(value)
    return flat


def _operation(test: Test, *, refusal: bool) -> Callable[[object], Answer]:
    match test.operator:
        case "is" | "in":
            return _equal(test.values, refusal=refusal)
        case "matches":
            return _glob(str(test.values[0]), refusal=refusal)
        case "~":
            return _regex(str(test.values[0]))
        case _:
            return _compare(test.operator, float(test.values[0]))


def _equal(values: Sequence[str | float | bool], *, refusal: bool) -> Callable[[object], Answer]:
    texts = frozenset(value.lower() if refusal else value for value in values if isinstance(value, str))
    truths = frozenset(value for value in values if isinstance(value, bool))
    numbers = frozenset(value for value in values if _is_number(value))

    def holds(value: object) -> Answer:
        if isinstance(value, str):
            return (value.lower() if refusal else value) in texts if texts else None
        if isinstance(value, bool):
            return value in truths if truths else None
        return value in numbers if numbers and _is_exact(value) else None

    return holds


def _glob(glob: str, *, refusal: bool) -> Callable[[object], Answer]:
    lower = glob.lower()

    def holds(value: object) -> Answer:
        if not isinstance(value, str):
            return None
        return glob_text(glob, value) or (refusal and glob_text(lower, value.lower()))

    return holds


def _regex(pattern: str) -> Callable[[object], Answer]:
    search = regex(pattern)

    def holds(value: object) -> Answer:
        if search is None or not isinstance(value, str):
            return None
        try:
            return search(value.encode())
        except UnicodeEncodeError:  # half a surrogate pair
            return None

    return holds


def _compare(operator: str, limit: float) -> Callable[[object], Answer]:
    def holds(value: object) -> Answer:
        if not _is_exact(value):
            return None
        match operator:
            case "<":
                return value < limit
            case "<=":
                return value <= limit
            case ">":
                return value > limit
            case _:
                return value >= limit

    return holds


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_exact(value: object) -> TypeGuard[int | float]:
    """Whether all readers of JSON read a number alike: beyond 2^53 - 1 some round whole numbers, and others do not."""
    return _is_number(value) and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER


def regex(pattern: str) -> Callable[[bytes], bool] | None:
    """Whether a UTF-8 text contains a match of an RE2 expression; None where the expression cannot be used."""
    try:
        return _searcher(pattern)
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Callable[[bytes], bool]:
    """Raises ValueError, which says why the expression cannot be used."""
    if len(pattern) > REGEX_MAX:
        raise ValueError(f"it is longer than {REGEX_MAX:,} characters")
    try:
        import re2  # only for a policy that uses `~`
    except ImportError as error:
        raise ValueError("google-re2 is not installed") from error
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)) from error
    return lambda text: compiled.search(text) is not None


def why_no_regex(pattern: str) -> str:
    """Why an expression cannot be used; empty when it can."""
    try:
        _searcher(pattern)
    except ValueError as error:
        return str(error)
    return ""


# --- rules

BUILT_IN = "built in"
"""The source of a rule that no policy has to write."""
SESSION_CALLS = "calls per session"
"""The key of the budget of calls that each session of a task has."""
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
    amount: int | float = 0  # whole where it was written so
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
        place = self.source if self.source == BUILT_IN else f"{self.source}:{self.line}"
        return f"{self.kind} {self.text} ({place}){under}"


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
