"""The index of tasks by space: what is open first, then the most important, the newest first.

Each task has one ref, `work/SPACE/RANK AND TIME/TASK`, which the commit that changes its place writes; a task with notes has another one,
which the version of its record writes. So who asks for the first tasks of a space reads these alone, whatever else is in the store. The
names of checkpoints are listed by their task in the same way: `named/SPACE/TASK/NAME`. And `waiting/SPACE/STREAM` lists the tasks and
records in which something may wait for a person, or is wrong.

A place follows from the ledger alone, so that a commit knows the name of the ref that it takes away. It is a hint: who offers a task
reads the task itself.

Owns: these names, and which changes a commit makes to them. Must never: rank by what is not in the ledger, such as who lives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from adjourn.errors import ConflictError, StoreError
from adjourn.log.event import milliseconds, timestamp
from adjourn.policy.principal import NO_SPACE, SpaceStore, key_of_task
from adjourn.store.base import EMPTY, Head, Store
from adjourn.tasks.ledger import Ledger

WORK, NAMED, NOTED, WAITING = "work/", "named/", "noted/", "waiting/"
RECORD = "record/"
INDEXED = "indexed/waiting"
"""The ref that says how far tasks of an earlier version are in the index: all from this id on; `ALL` of them."""
ALL = "."
OPEN, DOUBTS, WAITS, STATED, NOTES, EFFECTS, READ, CLOSED = "01234567"
"""The first character of a place: a session is open (whether it lives is not known), or what the task is worth resuming for."""
KEPT_MILLISECONDS = 24 * 3600 * 1000
"""How long an entry whose time is over stays: clocks of machines differ."""
MAX_TAKEN = 100
"""Entries that one look takes away."""
_NOTES = "/notes"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d"
_INVERTED = str.maketrans("0123456789", "9876543210", "-T:")
_NO_TIME = "9" * 11


class Place(msgspec.Struct, frozen=True):
    """Where a task is in the index: its rank, the time of its last event as far as known, and when its last question ends ("": none).

    `value` is that of the ref.
    """

    ref: str
    task: str
    rank: str
    touched: str
    until: str = ""
    value: str = ""


def place_of(ledger: Ledger) -> str:
    """The ref of a task's place; "" for a task without events."""
    if not ledger.exists:
        return ""
    return _ref(ledger.task, _rank(ledger), "" if ledger.sessions else ledger.touched)


def _rank(ledger: Ledger) -> str:
    if ledger.sessions:
        return OPEN
    if ledger.finished or not ledger.calls_used:
        return CLOSED
    if ledger.doubts or any(call.effectful for call in ledger.open_calls.values()):
        return DOUBTS
    if any(not approval.refused for approval in ledger.approvals.values()):
        return WAITS
    if ledger.stated_seq >= 0:
        return STATED
    return EFFECTS if ledger.effects or ledger.imported or ledger.beside else READ


def _ref(task: str, rank: str, touched: str) -> str:
    """Times are as in an event, to ten minutes: a task moves that often at the most."""
    time = touched[:15].translate(_INVERTED) if re.match(_TIME, touched) else _NO_TIME
    return f"{WORK}{key_of_task(task) or NO_SPACE}/{rank}{time}/{task}"


def waiting_ref(stream: str) -> str:
    """The ref that lists a task, or the stream of a record, among those in which something may wait."""
    return f"{WAITING}{key_of_task(stream) or NO_SPACE}/{stream}"


def _waiting_until(ledger: Ledger) -> str | None:
    """Until when something may wait in a task, or be wrong with it ("": without end); None: nothing is. Of an open session that is not known:
    it may have died.
    """
    if ledger.sessions:
        return ""
    from adjourn.tasks.troubles import open_troubles  # when a session is over

    is_unsure = bool(ledger.doubts) or any(call.effectful for call in ledger.open_calls.values())
    if is_unsure or (ledger.gone and not ledger.finished) or open_troubles(ledger):
        return ""
    return max((approval.expires for approval in ledger.approvals.values()), default=None)


def waiting_heads(store: Store, stamp: str, further: Iterable[str] = ()) -> dict[str, Head]:
    """The tasks and records of a store in which something may wait at the time `stamp` ("": whenever), and `further` tasks, with their heads;
    all streams, while tasks of an earlier version are not in the index. Takes away some entries that are long over. Raises `StoreError`.
    """
    if not is_complete(store):
        return store.streams()
    starts = [f"{WAITING}{key}/" for key in store.keys] if isinstance(store, SpaceStore) else [WAITING]
    refs = {ref: until for start in starts for ref, until in store.refs(start).items()}
    if stamp:
        _take_away(store, refs, timestamp(milliseconds(stamp) - KEPT_MILLISECONDS))
    listed = {ref.split("/", 2)[2]: until for ref, until in refs.items()}
    names = {name for name, until in listed.items() if not until or until > stamp}
    names |= {name.removeprefix(RECORD) for name in names} | set(further)
    heads = {name: store.head(name) for name in sorted(names)}
    return {name: head for name, head in heads.items() if head != EMPTY}


def _take_away(store: Store, refs: Mapping[str, str], before: str) -> None:
    """Take away the first entries whose time was over before another time. One that a commit has changed meanwhile stays, and so do all in
    a store that cannot be written.
    """
    over = [ref for ref, until in refs.items() if until and until < before]
    for ref in over[:MAX_TAKEN]:
        try:
            store.swap(ref, None, expect=refs[ref], durable=False)
        except ConflictError:
            continue
        except StoreError:
            return


def place_changes(store: Store, before: Ledger, after: Ledger) -> dict[str, str | None]:
    """The refs that a commit writes with events that lead from one ledger of a task to another. Raises `StoreError`."""
    old, new = place_of(before), place_of(after)
    changes: dict[str, str | None] = {old: None} if old and old != new else {}
    if new and not (old == new and after.sessions):
        until = max((a.expires for a in after.approvals.values() if not a.refused), default="")
        changes[new] = f"{after.touched} {until}"
    if bool(before.finished) != bool(after.finished) and (notes := store.ref(f"{NOTED}{after.task}")):
        changes[notes] = None if after.finished else after.touched
        changes[waiting_ref(f"{RECORD}{after.task}")] = None if after.finished else ""
    waits = _waiting_until(after)
    if waits != (_waiting_until(before) if old else None):
        changes[waiting_ref(after.task)] = waits
    return changes


def notes_ref(task: str, touched: int, *, waits: bool) -> str:
    """The ref of the place that a task has for its record, as of the time `touched` in milliseconds; `waits`: a question is open."""
    return _ref(task, WAITS if waits else NOTES, timestamp(touched)) + _NOTES


def named_refs(task: str) -> str:
    """How the refs start that list the names of a task's checkpoints."""
    return f"{NAMED}{key_of_task(task) or NO_SPACE}/{task}/"


def checkpoint_names(store: Store) -> list[str]:
    """The names of the checkpoints that a store shows. Raises `StoreError`."""
    if not isinstance(store, SpaceStore):
        return [ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/")]
    return sorted({ref.rpartition("/")[2] for key in store.keys for ref in store.refs(f"{NAMED}{key}/")})


def places(store: Store, limit: int) -> list[Place]:
    """The first tasks of each space that the store shows, at most `limit` of each: each task once. Raises `StoreError`."""
    by_task: dict[str, Place] = {}
    for key in _keys(store):
        for name, value in store.refs(f"{WORK}{key}/", limit=limit).items():
            parts = name.split("/")
            if len(parts) >= 4 and parts[2]:
                touched, _, until = value.partition(" ")
                by_task.setdefault(parts[3], Place(name, parts[3], parts[2][0], touched, until, value))
    return list(by_task.values())


def _keys(store: Store) -> Iterator[str]:
    """The keys of the spaces that a store shows. Of a whole store one statement each."""
    if isinstance(store, SpaceStore):
        yield from store.keys
        return
    key = NO_SPACE
    while True:
        yield key
        following = next(iter(store.refs(WORK, start=f"{WORK}{key}0", limit=1)), "")  # "0" follows "/"
        if not following:
            return
        key = following.split("/")[1]


def is_complete(store: Store) -> bool:
    """Whether all tasks of a store are in the index: those that an earlier version wrote, too."""
    below: Store = getattr(store, "below", store)
    return below.ref(INDEXED) == ALL


def added(ledger: Ledger, notes: str) -> Mapping[str, str]:
    """The refs that put a task of an earlier version into the index; `notes` is the ref for its record ("": it has none)."""
    refs = {place_of(ledger): f"{ledger.touched} "}
    if (until := _waiting_until(ledger)) is not None:
        refs[waiting_ref(ledger.task)] = until
    if notes:
        refs |= {f"{NOTED}{ledger.task}": notes} | ({} if ledger.finished else {notes: ledger.touched})
    return refs
