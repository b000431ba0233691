"""Conditions on the arguments of a call: true, false, or unknown.

Owns: `Test`, the values at an argument's path, the operators, `Guard`. Must never: parse, raise on any arguments, take
more than linear time in them.

A test is undecided where the argument is missing, null or an empty list, of a type that the operator does not take, or a
number beyond 2^53 - 1. What permits asks for *certainly*: every value passes. What refuses or asks a person takes *possibly*: some value
passes, or is undecided. Texts are compared as written by the former, and in any case of letters by the latter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

import msgspec

from adjourn.aex.match import glob_text
from adjourn.log import MAX_SAFE_INTEGER

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
        self._compiled = [
            (test.path.split("."), _operation(test, refusal=self._refusal)) for test in self._tests
        ]
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
    found: list[object] = []
    waiting = values[::-1]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting.extend(reversed(value) if value else (None,))
        else:
            found.append(value)
    return found


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
        import re2  # noqa: PLC0415  # only for a policy that uses `~`
    except ImportError as error:
        raise ValueError("google-re2 is not installed") from error
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        raise ValueError(
            reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)
        ) from error
    return lambda text: compiled.search(text) is not None


def why_no_regex(pattern: str) -> str:
    """Why an expression cannot be used; empty when it can."""
    try:
        _searcher(pattern)
    except ValueError as error:
        return str(error)
    return ""
