"""The tools that each server of a workspace listed last, in the refs `tools/SERVER`.

A ref holds JSON: the tools, a digest of the command that starts the server (`command`), and whether a person gave the server its name
(`isGiven`). The proxy writes it when a whole list has passed, and so does whoever starts a server to see its tools.

Owns: these refs. Must never: take a ref's text for true where it is not of this form.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from types import MappingProxyType

import msgspec

from adjourn.aex import NOTHING_KNOWN, KnownTool, KnownTools, canonical_server, tool_name_ok
from adjourn.errors import ConflictError
from adjourn.store import Store

TOOLS = "tools/"
MAX_TOOLS = 1000
"""Tools that are kept of one server."""
MAX_SERVERS = 100


class _Listed(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a ref holds."""

    tools: tuple[KnownTool, ...] = ()
    command: str = ""
    is_given: bool = False


def keep_tools(
    store: Store, server: str, tools: Iterable[KnownTool], *, command: str = "", is_given: bool = True
) -> None:
    """Keep the tools of a server, by its canonical name. Nothing is written if they are known already.

    A server is no longer known by another name that it gave itself before. Raises `StoreError`.
    """
    if canonical_server(server) != server or not server:
        return
    own = f"{TOOLS}{server}"
    by_name = {tool.name: tool for tool in tools if tool_name_ok(tool.name)}
    first = sorted(by_name.values(), key=lambda tool: tool.name)[:MAX_TOOLS]
    value = msgspec.json.encode(_Listed(tuple(first), command, is_given)).decode()
    refs = store.refs(TOOLS)
    if refs.get(own) != value and (own in refs or len(refs) < MAX_SERVERS):
        with suppress(ConflictError):  # another proxy of this server was faster
            store.swap(own, value, expect=refs.get(own), durable=False)
    forget_own_name(store, command, but="" if is_given else server)


def forget_own_name(store: Store, command: str, *, but: str = "") -> None:
    """Forget what the server that a command starts has called itself: it has another name now. Raises `StoreError`."""
    for name, text in store.refs(TOOLS).items():
        listed = _read(text)
        if command and listed.command == command and not listed.is_given and name != f"{TOOLS}{but}":
            with suppress(ConflictError):  # another proxy of this server was faster
                store.swap(name, None, expect=text, durable=False)


def known_tools(store: Store) -> KnownTools:
    """The tools of all servers that have listed any. Raises `StoreError`."""
    refs = store.refs(TOOLS)
    if not refs:
        return NOTHING_KNOWN
    found = {name.removeprefix(TOOLS): _read(text) for name, text in sorted(refs.items())[:MAX_SERVERS]}
    servers = {name: listed for name, listed in found.items() if name and canonical_server(name) == name}
    return KnownTools(
        MappingProxyType({name: listed.tools for name, listed in servers.items()}),
        MappingProxyType({name: listed.command for name, listed in servers.items()}),
    )


def is_anothers(store: Store, server: str, command: str) -> bool:
    """Whether a server that another command starts has this name. Raises `StoreError`."""
    listed = _read(store.ref(f"{TOOLS}{server}") or "")
    return listed.command not in ("", command)


def _read(text: str) -> _Listed:
    try:
        listed = msgspec.json.decode(text, type=_Listed)
    except (msgspec.DecodeError, RecursionError):
        return _Listed()
    tools = tuple(tool for tool in listed.tools[:MAX_TOOLS] if tool_name_ok(tool.name))
    return msgspec.structs.replace(listed, tools=tools)
