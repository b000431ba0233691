"""A narrower policy, proposed from the calls that were recorded: comments and order of the policy stay.

    a pattern that no call matched          goes into a comment
    `notes.*`, of which two were called     becomes the names of those two
    a tool whose calls stay in one folder   gets it as its scope
    a tool that `mode observe` let pass     is allowed, with a confirm if it writes; left out if its name says that it destroys

The opposite stands beside it: a policy that no longer asks before a tool, proposed from a call that waits.

A deny, a confirm and a line with a condition that was used stay as they are. There is no I/O here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from adjourn.aex.ast import ConfirmStep, Permission
from adjourn.aex.check import examine
from adjourn.aex.match import fold, matches, names_own, shares, split_scope
from adjourn.aex.permissions import from_text, layer
from adjourn.aex.policy import Policy
from adjourn.errors import InvalidError, RefusedError
from adjourn.policy.tool_effects import effect_of

MIN_CALLS = 20
"""Recorded calls from which on it counts that a tool was never called."""
MIN_IN_FOLDER = 5
"""Calls in one folder from which on it is proposed as a scope."""
MAX_NAMES = 8
"""Names that a wildcard is replaced by."""
KEPT = frozenset((
    "tools.search", "user.ask", "todo.read", "todo.write", "plan.enter", "plan.exit",
))  # fmt: skip
"""Tools that reach nothing, and that clients need now and then."""
_TITLE = "# --- Called while the policy observed, and allowed by no rule ---"


class ToolUse(msgspec.Struct):
    """The recorded calls of a tool, and the places that they led to: None if that is not known of each."""

    server: str
    tool: str
    calls: int = 0
    paths: set[str] | None = msgspec.field(default_factory=set)

    @property
    def name(self) -> str:
        """Its name in policies."""
        return f"{self.server}.{self.tool}" if self.server else self.tool

    def count(self, paths: Iterable[str]) -> None:
        """Another call; no paths: it is not known where it led."""
        self.calls += 1
        counted = set(paths)
        self.paths = self.paths | counted if counted and self.paths is not None else None


class Proposal(msgspec.Struct, frozen=True):
    """A change of a line (0: a new one), the calls that speak for it, and what it does."""

    line: int
    rule: str
    calls: int
    text: str


class Tightened(msgspec.Struct, frozen=True):
    text: str
    proposals: list[Proposal]


def tightened(text: str, source: str, uses: Collection[ToolUse]) -> Tightened:
    """The proposed policy. Raises `InvalidError` for a policy with errors."""
    document = examine(text, source)
    if any(finding.severity == "error" for finding in document.findings):
        raise InvalidError(f"{source} has errors", f"see them: adjourn policy check {source}")
    lines = text.split("\n")
    proposals: list[Proposal] = []
    for permission in reversed([line for line in document.permissions if line.keyword in ("use", "allow")]):
        at = permission.word.line - 1
        new, finding = _line(permission, lines[at], uses)
        if finding:
            lines[at : at + 1] = new
            proposals[:0] = finding
    policy = layer(document)
    if policy.observe:
        added = list(_observed(policy, uses))
        proposals += [proposal for _, proposal in added]
        new = [line for line, _ in added if line]
        if new:
            lines = [*"\n".join(lines).rstrip("\n").split("\n"), "", _TITLE, "", *new, ""]
    narrowed = "\n".join(lines)
    if any(finding.severity == "error" for finding in from_text(narrowed, source)[1]):
        raise InvalidError(f"{source} cannot be narrowed line by line", "edit it by hand")
    return Tightened(narrowed, proposals)


def _line(permission: Permission, line: str, uses: Collection[ToolUse]) -> tuple[list[str], list[Proposal]]:
    """The lines in the place of one that allows, and what was changed in it."""
    needed: list[str] = []
    unused: list[str] = []
    proposals: list[Proposal] = []
    enough = sum(use.calls for use in uses) >= MIN_CALLS
    for word in permission.patterns:
        pattern, scope = split_scope(word.text)
        matched = [use for use in uses if _counts_for(pattern, use)]
        calls = sum(use.calls for use in matched)
        if not matched and enough and pattern not in KEPT:
            unused.append(word.text)
            proposals.append(Proposal(word.line, word.text, 0, "never called: no longer allowed"))
            continue
        new = [word.text] if scope or permission.where else _narrowed(word.text, matched)
        needed += new
        if new != [word.text]:
            proposals.append(Proposal(word.line, word.text, calls, f"only {', '.join(new)}"))
    if permission.where and needed:
        return [line], []
    indent = line[: len(line) - len(line.lstrip())]
    gone = line.strip() if not needed else f"{permission.keyword} {', '.join(unused)}"
    return (
        [f"{indent}# Never called: {gone}"] * bool(unused)
        + [f"{indent}{permission.keyword} {', '.join(needed)}"] * bool(needed),
        proposals,
    )


def _counts_for(pattern: str, use: ToolUse) -> bool:
    """Whether an allow by the pattern is one for the tool: `git.*` is none for a server `git`."""
    names = any(matches(pattern, name) for name in (use.name, use.tool))
    return names and (not use.server or shares(pattern, use.tool))


def _narrowed(pattern: str, matched: Sequence[ToolUse]) -> list[str]:
    """What the calls needed of a pattern without scope."""
    if pattern.endswith("*"):
        names = sorted({use.name for use in matched})
        return names if names and len(names) <= MAX_NAMES else [pattern]
    folder = _folder(matched)
    return [f"{pattern}:{folder}/**"] if folder else [pattern]


def _folder(matched: Sequence[ToolUse]) -> str:
    """The folder of the workspace that holds every place which the calls led to; "" for none."""
    if sum(use.calls for use in matched) < MIN_IN_FOLDER:
        return ""
    paths: set[str] = set()
    for use in matched:
        if use.paths is None:
            return ""
        paths |= use.paths
    first = {path.partition("/")[0] for path in paths if "/" in path and not path.startswith(("/", ".."))}
    inside = all("/" in path for path in paths)
    [folder] = first if len(first) == 1 and inside else [""]
    return folder if folder and not set(folder) & set("*?,: \"'#") else ""


def _observed(policy: Policy, uses: Collection[ToolUse]) -> Iterator[tuple[str, Proposal]]:
    """Lines for the tools that were called and that no rule allows."""
    for use in sorted(uses, key=lambda call: call.name):
        bound = policy.at_server(use.server) if use.server else policy
        if bound.judge(use.tool).effect != "closed" or bound.looks_at_arguments(use.tool):
            continue
        if use.server and names_own(use.name):
            yield "", Proposal(0, use.name, use.calls, "stays refused (it is called as a tool of no server)")
            continue
        effect = effect_of(use.tool)
        if effect.kind == "destroys":
            yield "", Proposal(0, use.name, use.calls, f"stays refused ({effect.why})")
            continue
        lines = [f"allow {use.name}"] + [f"confirm before {use.name}"] * (effect.kind == "writes")
        asks = ", with a confirm" if effect.kind == "writes" else ""
        yield "\n".join(lines), Proposal(0, use.name, use.calls, f"allowed{asks} ({effect.why})")


# --- a policy that no longer asks before a tool, proposed from a call that waits


class Loosened(NamedTuple):
    """The proposed policy, and the patterns that still ask before the tool."""

    text: str
    still: list[str]


def without_confirm(text: str, source: str, names: Collection[str]) -> Loosened:
    """The policy without the confirms that name just this tool, by any of its `names`.

    Raises `InvalidError` for a policy with errors, and `RefusedError` where only wider patterns, or none, ask.
    """
    document = examine(text, source)
    if any(finding.severity == "error" for finding in document.findings):
        raise InvalidError(f"{source} has errors", f"see them: adjourn policy check {source}")
    own = {fold(name) for name in names}
    lines = text.split("\n")
    still: list[str] = []
    is_changed = False
    for step in document.steps:
        if not isinstance(step, ConfirmStep):
            continue
        remaining = [word.text for word in step.patterns if fold(split_scope(word.text)[0]) not in own]
        still += [each for each in remaining if any(matches(split_scope(each)[0], name) for name in names)]
        if len(remaining) < len(step.patterns):
            is_changed = True
            at = step.word.line - 1
            lines[at] = _without(lines[at], step.before.text, remaining)
    if not is_changed:
        asks = ", ".join(f"confirm before {each}" for each in still)
        why = f"{asks} asks about other tools, too" if still else f"no rule of {source} asks before it"
        raise RefusedError(f"{why}: there is no narrower proposal", f"edit {source} by hand")
    after = "\n".join(lines)
    if any(finding.severity == "error" for finding in from_text(after, source)[1]):
        raise InvalidError(f"{source} cannot be changed line by line", "edit it by hand")
    return Loosened(after, still)


def _without(line: str, patterns: str, remaining: list[str]) -> str:
    if remaining:
        return line.replace(patterns, ", ".join(remaining), 1)
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}# Always allowed: {line.strip()}"
