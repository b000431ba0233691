"""Which tools stand behind the living proxies of a client: what its hooks may leave to them.

A proxy writes down the tools that it has listed to its client, in the ref `proxy/GROUP/PROCESS`:

    seal ":" JSON array of the tools' names

The seal is an HMAC of the ref's name and the names under the user's secret, which no agent has. A registration counts while the
process of its name lives. So a name that a client's settings or a repository choose for a server proves nothing by itself.

Owns: these refs. Must never: take a process for alive that cannot be seen.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Iterable
from contextlib import suppress

import msgspec

from adjourn.errors import ConflictError
from adjourn.host import Process, process
from adjourn.store import Store

PROXY = "proxy/"
MAX_BYTES = 1_000_000
"""Of the names that one proxy registers. A server with more of them is gated by the hook."""
_CHANGED_BY_CLIENTS = re.compile(r"[^A-Za-z0-9_-]")


def as_client_names_it(name: str) -> str:
    """A server's or tool's name as it stands in the names that clients give to tools (`mcp__SERVER__TOOL`)."""
    return _CHANGED_BY_CLIENTS.sub("_", name)


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
