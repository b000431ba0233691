"""Which rules name no known tool, and which allows may mean the tools of two servers, or are for none.

Must never: guess that a rule is wrong because its server has not listed its tools yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from adjourn.aex.diagnostics import finding, quoted
from adjourn.aex.match import (
    OWN_TOOLS,
    KnownTools,
    canonical_server,
    fold,
    matches,
    matches_folded,
    names_own,
    split_scope,
)
from adjourn.aex.policy import Policy
from adjourn.aex.rule import Rule
from adjourn.findings import Finding, Span
from adjourn.log.kinds import full_name
from adjourn.text.near_words import nearest

MAX_NAMED = 5
"""Tools or servers that one finding names."""
_KINDS = ("allow", "deny", "confirm", "limits", "once", "checkpoints")


def unmatched_rules(
    policy: Policy, known: KnownTools, *, listed: Collection[str] = (), is_complete: bool = False
) -> list[Finding]:
    """A finding for each rule that names no known tool, and for each allow that is closed because it may mean two servers, or is for none.

    `listed` are the names of servers that may not have listed their tools yet. Patterns that start as the name of a tool of no server are left alone. `is_complete`: there are no servers but the known ones. Else
    a rule for a server that is not known is only reported where it looks like a typing error.
    """
    none = _for_none(policy, known, {*listed, *known.servers})
    if not known:
        return none
    rules = [rule for kind in _KINDS for rule in getattr(policy, kind)]
    allows = [rule for rule in policy.allow if split_scope(rule.pattern)[0] not in OWN_TOOLS]
    unclear = {id(rule): servers for rule, servers in _unclear(allows, known)}
    looked = _Look(known, is_complete=is_complete)
    of_names: dict[tuple[int, str], Finding] = {}
    for rule in rules:
        pattern = split_scope(rule.pattern)[0]
        if id(rule) in unclear:
            told: tuple[str, str, str] | None = _told_unclear(pattern, unclear[id(rule)])
        elif looked.is_fine(pattern, is_allow=rule.kind == "allow"):
            told = None
        else:
            told = looked.about(pattern)
        if told:
            code, message, help_text = told
            unmatched = finding(code, message, Span(rule.line), source=rule.source, help=help_text)
            of_names.setdefault((rule.line, pattern), unmatched)
    return [*none, *of_names.values()]


def _for_none(policy: Policy, known: KnownTools, servers: Collection[str]) -> list[Finding]:
    """A finding for each allow of tools of no server that a server's name and tools look like."""
    rules = []
    for rule in policy.allow_of_anybody:
        pattern = split_scope(rule.pattern)[0]
        head, _, text = pattern.partition(".")
        if head in servers and names_own(pattern):
            tools = [tool.name for tool in known.servers.get(head, ())]
            if text == "*" or text in tools:
                message = f"{quoted(pattern)} is for tools of no server, so it allows none of the server {head}"
                named = [tool for tool in tools if not names_own(f"{head}.{tool}")]
                word = f"write {full_name(head, named[0])}" if named else ""
                rules.append(finding("AEX172", message, Span(rule.line), source=rule.source, help=word))
    return rules


class _Look:
    """The known tools, prepared for many patterns."""

    def __init__(self, known: KnownTools, *, is_complete: bool) -> None:
        self._known = known
        self._heads = {name.partition(".")[0] for name in OWN_TOOLS}
        self._is_complete = is_complete
        self._names = list(known.names())
        self._full = [f"{server}.{tool}" for server, tool in self._names]
        self._short = [tool for _, tool in self._names]
        self._exact = {*self._full, *self._short, *OWN_TOOLS}
        self._folded = set(map(fold, self._exact))

    def is_fine(self, pattern: str, *, is_allow: bool) -> bool:
        """Whether the pattern names a known tool, in either form, or a tool that is of no server."""
        if pattern == "*":
            return True
        forms = (pattern, _canonical(pattern))
        if not pattern.endswith(".*"):
            if is_allow:
                return not self._exact.isdisjoint(forms)
            return not self._folded.isdisjoint(map(fold, forms))
        match = matches if is_allow else matches_folded
        return any(match(form, name) for form in forms for name in self._exact)

    def about(self, pattern: str) -> tuple[str, str, str] | None:
        """The code, message and remedy for a pattern that names no known tool; None where that proves nothing."""
        head, dot, text = _canonical(pattern).partition(".")
        servers = self._known.servers
        if dot and head in servers:
            names = [tool.name for tool in servers[head]]
            meant = nearest(text, names)
            word = f"did you mean {head}.{meant}?" if meant else f"it lists {_listed(names)}"
            return "AEX170", f"{quoted(pattern)} names no tool of the server {head}", word
        if head in self._heads:
            return None
        message = f"{quoted(pattern)} names no tool of the known servers: {_listed(sorted(servers))}"
        if meant := self._near(pattern, head if dot else ""):
            return "AEX170", message, f"did you mean {meant}?"
        return ("AEX170", message, "") if self._is_complete else None

    def _near(self, pattern: str, head: str) -> str:
        if pattern.endswith(".*") or head:
            server = nearest(head, self._known.servers)
            if server:
                text = pattern.partition(".")[2]
                names = [tool.name for tool in self._known.servers[server]]
                return f"{server}.{text if text in ('*', *names) else nearest(text, names) or '*'}"
        return "" if pattern.endswith(".*") else nearest(pattern, self._full if head else self._short)


def _canonical(pattern: str) -> str:
    """The pattern with the canonical name of the server that it may start with."""
    head, dot, text = pattern.partition(".")
    return f"{canonical_server(head) or head}{dot}{text}" if dot else pattern


def _unclear(allows: Sequence[Rule], known: KnownTools) -> Iterator[tuple[Rule, tuple[str, ...]]]:
    """The allows that name a tool of several servers by the short form, with these servers."""
    servers_of: dict[str, list[str]] = {}
    for server, tool in known.names():
        servers_of.setdefault(tool, []).append(server)
    commands = known.commands
    shared = {
        tool: servers
        for tool, servers in servers_of.items()
        if len({commands.get(server) or f" {server}" for server in servers}) > 1  # one command is one server
    }
    for rule in allows if shared else ():
        pattern = split_scope(rule.pattern)[0]
        head, dot, _ = _canonical(pattern).partition(".")
        if pattern == "*" or (dot and head in known.servers):
            continue
        named = shared if pattern.endswith(".*") else {pattern} & shared.keys()
        fromkeys = dict.fromkeys(server for tool in named if matches(pattern, tool) for server in shared[tool])
        if fromkeys:
            yield rule, tuple(fromkeys)


def _told_unclear(pattern: str, servers: Sequence[str]) -> tuple[str, str, str]:
    names = " or ".join(full_name(server, pattern) for server in servers[:MAX_NAMED])
    message = f"{quoted(pattern)} may mean a tool of {_listed(servers)}, so it allows none of them"
    return "AEX171", message, f"write {names}"


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(names[:MAX_NAMED]) or "no tools"
    return f"{text} and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else text
