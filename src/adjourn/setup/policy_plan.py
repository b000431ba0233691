"""Completes a plan with the policy: what the servers of the settings listed becomes rules, tool by tool.

Nothing is written here, and no server started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from adjourn.aex.layers import discover
from adjourn.aex.match import NOTHING_KNOWN, KnownTools
from adjourn.errors import AdjournError
from adjourn.setup import first_policy
from adjourn.setup.first_policy import ListedServer
from adjourn.setup.places import CODEX, POLICY, read_plain
from adjourn.setup.planning import SettingsChange, SetupNote, SetupPlan
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
) -> list[ListedServer]:
    """Have the plan's policy name the servers' tools. Returns the servers as the policy names them.

    Of a server that did not answer, the tools that the store knows count.
    """
    listed: dict[str, ListedServer] = {}
    for entry, answer in answers:
        tools = _listed_by(entry, known).servers.get(entry.name, ()) if answer.failure else ()
        probed = Probed(tools=tuple(map(ProbedTool.of_known, tools))) if tools else answer
        server = ListedServer(entry.name, entry.source, probed)
        listed[entry.name] = _both(listed[entry.name], server) if entry.name in listed else server
    servers = [*listed.values(), *new_tools(setup, known, written)]
    text = _there(setup)
    if text is None:
        path = os.path.join(setup.root, POLICY)
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
