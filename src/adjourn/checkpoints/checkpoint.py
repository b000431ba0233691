"""Checkpoints: a named, signed position in a task's chain (spec/events.md, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from adjourn.errors import AdjournError, IntegrityError, InvalidError, NotFoundError
from adjourn.host import keys
from adjourn.host.workspace import check_name
from adjourn.knowledge.records.task_record import record_of
from adjourn.log import kinds
from adjourn.log.canonical_json import MAX_SAFE_INTEGER, canonical, digest
from adjourn.log.event import SYSTEM, Actor, Event, decode, encode
from adjourn.log.signing import SignedHead, check, fingerprint, public_key, sign
from adjourn.policy.principal import KEY_CHARACTERS
from adjourn.store.base import Entry, Store
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import AppendedEvent, NewEvent, Task
from adjourn.tasks.work_index import named_refs
from adjourn.text.redact import without_secrets

if TYPE_CHECKING:
    from adjourn.tasks.session import Session

FORMAT = "adjourn/checkpoint/1"
MAX_DESCRIPTION = 10_000
FOLD_SPAN = 256
"""Events of which one checkpoint at most keeps the ledger: writing it costs as much as the document does."""

_PAGE = 4096
_MARK = b'"event":"' + kinds.CheckpointCreated.KIND.encode() + b'"'

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class TaskCheckpoint(NamedTuple):
    """A checkpoint in the store: its event, that event's hash and its data."""

    event: Event
    hash: str
    data: kinds.CheckpointCreated


class StatedReport(msgspec.Struct, frozen=True):
    """The document of what was stated of the work (b"": nothing), the items that it calls done though nothing was changed, and the
    results that are gone (None: nobody looked, so they are those of the checkpoint before).
    """

    document: bytes = b""
    unchanged: Sequence[str] = ()
    gone: Sequence[str] | None = None


NOTHING_STATED = StatedReport()


def create(
    task: Task,
    name: str,
    *,
    description: str = "",
    trigger: str = "agent",
    session: Session | None = None,
    by: Actor = SYSTEM,
    report: StatedReport = NOTHING_STATED,
) -> TaskCheckpoint:
    """Create a signed, durable checkpoint of a task as it is now. An earlier checkpoint of that name stays in the chain.

    `name` must not look like a secret; secrets in `description`, of at most `MAX_DESCRIPTION` characters, are replaced.
    `trigger` says why the checkpoint is made, `by` who asks for it where no session does. `session` is the session that asks:
    it must still hold the task (`HeldError`). `report` is what was stated of the work until now (`plans`); what was before
    stays where there is none. Raises `InvalidError`, `NotFoundError` for a task without events, `StoreError`.
    """
    if without_secrets(check_name(name)) != name:
        raise InvalidError(f"the name {without_secrets(name)} looks like a secret", "choose another name")
    description = without_secrets(description)
    if len(description) > MAX_DESCRIPTION:
        raise InvalidError(
            f"the description is too long: {len(description)} characters (limit {MAX_DESCRIPTION})", "shorten it"
        )
    private = keys.private_key()
    public = public_key(private)
    documents: list[bytes] = []

    def build(ledger: Ledger) -> list[NewEvent]:
        if not ledger.exists:
            raise NotFoundError(
                f"task {task.id} has no events, so there is nothing to checkpoint", "work on the task first"
            )
        if session is not None:
            session.check_held(ledger)
        documents[:] = [
            encode_document(document_of(ledger, name, description, known)),
            *([report.document] if report.document else []),
        ]
        head = SignedHead(
            after=ledger.hash,
            document=digest(documents[0]),
            name=name,
            root=ledger.tree.root().hex(),
            seq=ledger.seq + 1,
            task=task.id,
            timestamp=task.stamp,
        )
        created = kinds.CheckpointCreated(
            cognition=known.cognition,
            description=description,
            document=head.document,
            gone=list(ledger.gone if report.gone is None else report.gone),
            key=fingerprint(public),
            name=name,
            previous=(task.store.ref(f"checkpoint/{name}") or "").rpartition(" ")[2],
            record=known.record,
            report=digest(report.document) if report.document else ledger.report,
            root=head.root,
            signature=sign(private, head),
            trigger=trigger,
            unchanged=list(report.unchanged),
        )
        return [NewEvent(created, session.actor, session.id) if session else NewEvent(created, by)]

    def refs(written: list[AppendedEvent]) -> dict[str, str | None]:
        event, event_hash = written[-1]
        # Of the checkpoints among FOLD_SPAN events the first keeps the ledger: loading the task reads fewer events than that.
        is_first = event.seq // FOLD_SPAN != task.ledger.checkpoint_seq // FOLD_SPAN
        kept = task.folded() if is_first else {}
        return {
            f"checkpoint/{name}": f"{task.id} {event.seq} {event_hash}",
            f"{named_refs(task.id)}{name}": f"{event.seq} {event_hash}",
            **kept,
        }

    with task.lock:
        task.flush()
        known = _known(task)
        # INVARIANT: the root is that of all events before it; what other threads defer meanwhile comes after
        event, event_hash = task.commit(build, refs=refs, blobs=documents, alone=True)[-1]
        task.keep_head()
    return as_checkpoint(Entry(event_hash, encode(event)[1]))


class Known(NamedTuple):
    """The hashes of the newest version of a task's record, and of the cognitive checkpoint that it names; "" for none."""

    record: str = ""
    cognition: str = ""


def _known(task: Task) -> Known:
    """The hashes as of now, after the record has taken in the effects of calls until now."""
    record = record_of(task.store, task.id)
    if record is None:
        return Known()
    from adjourn.knowledge.cognition.repository import SessionRepository  # most tasks have no record
    from adjourn.knowledge.records.store import RecordTrees

    with suppress(AdjournError):  # a record that cannot take them in must not prevent the checkpoint
        record = RecordTrees(task.store, clock=task.clock).effects.bring_up(record["id"])
    mind = None
    with suppress(AdjournError):  # nor must a lost cognitive checkpoint
        mind = SessionRepository(task.store).checkpoint(record.get("checkpointId", ""))
    return Known(str(record["contentHash"]), digest(canonical(mind)) if mind is not None else "")


def document_of(ledger: Ledger, name: str, description: str, known: Known) -> dict[str, Any]:
    """The document of a checkpoint: a projection of the events up to the checkpoint, so that it can be checked against them."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "task": ledger.task,
        "name": name,
        "description": description,
        "goal": ledger.goal,
        "contract": ledger.contract,
        "policy": ledger.policy,
        "callsUsed": ledger.calls_used,
        "callsRefused": ledger.calls_refused,
        "tools": ledger.tools,
        "inDoubt": [msgspec.to_builtins(call) for call in ledger.doubts.values()],
    }
    if ledger.budget is not None:
        document["budget"] = ledger.budget
    return document | {name: value for name, value in known._asdict().items() if value}


def encode_document(document: dict[str, Any]) -> bytes:
    """Canonical JSON of a document that `document_of` returned. Raises `InvalidError` where it has none (`canonical`).

    Only the names of tools, two numbers and lone surrogates can keep sorted JSON from being canonical; other members have ASCII
    names, texts, and counts of events.
    """
    numbers = max(document["callsUsed"], document.get("budget", 0))
    if numbers <= MAX_SAFE_INTEGER and "".join(document["tools"]).isascii():
        with suppress(UnicodeEncodeError):
            return _encode_sorted(document)
    return canonical(document)


def known_to(data: kinds.CheckpointCreated) -> Known:
    """The hashes that a checkpoint's event has."""
    return Known(data.record, data.cognition)


def find(store: Store, name: str) -> TaskCheckpoint:
    """The newest checkpoint of a name; of `TASK/NAME`, the newest that this task has, and of `NAME@KEY`, the newest in a space.

    Raises `NotFoundError`, `IntegrityError`.
    """
    of_task, slash, own = name.rpartition("/")
    if slash and store.head(of_task).seq >= 0:
        return _of_task(store, of_task, check_name(own))
    name, at, key = name.partition("@")
    value = store.ref(f"checkpoint/{check_name(name)}{at}{key[:KEY_CHARACTERS]}")
    if value is None:
        from adjourn.text.near_words import did_you_mean

        near = did_you_mean(name, (ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/")))
        raise NotFoundError(f'no checkpoint is named "{name}"', near or "list them: adjourn checkpoint list")
    task, _, text = value.partition(" ")
    seq, _, event_hash = text.partition(" ")
    entry = next(iter(store.read(task, int(seq), int(seq) + 1)), None) if seq.isdigit() else None
    if entry is None or entry.hash != event_hash or digest(entry.data) != event_hash:
        raise IntegrityError(f'checkpoint "{name}" is not in the chain of task {task}', "run `adjourn verify`")
    checkpoint = as_checkpoint(entry)
    if checkpoint.data.name != name:
        raise IntegrityError(f'the name "{name}" points at checkpoint "{checkpoint.data.name}"', "run `adjourn verify`")
    return checkpoint


def owner(store: Store, name: str) -> str:
    """The task that a checkpoint's name belongs to; "" for none."""
    return (store.ref(f"checkpoint/{check_name(name)}") or "").partition(" ")[0]


def _of_task(store: Store, task: str, name: str) -> TaskCheckpoint:
    """A task's newest checkpoint of a name that may have passed to another task. Reads its events from the end, in pages."""
    if owner(store, name) == task:
        return find(store, name)
    stop = store.head(task).seq + 1
    while stop > 0:
        start = max(0, stop - _PAGE)
        for entry in reversed(list(store.read(task, start, stop))):
            if _MARK in entry.data and digest(entry.data) == entry.hash:
                checkpoint = as_checkpoint(entry)
                if checkpoint.data.name == name:
                    return checkpoint
        stop = start
    raise NotFoundError(f'task {task[:64]} has no checkpoint named "{name}"', "list them with `adjourn log TASK`")


def as_checkpoint(entry: Entry) -> TaskCheckpoint:
    """Decode a stored event that is a checkpoint. Raises `InvalidError` for another event."""
    event = decode(entry.data)
    data = kinds.data_of(event)
    if not isinstance(data, kinds.CheckpointCreated):
        raise InvalidError(f"event {event.seq} of task {event.task} is not a checkpoint", "run `adjourn verify`")
    return TaskCheckpoint(event, entry.hash, data)


def check_signature(checkpoint: TaskCheckpoint, public: bytes) -> None:
    """Raise `IntegrityError` unless `public` signed this checkpoint."""
    event, _, data = checkpoint
    if fingerprint(public) != data.key:
        raise IntegrityError(
            f'checkpoint "{data.name}" was not signed by {fingerprint(public)}', f"check it with the key {data.key}"
        )
    head = SignedHead(
        after=event.after,
        document=data.document,
        name=data.name,
        root=data.root,
        seq=event.seq,
        task=event.task,
        timestamp=event.timestamp,
    )
    check(public, data.signature, head)


def trusted_signer(checkpoint: TaskCheckpoint) -> str:
    """Check the signature with the trusted keys. Returns the name under which the signer is trusted, "" if none is.

    Raises `IntegrityError` where a trusted key did not sign what it is said to have signed.
    """
    for name, public in keys.trusted().items():
        if fingerprint(public) == checkpoint.data.key:
            check_signature(checkpoint, public)
            return name
    return ""


def document(store: Store, checkpoint: TaskCheckpoint) -> dict[str, Any]:
    """The document of a checkpoint, decoded. Raises `IntegrityError` if it is not in the store, or was changed."""
    stored = store.get_blob(checkpoint.data.document)
    if stored is None:
        raise IntegrityError(
            f'the document of checkpoint "{checkpoint.data.name}" is not in the store',
            "import the checkpoint's folder again",
        )
    decoded: dict[str, Any] = msgspec.json.decode(stored, type=dict[str, Any])
    return decoded
