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
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from adjourn.errors import AdjournError, InvalidError
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.log.kinds import tool_name
from adjourn.store.base import EMPTY, Head, Store
from adjourn.tasks.approvals import waiting_approvals
from adjourn.tasks.entries import Approval, OpenCall, OpenSession
from adjourn.tasks.lease import is_alive
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task
from adjourn.tasks.troubles import OpenTrouble, gone_trouble, open_troubles
from adjourn.tasks.work_index import waiting_heads
from adjourn.text.redact import without_secrets

if TYPE_CHECKING:
    from adjourn.knowledge.model.documents import Tree

WaitingKind = Literal["approval", "question", "resume-point", "in-doubt", "decision", "blocker"]
Urgency = Literal["soon", "blocks", "later"]
URGENCIES: Mapping[Urgency, str] = {"soon": "Expires soon", "blocks": "Blocks a session", "later": "Can wait"}
"""Why an item comes where it does, the most urgent first."""
SOON = 15 * 60_000
"""Milliseconds before an item expires from which on it expires soon."""

MAX_SHOWN = 2_000
"""Characters of one text of an item."""
RECORDS = "record/"
"""The beginning of the name of each record's stream."""


class WaitingItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One thing that waits for a person.

    `title` is the tool, question, label or decision; `context` the arguments, or what was said beside it; `cause` the rule that asks, or
    why it is open. `commands` answer it, the affirmative one first; words in capitals in them stand for the person's own. `goal` is
    that of the task, `who` the one person that may approve it. `released` is why an approval's call does not wait any more: it
    passes when it is repeated. `document` is the digest of a longer text of the arguments. `urgency` says whether it expires soon, or a
    session that lives waits for it.
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
    urgency: Urgency = "later"

    @property
    def sameness(self) -> tuple[str, ...]:
        """What equal items have in common. Only approvals and questions have equals: what happened to a call differs."""
        if self.kind not in ("approval", "question"):
            return (self.key,)
        parts = (self.kind, self.title, self.context, self.document, self.cause, self.who, self.released)
        return *parts, *self.options

    def has(self, text: str) -> bool:
        """Whether a text, which is in lower case, is in the kind, title, context, goal or task."""
        return any(text in part.casefold() for part in (self.kind, self.title, self.context, self.goal, self.task))

    @property
    def key(self) -> str:
        """Its name in a page and in links, of letters, digits and a dash: the same at every look."""
        named = f"{self.kind}\n{self.task}\n{self.record}\n{self.id}"
        return f"item-{digest(named.encode(errors='replace'))[:16]}"


class TaskTrouble(NamedTuple):
    """Something that is known to be wrong with a task, beside what waits in it."""

    task: str
    goal: str
    trouble: OpenTrouble


class Inbox(NamedTuple):
    """What waits: first what expires soon, then what a living session waits for, then the rest, the oldest first. The tasks and records
    that could not be read, by name, with the reason. What is wrong with tasks, and no answer puts right. And the approvals (`granted`) that
    no call has used yet.
    """

    items: list[WaitingItem]
    unreadable: dict[str, AdjournError]
    troubles: list[TaskTrouble]
    granted: list[WaitingItem]


class KnownStream(NamedTuple):
    """What waits in a task or record, its calls in doubt, its open sessions, its troubles and its unused approvals, as of its head. `gone` are
    the results that were gone at its last checkpoint.

    `until` is when that may change without another event: "" is never.
    """

    head: Head
    items: tuple[WaitingItem, ...] = ()
    doubts: tuple[str, ...] = ()
    is_finished: bool = False
    until: str = ""
    sessions: tuple[OpenSession, ...] = ()
    troubles: tuple[TaskTrouble, ...] = ()
    granted: tuple[WaitingItem, ...] = ()
    goal: str = ""
    gone: tuple[str, ...] = ()

    def holds(self, head: Head, stamp: str) -> bool:
        """Whether it is still so, at the time `stamp` and where the stream ends now."""
        return self.head == head and (not self.until or self.until > stamp)


def find_waiting(
    store: Store,
    *,
    clock: Callable[[], int],
    secret: bytes,
    task: str = "",
    known: MutableMapping[str, KnownStream] | None = None,
    heads: Mapping[str, Head] | None = None,
    tree: str = "",
) -> Inbox:
    """All that waits for a person in a store, or in one task of it.

    Who looks again and again gives the same `known`: what is in it, by stream, is not read before it may have changed. `heads` are
    where the streams end, for who knows it already; else what the index of work lists is read. In the working tree `tree`, results that are
    gone are looked for.
    """
    now = clock()
    stamp = timestamp(now)
    known = {} if known is None else known
    if heads is None:
        heads = _listed(store, stamp, [task] if task else _gone(tree), known)
    items, unreadable, doubts, finished = (list[WaitingItem](), dict[str, AdjournError](), set[str](), set[str]())
    troubles, granted = list[TaskTrouble](), list[WaitingItem]()
    for name in [task] if task else heads:
        if "/" in name or name not in heads:
            continue
        stream = known.get(name)
        if stream is None or not stream.holds(heads[name], stamp):
            try:
                stream = known[name] = _look_at(Task(store, name, clock=clock, secret=secret), now)
            except AdjournError as error:
                unreadable[name] = error
                continue
        items += stream.items
        troubles += stream.troubles
        granted += stream.granted
        doubts.update(stream.doubts)
        if stream.is_finished:
            finished.add(name)
    stated = {name: stream.gone for name, stream in known.items() if stream.gone}
    for name, gone in _gone(tree, stated).items():
        stream = known.get(name)
        if stream is not None and name in heads and name not in finished and task in ("", name):
            troubles.append(TaskTrouble(name, stream.goal, gone_trouble(gone)))
    names = [name for name in heads if name.startswith(RECORDS)]
    if names:
        of_records, broken = _Records(store, heads, doubts, now).read(names, task, known)
        others = {item.task for item in of_records} - known.keys()  # of forks: nothing waits in these tasks themselves
        finished |= {name for name in others if _was_finished(store, name, clock, secret)}
        items += (of_record for of_record in of_records if of_record.task not in finished)
        unreadable |= broken
    lives = {name: _lives(store, name, known.get(name), now) for name in {item.task for item in items}}
    ranked = [_ranked(item, now, lives=lives[item.task]) for item in items]
    return Inbox(sorted(ranked, key=_rank), unreadable, troubles, sorted(granted, key=_age))


def _gone(tree: str, stated: Mapping[str, Sequence[str]] = {}) -> Mapping[str, Sequence[str]]:
    """The results that are gone, by task; nothing is looked for without a `tree`."""
    if not tree:
        return {}
    from adjourn.checkpoints.plans import gone_by_task  # reads pages, which few callers do

    return gone_by_task(tree, stated)


def _listed(
    store: Store, stamp: str, further: Iterable[str], known: MutableMapping[str, KnownStream]
) -> Mapping[str, Head]:
    """`waiting_heads`; of what they do not name nothing stays in `known`."""
    heads = waiting_heads(store, stamp, further)
    for name in known.keys() - heads.keys():
        del known[name]
    return heads


def _look_at(task: Task, now: int) -> KnownStream:
    task.fold_for_readers()
    return waiting_in_task(task, now)


def _was_finished(store: Store, task: str, clock: Callable[[], int], secret: bytes) -> bool:
    """Whether a task that may not be here was finished."""
    with suppress(AdjournError):
        return store.head(task) != EMPTY and _is_finished(Task(store, task, clock=clock, secret=secret).ledger)
    return False


def _lives(store: Store, task: str, stream: KnownStream | None, now: int) -> bool:
    """Whether a session of a task is at work."""
    return stream is not None and any(is_alive(store, task, session, now) for session in stream.sessions)


def _ranked(item: WaitingItem, now: int, *, lives: bool) -> WaitingItem:
    urgency: Urgency = "blocks" if lives and not item.released else "later"
    if item.until and item.until <= timestamp(now + SOON):
        urgency = "soon"
    return item if urgency == item.urgency else msgspec.structs.replace(item, urgency=urgency)


def _rank(item: WaitingItem) -> tuple[int, str, tuple[str, ...]]:
    return list(URGENCIES).index(item.urgency), item.until if item.urgency == "soon" else "", _age(item)


def waiting_in_task(task: Task, now: int) -> KnownStream:
    """What waits in a task, beside its record."""
    ledger = task.ledger
    unsure = calls_in_doubt(ledger, _over(task.store, ledger, now))
    items = tuple(_of_ledger(ledger, unsure, now))
    may_die = any(call.effectful for call in ledger.open_calls.values())
    granted = tuple(
        _of_approval(ledger, approval)
        for approval in ledger.approvals.values()
        if approval.approved and approval.expires > timestamp(now)
    )
    until = timestamp(now) if may_die else min((item.until for item in (*items, *granted) if item.until), default="")
    doubts = tuple(call.call for call in unsure)
    troubles = tuple(
        TaskTrouble(ledger.task, _shown(ledger.goal), trouble)
        for trouble in open_troubles(ledger)
        if trouble.kind != "in doubt"  # which waits for an answer
        and not (trouble.kind == "not verified" and ledger.sessions)  # an agent at work may still do it
    )
    sessions = tuple(ledger.sessions.values())
    head = Head(ledger.seq, ledger.hash)
    return KnownStream(
        head,
        items,
        doubts,
        _is_finished(ledger),
        until,
        sessions,
        troubles,
        granted,
        _shown(ledger.goal),
        tuple(ledger.gone),
    )


def waiting_in_record(store: Store, ledger: Ledger, now: int) -> list[WaitingItem]:
    """What waits in the record of one task, oldest first. Raises `AdjournError` where it cannot be read."""
    from adjourn.knowledge.records.task_record import read_record_of

    if _is_finished(ledger) or (store.head(RECORDS + ledger.task) == EMPTY and not store.refs(RECORDS, limit=1)):
        return []
    record = read_record_of(store, ledger.task)
    doubts = {call.call for call in calls_in_doubt(ledger, _over(store, ledger, now))}
    return sorted(of_record(store, record, doubts, now), key=_age) if record else []


def _is_finished(ledger: Ledger) -> bool:
    """Whether a task was finished, and not continued: its calls in doubt still wait, and nothing else."""
    return bool(ledger.finished) and ledger.calls_used == ledger.calls_at_finish


def _age(item: WaitingItem) -> tuple[str, ...]:
    return item.since, item.task, item.id


def calls_in_doubt(ledger: Ledger, over: Container[str]) -> list[OpenCall]:
    """Calls in doubt, and those that the next session will find in doubt, because theirs is among those `over` without having closed."""
    cut_off = [call for call in ledger.open_calls.values() if call.effectful and call.session in over]
    return [*ledger.doubts.values(), *cut_off]


def _over(store: Store, ledger: Ledger, now: int) -> set[str]:
    """The sessions with open calls that have not closed and are not alive."""
    sessions = {call.session for call in ledger.open_calls.values()} & ledger.sessions.keys()
    return {name for name in sessions if not is_alive(store, ledger.task, ledger.sessions[name], now)}


def _of_approval(ledger: Ledger, approval: Approval) -> WaitingItem:
    return WaitingItem(
        kind="approval",
        id=approval.id,
        task=ledger.task,
        since=approval.asked,
        title=_shown(tool_name(approval)),
        context=_shown(approval.arguments),
        cause=_shown(approval.cause),
        until=approval.expires,
        goal=_shown(ledger.goal),
        who=_shown(approval.who),
        released=_shown(approval.refused),
        document=approval.document,
        commands=(f"adjourn approve {approval.id}", f"adjourn deny {approval.id}"),
    )


def _of_ledger(ledger: Ledger, unsure: Iterable[OpenCall], now: int) -> Iterator[WaitingItem]:
    for approval in () if _is_finished(ledger) else waiting_approvals(ledger, now):
        yield _of_approval(ledger, approval)
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


class _Records(NamedTuple):
    """The records of a store at one look. `doubts` are the calls in doubt of all tasks."""

    store: Store
    heads: Mapping[str, Head]
    doubts: set[str]
    now: int

    def read(
        self, names: Iterable[str], task: str, known: MutableMapping[str, KnownStream]
    ) -> tuple[list[WaitingItem], dict[str, AdjournError]]:
        """What waits in these streams, for one task or all; and those that cannot be read."""
        items, broken, stamp = list[WaitingItem](), dict[str, AdjournError](), timestamp(self.now)
        for name in names:
            stream = known.get(name)
            if stream is None or not stream.holds(self.heads[name], stamp):
                try:
                    stream = known[name] = self._look_at(name)
                except AdjournError as error:
                    broken[name] = error
                    continue
            items += (item for item in stream.items if not task or item.task == task)
        places = Counter((item.kind, item.id) for item in items)
        return [_naming_record(item) if places[item.kind, item.id] > 1 else item for item in items], broken

    def _look_at(self, name: str) -> KnownStream:
        from adjourn.knowledge.records.store import RecordTrees

        record = RecordTrees(self.store).get(name.removeprefix(RECORDS))
        if record is None:
            return KnownStream(self.heads[name])
        items = tuple(of_record(self.store, record, self.doubts, self.now))
        return KnownStream(self.heads[name], items, until=_until(record, self.now))


def _until(record: Tree, now: int) -> str:
    """When what waits in a record may change without a new version of it: "" is never."""
    questions = [value for value in record["questionsForUser"] if value["status"] == "open"]
    # a question about an effect is moot for as long as the call is not in doubt
    if any(question["id"].startswith("effect-") for question in questions) or any(
        "timeoutMs" in resume_point for resume_point in record["resumePoints"]
    ):
        return timestamp(now)
    return min(
        filter(None, (_time(question["expiresAt"]) for question in questions if "expiresAt" in question)), default=""
    )


def of_record(store: Store, record: Tree, doubts: Container[str], now: int) -> list[WaitingItem]:
    """What waits in a record at `now` (milliseconds). `doubts` are the calls in doubt of its task."""
    from adjourn.knowledge.cognition.transitions import BLOCKS_FOR_A_PERSON
    from adjourn.knowledge.records.effect_lookup import current
    from adjourn.knowledge.records.effects import moot_questions
    from adjourn.knowledge.records.interventions import expire_due, obstacles

    if record["task"]["status"] == "completed":
        return []
    due = expire_due(record, now)
    record = due.record if due else record
    questions = [value for value in record["questionsForUser"] if value["status"] == "open"]
    if any(question["id"].startswith("effect-") for question in questions):
        moot = moot_questions(current(store, record), doubts)
        questions = [question for question in questions if question["id"] not in moot]
    points = [resume_point for resume_point in record["resumePoints"] if resume_point["approvalStatus"] == "pending"]
    contested = [decision for decision in record["decisions"] if decision["status"] == "contested"]
    blockers = [
        blocker
        for blocker in record["blockers"]
        if blocker["status"] == "active" and blocker["type"] in BLOCKS_FOR_A_PERSON
    ]
    return [
        *(_question(record, question) for question in questions),
        *(
            _resume_point(record, point, obstacles(record, point["id"]))
            for point in points
            if point["requiredAuthority"] != "system"
        ),
        *(_decision(record, value) for value in contested),
        *(_blocker(record, blocker) for blocker in blockers),
    ]


def _question(record: Tree, row: Tree) -> WaitingItem:
    name, options = shlex.quote(row["id"]), tuple(map(_shown, row.get("options", ())))
    texts = [shlex.quote(option) for option in options] or ["ANSWER"]
    return _item(
        record, "question", row, row["question"], row.get("askedAt"),
        context=_shown(row["context"]),
        until=_time(row["expiresAt"]) if "expiresAt" in row else "",
        priority=row["priority"],
        options=options,
        commands=(*(f"adjourn answer {name} {text}" for text in texts), f"adjourn answer {name} --skip REASON"),
    )  # fmt: skip


def _resume_point(record: Tree, row: Tree, blocked: list[str]) -> WaitingItem:
    name = shlex.quote(row["id"])
    values = [row["description"], row["when"] and f"when {row['when']}", *row["preconditions"]]
    return _item(
        record, "resume-point", row, row["label"], row.get("createdAt"),
        context=_shown("; ".join(filter(None, values))),
        cause=_shown("; ".join(blocked)),
        steps=tuple(map(_shown, row["nextSteps"])),
        commands=(f"adjourn approve {name}", f"adjourn deny {name} --because REASON"),
    )  # fmt: skip


def _decision(record: Tree, row: Tree) -> WaitingItem:
    name, variants = shlex.quote(row["id"]), row.get("variants", ())
    sides = [f"{v['author']['id']}: {v['decision']} ({v['rationale']})" for v in variants]
    since = max([row["madeAt"], *(v["madeAt"] for v in variants if "madeAt" in v)])
    accept = [f"adjourn decide {name} --accept --variant {number}" for number in range(len(sides))]
    return _item(
        record, "decision", row, row["description"], since,
        cause="contested",
        context=_shown(row["rationale"]),
        options=tuple(map(_shown, sides)),
        commands=(*(accept or [f"adjourn decide {name} --accept"]), f"adjourn decide {name} --override TEXT"),
    )  # fmt: skip


def _blocker(record: Tree, row: Tree) -> WaitingItem:
    return _item(
        record, "blocker", row, row["description"], row["createdAt"],
        cause=row["type"],
        priority=row["severity"],
        commands=(f"adjourn record resolve {shlex.quote(row['id'])} RESOLUTION",),
    )  # fmt: skip


def _item(
    record: Tree, kind: WaitingKind, row: Tree, title: str, since: int | None, *, commands: tuple[str, ...], **more: Any
) -> WaitingItem:
    return WaitingItem(
        kind=kind,
        id=row["id"],
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
    return msgspec.structs.replace(item, commands=tuple(command + option for command in item.commands))


def _time(milliseconds: int) -> str:
    """A time of a record; "" for one that no calendar has."""
    try:
        return timestamp(milliseconds)
    except InvalidError:
        return ""


def _shown(text: str) -> str:
    word = without_secrets(text)
    return word if len(word) <= MAX_SHOWN else word[:MAX_SHOWN] + "…"
