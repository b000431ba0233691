"""Find statements that contradict each other by their words alone: another value for the same thing, or the same with and without "not".

Few are found, and hardly any wrongly: both statements have the same words but for one value with a digit after a verb of being, or but
for one negation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from adjourn.knowledge.model.cognition import normalised

_IS = frozenset(
    ("is", "are", "was", "were", "=", "equals", "uses", "has", "needs", "takes", "runs", "on", "at", "to", "of", "in")
)
_NOT = frozenset(("not", "no", "never", "cannot"))
_SHORT = (("won't", "will not"), ("can't", "can not"), ("cannot", "can not"), ("n't", " not"))


def contradictions(statements: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of contradicting statements, the earlier one first. `statements` are in the order in which they were made."""
    values: dict[tuple[str, ...], str] = {}
    claims: dict[tuple[str, ...], tuple[bool, str]] = {}
    for statement in statements:
        words = _words(statement)
        subject, value = words[:-1], words[-1:]
        if len(subject) > 1 and subject[-1] in _IS and any(map(str.isdigit, value[0])):
            if subject in values:
                yield values[subject], statement
            values[subject] = statement
        core = tuple(word for word in words if word not in _NOT)
        is_denied = (len(words) - len(core)) % 2 == 1
        if core in claims and claims[core][0] != is_denied:
            yield claims[core][1], statement
        if core:
            claims[core] = is_denied, statement


def _words(statement: str) -> tuple[str, ...]:
    text = normalised(statement)
    for short, long in _SHORT:
        text = text.replace(short, long)
    return tuple(re.findall(r"[^\s,;()\"']+", text))
