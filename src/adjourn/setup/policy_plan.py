"""Completes a plan with the policy: what the servers of the settings listed becomes rules, tool by tool.

Nothing is written here, and no server started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from adjourn.aex.layers import discover
from adjourn.errors import AdjournError
from adjourn.setup import first_policy
from adjourn.setup.first_policy import ListedServer
from adjourn.setup.places import CODEX, POLICY, read_plain
from adjourn.setup.planning import SettingsChange, SetupNote, SetupPlan
from adjourn.setup.probe import Probed, ServerStart
from adjourn.setup.servers import ServerEntry, start_of

NOT_STARTED = Probed(failure="was not started")
_OFF = Probed(failure="is disabled in its settings")
_OBSERVE = "write the line `mode observe` into it"


def to_probe(setup: SetupPlan) -> list[ServerEntry]:
    """The servers of which the policy says nothing yet, each command once."""
    servers = {(entry.name, *entry.words): entry for entry in setup.servers if entry.name}
    names = [entry.name for entry in servers.values()]
    if (text := _there(setup)) is not None:
        names = first_policy.unnamed(text, names)
    return [entry for entry in servers.values() if entry.name in names]


def start(entry: ServerEntry, root: str, environment: Mapping[str, str]) -> ServerStart | Probed:
    """How a server is started to see its tools; why it is not."""
    if entry.is_off:
        return _OFF
    planned = start_of(entry, root, environment)
    return Probed(failure=f"needs {planned}, which only its client knows") if isinstance(planned, str) else planned


def with_tools(setup: SetupPlan, answers: Sequence[tuple[ServerEntry, Probed]], *, observe: bool) -> list[ListedServer]:
    """Have the plan's policy name the servers' tools. Returns the servers as the policy names them."""
    listed: dict[str, ListedServer] = {}
    for entry, probed in answers:
        server = ListedServer(entry.name, entry.program, probed)
        listed[entry.name] = _both(listed[entry.name], server) if entry.name in listed else server
    servers = list(listed.values())
    text = _there(setup)
    if text is None:
        path = os.path.join(setup.root, POLICY)
        after = first_policy.compose(servers, asks=CODEX not in setup.clients, observe=observe)
        if path in setup.changes:
            setup.changes[path] = setup.changes[path]._replace(after=after)
        return servers
    path = os.path.join(setup.root, os.path.relpath(discover(setup.root) or "", setup.root))
    if (after := first_policy.extended(text, servers)) != text:
        setup.changes[path] = SettingsChange(path, text, after, ["rules for the tools of new servers"])
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
