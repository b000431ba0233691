"""Notes of an agent while it works, and its questions for a person: stored in its task's Continuation Record.

A note has two layers. Facts, assumptions, open questions and goals are the agent's state of mind: the cognitive session with the task's
id, with a checkpoint for each note. Decisions, learnings and questions for a person are in the record, whose `checkpointId` names that
checkpoint. The state of mind is written first: if a process dies between the two writes, the record names an older checkpoint until the
next note.

Must never: write for a session that does not hold the task, or store a secret that it recognizes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from adjourn.errors import ConflictError, InvalidError, RefusedError
from adjourn.knowledge.cognition.repository import SessionRepository, head_of
from adjourn.knowledge.cognition.store import CognitiveStore, SessionOptions
from adjourn.knowledge.cognition.transitions import Transition
from adjourn.knowledge.model.cognition import WORKING_STATE, Collection, Tag, TaggedStatement, apply_reply, normalised
from adjourn.knowledge.model.documents import Tree, by_id, same, tree_of
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records import dependencies, revisions
from adjourn.knowledge.records.dependencies import NO_SURROUNDINGS, NotedFact, Surroundings
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.task_record import record_of
from adjourn.knowledge.records.updating import update_record
from adjourn.log.canonical_json import digest
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task
from adjourn.text.quoting import clean
from adjourn.text.redact import without_secrets
from adjourn.text.strict_json import in_words

MAX_STATEMENT = 2_000
"""Characters of one noted or asked item."""
MAX_AT_ONCE = 100
"""Items of one kind in one note."""
MAX_KEPT = 1_000
"""Items of one kind that notes can add to a record or a state of mind."""
MAX_OPTIONS = 20
_ONLY_PEOPLE = ("human-required", "permission")
"""The types of blockers that only a person can resolve."""

Saying = Annotated[str, Meta(min_length=1, max_length=MAX_STATEMENT)]
Sayings = Annotated[tuple[Saying, ...], Meta(max_length=MAX_AT_ONCE)]


class NotedDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A choice that was made, and why."""

    decision: Saying
    because: Annotated[str, Meta(max_length=MAX_STATEMENT)] = ""
    status: Literal["accepted", "tentative", "rejected"] = "accepted"


class NotedAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer that closes an open question."""

    question: Saying
    answer: Saying


class NotedLearning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something learned from the work."""

    content: Saying
    type: Literal["insight", "constraint", "pattern", "warning"] = "insight"
    source: Literal["observation", "failure", "success", "feedback"] = "observation"
    confidence: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET


class NotedResumePoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A gate: work continues there when somebody with the authority has approved it. Its time never runs out."""

    label: Saying
    description: Annotated[str, Meta(max_length=MAX_STATEMENT)] = ""
    when: Annotated[str, Meta(max_length=MAX_STATEMENT)] = ""
    preconditions: Sayings = ()
    next_steps: Sayings = ()
    required_authority: Literal["human", "agent", "any"] = "human"


class NotedBlocker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An obstacle, and the labels of the resume points that it blocks. With a `resolution`: the known one is removed."""

    description: Saying
    type: Literal["missing-info", "permission", "dependency", "error", "human-required"] = "error"
    severity: Literal["critical", "high", "medium", "low"] = "medium"
    blocks: Sayings = ()
    resolution: Annotated[str, Meta(max_length=MAX_STATEMENT)] = ""


class NotedInvariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that must remain true, and what a check of it found."""

    description: Saying
    severity: Literal["hard", "soft"] = "soft"
    status: Literal["holding", "violated"] | UnsetType = UNSET
    evidence: Annotated[str, Meta(max_length=MAX_STATEMENT)] = ""


class AgentNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The input of `adjourn.note`. `goal`, `status`, `successCriteria` and `tags` are the task's; `withdraw` has the words of facts,
    assumptions, questions, goals and learnings that are wrong or no longer matter.
    """

    facts: Annotated[tuple[Saying | NotedFact, ...], Meta(max_length=MAX_AT_ONCE)] = ()
    assumptions: Sayings = ()
    questions: Sayings = ()
    goals: Sayings = ()
    decisions: Annotated[tuple[NotedDecision, ...], Meta(max_length=MAX_AT_ONCE)] = ()
    learnings: Annotated[tuple[NotedLearning, ...], Meta(max_length=MAX_AT_ONCE)] = ()
    goal: Annotated[str, Meta(max_length=MAX_STATEMENT)] = ""
    status: Literal["in-progress", "completed", "failed"] | UnsetType = UNSET
    success_criteria: Sayings = ()
    tags: Sayings = ()
    resume_points: Annotated[tuple[NotedResumePoint, ...], Meta(max_length=MAX_AT_ONCE)] = ()
    blockers: Annotated[tuple[NotedBlocker, ...], Meta(max_length=MAX_AT_ONCE)] = ()
    invariants: Annotated[tuple[NotedInvariant, ...], Meta(max_length=MAX_AT_ONCE)] = ()
    withdraw: Sayings = ()
    answers: Annotated[tuple[NotedAnswer, ...], Meta(max_length=MAX_AT_ONCE)] = ()

    @property
    def fact_texts(self) -> tuple[str, ...]:
        """The words of the facts."""
        return tuple(fact if isinstance(fact, str) else fact.fact for fact in self.facts)


class AgentQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question for a person: the input of `adjourn.ask`."""

    question: Saying
    context: Annotated[str, Meta(max_length=MAX_STATEMENT)] = ""
    options: Annotated[tuple[Saying, ...], Meta(max_length=MAX_OPTIONS)] = ()
    priority: Literal["blocking", "high", "medium", "low"] = "medium"


Input = TypeVar("Input", AgentNote, AgentQuestion)


class NoteResult(NamedTuple):
    """The record after a note, how many items of each kind were new, how many were revised, and what changed nothing, with the reason."""

    record: Tree
    added: dict[str, int]
    revised: dict[str, int]
    ignored: list[str]


class AskResult(NamedTuple):
    """The record after a question, and the question in it: a new one, or an equal one that it had already."""

    record: Tree
    question: Tree


def read_note(arguments: Mapping[str, Any]) -> AgentNote:
    """Read a note from outside. Raises `InvalidError` if it is malformed or empty."""
    note = _read(arguments, AgentNote)
    if note == AgentNote():
        raise InvalidError("the note is empty", f"give one or more of {', '.join(AgentNote.__struct_encode_fields__)}")
    return note


def read_question(arguments: Mapping[str, Any]) -> AgentQuestion:
    """Read a question from outside. Raises `InvalidError`."""
    return _read(arguments, AgentQuestion)


def add(session: Session, note: AgentNote, around: Surroundings = NO_SURROUNDINGS) -> NoteResult:
    """Add a note to the record of the task that a session holds, as `write_note`. Raises `HeldError` if another client holds the task."""
    session.hold()
    author = author_of(session)
    return write_note(session.task, note, author, own_record(session.task, author), around)


def write_note(
    task: Task, note: AgentNote, author: CRAuthor, record: Tree, around: Surroundings = NO_SURROUNDINGS
) -> NoteResult:
    """Add a note to a record of the task, and revise it. Skips items that it has in the same words.

    `around` is where the facts hold. Raises `InvalidError` if the record would get too many items, or if what a fact depends on cannot
    be read.
    """
    # what is refused is refused before anything is written
    noted(record, note, author, task.clock())
    facts = (fact for fact in note.facts if isinstance(fact, NotedFact))
    measured = dependencies.measure(facts, around, task.clock())

    def rest(fact: Tree, at: int) -> Tree:
        return dependencies.noted_again(fact, measured, around, at)

    minded = _remember(task, note, rest, goal=task.ledger.goal or record["task"]["goal"])
    counts: list[dict[str, int]] = []
    ignored: list[str] = []

    def operation(before: Tree, at: int) -> Transition:
        step, added, revised = noted(before, note, author, at, _newest_of_mind(task))
        counts[:] = [{**added, **minded.added}, revised]
        ignored[:] = revisions.ignored(before, minded.before, note)
        return step

    after = RecordTrees(task.store, clock=task.clock).act(record["id"], operation, author)
    added, revised = ({name: count for name, count in of.items() if count} for of in counts)
    for name, count in minded.revised.items():
        revised[name] = revised.get(name, 0) + count
    return NoteResult(after, added, revised, ignored)


def noted(
    record: Tree, note: AgentNote, author: CRAuthor, now: int, more: Tree | None = None
) -> tuple[Transition, dict[str, int], dict[str, int]]:
    """The record after a note, with other members `more`; how many items were added, and how many revised, by their kinds."""
    revision = revisions.revise_record(record, note, author, now)
    before = revision.step.record
    members = changed_by_note(before, note, author, now)
    step = update_record(before, members | (more or {}), author, now)
    added = {name: _count_changed(before[name], value) for name, value in members.items()}
    counts = {"decisions": revision.decisions, "withdrawn": revision.withdrawn, "answered": revision.answered}
    return Transition(step.record, (*revision.step.events, *step.events)), added, counts


def ask(session: Session, question: AgentQuestion) -> AskResult:
    """Ask a person in the record of the task that a session holds, as `write_question`. Raises `HeldError` if another client holds the task."""
    session.hold()
    author = author_of(session)
    return write_question(session.task, question, author, own_record(session.task, author))


def write_question(task: Task, question: AgentQuestion, author: CRAuthor, record: Tree) -> AskResult:
    """Add a question for a person to a record of the task. Returns an equal question instead if it is open or answered.

    Raises `InvalidError` if the record would get too many questions.
    """

    def said(before: Tree, at: int) -> Transition:
        members = {} if find_question(before, question) else added_question(before, question, at)
        return update_record(before, members, author, at)

    after = RecordTrees(task.store, clock=task.clock).act(record["id"], said, author)
    stored = find_question(after, question)
    assert stored is not None  # it was there, or was just put there
    return AskResult(after, stored)


def author_of(session: Session) -> CRAuthor:
    """The client as an author of records."""
    return CRAuthor(id=clean(session.actor.id)[:100] or "agent", type="agent", session_id=session.id)


# --- changes of a record


def changed_by_note(record: Tree, note: AgentNote, author: CRAuthor, now: int) -> Tree:
    """The members of a record that a note changes, with their new values."""
    by = tree_of(author)
    decisions = Collection(record["decisions"], "description", "decision")
    for stated in note.decisions:
        decisions.add(
            stated.decision,
            status=stated.status,
            rationale=stated.because,
            madeBy=by,
            madeAt=now,
            affects=[],
            overridableBy=["human", "agent"],
        )
    learnings = Collection(record["learnings"], "content", "learning")
    for each in note.learnings:
        sure = {} if each.confidence is UNSET else {"confidence": each.confidence}
        learnings.add(each.content, type=each.type, source=each.source, learnedBy=by, learnedAt=now, affects=[], **sure)
    points = _resume_points(record, note, now)
    changed = {
        "decisions": decisions.items,
        "learnings": learnings.items,
        "resumePoints": points,
        "blockers": _blockers(record, note, points, by, now),
        "invariants": _invariants(record, note, by, now),
    }
    lists = {name: _bounded(name, record, of) for name, of in changed.items() if not same(of, record[name])}
    return lists | _task(record, note) | _metadata(record, note)


def _resume_points(record: Tree, note: AgentNote, now: int) -> list[Tree]:
    points = Collection(record["resumePoints"], "label", "point")
    for stated in note.resume_points:
        points.add(
            stated.label,
            description=stated.description,
            when=stated.when,
            preconditions=list(stated.preconditions),
            requiredAuthority=stated.required_authority,
            safeToAutoExecute=False,
            onTimeout="escalate",
            approvalStatus="pending",
            nextSteps=list(stated.next_steps),
            createdAt=now,
        )
    return points.items


def _blockers(record: Tree, note: AgentNote, points: list[Tree], by: Tree, now: int) -> list[Tree]:
    point_ids = {normalised(point["label"]): point["id"] for point in points}
    # Those that are resolved are no longer known: the same obstacle may come back.
    active = [blocker for blocker in record["blockers"] if blocker["status"] == "active"]
    blockers = Collection(active, "description", "blocker")
    resolved = dict[str, Tree]()
    for blocker in note.blockers:
        if blocker.resolution:
            old = next((b for b in active if normalised(b["description"]) == normalised(blocker.description)), None)
            if old is None:
                continue
            if old["type"] in _ONLY_PEOPLE:
                raise RefusedError(
                    f"blocker {old['id']} waits for a person",
                    f"a person resolves it with `adjourn record resolve {old['id']} RESOLUTION`",
                )
            resolved[old["id"]] = {
                **old, "status": "resolved", "resolution": blocker.resolution, "resolvedBy": by, "resolvedAt": now,
            }  # fmt: skip
            continue
        missing = [label for label in blocker.blocks if normalised(label) not in point_ids]
        if missing:
            raise InvalidError(f"unknown resume point: {missing[0][:80]!r}", "note the resume point first")
        blockers.add(
            blocker.description,
            type=blocker.type,
            status="active",
            severity=blocker.severity,
            createdBy=by,
            createdAt=now,
            blocksResumePoints=[point_ids[normalised(label)] for label in blocker.blocks],
        )
    ids = by_id(record["blockers"])
    new = [_with_free_id(item, ids) for item in blockers.items[len(active) :]]
    return [*(resolved.get(blocker["id"], blocker) for blocker in record["blockers"]), *new]


def _with_free_id(item: Tree, taken: Container[str]) -> Tree:
    """An item with another id if one that was resolved has its own."""
    name, count = item["id"], 2
    while item["id"] in taken:
        item = {**item, "id": f"{name}-{count}"}
        count += 1
    return item


def _invariants(record: Tree, note: AgentNote, by: Tree, now: int) -> list[Tree]:
    invariants = Collection(record["invariants"], "description", "invariant")
    for stated in note.invariants:
        invariants.add(
            stated.description,
            scope=[],
            severity=stated.severity,
            status="unknown",
            establishedBy=by,
            establishedAt=now,
        )
    checks = {
        normalised(invariant.description): invariant for invariant in note.invariants if invariant.status is not UNSET
    }
    return [
        _checked(item, checks[text], now) if (text := normalised(item["description"])) in checks else item
        for item in invariants.items
    ]


def _checked(invariant: Tree, check: NotedInvariant, now: int) -> Tree:
    """An invariant with the result of a check; the same if it is known already."""
    evidence = {"evidence": check.evidence} if check.evidence else {}
    if invariant["status"] == check.status and evidence.items() <= invariant.items():
        return invariant
    fields = {name: value for name, value in invariant.items() if name != "evidence"}
    return {**fields, "status": check.status, "lastCheckedAt": now, **evidence}


def _task(record: Tree, note: AgentNote) -> Tree:
    task = dict(record["task"])
    if note.goal and normalised(note.goal) != normalised(task["goal"]):
        task["goal"] = note.goal
    if note.status is not UNSET and not (note.status == "in-progress" and task["status"] == "blocked"):
        task["status"] = note.status
    task["successCriteria"] = _united("successCriteria", task["successCriteria"], note.success_criteria)
    return {} if same(task, record["task"]) else {"task": task}


def _metadata(record: Tree, note: AgentNote) -> Tree:
    tags = _united("tags", record["metadata"]["tags"], note.tags)
    return {} if same(tags, record["metadata"]["tags"]) else {"metadata": {**record["metadata"], "tags": tags}}


def _united(name: str, old: list[str], new: Iterable[str]) -> list[str]:
    """Texts, and those of `new` that are not among them in the same words."""
    by_text = {normalised(text): text for text in reversed(old)}
    added = {normalised(text): text for text in new if normalised(text) not in by_text}
    _check_size(name, len(old) + len(added), len(old))
    return [*old, *added.values()]


def _count_changed(before: Any, after: Any) -> int:
    """How many items of a list were added or changed; 1 for another member."""
    if not isinstance(after, list):
        return 1
    old_items = by_id(before)
    return sum(not same(old_items.get(item["id"]), item) for item in after)


def added_question(record: Tree, question: AgentQuestion, now: int) -> Tree:
    """The member of a record that a new question changes, with its new value."""
    questions = record["questionsForUser"]
    item = {
        "id": _free_id(normalised(question.question), by_id(questions)),
        "type": "question",
        "question": question.question,
        "context": question.context,
        "status": "open",
        "blocksResumePoints": [],
        "priority": question.priority,
        "askedAt": now,
        **({"options": list(question.options)} if question.options else {}),
    }
    return {"questionsForUser": _bounded("questionsForUser", record, [*questions, item])}


def find_question(record: Tree, question: AgentQuestion) -> Tree | None:
    """The newest question of a record with the same words that is open or answered."""
    text = normalised(question.question)
    same_words = (
        candidate
        for candidate in reversed(record["questionsForUser"])
        if candidate["status"] in ("open", "answered") and normalised(candidate["question"]) == text
    )
    return next(same_words, None)


def statements(note: AgentNote) -> list[TaggedStatement]:
    """The items of a note for the state of mind, as statements of a reply."""
    tagged: tuple[tuple[Tag, tuple[str, ...]], ...] = (
        ("FACT", note.fact_texts),
        ("ASSUMPTION", note.assumptions),
        ("QUESTION", note.questions),
        ("INTENT", note.goals),
    )
    return [TaggedStatement(tag, text) for tag, texts in tagged for text in texts]


# --- the parts


def _read(arguments: Mapping[str, Any], kind: type[Input]) -> Input:
    try:
        return msgspec.convert(without_secret_texts(arguments), kind)
    except msgspec.ValidationError as error:
        raise InvalidError(in_words(error), "see the tool's description") from error


def without_secret_texts(value: Any) -> Any:
    """A value with its texts stripped of invisible characters, secrets and outer blanks."""
    if isinstance(value, str):
        return without_secrets(clean(value)).strip()
    if isinstance(value, dict):
        return {name: without_secret_texts(item) for name, item in value.items()}
    return [without_secret_texts(item) for item in value] if isinstance(value, list) else value


def own_record(task: Task, author: CRAuthor, goal: str = "") -> Tree:
    """The task's record, created if need be: with this goal, if the task has none."""
    record = record_of(task.store, task.id)
    if record is not None:
        return record
    records = RecordTrees(task.store, clock=task.clock)
    about = {"id": task.id, "goal": task.ledger.goal or goal or f"Task {task.id}", "status": "in-progress"}
    try:
        return records.create({"task": about}, author=author, cr_id=task.id)
    except ConflictError:  # another proxy created it first
        return records.resolve(task.id)


class _Minded(NamedTuple):
    """The state of mind before a note, None without one, and what the note added and revised, by kinds."""

    before: Tree | None = None
    added: Mapping[str, int] = {}
    revised: Mapping[str, int] = {}


def _remember(task: Task, note: AgentNote, based: Callable[[Tree, int], Tree], goal: str) -> _Minded:
    """Revise the state of mind by a note, and add to it, if the note has anything for it; and create a checkpoint.

    `based` returns a noted fact with what it depends on, as of a time in milliseconds.
    """
    about = statements(note)
    revises = bool(note.withdraw or note.answers) and SessionRepository(task.store).open(task.id) is not None
    if not about and not revises:
        return _Minded()
    result: list[_Minded] = []

    def edit(state: Tree, at: int) -> Tree:
        mind = revisions.revise_mind(state, note)
        old, after = _sizes(mind.state), _minded(mind.state, about, at)
        added = {name: size - old[name] for name, size in _sizes(after).items()}
        after = _with_bases(after, note, lambda fact: based(fact, at))
        known = by_id(mind.state["epistemicState"]["facts"])
        measured = sum(known.get(fact["id"], fact) is not fact for fact in after["epistemicState"]["facts"])
        counts = {"withdrawn": mind.withdrawn, "answered": mind.answered, "facts": measured}
        result[:] = [_Minded(state, added, {name: count for name, count in counts.items() if count})]
        return after

    options = SessionOptions(clock=task.clock)
    mind = CognitiveStore(task.store, task.id, goal=goal, triggers=(), options=options)
    if not _is_kept(tree_of(mind.change(edit))):
        mind.create_checkpoint("Note")
    return result[0]


def _with_bases(state: Tree, note: AgentNote, based: Callable[[Tree], Tree]) -> Tree:
    """A state of mind with what its noted facts depend on."""
    texts = {normalised(text) for text in note.fact_texts}
    knowledge = state["epistemicState"]
    facts = [based(fact) if normalised(fact["content"]) in texts else fact for fact in knowledge["facts"]]
    if all(new is old for new, old in zip(facts, knowledge["facts"], strict=True)):
        return state
    return {**state, "epistemicState": {**knowledge, "facts": facts}}


def _newest_of_mind(task: Task) -> Tree:
    """The member of a record that names its state of mind. Another proxy of the task may have written a newer one with both notes."""
    session = SessionRepository(task.store).open(task.id)
    head = head_of(session.session) if session else ""
    return {"checkpointId": head} if head else {}


def _minded(state: Tree, about: Iterable[TaggedStatement], now: int) -> Tree:
    after = apply_reply(state, about, now)
    old = _sizes(state)
    for name, size in _sizes(after).items():
        _check_size(name, size, old[name])
    return after


def _sizes(state: Tree) -> dict[str, int]:
    knowledge, graph = state["epistemicState"], state["intentGraph"]
    return {
        "facts": len(knowledge["facts"]),
        "assumptions": len(knowledge["assumptions"]),
        "questions": len(knowledge["openQuestions"]),
        "goals": len(graph["goals"]),
    }


def _is_kept(session: Tree) -> bool:
    """Whether the last checkpoint has the present state of mind."""
    last = session["checkpoints"].get(head_of(session))
    return last is not None and all(same(last[name], session["workingState"][name]) for name in WORKING_STATE)


def _bounded(name: str, record: Tree, items: list[Tree]) -> list[Tree]:
    _check_size(name, len(items), len(record[name]))
    return items


def _check_size(name: str, size: int, before: int) -> None:
    if size > max(MAX_KEPT, before):
        raise InvalidError(f"too many {name}: {size} (limit {MAX_KEPT})", "note only the most important items")


def _free_id(text: str, taken: Container[str]) -> str:
    """An id for a person to type, made from the text."""
    candidate = f"q-{digest(text.encode())}"
    return next(candidate[:length] for length in range(8, len(candidate) + 1) if candidate[:length] not in taken)
