"""The inbox: all that waits for a person in the tasks of a store.

An approval waits until it expires or a person says no; a call in doubt until it is settled. In a record, open questions, pending resume
points, contested decisions and blockers that need a person wait, until the record's task is completed. When a task is finished, only
its calls in doubt wait. A question about an effect is moot once that call is settled, and is not shown beside the call while that is in
doubt.

Owns: what counts as waiting, as plain data, and the commands that answer it. Must never: write (beyond cached folds), print, or let a
task or record that cannot be read hide the others.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from adjourn.errors import AdjournError, InvalidError
from adjourn.log import timestamp, tool_name
from adjourn.store import EMPTY, Head, Store
from adjourn.tasks import Ledger, OpenCall, Task, is_alive, waiting_approvals
from adjourn.text import without_secrets

if TYPE_CHECKING:
    from adjourn.knowledge.model import Tree

WaitingKind = Literal["approval", "question", "resume-point", "in-doubt", "decision", "blocker"]

MAX_SHOWN = 2_000
"""Characters of one text of an item."""
RECORDS = "record/"
"""The beginning of the name of each record's stream."""
_FOR_PEOPLE = ("human-required", "permission", "missing-info")
"""The types of blockers that wait for a person; dependencies and errors wait for something else."""


class WaitingItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One thing that waits for a person.

    `title` is the tool, question, label or decision; `context` the arguments, or what was said beside it; `cause` the rule that asks, or
    why it is open. `commands` answer it, the affirmative one first; words in capitals in them stand for the person's own. `goal` is
    that of the task, `who` the one person that may approve it. `released` is why an approval's call does not wait any more: it
    passes when it is repeated. `document` is the digest of a longer text of the arguments.
    """

    kind: WaitingKind
    id: str
    task: str
    since: str
    title: str
    commands: tuple[str, ...]
    context: str = ""
    cause: str = ""
    until: str = ""
    priority: str = ""
    options: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    record: str = ""
    goal: str = ""
    who: str = ""
    released: str = ""
    document: str = ""


class Inbox(NamedTuple):
    """What waits, oldest first; and the tasks and records that could not be read, by name, with the reason."""

    items: list[WaitingItem]
    unreadable: dict[str, AdjournError]


class QuietStream(NamedTuple):
    """A task or record in which nothing waited, nor will before its next event: where it ended, and whether its task was finished."""

    head: Head
    finished: bool = False


def find_waiting(
    store: Store,
    *,
    clock: Callable[[], int],
    secret: bytes,
    task: str = "",
    quiet: MutableMapping[str, QuietStream] | None = None,
) -> Inbox:
    """All that waits for a person in a store, or in one task of it.

    Who looks again and again gives the same `quiet`: what is in it, by stream, is not read before it has another event.
    """
    now = clock()
    quiet = {} if quiet is None else quiet
    items, unreadable, doubts, finished = (
        list[WaitingItem](),
        dict[str, AdjournError](),
        set[str](),
        set[str](),
    )
    streams = store.streams()
    for name in [task] if task else [name for name in streams if "/" not in name]:
        if task and task not in streams:
            break
        if (known := quiet.get(name)) and known.head == streams[name]:
            finished.update([name] * known.finished)
            continue
        try:
            opened = Task(store, name, clock=clock, secret=secret)
        except AdjournError as error:
            unreadable[name] = error
            continue
        opened.fold_for_readers()
        ledger = opened.ledger
        unsure = calls_in_doubt(ledger, _over(store, ledger, now))
        doubts.update(one.call for one in unsure)
        if _is_finished(ledger):
            finished.add(name)
        found = list(_of_ledger(ledger, unsure, now))
        items += found
        if not found and not any(call.effectful for call in ledger.open_calls.values()):
            quiet[name] = QuietStream(Head(ledger.seq, ledger.hash), _is_finished(ledger))
    if any(
        name.startswith(RECORDS) and quiet.get(name) != QuietStream(head) for name, head in streams.items()
    ):
        found, broken = _of_records(store, task, doubts, now, quiet)
        found = [one for one in found if one.task not in finished]
        items += found
        unreadable |= broken
    return Inbox(sorted(items, key=_age), unreadable)


def waiting_in_record(store: Store, ledger: Ledger, now: int) -> list[WaitingItem]:
    """What waits in the record of one task, oldest first. Raises `AdjournError` where it cannot be read."""
    if _is_finished(ledger) or (not store.refs(RECORDS) and store.head(RECORDS + ledger.task) == EMPTY):
        return []
    from adjourn.knowledge.records import read_record_of  # noqa: PLC0415  # as above

    record = read_record_of(store, ledger.task)
    doubts = {one.call for one in calls_in_doubt(ledger, _over(store, ledger, now))}
    return sorted(of_record(store, record, doubts, now), key=_age) if record else []


def _is_finished(ledger: Ledger) -> bool:
    """Whether a task was finished, and not continued: its calls in doubt still wait, and nothing else."""
    return bool(ledger.finished) and ledger.calls_used == ledger.calls_at_finish


def _age(one: WaitingItem) -> tuple[str, ...]:
    return one.since, one.task, one.id


def calls_in_doubt(ledger: Ledger, over: Container[str]) -> list[OpenCall]:
    """Calls in doubt, and those that the next session will find in doubt, because theirs is among those `over` without having closed."""
    cut_off = [call for call in ledger.open_calls.values() if call.effectful and call.session in over]
    return [*ledger.doubts.values(), *cut_off]


def _over(store: Store, ledger: Ledger, now: int) -> set[str]:
    """The sessions with open calls that have not closed and are not alive."""
    sessions = {call.session for call in ledger.open_calls.values()} & ledger.sessions.keys()
    return {name for name in sessions if not is_alive(store, ledger.task, ledger.sessions[name], now)}


def _of_ledger(ledger: Ledger, unsure: Iterable[OpenCall], now: int) -> Iterator[WaitingItem]:
    for asked in () if _is_finished(ledger) else waiting_approvals(ledger, now):
        yield WaitingItem(
            kind="approval",
            id=asked.id,
            task=ledger.task,
            since=asked.asked,
            title=_shown(tool_name(asked)),
            context=_shown(asked.arguments),
            cause=_shown(asked.cause),
            until=asked.expires,
            goal=_shown(ledger.goal),
            who=_shown(asked.who),
            released=_shown(asked.refused),
            document=asked.document,
            commands=(f"adjourn approve {asked.id}", f"adjourn deny {asked.id}"),
        )
    for call in unsure:
        name = shlex.quote(call.call)
        yield WaitingItem(
            kind="in-doubt",
            id=call.call,
            task=ledger.task,
            since=call.since,
            title=_shown(tool_name(call)),
            context=_shown(call.arguments),
            cause="sent, and its outcome is unknown",
            goal=_shown(ledger.goal),
            commands=(f"adjourn settle {name} --done", f"adjourn settle {name} --not-done"),
        )


def _of_records(
    store: Store, task: str, doubts: set[str], now: int, quiet: MutableMapping[str, QuietStream]
) -> tuple[list[WaitingItem], dict[str, AdjournError]]:
    from adjourn.knowledge.records import CRStore  # noqa: PLC0415  # few stores have a record

    records = CRStore(store)
    items, broken = list[WaitingItem](), dict[str, AdjournError]()
    for name in records.ids():
        head = store.head(RECORDS + name)
        if quiet.get(RECORDS + name) == QuietStream(head):
            continue
        try:
            record = records.get(name)
            if record is not None and (not task or record["task"]["id"] == task):
                found = of_record(store, record, doubts, now)
                items += found
                # a question about an effect is moot for as long as the call is not in doubt
                if not found and all(one["status"] != "open" for one in record["questionsForUser"]):
                    quiet[RECORDS + name] = QuietStream(head)
        except AdjournError as error:
            broken[RECORDS + name] = error
    places = Counter((one.kind, one.id) for one in items)
    return [_naming_record(one) if places[one.kind, one.id] > 1 else one for one in items], broken


def of_record(store: Store, record: Tree, doubts: Container[str], now: int) -> list[WaitingItem]:
    """What waits in a record at `now` (milliseconds). `doubts` are the calls in doubt of its task."""
    from adjourn.knowledge.records import current, expire_due, moot_questions, obstacles  # noqa: PLC0415

    if record["task"]["status"] == "completed":
        return []
    due = expire_due(record, now)
    record = due.record if due else record
    questions = [one for one in record["questionsForUser"] if one["status"] == "open"]
    if any(one["id"].startswith("effect-") for one in questions):
        moot = moot_questions(current(store, record), doubts)
        questions = [one for one in questions if one["id"] not in moot]
    points = [one for one in record["resumePoints"] if one["approvalStatus"] == "pending"]
    contested = [one for one in record["decisions"] if one["status"] == "contested"]
    blockers = [one for one in record["blockers"] if one["status"] == "active" and one["type"] in _FOR_PEOPLE]
    return [
        *(_question(record, one) for one in questions),
        *(
            _resume_point(record, one, obstacles(record, one["id"]))
            for one in points
            if one["requiredAuthority"] != "system"
        ),
        *(_decision(record, one) for one in contested),
        *(_blocker(record, one) for one in blockers),
    ]


def _question(record: Tree, one: Tree) -> WaitingItem:
    name, options = shlex.quote(one["id"]), tuple(map(_shown, one.get("options", ())))
    said = [shlex.quote(option) for option in options] or ["ANSWER"]
    return _item(
        record, "question", one, one["question"], one.get("askedAt"),
        context=_shown(one["context"]),
        until=_time(one["expiresAt"]) if "expiresAt" in one else "",
        priority=one["priority"],
        options=options,
        commands=(*(f"adjourn answer {name} {text}" for text in said), f"adjourn answer {name} --skip REASON"),
    )  # fmt: skip


def _resume_point(record: Tree, one: Tree, blocked: list[str]) -> WaitingItem:
    name = shlex.quote(one["id"])
    said = [one["description"], one["when"] and f"when {one['when']}", *one["preconditions"]]
    return _item(
        record, "resume-point", one, one["label"], one.get("createdAt"),
        context=_shown("; ".join(filter(None, said))),
        cause=_shown("; ".join(blocked)),
        steps=tuple(map(_shown, one["nextSteps"])),
        commands=(f"adjourn approve {name}", f"adjourn deny {name} --because REASON"),
    )  # fmt: skip


def _decision(record: Tree, one: Tree) -> WaitingItem:
    name, variants = shlex.quote(one["id"]), one.get("variants", ())
    sides = [f"{v['author']['id']}: {v['decision']} ({v['rationale']})" for v in variants]
    since = max([one["madeAt"], *(v["madeAt"] for v in variants if "madeAt" in v)])
    accept = [f"adjourn decide {name} --accept --variant {number}" for number in range(len(sides))]
    return _item(
        record, "decision", one, one["description"], since,
        cause="contested",
        context=_shown(one["rationale"]),
        options=tuple(map(_shown, sides)),
        commands=(*(accept or [f"adjourn decide {name} --accept"]), f"adjourn decide {name} --override TEXT"),
    )  # fmt: skip


def _blocker(record: Tree, one: Tree) -> WaitingItem:
    return _item(
        record, "blocker", one, one["description"], one["createdAt"],
        cause=one["type"],
        priority=one["severity"],
        commands=(f"adjourn record resolve {shlex.quote(one['id'])} RESOLUTION",),
    )  # fmt: skip


def _item(
    record: Tree,
    kind: WaitingKind,
    one: Tree,
    title: str,
    since: int | None,
    *,
    commands: tuple[str, ...],
    **more: Any,
) -> WaitingItem:
    return WaitingItem(
        kind=kind,
        id=one["id"],
        task=record["task"]["id"],
        since=_time(record["lastModifiedAt"] if since is None else since),
        title=_shown(title),
        record=record["id"],
        goal=_shown(record["task"]["goal"]),
        commands=commands,
        **more,
    )


def _naming_record(item: WaitingItem) -> WaitingItem:
    """An item whose id is in several records, with commands that say which is meant."""
    option = f" --record {shlex.quote(item.record)}"
    return msgspec.structs.replace(item, commands=tuple(one + option for one in item.commands))


def _time(milliseconds: int) -> str:
    """A time of a record; "" for one that no calendar has."""
    try:
        return timestamp(milliseconds)
    except InvalidError:
        return ""


def _shown(text: str) -> str:
    shown = without_secrets(text)
    return shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + "…"
