"""Who may speak for a person. The rules, in order:

1. A process that descends from a client which adjourn governs speaks for that client's agent.
2. A process without a controlling terminal speaks for no person.

A person's settings waive either, everywhere or for what lies in some folders. They are in the account's home folder, which the
user database names: no environment variable, and no file in a workspace, can be them.

Owns: these rules, and reading those settings. Must never: be taken for a wall. A process that was started apart from its client,
with a terminal of its own, looks like a person's.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from adjourn.clients.client import BOUND, CLIENT
from adjourn.errors import AdjournError, RefusedError
from adjourn.host import Process, default_store, keys, now, process, read_own_toml
from adjourn.store import Store, open_store
from adjourn.tasks import Task, tasks_of

SETTINGS = ".config/adjourn/settings.toml"
"""In the account's home folder."""
_TERMINAL = "/dev/tty"


class Waivers(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The settings: `true`, or the folders in which everything that a command changes must be.

    `allow_unattended` waives the terminal, `allow_inside_client` lets descendants of a governed client speak.
    """

    allow_unattended: bool | list[str] = False
    allow_inside_client: bool | list[str] = False


def check(command: str, changes: Sequence[str], store: Store | None = None, *, attended: bool = True) -> None:
    """Raise `RefusedError` unless this process may speak for a person.

    `changes` are the real paths of what the command changes, `store` is the one that it works on; `attended`: a person must
    be at a terminal.
    """
    waivers: Waivers | None = None
    client = client_of(store)
    if client is not None:
        waivers = read_waivers()
        if not _covers(waivers.allow_inside_client, changes):
            raise RefusedError(
                f"`{command}` speaks for a person, and was started inside {_shown(client)}, a client that adjourn governs",
                "run it in a terminal of your own, outside that client",
            )
    if not attended or _has_terminal():
        return
    if not _covers((waivers or read_waivers()).allow_unattended, changes):
        raise RefusedError(
            f"`{command}` speaks for a person, and there is no terminal",
            "run it in a terminal of your own; for automation, set allow-unattended in the settings of your account",
        )


def client_of(store: Store | None) -> Process | None:
    """The governed client that this process descends from, if any.

    Those are known that work in the store, or in that of a folder in which an ancestor, or what it started, works: a client's
    proxies are in its workspace, wherever itself and its shells are.
    """
    ancestors = {str(one): one for one in process.ancestors()}
    if store is not None and (found := _governed(store, ancestors)):
        return found
    near = (*ancestors.values(), *process.children([one.pid for one in ancestors.values()]))
    for folder in dict.fromkeys(filter(None, map(process.working_directory, near))):
        path = default_store(folder)
        with suppress(AdjournError):  # nobody works in a store that cannot be read
            if os.path.isfile(path) and (found := _governed_in(path, ancestors)):
                return found
    return None


def _governed_in(path: str, ancestors: Mapping[str, Process]) -> Process | None:
    store = open_store(path)
    try:
        return _governed(store, ancestors)
    finally:
        store.close()


def _governed(store: Store, ancestors: Mapping[str, Process]) -> Process | None:
    return next((ancestors[one] for one in _clients(store) if one in ancestors), None)


def _clients(store: Store) -> Iterator[str]:
    """The processes of clients that have proxies in the store, and of those who have a session open."""
    for kind in (CLIENT, BOUND):
        for name in store.refs(kind):
            yield name.removeprefix(kind).rpartition("/")[0]
    secret = _secret()
    for name in tasks_of(store):
        with suppress(AdjournError):
            for session in Task(store, name, clock=now, secret=secret).ledger.sessions.values():
                yield str(Process(session.host, session.pid, session.started))


def _secret() -> bytes:
    """What seals cached folds. Where a variable leads to no key, they are not trusted: nobody is hidden by that."""
    try:
        return keys.secret()
    except AdjournError:
        return os.urandom(keys.KEY_BYTES)


def _has_terminal() -> bool:
    """Whether there is a controlling terminal; where the standard streams lead does not matter."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _shown(client: Process) -> str:
    return f"{process.program(client.pid) or 'a client'} (process {client.pid})"


# --- the settings


def home() -> str:
    """The account's home folder; "" for a user without an account."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def read_waivers() -> Waivers:
    """The settings, if there are any. Raises `InvalidError` for those that cannot be read, or that others may write."""
    path = os.path.join(home(), SETTINGS)
    remedy = "set only allow-unattended and allow-inside-client, each to true or to a list of folders"
    found = read_own_toml(path, Waivers, remedy) if os.path.isabs(path) else None
    return found.settings if found else Waivers()


def _covers(waiver: bool | list[str], changes: Sequence[str]) -> bool:  # a value of the settings
    if isinstance(waiver, bool):
        return waiver
    folders = [os.path.realpath(folder).rstrip("/") + "/" for folder in waiver if os.path.isabs(folder)]
    return all(any(f"{path}/".startswith(folder) for folder in folders) for path in changes)
