"""A policy that no longer asks before a tool, proposed from a call that waits: "always allow this".

    confirm before a, b      becomes `confirm before b`
    confirm before a         goes into a comment

Owns: that proposal. Must never: touch a line that asks about other tools as well (`a.*`), a deny, or an allow; do I/O.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from adjourn.aex import ConfirmStep, examine, fold, from_text, matches, split_scope
from adjourn.errors import InvalidError, RefusedError


class Loosened(NamedTuple):
    """The proposed policy, and the patterns that still ask before the tool."""

    text: str
    still: list[str]


def without_confirm(text: str, source: str, names: Collection[str]) -> Loosened:
    """The policy without the confirms that name just this tool, by any of its `names`.

    Raises `InvalidError` for a policy with errors, and `RefusedError` where only wider patterns, or none, ask.
    """
    document = examine(text, source)
    if any(found.severity == "error" for found in document.findings):
        raise InvalidError(f"{source} has errors", f"see them: adjourn check {source}")
    own = {fold(name) for name in names}
    lines = text.split("\n")
    still: list[str] = []
    is_changed = False
    for step in document.steps:
        if not isinstance(step, ConfirmStep):
            continue
        rest = [word.text for word in step.patterns if fold(split_scope(word.text)[0]) not in own]
        still += [one for one in rest if any(matches(split_scope(one)[0], name) for name in names)]
        if len(rest) < len(step.patterns):
            is_changed = True
            at = step.word.line - 1
            lines[at] = _without(lines[at], step.before.text, rest)
    if not is_changed:
        asks = ", ".join(f"confirm before {one}" for one in still)
        why = f"{asks} asks about other tools, too" if still else f"no rule of {source} asks before it"
        raise RefusedError(f"{why}: there is no narrower proposal", f"edit {source} by hand")
    made = "\n".join(lines)
    if any(found.severity == "error" for found in from_text(made, source)[1]):
        raise InvalidError(f"{source} cannot be changed line by line", "edit it by hand")
    return Loosened(made, still)


def _without(line: str, patterns: str, rest: list[str]) -> str:
    if rest:
        return line.replace(patterns, ", ".join(rest), 1)
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}# Always allowed: {line.strip()}"
