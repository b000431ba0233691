"""Which tools stand behind the living proxies of a client: what its hooks may leave to them.

A proxy writes down the tools that it has listed to its client, in the ref `proxy/GROUP/PROCESS`:

    seal ":" JSON array of the tools' names

The seal is an HMAC of the ref's name and the names under the user's secret, which no agent has. A registration counts while the
process of its name lives. So a name that a client's settings or a repository choose for a server proves nothing by itself.

Which of these proxies gives the client the meta-tools is in the ref `lister/GROUP` (`lister/GROUP@TASK` for those that a person bound to
a task), as `PROCESS NAME…`. It is taken by the proxy whose list is read first, and is free again when that process ends (ADR 0020).

Owns: these refs. Must never: take a process for alive that cannot be seen.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.aex import as_client_names_it
from adjourn.errors import ConflictError
from adjourn.host import Process, process
from adjourn.store import Store

PROXY, LISTER = "proxy/", "lister/"
MAX_BYTES = 1_000_000
"""Of the names that one proxy registers. A server with more of them is gated by the hook."""
MAX_ATTEMPTS = 5
"""How often a proxy tries to become the lister while others try the same."""


def register(store: Store, secret: bytes, group: str, here: Process, tools: Iterable[str]) -> None:
    """Write down the tools that the proxy `here` lists to the client of `group`; take away those of proxies that are gone."""
    own = f"{PROXY}{group}/{here}"
    for name, value in store.refs(PROXY).items():
        if name != own and process.lives(_process_of(name)) is False:
            with suppress(ConflictError):  # another proxy takes it away
                store.swap(name, None, expect=value, durable=False)
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
        if value is None:
            _forget_listers(store)
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


def _forget_listers(store: Store) -> None:
    for name, value in store.refs(LISTER).items():
        if process.lives(_lister_in(value).process) is False:
            with suppress(ConflictError):
                store.swap(name, None, expect=value, durable=False)


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
