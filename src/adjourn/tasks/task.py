"""One task over one store: its ledger, kept current, and the one way to add facts to it.

Owns: loading (a cached fold plus the events after it), refreshing, and `commit`, which decides and writes as one step:
the builder of facts sees the very ledger that the compare-and-swap then holds the store to. Must never: decide, or work on over
a history that the sealed fold, the kept head (`heads`) or its own ledger contradicts.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from threading import RLock
from typing import Any, NamedTuple

import msgspec

from adjourn.errors import AdjournError, ConflictError, IntegrityError, InvalidError, NotFoundError
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import SYSTEM, Actor, Envelope, decode, encode, timestamp
from adjourn.log.kinds import Data, HistoryAccepted, data_of, prose_of
from adjourn.log.merkle import Frontier
from adjourn.store.base import EMPTY, NO_REFS, NO_SWAPS, Entry, Head, Store, Swap, wait_for_turn
from adjourn.tasks.heads import KeptHead, KeptHeads, verified_entries_from
from adjourn.tasks.ledger import Ledger, changes_ledger
from adjourn.tasks.work_index import place_changes, places
from adjourn.text.redact import without_secrets

FOLD_EVERY = 1024
"""Events between two cached folds: bounds what loading a task costs, whatever its age."""
READERS_FOLD_AFTER = 64
"""Events beyond the cached fold from which on somebody who only reads the task keeps another."""
MAX_FOLD_BYTES = 1_000_000
FOLD_FORM = ".11"
"""Ends the seal of a cached fold. One with another end knows less of the events than a ledger does now: it is made again."""
TASK_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


class NewEvent(msgspec.Struct, frozen=True):
    """Something to be written down: what, by whom, in which session (empty: none)."""

    data: Data
    by: Actor = SYSTEM
    session: str = ""


class AppendedEvent(NamedTuple):
    """A fact that is now in the chain."""

    event: Envelope
    hash: str


class StagedCommit(NamedTuple):
    """What one commit writes: behind `head`, `entries`, which are `written`, and `refs`. `waiting` of the facts were deferred ones."""

    head: Head
    entries: list[Entry]
    written: list[AppendedEvent]
    refs: Mapping[str, str | None]
    waiting: int


_new_tuple = tuple.__new__  # makes a NamedTuple in a third of the time its own constructor takes
Facts = Sequence[NewEvent] | Callable[[Ledger], Sequence[NewEvent]]
Refs = Mapping[str, str | None] | Callable[[list[AppendedEvent]], Mapping[str, str | None]]


def check_task_id(task: str) -> str:
    """The id itself. Raises `InvalidError` for one that is not 1-64 of `A-Z a-z 0-9 _ . -`, or starts with a dot."""
    if not 0 < len(task) <= 64 or not TASK_ALPHABET.issuperset(task) or task[0] in ".-":
        raise InvalidError(f"not a task id: {task[:70]!r}", "use 1 to 64 letters, digits, dashes, dots, underscores")
    return task


class Task:
    """A task's ledger and the way to add to it. Safe to use from several threads (`lock`)."""

    def __init__(self, store: Store, task: str, *, clock: Callable[[], int], secret: bytes) -> None:
        self.store = store
        self.id = check_task_id(task)
        self.clock = clock
        self.lock = RLock()
        self.secret = secret
        self._heads = KeptHeads(store, secret)
        self._folded = -1
        self._may_replace_fold = True
        self._unread = EMPTY
        """Where the cached fold ends that the ledger began from: no event up to there was read by this process."""
        self.is_verified = True
        """Whether this process has verified all events, those that the cached fold stands for included."""
        self.deferred: list[NewEvent] = []
        """Facts to be written with the next commit, which takes away what it has written: settlements of calls without effect."""
        self._durable: KeptHead | None = None
        """The last position that this process knows to be on disk, unless it is kept already."""
        self.now = 0
        self.stamp = timestamp(0)
        self.ledger = self._load()
        self.refresh()
        self._lost: KeptHead | None = None
        """The kept head of events that a person accepted as lost with a restored backup, until another head is kept."""
        self._loss: HistoryAccepted | None = None
        head = self._heads.of(task)
        if head is not None and not self._reaches(head.seq, head.hash):
            self._take_as_lost(head)

    def refresh(self) -> Ledger:
        """Take in what other processes have written; returns the current ledger.

        Each event is checked against its hash and its predecessor on the way: `IntegrityError`.
        """
        with self.lock:
            ledger = self.ledger
            for entry in self.store.read(self.id, ledger.seq + 1):
                if type(entry.data) is not bytes or digest(entry.data) != entry.hash:
                    raise IntegrityError(
                        f"event {ledger.seq + 1} of task {self.id} was changed in the store", "run `adjourn verify`"
                    )
                event = decode(entry.data)
                ledger.apply(event, entry.hash, data_of(event))
            return ledger

    def check_history(self) -> None:
        """Verify the events that the cached fold stood for, once: 3 us each. Raises `IntegrityError` naming the first that was
        changed. Later events are verified as they are read.
        """
        with self.lock:
            if self._unread is not EMPTY:
                for _ in verified_entries_from(self.store, self.id, 0, self._unread):
                    pass
                self._unread = EMPTY
                self.is_verified = True

    @property
    def head(self) -> Head:
        """The end of the history that the ledger is the fold of."""
        with self.lock:
            return Head(self.ledger.seq, self.ledger.hash)

    def commit(
        self,
        facts: Facts,
        *,
        durable: bool = True,
        refs: Refs = NO_REFS,
        blobs: Sequence[bytes] = (),
        alone: bool = False,
        swaps: Mapping[str, Swap] = NO_SWAPS,
    ) -> list[AppendedEvent]:
        """Write `facts`, or what it makes of the ledger, after any deferred ones, in one transaction, with `swaps` and with `refs`, or
        what it makes of the events.

        When another process appended or swapped first, the ledger is refreshed and `facts` is called again: it must have no side
        effects beyond its own result; `now` (milliseconds) and `stamp` are the time its facts will carry, `refs`, `swaps` and
        `blobs` may be filled by it. `alone`: deferred facts wait for the next commit. Facts are in the ledger when this returns. Raises
        `StoreError`.
        """
        with self.lock:
            for attempt in count():
                seen = self.ledger.seq
                staged = self.stage(facts, refs, alone=alone)
                if staged is None:
                    # Nothing to hold the store to: make sure that it was decided on what is there now.
                    if self.refresh().seq == seen:
                        return []
                    wait_for_turn(ConflictError("another process appended meanwhile"), attempt, f"task {self.id}")
                    continue
                try:
                    self.store.append(
                        self.id,
                        staged.entries,
                        expect=staged.head,
                        refs=staged.refs,
                        blobs=blobs,
                        durable=durable,
                        swaps=swaps,
                    )
                except ConflictError as error:
                    wait_for_turn(error, attempt, f"task {self.id}")
                    self.catch_up()
                    continue
                self.take_in(staged, durable=durable)
                return staged.written
        raise AssertionError("unreachable: attempts are unlimited")

    def stage(self, facts: Facts, refs: Refs = NO_REFS, *, alone: bool = False) -> StagedCommit | None:  # noqa: C901  # on the path of every call
        """What a commit is to write, made of the ledger as it is; None for nothing. `lock` is held until `take_in`."""
        ledger = self.ledger
        now = self.clock()
        if now != self.now:
            self.now, self.stamp = now, timestamp(now)
        if callable(facts):
            facts = facts(ledger)
        waiting = 0 if alone else len(self.deferred)
        if waiting:
            facts = [*self.deferred[:waiting], *facts]
        if not facts:
            return None
        head = _new_tuple(Head, (ledger.seq, ledger.hash))
        seq, after = head
        written: list[AppendedEvent] = []
        entries: list[Entry] = []
        is_open = False
        clean: list[NewEvent] = []
        for fact in facts:
            data: Any = fact.data
            # INVARIANT: before it is hashed, in the one place that makes events
            for name in prose_of(fact.data.__class__):
                text = getattr(data, name)
                if text and (word := without_secrets(text)) != text:
                    data = msgspec.structs.replace(data, **{name: word})
            clean.append(fact if data is fact.data else NewEvent(data, fact.by, fact.session))
        for fact in clean if len(clean) == 1 else _readings_together(clean, ledger):
            seq += 1
            data = fact.data
            kind: type[Data] = type(data)
            # written out, since most events change nothing that is open: this is on the path of every call
            if (
                kind in OPEN_CHANGING
                or (kind is kinds.ToolAllowed and (data.approval or ledger.unseen or not fact.session))
                or (kind is kinds.ToolSettled and (data.outcome == "no-answer" or data.call in ledger.doubts))
            ):
                is_open = True
            event = Envelope(
                after=after,
                by=_author(fact.by),
                data=data,
                event=data.KIND,
                seq=seq,
                session=fact.session,
                task=self.id,
                timestamp=self.stamp,
                v=data.V,
            )
            after, stored = encode(event)
            written.append(_new_tuple(AppendedEvent, (event, after)))
            entries.append(_new_tuple(Entry, (after, stored)))
        changes = refs(written) if callable(refs) else refs
        # While a session is open, its task stays where it is in the index of work.
        if is_open or (not ledger.sessions and self._may_move(written)):
            changes = {**changes, **self._index_changes(written, is_open=is_open)}
        return _new_tuple(StagedCommit, (head, entries, written, changes, waiting))

    def _may_move(self, written: Sequence[AppendedEvent]) -> bool:
        """Whether events may change where a task without sessions is in the index of work."""
        ledger = self.ledger
        return ledger.touched[:15] != self.stamp[:15] or any(changes_ledger(event.data) for event, _ in written)

    def _index_changes(self, written: Sequence[AppendedEvent], *, is_open: bool) -> dict[str, str | None]:
        """What events change in the indexes: of work, and of open calls if it `is_open` whether they change that."""
        before, moved = self.ledger, _copy(self.ledger)
        for event, event_hash in written:
            moved.apply(event, event_hash, event.data)
        changes = place_changes(self.store, before, moved)
        return changes | open_changes(before, moved, written) if is_open else changes

    def take_in(self, staged: StagedCommit, *, durable: bool) -> None:
        """The store has what was staged: so has the ledger now."""
        ledger = self.ledger
        for event, event_hash in staged.written:
            ledger.apply(event, event_hash, event.data)
        if durable:
            self._durable = KeptHead(
                task=self.id, seq=ledger.seq, hash=ledger.hash, calls=ledger.calls_used, at=ledger.touched
            )
        del self.deferred[: staged.waiting]
        if ledger.seq - self._folded >= FOLD_EVERY:
            self.fold()

    def catch_up(self) -> None:
        """Refresh after a lost append. If nobody has appended, the event that the ledger ends with must still be there."""
        head = self.head
        if self.refresh().seq == head.seq >= 0:
            self._check_reaches(head.seq, head.hash, "this process has followed it to")

    def flush(self) -> None:
        """Write deferred facts now."""
        with self.lock:
            if self.deferred:
                self.commit((), durable=False)

    def keep_head(self) -> None:
        """Keep beside the keys how far the history is known to be on disk. For moments when no call waits."""
        with self.lock:
            if self._durable is not None and self._heads.keep(self._durable, over=self._lost):
                self._durable = self._lost = self._loss = None

    def fold(self) -> None:
        """Keep the ledger as it is, so that the next loading starts from here. A cache: losing it loses nothing."""
        with self.lock:
            for name, value in self.folded().items():
                with suppress(ConflictError):  # another process has just kept one
                    self.store.swap(name, value, expect=self.store.ref(name), durable=False)

    def fold_for_readers(self) -> None:
        """Keep a fold where loading had to read many events, for those who list all tasks. One that another user sealed stays."""
        with self.lock, suppress(AdjournError):  # nothing is lost with it
            if self._may_replace_fold and self.ledger.seq - self._folded > READERS_FOLD_AFTER:
                self.fold()

    def folded(self) -> dict[str, str | None]:
        """The ref that keeps the ledger as it is, to be written with a commit. None is due where it is kept, or too long."""
        with self.lock:
            if self.ledger.seq == self._folded:
                return {}
            self._folded = self.ledger.seq
            self.ledger.tree.settle()
            text = msgspec.json.encode(self.ledger)
            if len(text) > MAX_FOLD_BYTES:
                return {}
            return {f"fold/{self.id}": f"{self._seal(text)}:{text.decode()}"}

    def _seal(self, text: bytes) -> str:
        return hmac.digest(self.secret, b"adjourn/fold/1:" + text, "sha256").hex() + FOLD_FORM

    def _load(self) -> Ledger:
        """The cached fold, if it is ours; else an empty ledger. Raises `IntegrityError` where it is, and the chain lacks its event."""
        value = self.store.ref(f"fold/{self.id}") or ""
        seal, _, text = value.partition(":")
        own = self._seal(text.encode())
        # of an earlier form it may be, but not of another user, whose own loading would become slow
        self._may_replace_fold = not text or hmac.compare_digest(seal.partition(".")[0], own.removesuffix(FOLD_FORM))
        if text and hmac.compare_digest(seal, own):
            try:
                ledger = msgspec.json.decode(text, type=Ledger)
            except (msgspec.DecodeError, InvalidError):
                return Ledger(task=self.id)
            if ledger.task == self.id:
                self._check_reaches(ledger.seq, ledger.hash, "its own cached fold was made at")
                self._folded = ledger.seq
                self._unread = Head(ledger.seq, ledger.hash)
                self.is_verified = False
                return ledger
        return Ledger(task=self.id)

    def _check_reaches(self, seq: int, event_hash: str, known: str) -> None:
        """Raise `IntegrityError` unless the store has, at this position, the event of this hash."""
        if not self._reaches(seq, event_hash):
            raise contradicted(self.id, f"it lacks event {seq}, which {known}")

    def _reaches(self, seq: int, event_hash: str) -> bool:
        entry = next(iter(self.store.read(self.id, seq, seq + 1)), None)
        return entry is not None and type(entry.data) is bytes and digest(entry.data) == event_hash

    def _take_as_lost(self, head: KeptHead) -> None:
        """Continue without the events up to a kept head if a person accepted their loss, else raise `IntegrityError`."""
        from adjourn.tasks.accepted_loss import covering  # only where events are missing

        loss = covering(self.store, head)
        if loss is None:
            raise contradicted(
                self.id, f"it lacks event {head.seq}, which it was seen to reach, with {head.calls} calls used"
            )
        self._lost, self._loss = head, loss.event(head.seq)

    @property
    def unrecorded_loss(self) -> list[NewEvent]:
        """The fact that a person accepted the loss of events of this task, until a head that follows it is kept; else nothing."""
        return [NewEvent(self._loss, Actor(self._loss.who, "human"))] if self._loss is not None else []


def contradicted(task: str, why: str) -> IntegrityError:
    """That what is known of a task from elsewhere says that its history was cut, changed or emptied."""
    return IntegrityError(
        f"the history of task {task} in this store was cut or changed: {why}",
        "stop, and ask an administrator: after a restored backup they accept the loss with `adjourn verify --accept --since TIME`; else they "
        "run `adjourn checkpoint import` on the task's newest checkpoint folder, or accept the history as it is with "
        f"`adjourn verify {task} --accept`",
    )


MAX_TOGETHER = 128
MAX_TOGETHER_CHARS = 4_000
"""Facts in one event, and characters of their arguments and names: below the limit of an event, however they are escaped."""


def _readings_together(
    facts: Sequence[NewEvent], ledger: Ledger
) -> Sequence[NewEvent]:  # one pass, on the path of every call
    """The facts, with those at the beginning that are about readings as one event or a few (`kinds.ToolReadings`).

    What others must find by its kind stays an event of its own: effects, approvals, errors, and what answers an open question.
    """
    first, together = facts[0], list[NewEvent]()
    if ledger.unseen or not first.session:
        return facts
    settled: list[kinds.ToolSettled] = []
    allowed: list[kinds.ToolAllowed] = []
    number = size = 0
    for fact in facts:
        data: Any = fact.data
        kind: type[Data] = type(data)
        if kind is kinds.ToolSettled:
            call = ledger.open_calls.get(data.call)
            if call is None or call.effectful or data.outcome != "ok" or data.seen:
                break
            length, is_next = 0, not allowed
        elif kind is kinds.ToolAllowed:
            if data.effectful or data.approval or data.once or data.limits or data.uncounted:
                break
            length = len(data.arguments) + len(data.tool) + len(data.server)
            is_next = size + length <= MAX_TOGETHER_CHARS and (
                not allowed or fact.by is first.by or fact.by == first.by
            )
        else:
            break
        if number and not (is_next and fact.session == first.session and len(settled) + len(allowed) < MAX_TOGETHER):
            together.append(_together(settled, allowed, first))
            settled, allowed, size = [], [], 0
        (settled if kind is kinds.ToolSettled else allowed).append(data)
        first = fact
        number += 1
        size += length
    if number < 2:
        return facts
    together.append(_together(settled, allowed, first))
    return [*together, *facts[number:]]


def _together(settled: list[kinds.ToolSettled], allowed: list[kinds.ToolAllowed], last: NewEvent) -> NewEvent:
    """One event for facts of which `last` is the last; itself, if it is the only one."""
    if len(settled) + len(allowed) == 1:
        return last
    return NewEvent(kinds.ToolReadings(allowed=allowed, settled=settled), last.by, last.session)


@lru_cache(maxsize=64)
def _author(by: Actor) -> Actor:
    """Who caused an event, as it may be stored: a client chooses its own name."""
    return Actor(without_secrets(by.id), by.type)


_BY_OTHERS = (kinds.SessionLost.KIND, kinds.EffectRepeated.KIND)
_LAST_EVENTS = 8
_SUGGESTED = 200
"""Tasks of each space among which one with a similar id is looked for."""


def tasks_of(store: Store) -> dict[str, Head]:
    """Every task of a store, with its head. Streams of other things have a slash in their names, which no task has."""
    return {name: head for name, head in store.streams().items() if "/" not in name}


def last_worked_on(store: Store, task: str) -> str:
    """The time of a task's last event, apart from those that the work of other tasks adds; "" if it cannot be read."""
    moment = ""
    with suppress(AdjournError):
        for entry in reversed(list(store.read(task, max(0, store.head(task).seq - _LAST_EVENTS)))):
            event = decode(entry.data)
            moment = moment or event.timestamp
            if event.event not in _BY_OTHERS:
                return event.timestamp
    return moment


def existing(store: Store, task: str, *, clock: Callable[[], int], secret: bytes) -> Task:
    """A task that is in the store, by its id or a unique prefix of it. Raises `NotFoundError`; `IntegrityError` for one that
    existed and is missing.
    """
    if not task or store.head(task) == EMPTY:
        candidates = [name for name in store.streams(task) if "/" not in name] if task else []
        if task and not candidates:  # or of those that the store has lost
            candidates = [head.task for head in KeptHeads(store, secret).known(task)]
        if len(candidates) != 1:
            text = f"{len(candidates)} tasks have an id that starts with" if candidates else "no task has the id"
            from adjourn.text.near_words import did_you_mean

            names = [place.task for place in places(store, _SUGGESTED)]
            near = "" if candidates else did_you_mean(task, names)
            raise NotFoundError(f"{text} {task[:80]!r}", near or "list the tasks: adjourn tasks")
        task = candidates[0]
    return Task(store, task, clock=clock, secret=secret)


# --- the index of what is open about calls

OPEN_INDEX = "open/"
GRAPHS, GRAPH_WRITES, GRAPH_HEADS = "graph/", "graph-writes/", "graph-head/"
"""Refs that name the documents of a LangGraph thread (or of a conversation, `adapters.conversation`), by task, and its newest checkpoints."""
GRAPH_BODY = b"\x02"
"""What follows the mark of a document of a thread, of 8 bytes, where the digests that it names are listed."""
OPEN_CHANGING = frozenset(
    (
        kinds.SessionClosed,
        kinds.SessionLost,
        kinds.EffectSettled,
        kinds.EffectRepeated,
        kinds.ConfirmRequired,
        kinds.ConfirmApproved,
        kinds.ConfirmDenied,
        kinds.ToolChanged,
        kinds.ToolResult,
    )
)
"""Events that may change the entries of a task. Of others only calls and their settlements may (`Task.stage`)."""


def graph_documents(data: bytes) -> list[str]:
    """The digests of the documents that a document of a LangGraph thread names."""
    if data[8:9] == GRAPH_BODY:
        end = 14 + 64 * int.from_bytes(data[9:13], "big")
        return [data[at : at + 64].decode(errors="replace") for at in range(14, min(end, len(data)), 64)]
    named = re.compile(data[:8].hex().encode() + rb":([0-9a-f]{64})")  # an earlier version: by its mark
    return [match.decode() for match in named.findall(data)]


def open_ref(task: str, digest: str, ident: str) -> str:
    """The entry of a call or an approval of a task."""
    return f"{OPEN_INDEX}{digest}/{task}/{ident}"


def open_entries(ledger: Ledger) -> dict[str, str]:
    """The entries of a task."""
    entries = {open_ref(ledger.task, doubt.digest, doubt.call): "doubt" for doubt in ledger.doubts.values()}
    entries |= {open_ref(ledger.task, call.digest, call.call): "done" for call in ledger.unseen.values()}
    entries |= {
        open_ref(ledger.task, approval.digest, approval.id): "approved" if approval.approved else "asked"
        for approval in ledger.approvals.values()
    }
    return entries


def open_changes(ledger: Ledger, after: Ledger, events: Sequence[tuple[Envelope, str]]) -> dict[str, str | None]:
    """What events, which lead from a ledger to the one `after` them, make of the entries of its task.

    The entry of an approval that a call uses up is for its user to take away: no two tasks may.
    """
    used = {event.data.approval for event, _ in events if isinstance(event.data, kinds.ToolAllowed)}
    before, now = open_entries(ledger), open_entries(after)
    gone: dict[str, str | None] = {
        name: None for name in before if name not in now and name.rpartition("/")[2] not in used
    }
    return gone | {name: value for name, value in now.items() if before.get(name) != value}


def _copy(ledger: Ledger) -> Ledger:
    """A copy of the ledger: changing it leaves this one as it is."""
    members: dict[str, Any] = {}
    for name in ledger.__struct_fields__:
        value = getattr(ledger, name)
        if name == "rates":
            value = {key: [list(counted) for counted in slices] for key, slices in value.items()}
        members[name] = value.copy() if isinstance(value, dict | list) else value
    return Ledger(**members | {"tree": Frontier()})  # nobody asks this one for its root
