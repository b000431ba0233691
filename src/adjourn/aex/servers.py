"""Names of servers and of their tools: `inv.remove_item` is the tool `remove_item` of the server `inv`.

Owns: the spelling of a server's name, `KnownTools`. Must never: start a server, read a store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

MAX_SERVER_NAME = 64
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]")
_CHANGED_BY_CLIENTS = re.compile(r"[^A-Za-z0-9_-]")


def canonical_server(name: str) -> str:
    """A server's name as policies and histories have it: letters, digits and `_`, which stands for every other character.

    "" for a name without a letter or digit: that names no server.
    """
    canonical = _NOT_IN_A_NAME.sub("_", name[:MAX_SERVER_NAME])
    return canonical if canonical.strip("_") else ""


def as_client_names_it(name: str) -> str:
    """A server's or tool's name as it stands in the names that clients give to tools (`mcp__SERVER__TOOL`)."""
    return _CHANGED_BY_CLIENTS.sub("_", name)


class KnownTool(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool as its server listed it last, with the hints that are set."""

    name: str
    read_only: bool = False
    destructive: bool = False


class KnownTools(msgspec.Struct, frozen=True):
    """The tools of each server that has listed any, by the server's canonical name.

    `commands` has a digest of the command that starts it, "" where that is not known.
    """

    servers: Mapping[str, tuple[KnownTool, ...]] = MappingProxyType({})
    commands: Mapping[str, str] = MappingProxyType({})

    def __bool__(self) -> bool:
        return bool(self.servers)

    def names(self) -> Iterator[tuple[str, str]]:
        """Each known tool, as server and tool."""
        for server, tools in self.servers.items():
            for tool in tools:
                yield server, tool.name

    def without(self, command: str) -> KnownTools:
        """All but the servers that a command starts."""
        own = {server for server in self.servers if command and self.commands.get(server) == command}
        if not own:
            return self
        return KnownTools(
            MappingProxyType({name: tools for name, tools in self.servers.items() if name not in own}),
            MappingProxyType({name: one for name, one in self.commands.items() if name not in own}),
        )

    def with_tool(self, name: str) -> tuple[str, ...]:
        """The servers that have a tool of this name."""
        return tuple(server for server, tool in self.names() if tool == name)


NOTHING_KNOWN = KnownTools()
