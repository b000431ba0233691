"""Asking the model of a connected client: the box in the store where a question is left, and found answered.

A proxy whose client lets servers ask its model says so (ref `sampler/WORKSPACE/PROCESS`). Who wants an answer leaves the
question with it (`sampling/WORKSPACE/PROCESS/ID`: `asked DOCUMENT EXPIRES`), and finds `answered DOCUMENT` in its place. Both
documents are erased once nobody waits for them any more.

Owns: that box, and who may be asked. Must never: speak MCP, or ask a client that did not offer it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.errors import AdjournError, ConflictError
from adjourn.host import Process, group_of, ids, now, process
from adjourn.log import digest
from adjourn.models.model import ModelError
from adjourn.store import Store
from adjourn.tasks import Task

MAX_DOCUMENT = 16 * 1024 * 1024
WATCH_SECONDS = 0.2
_VALUE = re.compile(r"(asked|answered) ([0-9a-f]{64})(?: ([0-9]{1,15}))?")


class SamplingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the client's model is asked. `model` is a wish; the client chooses."""

    system: str
    prompt: str
    model: str = ""
    max_tokens: int = 0


class SamplingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the text, or in `error` why there is none. `stop` is why the model stopped, as MCP has it."""

    text: str = ""
    model: str = ""
    stop: str = ""
    error: str = ""


class SamplingClient(NamedTuple):
    """A proxy whose client may be asked. `group` is the client's."""

    process: Process
    group: str
    client: str


class _Letter(NamedTuple):
    """What the ref of a question says. `state` is empty where it says nothing that is known."""

    state: str = ""
    document: str = ""
    expires: int = 0


def _letter(value: str | None) -> _Letter:
    found = _VALUE.fullmatch(value or "")
    return _Letter(found[1], found[2], int(found[3] or 0)) if found else _Letter()


# --- the proxy's side


def offer(store: Store, root: str, sampler: SamplingClient) -> None:
    """Say that the client of this proxy may be asked. Clears away what dead proxies left."""
    for found, name in _offers(store, root):
        if process.lives(found.process) is False:
            _drop(store, name)
            for left in store.refs(_prefix(root, found.process)):
                erase(store, left)
    name = _offer_name(root, sampler.process)
    with suppress(ConflictError):  # its process has one voice
        store.swap(name, f"{sampler.group} {sampler.client}"[:500], expect=store.ref(name))


def withdraw(store: Store, root: str, own: Process) -> None:
    """The client of this proxy can be asked no more."""
    _drop(store, _offer_name(root, own))


def questions(store: Store, root: str, own: Process, at: int) -> list[str]:
    """The open questions for this proxy's client, by the name that `take` and `reply` take. Clears away those that are over."""
    found = []
    for name, value in store.refs(_prefix(root, own)).items():
        letter = _letter(value)
        if letter.state == "asked" and letter.expires > at:
            found.append(name)
        elif letter.state == "asked":
            erase(store, name)
    return found


def take(store: Store, name: str) -> SamplingRequest | None:
    """A question; None when it cannot be read."""
    letter = _letter(store.ref(name))
    data = store.get_blob(letter.document) if letter.state == "asked" else None
    if data is None or len(data) > MAX_DOCUMENT:
        return None
    try:
        return msgspec.json.decode(data, type=SamplingRequest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def reply(store: Store, name: str, answer: SamplingAnswer) -> None:
    """Put the answer in the place of the question, if anybody still waits for it."""
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
    """Clear away a question or an answer."""
    value = store.ref(name)
    if value is not None:
        with suppress(ConflictError):  # whoever changed it clears it away
            store.swap(name, None, expect=value)
            if document := _letter(value).document:
                store.forget(document)


# --- the side that asks


def sampling_client(store: Store, root: str) -> SamplingClient:
    """Whom to ask: the client that this process descends from, else another one here. Raises `ModelError`."""
    living = [found for found, _ in _offers(store, root) if process.lives(found.process)]
    if not living:
        raise _nobody(list(_clients(store, root)))
    groups = {group_of(one, root) for one in process.ancestors()}
    return next((found for found in living if found.group in groups), living[0])


def ask(
    store: Store, root: str, request: SamplingRequest, *, seconds: float, clock: Callable[[], int] = now
) -> SamplingAnswer:
    """The client's answer. Raises `ModelError` when there is none in time, or the client goes."""
    sampler = sampling_client(store, root)
    document = _unique(request)
    if len(document) > MAX_DOCUMENT:
        raise ModelError(f"the question has more than {MAX_DOCUMENT:,} bytes", "shorten the question")
    name = f"{_prefix(root, sampler.process)}{ids.session_id()}"
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
        return SamplingAnswer(error="what it answered is lost")


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
    """Name and era of the clients whose proxies live in this workspace."""
    for task in set(store.refs("client/").values()):
        with suppress(AdjournError):  # one that is broken must not hide the others
            ledger = Task(store, task, clock=now, secret=os.urandom(32)).ledger  # needs no cached fold
            for sitting in ledger.sessions.values():
                here = sitting.group.endswith(f"/{_workspace(root)}")
                if here and process.lives(Process(sitting.host, sitting.pid, sitting.started)):
                    yield sitting.client or "a client", sitting.era


# --- names


def _workspace(root: str) -> str:
    return digest(root.encode())[:8]


def _offer_name(root: str, own: Process) -> str:
    return f"sampler/{_workspace(root)}/{own}"


def _prefix(root: str, own: Process) -> str:
    return f"sampling/{_workspace(root)}/{own}/"


def _offers(store: Store, root: str) -> Iterator[tuple[SamplingClient, str]]:
    prefix = f"sampler/{_workspace(root)}/"
    for name, value in store.refs(prefix).items():
        with suppress(ValueError):  # a name of another make is left alone
            host, pid, started = name.removeprefix(prefix).rsplit("/", 2)
            group, _, client = value.partition(" ")
            yield SamplingClient(Process(host, int(pid), int(started)), group, client), name


def _drop(store: Store, name: str) -> None:
    with suppress(ConflictError):
        store.swap(name, None, expect=store.ref(name))


def _unique(document: SamplingRequest | SamplingAnswer) -> bytes:
    """A document that no other is equal to, so that it can be erased."""
    fields = msgspec.to_builtins(document) | {"id": ids.session_id()}
    return msgspec.json.encode(fields)
