"""Resuming: finding a checkpoint, verifying it, sitting down on its task, and telling what the next session must know.

Owns: where a name is looked up (the store, then the workspace's folder, which a colleague or git may have brought), what
is taken in from a folder, the answer of `aex.resume` and its bounds. Must never: lower a budget, apply what was not
verified, or guess about a call in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

from adjourn.checkpoints import (
    AUDITED,
    MAX_DESCRIPTION,
    Checkpoint,
    Told,
    VerifiedFolder,
    attachments,
    audit_entry,
    create,
    document,
    find,
    folder,
    shown_size,
    trusted_signer,
    verify_named,
)
from adjourn.clients import Desk
from adjourn.errors import AdjournError, InvalidError, NotFoundError, RefusedError
from adjourn.host import check_name
from adjourn.log import Actor, data_of, decode, digest, kinds
from adjourn.log.canonical import canonical
from adjourn.store import Entry, Head, Store
from adjourn.tasks import (
    Fact,
    Ledger,
    PermanentConflictError,
    Task,
    append_with_retry,
    checked,
    following,
    idempotency,
)
from adjourn.tasks.ledger import Call
from adjourn.tasks.session import Session

MAX_CALLS = 10**9
ANSWER_BYTES = 8 * 1024
"""What a resume answer is kept under; `more` pages through the rest."""
MAX_AUDIT_PAGE = 200
DESCRIPTION_CHARACTERS, GOAL_CHARACTERS, TOOLS_BYTES, DOUBTS_BYTES = 2500, 500, 1000, 2000
PAGE_CHARACTERS, NOTE_CHARACTERS = 2000, 200
BRIEF_BYTES, HISTORY_BYTES = 4000, 1000
"""What the parts of an answer may take, so that there is room for the history."""
MAX_CURSOR = 19
_CHUNK = 2000


Item = TypeVar("Item")


class Resumed(NamedTuple):
    """A session on the resumed task, and the checkpoint it goes on from."""

    session: Session
    checkpoint: Checkpoint


def resume(desk: Desk, name: str) -> Resumed:
    """Go on from the newest checkpoint of a name. Raises `HeldError`, `NotFoundError`, `IntegrityError`, `RefusedError`."""
    checkpoint, source = locate(desk.store, desk.setting.root, name)
    signer = trusted_signer(checkpoint)
    if not signer and vouched_for(desk.store, checkpoint) is None:
        raise RefusedError(
            f'checkpoint "{name}" is signed by {checkpoint.data.key}, which is not trusted here',
            "a person who knows that key can run `adjourn keys trust` or `adjourn import`",
        )
    document(desk.store, checkpoint)
    take_in_later(desk.store, desk.setting.root, checkpoint)
    facts: list[kinds.Data] = [kinds.CheckpointResumed(checkpoint=checkpoint.hash, name=name, source=source)]
    if not signer:
        key = checkpoint.data.key
        facts.insert(0, kinds.TaskImported(head=checkpoint.hash, seq=checkpoint.event.seq, signer=key))
    return Resumed(desk.move(checkpoint.event.task, facts), checkpoint)


def locate(store: Store, root: str, name: str) -> tuple[Checkpoint, Literal["store", "folder"]]:
    """The checkpoint and where it was found: `store` or `folder`. A folder that was brought is taken into the store."""
    as_written = folder.is_as_written(store, root, name)
    if as_written is False:
        verified = verify_named(root, name)
        # INVARIANT: import_folder holds this folder to the history that the person vouched for.
        vouched = vouched_for(store, verified.checkpoint) is not None
        return import_folder(store, verified, vouched=vouched).checkpoint, "folder"
    try:
        return find(store, name), "store"
    except NotFoundError:
        known = ", ".join(sorted(ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/"))[:10])
        raise NotFoundError(
            f'no checkpoint is named "{name}"', f"there are: {known}" if known else "aex.checkpoint makes one"
        ) from None


def take_in_later(store: Store, root: str, checkpoint: Checkpoint) -> None:
    """Take in what other folders of the workspace have of the same task beyond the store: what was spent there is spent.

    One that does not hold, is not trusted, or went another way is left alone.
    """
    task = checkpoint.event.task
    for name in folder.names(root):
        with suppress(AdjournError):
            if folder.is_as_written(store, root, name) is not False:
                continue
            brought = folder.read_published(folder.path_of(root, name)).file.adjourn
            if brought is not None and brought.task == task and brought.seq > store.head(task).seq:
                verified = verify_named(root, name)
                vouched = vouched_for(store, verified.checkpoint) is not None
                import_folder(store, verified, vouched=vouched)


def vouched_for(store: Store, checkpoint: Checkpoint) -> int | None:
    """Up to which event a person vouched for this history by importing it, if that reaches this checkpoint."""
    value = store.ref(f"vouched/{checkpoint.event.task}") or ""
    return int(value) if value.isdigit() and int(value) >= checkpoint.event.seq else None


class Imported(NamedTuple):
    """A checkpoint that was taken in, and what is to be said of it, "" for nothing."""

    checkpoint: Checkpoint
    note: str


def import_folder(store: Store, verified: VerifiedFolder, *, vouched: bool = False) -> Imported:
    """Take a verified folder's history, and what it knows, into the store. Raises `RefusedError` when nobody vouches for its signer,
    `ConflictError` when the store's own history of that task went another way.
    """
    checkpoint = verified.checkpoint
    name, task = checkpoint.data.name, checkpoint.event.task
    if not verified.trusted_as and not vouched:
        raise RefusedError(
            f'checkpoint "{name}" is signed by {verified.signer}, which is not trusted here',
            "a person who knows that key can run `adjourn keys trust NAME KEY`, or `adjourn import` for this one",
        )

    def extend() -> Imported:
        head = store.head(task)
        shared = _shared(store, verified)  # raises before anything of a diverged history is taken in
        note = attachments.take_in(store, checkpoint, verified.known)
        _extend(store, verified, shared, head)
        return Imported(checkpoint, note)

    return append_with_retry(extend, f"task {task}")


def _shared(store: Store, verified: VerifiedFolder) -> int:
    """How many events of a folder a store has. `ConflictError` when the store has others in their place."""
    task, audit = verified.checkpoint.event.task, verified.audit
    shared = 0
    for entry in store.read(task, 0, audit.total):
        if not entry.hash == audit.hash_of(shared) == digest(entry.data):
            raise PermanentConflictError(
                f"task {task} went on here and elsewhere: the histories differ from event {shared} on",
                "resume the checkpoint that is in this store, or import the other into a store of its own",
            )
        shared += 1
    return shared


def _extend(store: Store, verified: VerifiedFolder, shared: int, head: Head) -> None:
    """Write a folder's events. What they amount to comes with the last ones: no kill leaves a history without its claims."""
    checkpoint, audit = verified.checkpoint, verified.audit
    name, task = checkpoint.data.name, checkpoint.event.task
    # Of a history that is all here, the store knows more than the folder.
    new = shared < audit.total
    refs = idempotency.index(task, (decode(entry.data) for entry in audit.entries())) if new else {}
    if _is_newer(store, checkpoint):
        refs[f"checkpoint/{name}"] = f"{task} {checkpoint.event.seq} {checkpoint.hash}"
    if not verified.trusted_as and vouched_for(store, checkpoint) is None:
        refs[f"vouched/{task}"] = str(checkpoint.event.seq)
    texts = [text.encode() for text in (verified.extra.contract, verified.extra.policy) if text]
    entries = audit.entries(shared)
    last = list(islice(entries, _CHUNK))
    while following := list(islice(entries, _CHUNK)):
        head = store.append(task, last, expect=head)
        last = following
    store.append(task, last, expect=head, refs=refs, blobs=[*texts, canonical(verified.extra.document)])


def _is_newer(store: Store, checkpoint: Checkpoint) -> bool:
    """Whether a name should stand for this checkpoint from now on: an older folder moves no name back within its task."""
    try:
        known = find(store, checkpoint.data.name).event
    except AdjournError:
        return True
    return known.task != checkpoint.event.task or known.seq < checkpoint.event.seq


def import_published(task: Task, directory: str, by: Actor) -> Checkpoint:
    """Take in a checkpoint.json that has the published fields only, on a person's word, as the start of a new task.

    What it says is spent counts as spent. Raises `InvalidError` for values out of range.
    """
    stored = folder.read_published(directory)
    file = stored.file
    check_name(file.name)
    if len(file.description) > MAX_DESCRIPTION:
        raise InvalidError(
            f"{directory}: the description has {len(file.description)} characters",
            f"at most {MAX_DESCRIPTION} are kept",
        )
    if not 0 <= file.calls_used <= MAX_CALLS or (
        file.budget is not None and not 0 <= file.budget <= MAX_CALLS
    ):
        raise InvalidError(
            f"{directory}: callsUsed and budget must lie in 0 … {MAX_CALLS}", "do not resume from it"
        )
    opened = kinds.TaskOpened(goal=file.description)
    imported = kinds.TaskImported(calls=file.calls_used, document=digest(stored.data))
    task.commit(lambda _: [Fact(opened, by), Fact(imported, by)], blobs=[stored.data])
    return create(task, file.name, description=file.description, trigger="import", by=by)


# --- what the next session is told


def answer(
    store: Store,
    ledger: Ledger,
    checkpoint: Checkpoint,
    *,
    budget: int | None,
    more: str = "",
    page: Told | None = None,
    brief: Callable[[int], str] | None = None,
) -> dict[str, Any]:
    """The answer of `aex.resume`: the published fields, the newest page, the brief of the task's record, the calls in doubt, then
    how to get the rest.

    Bounded by `ANSWER_BYTES`: the newest audit entries that fit, in order. `more` is the cursor of an earlier answer. `brief` makes the
    brief in a number of bytes.
    """
    told = _described(checkpoint, GOAL_CHARACTERS if page and page.text else DESCRIPTION_CHARACTERS)
    told["toolsCalled"] = _fitting(list(ledger.tools), TOOLS_BYTES)
    told["callsUsed"] = ledger.calls_used
    if budget is not None:
        told["budgetRemaining"] = ledger.remaining(budget)
    told["auditSummary"] = []
    if page is not None and not more:
        told["page"] = _cut(page.text, PAGE_CHARACTERS)
        if page.notes:
            told["pageNotes"] = [_cut(note, NOTE_CHARACTERS) for note in page.notes]
    told["task"] = ledger.task
    told["checkpointedAt"] = checkpoint.event.timestamp
    if ledger.goal:
        told["goal"] = _cut(ledger.goal, GOAL_CHARACTERS)
    if ledger.doubts:
        told["inDoubt"] = _fitting([_doubt(call) for call in ledger.doubts.values()], DOUBTS_BYTES)
        told["inDoubtCount"] = len(ledger.doubts)
        told["advice"] = (
            "The calls in inDoubt were cut off: nobody knows whether they had their effect. Find out before repeating "
            "one; a person can list and settle them with `adjourn settle`."
        )
    room = ANSWER_BYTES - shown_size(told | {"more": ""}) - MAX_CURSOR
    if brief is not None and not more and (text := brief(min(room - HISTORY_BYTES, BRIEF_BYTES))):
        told["brief"] = text
        room -= shown_size({"brief": text})
    if more and not (more.isascii() and more.isdecimal() and len(more) < MAX_CURSOR):
        raise InvalidError(f"not a `more` of an answer of aex.resume: {more[:40]!r}", "leave it out")
    stop = min(int(more), ledger.seq + 1) if more else ledger.seq + 1
    told["auditSummary"], start = _audit(
        store, ledger.task, stop, max(room, HISTORY_BYTES), Head(ledger.seq, ledger.hash)
    )
    if start > 0:
        told["more"] = str(start)
    return told


def _described(checkpoint: Checkpoint, limit: int) -> dict[str, Any]:
    told: dict[str, Any] = {"name": checkpoint.data.name}
    if checkpoint.data.description:
        told["description"] = _cut(checkpoint.data.description, limit)
    if not trusted_signer(checkpoint):  # a person vouched for this history, and not for whoever wrote it
        told["untrustedSigner"] = checkpoint.data.key
    return told


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _fitting(items: list[Item], room: int) -> list[Item]:
    """As many of the items, from the first on, as are shown in `room` bytes."""
    for count, item in enumerate(items):
        room -= shown_size(item)
        if room < 0:
            return items[:count]
    return items


def _doubt(call: Call) -> dict[str, Any]:
    told = {"call": call.call, "tool": call.tool, "digest": call.digest, "since": call.since}
    return told | ({"arguments": call.arguments[:200]} if call.arguments else {})


def _audit(store: Store, task: str, stop: int, room: int, head: Head) -> tuple[list[dict[str, Any]], int]:
    """The newest audit entries before event `stop` that fit into `room` bytes, oldest first, and where the rest ends.

    Each event is verified before it is told of, from `head` backwards: each page of events ends at what the one after it follows.
    """
    shown: list[dict[str, Any]] = []
    if 0 < stop <= head.seq:
        head = _before(list(islice(checked(store, task, stop, head), 1)), stop)
    while stop > 0:
        start = max(0, stop - MAX_AUDIT_PAGE)
        page = list(following(store, task, start, head))
        for entry in reversed(page):
            event = decode(entry.data)
            if event.event not in AUDITED:
                continue
            told = audit_entry(event, data_of(event))
            room -= shown_size(told)
            if room < 0 and shown:  # a page has one entry at the least
                return shown[::-1], event.seq + 1
            shown.append(told)
        head = _before(page, start)
        stop = start
    return shown[::-1], 0


def _before(page: list[Entry], seq: int) -> Head:
    """What the first event of a verified page, at position `seq`, follows."""
    return Head(seq - 1, decode(page[0].data).after)
