"""The servers behind a client: what they list, by which name rules know them, and which living proxy lists a tool.

A server never gets the name of another.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from adjourn.aex.match import NOTHING_KNOWN, KnownTool, KnownTools, as_client_names_it, canonical_server, tool_name_ok
from adjourn.aex.policy import Policy
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.clients.client_process import ClientProcess
from adjourn.errors import AdjournError, ConflictError
from adjourn.host import process
from adjourn.host.process import Process
from adjourn.store.base import Store

RESERVED = ("mcp", "aex", "adjourn")
"""Names that no server can give itself: rules have methods of the protocol and adjourn's own tools under them."""
UNNAMED = "_"
"""What a server without a name claims: a name that no server has."""
MAX_CHANGES = 1000
"""Changed tools that one proxy records when the server lists them; any other is recorded when it is used."""


class ToolHints:
    """What a server's lists say of its tools, by name. All sessions that a gateway has with the server share it; `changes` counts its changes."""

    def __init__(self) -> None:
        self.read_only: dict[str, bool] = {}
        self.destructive: set[str] = set()
        self.changes = 0

    def listed(self, read_only: Mapping[str, bool], destructive: Collection[str]) -> None:
        """The server listed these tools, and which of them are read-only and destructive. What it said of them earlier no longer counts."""
        known = {name: (hint, name in self.destructive) for name, hint in self.read_only.items() if name in read_only}
        if known == {name: (hint, name in destructive) for name, hint in read_only.items()}:
            return
        self.read_only.update(read_only)
        self.destructive.difference_update(read_only)
        self.destructive.update(destructive)
        self.changes += 1


class ServedTools:
    """The tools of one client's server. `name` is "" as long as it is not known; `known` are the tools of all servers; `definitions` has
    the digest of what each tool was last listed as.
    """

    def __init__(self, client: ClientProcess) -> None:
        self._client = client
        self._given, self.command = client.options.server, client.options.command
        """The name that a person gave the server, and what stands for the command that starts it."""
        self.name = canonical_server(self._given)
        self.known = NOTHING_KNOWN
        self.definitions: dict[str, str] = {}
        self.hints = ToolHints()
        self._claim = self._reported = ""
        """What the server calls itself, where no person gave it a name; and the claim of which was reported that another one has it."""
        self._adopted = ""
        """The name that a person gave to a server of the same command, where this one was started without."""
        self._before: dict[str, str] = {}
        self._changes = 0
        self._is_registered = False
        self._may_list = False

    def claim(self, name: str) -> bool:
        """Take note of what the server calls itself. Returns whether that may become its name."""
        canonical = canonical_server(name)
        if self._given or (self.name and not self._adopted) or not canonical or canonical.lower() in RESERVED:
            return False
        self._claim = canonical
        return True

    def settle_name(self) -> bool:
        """Give the server the name that a person gave to its command elsewhere, else the one that it claims, or take that away, as
        another one has it or not. Returns whether that changed it. Raises `StoreError`.
        """
        if self._given:
            return False
        before = self.name
        self._adopted = given_name(self._client.store, self.command)
        if self._adopted:
            self.name = self._adopted
            return self.name != before
        if not self._claim:
            return False
        is_taken = is_anothers(self._client.store, self._claim, self.command)
        if is_taken and self._claim != self._reported:
            self._reported = self._claim
            self._client.on_event(
                "server.name",
                f"the server calls itself {self._claim}, as another one is named; give it a name with --name",
            )
        self.name = "" if is_taken else self._claim
        return self.name != before

    def forget_own_name(self) -> None:
        """Have it known by the name that a person gave it alone. Raises `StoreError`."""
        if self._given:
            forget_own_name(self._client.store, self.command)

    def look(self) -> bool:
        """Take in which tools all servers have listed. Returns whether they are others than before. Raises `StoreError`."""
        before, self.known = self.known, known_tools(self._client.store)
        return self.known != before

    def keep(self, tools: Iterable[KnownTool]) -> None:
        """Keep the whole list of the server's tools. Raises `StoreError`."""
        keep_tools(
            self._client.store, self.name, tools, command=self.command, is_given=bool(self._given or self._adopted)
        )

    def judged_by(self, policy: Policy) -> Policy:
        """The policy as it holds for the tools of the server."""
        name = self._given or self.name
        known = self.known.without(self.command, but=name)
        if name or not self.command:
            return policy.at_server(name, known)
        return policy.at_server("", known, claim=self._claim or UNNAMED)

    def listed(self, definitions: Mapping[str, str]) -> None:
        """Take in how the server lists its tools."""
        for tool, definition in definitions.items():
            if self.definitions.get(tool, definition) != definition:
                self._before.setdefault(tool, self.definitions[tool])
        self.definitions.update(definitions)

    def record_changes(self, session: GuardedSession) -> None:
        """Have a task know how the server lists its tools now. Raises what recording raises."""
        if self.definitions and self._changes < MAX_CHANGES:
            room = MAX_CHANGES - self._changes
            self._changes += session.listed(self.command, self.definitions, self._before, room)
            self._before.clear()

    # --- among the proxies of the client

    def register(self, tools: Iterable[str]) -> None:
        """Write down that the client's hooks may leave these tools to this proxy. Raises `StoreError`, `RefusedError`."""
        client = self._client
        with client.lock:
            if not self._is_registered and not client.replica:  # a gateway does it at its start
                forget_dead(client.store)
            self._is_registered = True
            register(client.store, client.secret, client.group, client.process, tools)

    def become_lister(self, tools: Sequence[str]) -> Lister:
        """Which proxy of this client gives it the meta-tools: another that lives, else this one from now on. Raises `StoreError`."""
        client = self._client
        with client.lock:
            self._may_list = True
            return become_lister(client.store, self._lister_ref, client.process, tools)

    def stop_listing(self) -> None:
        """Leave the meta-tools to another proxy of this client: this one ends."""
        client = self._client
        if self._may_list:
            with client.lock, suppress(AdjournError):
                stop_listing(client.store, self._lister_ref, client.process)

    def lists_for_others(self) -> bool:
        """Whether this proxy alone gives the client the meta-tools, and others that live rely on it. Raises `StoreError`."""
        client = self._client
        with client.lock:
            if not self._may_list or lister(client.store, self._lister_ref) != client.process:
                return False
            return has_sisters(client.store, client.group, client.process)

    def withdraw(self) -> None:
        """Have the client's hooks decide on these tools themselves: this proxy ends. A failing store is left alone."""
        client = self._client
        if self._is_registered:
            with suppress(AdjournError):
                withdraw(client.store, client.group, client.process)

    @property
    def _lister_ref(self) -> str:
        return lister_ref(self._client.group, self._client.options.task)


# --- the tools that each server of a workspace listed last, in the refs `tools/SERVER`

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
    by_name = {name.removeprefix(TOOLS): _read(text) for name, text in sorted(refs.items())[:MAX_SERVERS]}
    servers = {name: listed for name, listed in by_name.items() if name and canonical_server(name) == name}
    return KnownTools(
        MappingProxyType({name: listed.tools for name, listed in servers.items()}),
        MappingProxyType({name: listed.command for name, listed in servers.items()}),
    )


def given_name(store: Store, command: str) -> str:
    """The name that a person gave to the server that a command starts; "" for none, and for several. Raises `StoreError`."""
    if not command:
        return ""
    refs = {name.removeprefix(TOOLS): _read(text) for name, text in store.refs(TOOLS).items()}
    names = [name for name, listed in refs.items() if listed.is_given and listed.command == command]
    return names[0] if len(names) == 1 and canonical_server(names[0]) == names[0] else ""


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


# --- which tools stand behind the living proxies of a client

PROXY, LISTER = "proxy/", "lister/"
MAX_BYTES = 1_000_000
"""Of the names that one proxy registers. A server with more of them is gated by the hook."""
MAX_ATTEMPTS = 5
"""How often a proxy tries to become the lister while others try the same."""


def forget_dead(store: Store) -> None:
    """Delete what dead proxies and dead gateways have written. It reads what all of them wrote, so a process calls it once."""
    for prefix in (PROXY, LISTER):
        for name, value in store.refs(prefix).items():
            who = _process_of(name.partition("@")[0]) if prefix == PROXY else _lister_in(value).process
            if process.lives(who) is False:
                with suppress(ConflictError):  # another one takes it away
                    store.swap(name, None, expect=value, durable=False)


def register(store: Store, secret: bytes, group: str, here: Process, tools: Iterable[str]) -> None:
    """Write down the tools that the proxy `here` lists to the client of `group`."""
    own = f"{PROXY}{group}/{here}"
    names = msgspec.json.encode(sorted(set(tools))).decode()
    if len(names) <= MAX_BYTES:
        store.swap(own, f"{_seal(secret, own, names)}:{names}", expect=store.ref(own), durable=False)


def withdraw(store: Store, group: str, here: Process) -> None:
    """Take away what the proxy `here` has registered."""
    name = f"{PROXY}{group}/{here}"
    if (value := store.ref(name)) is not None:
        store.swap(name, None, expect=value, durable=False)


class Lister(NamedTuple):
    """The proxy that gives a client the meta-tools, and their names."""

    process: Process
    tools: Collection[str]


def lister_ref(group: str, bound: str) -> str:
    """The ref that names the lister among the proxies of a group; those that are `bound` to a task have one of their own."""
    return f"{LISTER}{group}{'@' * bool(bound)}{bound}"


def become_lister(store: Store, name: str, here: Process, tools: Sequence[str]) -> Lister:
    """Who lists the meta-tools: the living proxy that has listed them before, else `here` from now on."""
    own = Lister(here, tools)
    for _ in range(MAX_ATTEMPTS):
        value = store.ref(name)
        lister = _lister_in(value or "")
        if lister.process != here and process.lives(lister.process) is True:
            return lister
        with suppress(ConflictError):  # another proxy was faster: look again
            store.swap(name, " ".join((str(here), *tools)), expect=value, durable=False)
            return own
    return own


def lister(store: Store, name: str) -> Process:
    """The proxy that listed the meta-tools last; it may have ended."""
    return _lister_in(store.ref(name) or "").process


def stop_listing(store: Store, name: str, here: Process) -> None:
    """Let another proxy list the meta-tools."""
    value = store.ref(name)
    if value is not None and _lister_in(value).process == here:
        with suppress(ConflictError):  # it is taken already
            store.swap(name, None, expect=value, durable=False)


def has_sisters(store: Store, group: str, here: Process) -> bool:
    """Whether another living proxy of the group has listed tools."""
    names = (name for name in store.refs(f"{PROXY}{group}/") if name != f"{PROXY}{group}/{here}")
    return any(process.lives(_process_of(name)) is True for name in names)


def _lister_in(value: str) -> Lister:
    who, *tools = value.split(" ")
    return Lister(_process_of(f"/{who}"), tools)


def is_listed(store: Store, secret: bytes, groups: Collection[str], tool: str) -> bool:
    """Whether a living proxy of one of the groups has listed a tool, which is named as clients spell it."""
    tool = as_client_names_it(tool)
    for name, value in store.refs(PROXY).items():
        group = name.removeprefix(PROXY).rsplit("/", 3)[0]
        seal, _, names = value.partition(":")
        if (
            group in groups
            and hmac.compare_digest(seal.encode(), _seal(secret, name, names).encode())
            and process.lives(_process_of(name)) is True
            and tool in map(as_client_names_it, msgspec.json.decode(names, type=list[str]))
        ):
            return True
    return False


def _seal(secret: bytes, name: str, names: str) -> str:
    return hmac.digest(secret, f"adjourn/proxy/1:{name}:{names}".encode(), "sha256").hex()


def _process_of(name: str) -> Process:
    """The process in a ref's name; of one that is not ours, none that could live."""
    parts = name.rsplit("/", 3)
    numbers = [int(part) if part.isdecimal() and part.isascii() else -1 for part in parts[2:]]
    return Process(parts[1], *numbers) if len(numbers) == 2 else Process("", -1, -1)
