"""The interface to a language model (one prompt, one answer), and the model of a connected client behind it.

A proxy whose client lets servers ask its model publishes that (ref `sampler/WORKSPACE/PROCESS`). The asking process writes a request for
that proxy (`sampling/WORKSPACE/PROCESS/ID`: `asked DOCUMENT EXPIRES`), and the proxy replaces it by `answered DOCUMENT`. Both documents are
erased when nobody waits for them.

Providers are in `adjourn.adapters`. No client is asked that did not offer it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

import msgspec

from adjourn.errors import AdjournError, ConflictError
from adjourn.host import process
from adjourn.host.clock import now, session_id
from adjourn.host.process import Process, group_of
from adjourn.log.canonical_json import digest
from adjourn.store.base import Store
from adjourn.tasks.task import Task


class ModelError(AdjournError):
    """The model gave no usable answer: no credentials, refused, timed out, or an answer of another form."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `model` is the provider's name of the model; tokens are 0 if the provider does not report them."""

    text: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class Model(Protocol):
    """Answers one question at a time. May block; must bound its own time."""

    def complete(self, system: str, prompt: str) -> Completion:
        """The model's answer to `prompt`, under the instructions in `system`. Raises `ModelError`."""
        ...


# --- the model of a connected client

MAX_DOCUMENT = 16 * 1024 * 1024
WATCH_SECONDS = 0.2
_VALUE = re.compile(r"(asked|answered) ([0-9a-f]{64})(?: ([0-9]{1,15}))?")


class SamplingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the client's model. `model` is a preference; the client chooses. `max_tokens` 0: no limit."""

    system: str
    prompt: str
    model: str = ""
    max_tokens: int = 0


class SamplingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the text, or in `error` why there is none. `stop` is MCP's reason why the model stopped."""

    text: str = ""
    model: str = ""
    stop: str = ""
    error: str = ""


class SamplingClient(NamedTuple):
    """A proxy whose client's model may be asked. `group` is the process group of the client."""

    process: Process
    group: str
    client: str


class _Letter(NamedTuple):
    """The value of a request's ref. `state` is empty for an unknown value."""

    state: str = ""
    document: str = ""
    expires: int = 0


def _letter(value: str | None) -> _Letter:
    found = _VALUE.fullmatch(value or "")
    return _Letter(found[1], found[2], int(found[3] or 0)) if found else _Letter()


# --- the proxy's side


def offer(store: Store, root: str, sampler: SamplingClient) -> None:
    """Publish that the model of this proxy's client may be asked. Deletes what dead proxies left."""
    for found, name in _offers(store, root):
        if process.lives(found.process) is False:
            _drop(store, name)
            for left in store.refs(_prefix(root, found.process)):
                erase(store, left)
    name = _offer_name(root, sampler.process)
    with suppress(ConflictError):  # its process has one voice
        store.swap(name, f"{sampler.group} {sampler.client}"[:500], expect=store.ref(name))


def withdraw(store: Store, root: str, own: Process) -> None:
    """Withdraw the offer of this proxy."""
    _drop(store, _offer_name(root, own))


def questions(store: Store, root: str, own: Process, at: int) -> list[str]:
    """The names of the open requests for this proxy's client at `at` (milliseconds), for `take` and `reply`. Erases expired ones."""
    found = []
    for name, value in store.refs(_prefix(root, own)).items():
        letter = _letter(value)
        if letter.state == "asked" and letter.expires > at:
            found.append(name)
        elif letter.state == "asked":
            erase(store, name)
    return found


def take(store: Store, name: str) -> SamplingRequest | None:
    """Read a request; None if it cannot be read."""
    letter = _letter(store.ref(name))
    data = store.get_blob(letter.document) if letter.state == "asked" else None
    if data is None or len(data) > MAX_DOCUMENT:
        return None
    try:
        return msgspec.json.decode(data, type=SamplingRequest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def reply(store: Store, name: str, answer: SamplingAnswer) -> None:
    """Replace a request by its answer, if anybody still waits for it."""
    asked = store.ref(name)
    letter = _letter(asked)
    if letter.state != "asked":
        return
    document = store.put_blob(_unique(answer))
    try:
        store.swap(name, f"answered {document}", expect=asked)
    except ConflictError:
        store.forget(document)
    else:
        store.forget(letter.document)


def erase(store: Store, name: str) -> None:
    """Erase a request or an answer."""
    value = store.ref(name)
    if value is not None:
        with suppress(ConflictError):  # the process that changed it erases it
            store.swap(name, None, expect=value)
            if document := _letter(value).document:
                store.forget(document)


# --- the side that asks


def sampling_client(store: Store, root: str) -> SamplingClient:
    """The client to ask: the one that this process descends from, else another in this workspace. Raises `ModelError`."""
    living = [found for found, _ in _offers(store, root) if process.lives(found.process)]
    if not living:
        raise _nobody(list(_clients(store, root)))
    groups = {group_of(one, root) for one in process.ancestors()}
    return next((found for found in living if found.group in groups), living[0])


def ask(
    store: Store, root: str, request: SamplingRequest, *, seconds: float, clock: Callable[[], int] = now
) -> SamplingAnswer:
    """Ask the client's model, and wait for the answer at most `seconds`. Raises `ModelError` if it times out or the client exits."""
    sampler = sampling_client(store, root)
    document = _unique(request)
    if len(document) > MAX_DOCUMENT:
        raise ModelError(
            f"the request is too large: {len(document):,} bytes (limit {MAX_DOCUMENT:,})", "shorten it"
        )
    name = f"{_prefix(root, sampler.process)}{session_id()}"
    asked = f"asked {store.put_blob(document)} {clock() + int(seconds * 1000)}"
    store.swap(name, asked, expect=None)
    try:
        return _awaited(store, root, sampler, name, seconds)
    finally:
        erase(store, name)


def _awaited(store: Store, root: str, sampler: SamplingClient, name: str, seconds: float) -> SamplingAnswer:
    end = time.monotonic() + seconds
    client = sampler.client or "the client"
    while time.monotonic() < end:
        letter = _letter(store.ref(name))
        if letter.state == "answered":
            answer = _read(store.get_blob(letter.document))
            if answer.error:
                raise ModelError(
                    f"{client} returned an error instead of its model's answer: {answer.error}", "retry"
                )
            return answer
        if store.ref(_offer_name(root, sampler.process)) is None or not process.lives(sampler.process):
            raise ModelError(f"{client} exited before its model answered", "start it again, then retry")
        time.sleep(WATCH_SECONDS)
    raise ModelError(
        f"the model of {client} gave no answer within {seconds:g} seconds",
        "check whether the client asks you to approve the request, then retry",
    )


def _read(data: bytes | None) -> SamplingAnswer:
    try:
        return msgspec.json.decode(data or b"", type=SamplingAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return SamplingAnswer(error="its answer cannot be read")


def _nobody(clients: list[tuple[str, str]]) -> ModelError:
    remedy = (
        "connect a client that offers sampling to `adjourn proxy` in this workspace, or name a provider: "
        "--model anthropic, --model openai"
    )
    modern = [client for client, era in clients if era == "modern"]
    if modern:
        return ModelError(
            f"{modern[0]} cannot be asked: in the protocol that it speaks, 2026-07-28, a server may ask a client's model "
            "only within a call that the client made",
            remedy,
        )
    if clients:
        names = ", ".join(dict.fromkeys(client for client, _ in clients))
        return ModelError(f"no connected client offers sampling: {names}", remedy)
    return ModelError("no client is connected in this workspace whose model could be asked", remedy)


def _clients(store: Store, root: str) -> Iterator[tuple[str, str]]:
    """Name and protocol era of the clients whose proxies run in this workspace."""
    for task in set(store.refs("client/").values()):
        with suppress(AdjournError):  # one that is broken must not hide the others
            ledger = Task(store, task, clock=now, secret=os.urandom(32)).ledger  # needs no cached fold
            for session in ledger.sessions.values():
                here = session.group.endswith(f"/{_workspace(root)}")
                if here and process.lives(Process(session.host, session.pid, session.started)):
                    yield session.client or "a client", session.era


# --- names


def _workspace(root: str) -> str:
    return digest(os.fsencode(root))[:8]


def _offer_name(root: str, own: Process) -> str:
    return f"sampler/{_workspace(root)}/{own}"


def _prefix(root: str, own: Process) -> str:
    return f"sampling/{_workspace(root)}/{own}/"


def _offers(store: Store, root: str) -> Iterator[tuple[SamplingClient, str]]:
    prefix = f"sampler/{_workspace(root)}/"
    for name, value in store.refs(prefix).items():
        with suppress(ValueError):  # ignore a name of another format
            host, pid, started = name.removeprefix(prefix).rsplit("/", 2)
            group, _, client = value.partition(" ")
            yield SamplingClient(Process(host, int(pid), int(started)), group, client), name


def _drop(store: Store, name: str) -> None:
    with suppress(ConflictError):
        store.swap(name, None, expect=store.ref(name))


def _unique(document: SamplingRequest | SamplingAnswer) -> bytes:
    """A document with an id of its own, so that erasing it erases no equal one."""
    fields = msgspec.to_builtins(document) | {"id": session_id()}
    return msgspec.json.encode(fields)
