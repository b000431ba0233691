"""Completes a plan with the policy: what the servers of the settings listed becomes rules, tool by tool.

Nothing is written here, and no server started.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from adjourn.aex.layers import discover
from adjourn.aex.match import NOTHING_KNOWN, KnownTools, as_client_names_it
from adjourn.errors import AdjournError
from adjourn.setup import first_policy, jsonc, toml_text
from adjourn.setup.first_policy import ListedServer
from adjourn.setup.places import CLAUDE, CLAUDE_HOOKS, CODEX, CODEX_SERVERS, POLICY, read_plain, table
from adjourn.setup.planning import SettingsChange, SetupNote, SetupPlan, with_line_ends
from adjourn.setup.probe import Probed, ProbedTool, ServerStart
from adjourn.setup.servers import ServerEntry, start_of

NOT_STARTED = Probed(failure="was not started")
_OFF = Probed(failure="is disabled in its settings")
_OBSERVE = "write the line `mode observe` into it"


def to_probe(setup: SetupPlan) -> list[ServerEntry]:
    """The servers of which the policy says nothing yet, each command once."""
    servers: list[ServerEntry] = []
    for entry in setup.servers:
        if entry.name and not any(entry.starts_as(other) for other in servers):
            servers.append(entry)
    names = [entry.name for entry in servers]
    if (text := _there(setup)) is not None:
        names = first_policy.unnamed(text, names)
    return [entry for entry in servers if entry.name in names]


def start(entry: ServerEntry, root: str, environment: Mapping[str, str]) -> ServerStart | Probed:
    """How a server is started to see its tools; why it is not."""
    if entry.is_off:
        return _OFF
    planned = start_of(entry, root, environment)
    return Probed(failure=f"needs {planned}, which only its client knows") if isinstance(planned, str) else planned


def new_tools(setup: SetupPlan, known: KnownTools, written: Sequence[str]) -> list[ListedServer]:
    """The servers of which the policy has rules, with the tools that they list since. `known` is what the store has of them, `written`
    are the policies that adjourn wrote here.
    """
    if not known or (text := _there(setup)) is None:
        return []
    probed = {entry.name for entry in to_probe(setup)}
    entries = {entry.name: entry for entry in setup.servers if entry.name not in probed}
    servers = []
    for name, entry in entries.items():
        tools = first_policy.unruled(text, written, name, _listed_by(entry, known))
        if tools:
            probed_tools = tuple(map(ProbedTool.of_known, tools))
            servers.append(ListedServer(name, entry.source, Probed(tools=probed_tools), is_more=True))
    return servers


def _listed_by(entry: ServerEntry, known: KnownTools) -> KnownTools:
    """What a server is known to list; nothing if another command than its own listed that."""
    is_another = known.commands.get(entry.name) not in ("", entry.command_digest) and not entry.has_placeholders
    return NOTHING_KNOWN if is_another else known


def with_tools(
    setup: SetupPlan,
    answers: Sequence[tuple[ServerEntry, Probed]],
    *,
    observe: bool,
    known: KnownTools = NOTHING_KNOWN,
    written: Sequence[str] = (),
    for_gateway: bool = False,
) -> list[ListedServer]:
    """Have the plan's policy name the servers' tools. Returns the servers as the policy names them.

    Of a server that did not answer, the tools that the store knows count. `for_gateway`: a first policy has no rules for clients' own tools.
    """
    listed: dict[str, ListedServer] = {}
    for entry, answer in answers:
        tools = _listed_by(entry, known).servers.get(entry.name, ()) if answer.failure else ()
        probed = Probed(tools=tuple(map(ProbedTool.of_known, tools))) if tools else answer
        server = ListedServer(entry.name, entry.source, probed)
        listed[entry.name] = _both(listed[entry.name], server) if entry.name in listed else server
    servers = [*listed.values(), *new_tools(setup, known, written)]
    _ask_once(setup, servers)
    text = _there(setup)
    if text is None:
        path = os.path.join(setup.root, POLICY)
        if for_gateway:
            after = first_policy.compose_gateway(servers, observe=observe)
        else:
            after = first_policy.compose(servers, asks=CODEX not in setup.clients, observe=observe)
        if path in setup.changes:
            setup.changes[path] = setup.changes[path]._replace(after=after)
        return servers
    path = os.path.join(setup.root, os.path.relpath(discover(setup.root) or "", setup.root))
    if (after := first_policy.extended(text, servers)) != text:
        setup.changes[path] = SettingsChange(path, text, after, ["rules for tools that no rule names"])
    if observe:
        setup.notes.append(SetupNote(path, "is there already, and its mode stays", _OBSERVE))
    return servers


def _ask_once(setup: SetupPlan, servers: Sequence[ListedServer]) -> None:
    """Have clients not ask about what the policy allows unasked: tools that only read, by their names, and adjourn's own.

    A server that is taken from behind the proxy later is then still asked about, but for these. Codex does not ask about adjourn's own.
    """
    names = {entry.name: entry.title or entry.name for entry in setup.servers}
    reads = [
        (names[tool.server], tool.tool.name)
        for server in servers
        for tool in first_policy.ruled(server)
        if tool.ruling == "allow" and tool.server in names
    ]
    in_claude, in_codex = setup.behind.get(CLAUDE, ()), setup.behind.get(CODEX, ())
    prefixes = {name: f"mcp__{as_client_names_it(name)}__" for name in in_claude}
    rules = [prefix + tool for prefix in prefixes.values() for tool in ("aex_*", "adjourn_*")]
    rules += [prefixes[name] + as_client_names_it(tool) for name, tool in reads if name in prefixes]
    _edit(setup, CLAUDE_HOOKS, lambda text: _allowing(text, rules))
    tables = [("mcp_servers", name, "tools", tool) for name, tool in reads if name in in_codex]
    approved = {"approval_mode": "approve"}
    _edit(setup, CODEX_SERVERS, lambda text: toml_text.with_new_tables(text, tables, approved))


def _edit(setup: SetupPlan, name: str, edited: Callable[[str], str]) -> None:
    """Change a client's settings further. Those in another spelling stay: nothing is broken without this."""
    path = os.path.join(setup.root, name)
    with suppress(AdjournError):
        text = setup.changes[path].after if path in setup.changes else read_plain(path, setup.root)
        if (after := edited(text)) != text:
            before = setup.changes.get(path) or SettingsChange(path, text, text, [])
            about = [*before.about, "no question about what the policy allows unasked"]
            setup.changes[path] = before._replace(after=with_line_ends(before.before, after), about=about)


def _allowing(text: str, rules: Sequence[str]) -> str:
    """Claude Code's settings with these rules among those that it allows."""
    place = ("permissions", "allow")
    allowed = table(table(jsonc.read(text).value, place[0]), place[1])
    there = allowed if isinstance(allowed, list) else []
    new = [rule for rule in dict.fromkeys(rules) if rule not in there]
    if new and not there:
        return jsonc.edited(text, place, new)
    for number, rule in enumerate(new, len(there)):
        text = jsonc.edited(text, (*place, number), rule)
    return text


def _both(first: ListedServer, second: ListedServer) -> ListedServer:
    """Two servers of one name: the tools of both, each with the hints that make it worse."""
    tools = {tool.name: tool for tool in first.probed.tools}
    for tool in second.probed.tools:
        tools[tool.name] = tool.merged(tools.get(tool.name))
    failure = "" if tools else first.probed.failure or second.probed.failure
    source = f"{first.source}; {second.source}"
    return ListedServer(first.name, source, first.probed._replace(tools=tuple(tools.values()), failure=failure))


def _there(setup: SetupPlan) -> str | None:
    """The text of the workspace's policy; None if there is none, or it cannot be read as one."""
    if (path := discover(setup.root)) is None:
        return None
    with suppress(AdjournError):
        return read_plain(path, setup.root)
    return ""
