"""Accepted losses: after a restored backup, a signed record in the store says which missing events a person accepted as lost.

    restored/TIME    an `AcceptedLoss`; its document names the store and lists the head that each of its tasks had

A kept head that the history contradicts counts as lost with the backup if it was made between `since` and the acceptance, and the task
still has the event that the document lists. So nothing that is appended after the acceptance can be cut under its name.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from adjourn.errors import AdjournError
from adjourn.host import keys
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.log.kinds import HistoryAccepted
from adjourn.log.signing import fingerprint, holds, sign_bytes
from adjourn.store.base import EMPTY, Head, Store
from adjourn.tasks.heads import KeptHead

ACCEPTED = "restored/"
"""How the refs of accepted losses start."""
MAX_ACCEPTED = 16
"""Losses of a store that are read, the newest first."""
_STATEMENT = "adjourn/accepted-loss/1"
_encode = msgspec.json.Encoder(order="sorted").encode


class _Then(msgspec.Struct, frozen=True, kw_only=True):
    """What the document says: where the store is, as its digest, and the head that each of its tasks had."""

    heads: dict[str, tuple[int, str]]
    store: str


class AcceptedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """`who` accepted at the time `accepted` that events since the time `since` are lost. `document` is the digest of the heads.

    `signature` by `key` covers all other members.
    """

    accepted: str
    document: str
    key: str
    signature: str
    since: str
    who: str

    def event(self, lost: int) -> HistoryAccepted:
        """The fact for the history of a task that was known to reach event `lost`."""
        members = {name: getattr(self, name) for name in self.__struct_fields__}
        return HistoryAccepted(lost=lost, **members)


def is_signed(loss: AcceptedLoss | HistoryAccepted) -> bool | None:
    """Whether the signature is that of the key; None where no trusted key has that name."""
    public = next((public for public in keys.trusted().values() if fingerprint(public) == loss.key), None)
    return None if public is None else holds(public, loss.signature, _message(loss))


def _message(loss: AcceptedLoss | HistoryAccepted) -> bytes:
    names = [name for name in AcceptedLoss.__struct_fields__ if name != "signature"]
    return _encode({"statement": _STATEMENT} | {name: getattr(loss, name) for name in names})


def accept(store: Store, since: int, who: str, now: int) -> AcceptedLoss:
    """Record in the store that events since the time `since` are lost. Signs with the user's key; times in milliseconds.

    The caller makes sure that a person says so.
    """
    heads = {name: (head.seq, head.hash) for name, head in store.streams().items() if "/" not in name}
    private = keys.private_key()
    loss = AcceptedLoss(
        accepted=timestamp(now),
        document=store.put_blob(msgspec.json.encode(_Then(heads=heads, store=_place(store)))),
        key=fingerprint(keys.own_public_key()),
        signature="",
        since=timestamp(since),
        who=who,
    )
    loss = msgspec.structs.replace(loss, signature=sign_bytes(private, _message(loss)))
    name = f"{ACCEPTED}{loss.accepted}"
    store.swap(name, msgspec.json.encode(loss).decode(), expect=store.ref(name))
    return loss


def accepted_losses(store: Store) -> list[AcceptedLoss]:
    """The accepted losses of a store, the newest first, whoever signed them. What cannot be read is left out."""
    losses = []
    for value in [*store.refs(ACCEPTED).values()][-MAX_ACCEPTED:]:
        try:
            losses.append(msgspec.json.decode(value, type=AcceptedLoss))
        except msgspec.DecodeError:
            continue
    return losses[::-1]


def covering(store: Store, head: KeptHead) -> AcceptedLoss | None:
    """The accepted loss, signed by a trusted key, that explains why the store lacks the event of a kept head."""
    for loss in accepted_losses(store):
        is_then = not head.at or loss.since <= head.at <= loss.accepted
        if is_then and is_signed(loss) and _still_has(store, loss.document, head):
            return loss
    return None


def _still_has(store: Store, document: str, head: KeptHead) -> bool:
    """Whether the loss was accepted for this store, and a task has all events that it had then. What was accepted for another store
    lists none of this one's tasks, and would excuse cutting each of them; so would the list for a head without a time, which may be of
    a task that began after the acceptance.
    """
    try:
        data = store.get_blob(document)
        if data is None:
            return False
        then = _then(data)
        there = Head(*then.heads.get(head.task, EMPTY))
        entry = next(iter(store.read(head.task, there.seq, there.seq + 1)), None) if there != EMPTY else None
    except (AdjournError, msgspec.DecodeError):
        return False
    has_all = entry is not None and entry.hash == there.hash if there != EMPTY else bool(head.at)
    return has_all and then.store == _place(store)


def _place(store: Store) -> str:
    place: str = getattr(store, "place", "")
    return digest(place.encode(errors="surrogateescape"))


@lru_cache(maxsize=1)  # 0.1 s for 200,000 tasks, and asked for each of them
def _then(document: bytes) -> _Then:
    return msgspec.json.decode(document, type=_Then)
