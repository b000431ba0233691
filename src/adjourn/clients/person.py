"""Who may speak for a person. The rules, in order:

1. Where the account has a PIN, whoever gives it at the controlling terminal, and nobody else.
2. A process that descends from a client which adjourn governs speaks for that client's agent.
3. A process without a controlling terminal speaks for no person.

Without a PIN, a person's settings waive 2 or 3, everywhere or for what lies in some folders. Nothing waives 1: an agent that can write
the settings must not get past the PIN. PIN and settings are in the account's home folder, which the user database names: no environment
variable, and no file in a workspace, can be them.

A store notes the PIN that was given for it. Where the account has another one, or none, nobody speaks for a person in that store.

Owns: these rules, and asking for the PIN. Must never: be taken for a wall without a PIN. A process that was
started apart from its client, with a terminal of its own, looks like a person's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal

from adjourn.clients.task_choice import BOUND, CLIENT
from adjourn.errors import AdjournError, ConflictError, RefusedError
from adjourn.host import folders, keys, own_settings, pin, process
from adjourn.host import pin as pins
from adjourn.host.clock import now
from adjourn.host.own_settings import Waivers, covers, read_waivers, settings_path
from adjourn.host.process import Process
from adjourn.host.workspace_store import default_store
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import SYSTEM
from adjourn.store.base import Store
from adjourn.store.url import open_store
from adjourn.tasks.task import NewEvent, Task, existing, tasks_of

KNOWN_PIN: Final = "pin/"
"""Starts the name of the ref in which a store notes the PIN of an account."""
WITHOUT_PIN: Final = frozenset(("adjourn notify",))
"""What records no answer, and is for services."""
_TRIES = 3
"""How often a command asks, unless a wait starts before."""
_given = pins.PinMemory()
"""That this process was given the PIN."""


def check(
    command: str, changes: Sequence[str], store: Store | None = None, *, attended: bool = True, task: str = ""
) -> None:
    """Raise `RefusedError` unless this process may speak for a person.

    `changes` are the real paths of what the command changes, `store` is the one that it works on, `task` the task that it is about, if
    that is known; `attended`: a person must be at a terminal.
    """
    state = None if command in WITHOUT_PIN else needed_pin(store)
    if state is not None:
        if not _given.covers(state):
            _ask_for_pin(command, store, task)
        return
    waivers: Waivers | None = None
    client = client_of(store)
    if client is not None:
        waivers = read_waivers()
        if not covers(waivers.allow_inside_client, changes):
            raise RefusedError(
                f"`{command}` speaks for a person, and runs inside {_shown(client)}, a client that adjourn governs",
                "run it in a terminal of your own, outside that client; to answer here, set a PIN there: adjourn keys pin; or set "
                f"allow-inside-client = true in {settings_path()}, which lets the client's agent answer, too",
            )
    if not attended or _has_terminal():
        return
    if not covers((waivers or read_waivers()).allow_unattended, changes):
        raise RefusedError(
            f"`{command}` speaks for a person, and needs a terminal",
            f"run it in a terminal of your own; to allow scripts, set allow-unattended = true in {settings_path()}",
        )


# --- the PIN


def account_pin() -> pins.AccountPin:
    """The PIN of this account."""
    return pins.AccountPin(
        os.path.join(own_settings.home(), ".config", "adjourn") if own_settings.home() else folders.account()
    )


def needed_pin(store: Store | None) -> pins.PinState | None:
    """The PIN that must be given, None where the account has none. Raises `RefusedError` where one was set and is gone or replaced."""
    pin = account_pin()
    state = pin.state()
    text = store.ref(_ref()) if store is not None else None
    if text is not None and (state is None or state.id != text):
        raise pin.missing()
    return state if state is not None and state.is_active else None


def give_pin(
    text: str,
    memory: pins.PinMemory,
    store: Store | None,
    *,
    action: str,
    task: str = "",
    via: Literal["cli", "page"] = "cli",
) -> pins.PinState:
    """Try a PIN, and remember a right one. Returns the state before it, with the wrong PINs until then.

    Raises `WrongPinError`, which is counted in the history of `task`, and `RefusedError` while no try is taken.
    """
    pin = account_pin()
    try:
        before, state = pin.try_pin(text)
    except pins.WrongPinError as error:
        if store is not None and task:
            _record_wrong(store, task, kinds.PinRefused(action=action, failures=error.failures, via=via))
        raise
    memory.remember(state)
    if store is not None:
        note_pin(store, state)
    return before


def note_pin(store: Store, state: pins.PinState) -> None:
    """Have a store know which PIN this account has, so that its absence is noticed."""
    name = _ref()
    with suppress(ConflictError):  # another process notes the same
        if (ref := store.ref(name)) != state.id:
            store.swap(name, state.id, expect=ref)


def given_pin() -> pins.PinMemory:
    """That this process was given the PIN at its terminal."""
    return _given


def warning_of(before: pins.PinState) -> str:
    """The warning for a person who gives the right PIN after wrong ones; "" if there were none."""
    if not before.failures:
        return ""
    wrong = f"{before.failures} wrong PIN{'s were' if before.failures > 1 else ' was'} given since {before.since}"
    return f"{wrong}: if that was not you, an agent may be guessing"


def _ask_for_pin(command: str, store: Store | None, task: str) -> None:
    """Ask at the terminal until the PIN is right."""
    if not _has_terminal():
        raise RefusedError(
            f"`{command}` records a person's decision and needs your PIN, but there is no terminal to enter it",
            "run it in a terminal; no setting waives the PIN",
        )
    for number in range(_TRIES):
        account_pin().check_wait()
        try:
            before = give_pin(pin.ask_secret(f"PIN for `{command}`: "), _given, store, action=command, task=task)
        except pins.WrongPinError as error:
            if not error.may_retry or number == _TRIES - 1:
                raise
            pin.tell("the PIN is wrong; try again")
        else:
            if warning := warning_of(before):
                pin.tell(warning)
            return


def _record_wrong(store: Store, task: str, fact: kinds.PinRefused) -> None:
    with suppress(AdjournError):  # it is counted all the same, beside the verifier
        found = existing(store, task, clock=now, secret=_secret())
        found.commit(lambda _: [NewEvent(fact, SYSTEM)])


def _ref() -> str:
    """The ref for an account of a machine: people of several may share a store."""
    where = f"{process.machine()}\0{os.getuid()}"  # not its folder: no variable leads to an account that the store does not know
    return KNOWN_PIN + digest(where.encode(errors="surrogateescape"))[:32]


# --- the processes above


def client_of(store: Store | None) -> Process | None:
    """The governed client that this process descends from, if any.

    Those are known that work in the store, or in that of a folder in which an ancestor, or what it started, works: a client's
    proxies are in its workspace, wherever itself and its shells are.
    """
    ancestors = {str(ancestor): ancestor for ancestor in process.ancestors()}
    if store is not None and (client := _governed(store, ancestors)):
        return client
    near = (*ancestors.values(), *process.children([ancestor.pid for ancestor in ancestors.values()]))
    for folder in dict.fromkeys(filter(None, map(process.working_directory, near))):
        path = default_store(folder)
        with suppress(AdjournError):  # nobody works in a store that cannot be read
            if os.path.isfile(path) and (client := _governed_in(path, ancestors)):
                return client
    return None


def _governed_in(path: str, ancestors: Mapping[str, Process]) -> Process | None:
    store = open_store(path)
    try:
        return _governed(store, ancestors)
    finally:
        store.close()


def _governed(store: Store, ancestors: Mapping[str, Process]) -> Process | None:
    return next((ancestors[client] for client in _clients(store) if client in ancestors), None)


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
        os.close(os.open(pin.TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _shown(client: Process) -> str:
    return f"{process.program(client.pid) or 'a client'} (process {client.pid})"
