"""Resume a checkpoint: compose everything that the next session learns, and show it the history behind that.

There is one way to resume, for a client whose session joins the task and for a preview that joins nothing. A hand-over is read from the
task's ledger, its last events, its page, its record and the policy. Nothing here lowers a budget, applies a history that was not
verified, or guesses about a call in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from adjourn.aex.policy import Policy
from adjourn.checkpoints import folder
from adjourn.checkpoints.attachments import AUDITED, audit_entry, imported_history
from adjourn.checkpoints.checkpoint import TaskCheckpoint, create, document, trusted_signer
from adjourn.checkpoints.environment import missing_files
from adjourn.checkpoints.page import LATER, NO_REPORT, AgentReport, members_of, stated_parts, statements_of
from adjourn.checkpoints.page_files import PageSummary
from adjourn.checkpoints.plans import is_replanned, kept_rules, plan_summary
from adjourn.checkpoints.transcript_facts import TranscriptFacts, filled, orders_in, read_facts
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.handover.calls import recent_calls
from adjourn.handover.importing import check_trusted, import_newer_folders, locate
from adjourn.handover.names import ToolNames, renamed
from adjourn.handover.rendering import ROOM, Handover, history_answer, to_json
from adjourn.handover.sections import Sources, sections
from adjourn.knowledge.brief.lines import Recorded
from adjourn.knowledge.records.task_record import expire_due_items, record_of
from adjourn.log import kinds
from adjourn.log.event import decode, milliseconds, timestamp
from adjourn.log.kinds import data_of, facts_of
from adjourn.policy.contract import Contract, for_task, read_contract
from adjourn.store.base import EMPTY, Entry, Head, Store
from adjourn.store.memory import OverlayStore
from adjourn.tasks.entries import OpenSession
from adjourn.tasks.heads import checked, verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task
from adjourn.text.quoting import said
from adjourn.text.times import ago

if TYPE_CHECKING:
    from adjourn.clients.client import ClientContext
    from adjourn.tasks.session import Session


class Preview(msgspec.Struct, frozen=True):
    """A reader who wants the answer of a resume: no session opens, and nothing is written.

    `open_store` returns the workspace's store, or raises `NotFoundError` where there is none. `clock` returns milliseconds; `secret`
    authenticates cached ledgers. `tree` is the work tree of the workspace `root` that has the pages (default: the same). `contract` is
    what the session works under (default: what is found in `root`).
    """

    open_store: Callable[[], Store]
    root: str
    clock: Callable[[], int]
    secret: bytes
    tree: str = ""
    contract: Contract | None = None


class Resumed(msgspec.Struct, frozen=True):
    """A resumed checkpoint: its task with the ledger up to date, and who reads it. `signer` is the name under which who signed it is
    trusted, "" for nobody; `session` joined the task, None for a preview.
    """

    task: Task
    checkpoint: TaskCheckpoint
    reader: Reader
    signer: str
    session: Session | None = None

    def handover(self) -> Handover:
        """What the session receives."""
        return hand_over(self.task, self.checkpoint, self.reader, self.signer)

    def to_json(self, more: str = "", room: int = ROOM) -> dict[str, Any]:
        """The answer of `aex.resume`, of at most `room` bytes: the hand-over, or the page of history before the cursor `more`.

        Raises `InvalidError` for what is no cursor.
        """
        if not more:
            return to_json(self.handover(), room)
        ledger = self.task.ledger
        answer = history_answer(self.checkpoint.data.name, ledger, ledger.remaining(self.reader.budget))
        entries, older = page_before(self.task.store, ledger, more, room - len(msgspec.json.encode(answer)))
        return answer | {"auditSummary": entries} | ({"more": older} if older else {})

    def holders(self) -> list[str]:
        """The ids of the living sessions that hold the task."""
        return [session.id for session in self.task.ledger.sessions.values() if _lives(self.task, session)]


def resume(reader: ClientContext | Preview, name: str) -> Resumed:
    """Resume the newest checkpoint of a name: a client's session joins its task, a preview gets the same answer and joins nothing.
    Without a name, a client resumes the only open task.

    Raises `NotFoundError`, `IntegrityError`, `RefusedError` (nobody vouches for the signer) and, for a client, `HeldError`.
    """
    return _preview(reader, name) if isinstance(reader, Preview) else _join(reader, name or _only_open(reader))


def _only_open(client: ClientContext) -> str:
    """The name to resume the only open task by that is not the client's own. Raises `NotFoundError`, `InvalidError`."""
    from adjourn.handover.pending import open_work

    listed = open_work(client.store, client.clock, client.secret, client.options.page_tree, but=client.task.current())
    names = [name or task.id for task, name in listed]
    if not names:
        raise NotFoundError("no open task has a checkpoint", "begin the work; aex.checkpoint saves it")
    if len(names) > 1:
        raise InvalidError(f"{len(names)} tasks are open: {', '.join(names[:MAX_NAMES])}", "give the name of one")
    return names[0]


def _join(client: ClientContext, name: str) -> Resumed:
    root = client.options.checkpoint_root
    try:
        checkpoint, source, signer = _take_in(client.store, root, name)
    except NotFoundError:
        from adjourn.handover.client_sessions import (
            take_in_session,  # few names are a client's session, or a task without a checkpoint
        )
        from adjourn.handover.pending import recover

        taken = name if recover(client, name) else take_in_session(client, name)
        if not taken:
            raise
        checkpoint, source, signer = _take_in(client.store, root, taken)
    facts: list[kinds.Data] = [kinds.CheckpointResumed(checkpoint=checkpoint.hash, name=name, source=source)]
    if not signer:
        key = checkpoint.data.key
        facts.insert(0, kinds.TaskImported(head=checkpoint.hash, seq=checkpoint.event.seq, signer=key))
    session = client.sessions.move(checkpoint.event.task, facts)
    expire_due_items(session.task)
    session.task.refresh()
    options = client.options
    reader = Reader(
        options.page_tree,
        session.policy,
        session.policy.budget,
        client.group,
        options.names_are_joined,
        bool(options.home),
    )
    return Resumed(session.task, checkpoint, reader, signer, session)


def _preview(reader: Preview, name: str) -> Resumed:
    """Do what a join does before its session opens, on an overlay of the workspace's store."""
    try:
        store: Store = OverlayStore(reader.open_store())
    except NotFoundError:
        from adjourn.store.memory import MemoryStore  # few workspaces have folders and no store

        if "/" in name or folder.is_as_written(MemoryStore(), reader.root, name) is None:
            raise  # there is neither a store nor a folder
        store = MemoryStore()
    if "/" not in name and store.head(name) != EMPTY and store.ref(f"checkpoint/{name}") is None:
        # the name of a task that was cut off before it had a checkpoint
        create(Task(store, name, clock=reader.clock, secret=reader.secret), name)
    checkpoint, _, signer = _take_in(store, reader.root, name)
    task = Task(store, checkpoint.event.task, clock=reader.clock, secret=reader.secret)
    if task.ledger.sessions:
        from adjourn.tasks.lease import mark_cut_off_calls

        mark_cut_off_calls(task)
    return Resumed(task, checkpoint, reader_of(reader.root, task, "", reader.contract, reader.tree), signer)


def _take_in(store: Store, root: str, name: str) -> tuple[TaskCheckpoint, Literal["store", "folder"], str]:
    """The trusted checkpoint of a name, where it was found, and as whom its signer is trusted. Imports its folder and the newer ones of
    its task.
    """
    checkpoint, source = locate(store, root, name)
    signer = check_trusted(store, checkpoint)
    document(store, checkpoint)
    import_newer_folders(store, root, checkpoint, located=name)
    return checkpoint, source, signer


def reader_of(root: str, task: Task, group: str = "", contract: Contract | None = None, tree: str = "") -> Reader:
    """Who reads a task here: under the workspace's policy, or the `contract` that the reader has, and the task's contract; without
    a policy, under the last session's budget.
    """
    ledger = task.ledger
    try:
        policy = for_task(contract or read_contract(root), task.store, ledger.contract).policy
    except AdjournError:
        return Reader(tree or root, None, ledger.budget, group)
    return Reader(tree or root, policy, policy.budget, group)


# --- what a hand-over is made of

MAX_NAMES = 10
MAX_DESCRIPTION, MAX_GOAL, MAX_NOTE = 2500, 500, 300
MAX_HASH = 64
MAX_MISSING = 10
"""Artifacts that do not exist which one note names."""
FINISHED, WAITING, HELD, ACTIVE = "finished", "waiting for a person", "held by another agent", "active"
_MISSING = (
    "the record of this work, version {}, is not in this store; a person can copy it: `adjourn record export` where it is, "
    "`adjourn record import` here"
)


class Reader(NamedTuple):
    """The recipient: the work tree that has the pages, the policy and budget (in calls) that they work under, the group of their client,
    whether their list of tools has the names of several servers together, and whether their files are elsewhere.
    """

    tree: str
    policy: Policy | None = None
    budget: int | None = None
    group: str = ""
    names_are_joined: bool = False
    is_remote: bool = False


def hand_over(
    task: Task, checkpoint: TaskCheckpoint, reader: Reader, signer: str | None = None, *, others: Sequence[str] = ()
) -> Handover:
    """Compose what a session that resumes `checkpoint` receives about its task, as the loaded ledger has it. Raises `IntegrityError`.

    `signer` is the name under which who signed it is trusted, "" for nobody; None where its signature is to be checked here. `others` are
    lines about other open tasks.
    """
    if signer is None:
        signer = trusted_signer(checkpoint)
    ledger, now = task.ledger, task.clock()
    summary = plan_summary(task, reader.tree, now)
    page = statements_of(summary.page) if summary is not None and summary.page is not None else NO_REPORT
    heard, stated_page = read_facts(task.store, task.id), page
    page = filled(page, heard.report)
    known = _known(task, checkpoint, reader, now)
    missing, gone = ([], []) if reader.is_remote else _missing(page, summary, reader.tree)
    if not reader.is_remote and (summary is None or not summary.path):
        gone = missing_files(reader.tree, ledger.gone)
        missing = [path for path in missing if path not in gone]
    page = _without(page, [*missing, *gone])
    text = checkpoint.event.timestamp
    # a description from before the plan was changed may name the step of then
    outdated = summary is not None and is_replanned(summary, milliseconds(text))
    description = "" if outdated else said(checkpoint.data.description, MAX_DESCRIPTION)
    stated = (
        members_of(summary.page, "stated") if summary is not None and summary.page is not None and summary.path else {}
    )
    derived = {name: heard.at for name in stated_parts(page) if getattr(page, name) != getattr(stated_page, name)}
    recent = recent_calls(task.store, ledger, timestamp(now))
    names = ToolNames(ledger, recent.names, are_joined=reader.names_are_joined)
    sources = Sources(
        ledger=ledger,
        recent=renamed(recent, names),
        names=names,
        page=page,
        recorded=known,
        stamp=timestamp(now),
        policy=reader.policy,
        description=description,
        stated=derived | {name: at for name, at in stated.items() if type(at) is int},
        others=others,
        gone=gone,
        learnt=kept_rules(task.store),
        later=orders_in(heard.report)[1:],
    )
    mission = said(page.mission.partition(LATER)[0], MAX_GOAL) if isinstance(page.mission, str) else ""
    goal = said(ledger.goal, MAX_GOAL) or mission
    asked, policy_goal = said(ledger.asked, MAX_GOAL), said(ledger.policy_goal, MAX_GOAL)
    absent = [f"stated as results, and not there: {', '.join(missing[:MAX_MISSING])}"] if missing else []
    notes = [*(summary.notes if summary is not None else ()), *absent, *known.notes]
    return Handover(
        name=checkpoint.data.name,
        task=task.id,
        made=text,
        state=_state(task, known, sources.stamp, reader.group),
        worked=_worked(task, reader, heard, now),
        as_of=_as_of(ledger, now),
        description=description,
        untrusted_signer="" if signer else checkpoint.data.key,
        goal=goal,
        mission="" if mission == goal or (asked and mission.startswith(asked)) else mission,
        asked=asked if asked != goal else "",
        policy_goal=policy_goal if policy_goal != goal else "",
        tools=tuple(said(names(tool), 200) for tool in ledger.tools),
        calls_used=ledger.calls_used,
        calls_left=ledger.remaining(reader.budget),
        sections=sections(sources),
        notes=tuple(said(note, MAX_NOTE) for note in notes),
        doubts=len(ledger.doubts),
        page=summary.path if summary is not None else "",
        events=ledger.seq + 1,
        imported=imported_history(ledger),
    )


def _missing(page: AgentReport, summary: PageSummary | None, tree: str) -> tuple[list[str], list[str]]:
    """The paths of a page's artifacts where nothing is: those where nothing was when the page was written, and those that are gone since."""
    artifacts = page.artifacts if isinstance(page.artifacts, tuple) else ()
    machine = summary.page.machine if summary is not None and summary.page is not None else UNSET
    seen = machine.get("artifacts") if isinstance(machine, dict) else None
    known = seen if isinstance(seen, dict) else {}
    missing = missing_files(tree, [file.path for file in artifacts])
    return [path for path in missing if path not in known], [path for path in missing if path in known]


def _without(page: AgentReport, missing: Sequence[str]) -> AgentReport:
    """A page without artifacts that are not there."""
    if not missing or not isinstance(page.artifacts, tuple):
        return page
    return msgspec.structs.replace(page, artifacts=tuple(file for file in page.artifacts if file.path not in missing))


def _state(task: Task, known: Recorded, stamp: str, group: str) -> str:
    """Who must act next."""
    ledger = task.ledger
    if known.is_finished or ledger.finished:
        return FINISHED
    for session in ledger.sessions.values():
        if session.group != group and _lives(task, session):
            from adjourn.tasks.lease import describe_holder

            return f"{HELD}: {said(session.client or 'a client', 60)}, {describe_holder(session)}"
    return WAITING if known.is_blocked or _is_asked(ledger, stamp) else ACTIVE


def _lives(task: Task, session: OpenSession) -> bool | None:
    """Whether an open session lives; None where that is not known."""
    from adjourn.tasks.lease import (
        is_alive,  # and what knows processes: most tasks that are resumed have no open session
    )

    return is_alive(task.store, task.id, session, task.clock())


_ENDED = {"dead": "killed", "expired": "without a sign of life since", "taken-over": "another client took over"}
"""How a session ended, by why it is over. Any other reason is that of an orderly end."""


def _worked(task: Task, reader: Reader, heard: TranscriptFacts, now: int) -> str:
    """Who worked on a task last, with which model if a transcript says so, in which session, when, and how that ended; "" if nobody did."""
    ledger = task.ledger
    if (worker := ledger.worker) is None:
        return ""
    last = f", last call {ago(ledger.last_call, now)}" if ledger.last_call else ""
    client = said(worker.client, 60) or "a client"
    if heard.model and worker.client.startswith(heard.client):
        client += f" with {heard.model}"
    sittings = max(1, ledger.sittings - (reader.group == ledger.sitting.group != worker.group))  # without the reader's
    return f"{client}, {sittings} session{'s' * (sittings != 1)}{last}, {_ending(task, worker, reader)}"


def _ending(task: Task, worker: OpenSession, reader: Reader) -> str:
    ledger = task.ledger
    if ledger.finished:
        return "finished"
    if worker.id in ledger.sessions:
        lives = _lives(task, worker)
        return "still at work" if lives else _ENDED["expired" if lives is None else "dead"]
    if ledger.worker_end not in _ENDED and ledger.remaining(reader.budget) == 0:
        return "limit reached"
    return _ENDED.get(ledger.worker_end, "ended")


def _as_of(ledger: Ledger, now: int) -> str:
    """How old the last statement is, and what was done since; "" without any."""
    if not ledger.stated:
        return ""
    calls, effects = ledger.calls_used - ledger.calls_at_stated, ledger.effects - ledger.effects_at_stated
    done = f"{calls} call{'s' * (calls != 1)}, {effects} with effects" if calls else "no calls"
    return f"the checkpoint of {ago(ledger.stated, now)}; since then {done}"


def _is_asked(ledger: Ledger, stamp: str) -> bool:
    """Whether a person can still answer a question about a call."""
    return any(
        not (approval.approved or approval.refused) and approval.expires > stamp
        for approval in ledger.approvals.values()
    )


def _known(task: Task, checkpoint: TaskCheckpoint, reader: Reader, now: int) -> Recorded:
    """What the task's record and state of mind say, and which facts are stale where the reader is; nothing without a record."""
    store = task.store
    named = said(checkpoint.data.record, MAX_HASH)
    record = record_of(store, task.id)
    if record is None:
        return Recorded(notes=(_MISSING.format(named),) if named else ())
    from adjourn.handover.record_sections import mind_of  # most tasks have no record
    from adjourn.knowledge.brief.knowledge_sections import recorded
    from adjourn.knowledge.records.dependencies import around_here, stale_facts
    from adjourn.knowledge.records.interventions import expire_due
    from adjourn.knowledge.records.store import RecordTrees

    records, texts = RecordTrees(store), list[str]()
    if named and records.versions.find(named) is None:
        texts.append(f"the version of the record that the checkpoint names, {named}, is not in this store")
    try:
        mind = mind_of(store, record)
    except AdjournError as error:
        mind = None
        texts.append(f"the recorded facts, questions and goals cannot be read: {error.message}")
    around = around_here("" if reader.is_remote else reader.tree, task.secret)
    due = expire_due(record, now)  # the next resume or decision writes it; it is shown already
    return recorded(
        due.record if due else record,
        mind,
        now=now,
        verified=records.verify_chain(record["id"]),
        consumed=records.consumed,
        given=texts,
        stale=stale_facts(mind["epistemicState"]["facts"], around) if mind else {},
    )


# --- the history behind a hand-over, page by page

MAX_AUDIT_PAGE = 200
MAX_CURSOR = 19


def page_before(store: Store, ledger: Ledger, more: str, room: int) -> tuple[list[dict[str, Any]], str]:
    """The newest entries before the cursor `more` that fit into `room` bytes, oldest first, and the cursor of the page before ("": none).

    Raises `InvalidError` for what is no cursor, `IntegrityError` for a history that was changed.
    """
    if not (more.isascii() and more.isdecimal() and len(more) < MAX_CURSOR):
        raise InvalidError(f"unknown cursor: {more[:40]!r}", "give the `more` of an earlier answer, or leave it out")
    stop = min(int(more), ledger.seq + 1)
    rows, start = _audit(store, ledger.task, stop, room, Head(ledger.seq, ledger.hash))
    return rows, str(start) if start > 0 else ""


def _audit(store: Store, task: str, stop: int, room: int, head: Head) -> tuple[list[dict[str, Any]], int]:
    """The newest audit entries before event `stop` that fit into `room` bytes, oldest first, and where the rest ends.

    Each event is verified before it is shown, from `head` backwards: each page of events ends at what the one after it follows.
    """
    rows: list[dict[str, Any]] = []
    if 0 < stop <= head.seq:
        head = _before(list(islice(checked(store, task, stop, head), 1)), stop)
    while stop > 0:
        start = max(0, stop - MAX_AUDIT_PAGE)
        page = list(verified_entries_from(store, task, start, head))
        for entry in reversed(page):
            event = decode(entry.data)
            facts = (fact for fact in reversed(facts_of(event)) if fact.event in AUDITED)
            summaries = [audit_entry(fact, data_of(fact)) for fact in facts]
            room -= sum(len(msgspec.json.encode(summary)) + 1 for summary in summaries)
            if summaries and room < 0 and rows:  # each answer has the entries of one event at least
                return rows[::-1], event.seq + 1
            rows += summaries
        head = _before(page, start)
        stop = start
    return rows[::-1], 0


def _before(page: list[Entry], seq: int) -> Head:
    """The head that the first event of a verified page, at position `seq`, follows."""
    return Head(seq - 1, decode(page[0].data).after)
