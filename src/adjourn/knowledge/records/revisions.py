"""Revise what was noted before: a decision gets another status, a statement is withdrawn, an agent answers its own question.

An agent revises what agents said. What a person said, decided or has to answer stays as it is; `ignored` lists each part of a note
that changed nothing, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from adjourn.errors import InvalidError
from adjourn.knowledge.cognition.transitions import RecordChange, Transition, path_of, put, signed, with_blocking
from adjourn.knowledge.model.cognition import CONFIDENCE, SOURCE, Collection, normalised
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.records.interventions import answer_question, skip_question
from adjourn.knowledge.records.updating import variant_of, with_variants

if TYPE_CHECKING:
    from adjourn.knowledge.model.record import CRAuthor
    from adjourn.knowledge.records.agent_notes import AgentNote, NotedAnswer, NotedDecision

MAX_IGNORED = 20
"""Ignored parts of a note that are listed; the others are counted."""
_SHOWN = 80
_WITHDRAWN = "withdrawn by the agent that asked"


class Mind(NamedTuple):
    """A revised state of mind, and how many of its statements were withdrawn or answered."""

    state: Tree
    withdrawn: int
    answered: int


# --- the state of mind


def revise_mind(state: Tree, note: AgentNote) -> Mind:
    """Take back the statements that a note withdraws, and close the questions that it answers."""
    knowledge, graph = state["epistemicState"], state["intentGraph"]
    gone = {normalised(text) for text in note.withdraw}
    answers = {normalised(given.question): given for given in note.answers}
    facts = _without(knowledge["facts"], "content", gone)
    assumptions = _without(knowledge["assumptions"], "content", gone)
    unanswered = _without(knowledge["openQuestions"], "question", gone)
    closed = [question for question in unanswered if normalised(question["question"]) in answers]
    goals = [
        {**goal, "status": "abandoned"}
        if normalised(goal["description"]) in gone
        and goal["status"] == "active"
        and goal["id"] != graph["rootIntentId"]
        else goal
        for goal in graph["goals"]
    ]
    abandoned = sum(new is not old for new, old in zip(goals, graph["goals"], strict=True))
    lists = (("facts", facts), ("assumptions", assumptions), ("openQuestions", unanswered))
    withdrawn = abandoned + sum(len(knowledge[name]) - len(items) for name, items in lists)
    if not withdrawn and not closed:
        return Mind(state, 0, 0)
    known = Collection(facts, "content", "fact")
    for question in closed:
        given = answers[normalised(question["question"])]
        known.add(f"{question['question']} {given.answer}", source=SOURCE, confidence=CONFIDENCE)
    ids = {fact["id"] for fact in facts}
    beliefs = [
        {**belief, "evidence": [name for name in belief["evidence"] if name in ids]}
        for belief in knowledge["beliefs"]
        if not belief["evidence"] or ids.intersection(belief["evidence"])
    ]
    after = {
        **knowledge,
        "facts": known.items,
        "assumptions": assumptions,
        "openQuestions": [question for question in unanswered if question not in closed],
        "beliefs": beliefs,
    }
    return Mind({**state, "epistemicState": after, "intentGraph": {**graph, "goals": goals}}, withdrawn, len(closed))


def _without(items: list[Tree], name: str, gone: set[str]) -> list[Tree]:
    return [item for item in items if normalised(item[name]) not in gone]


# --- the record


class Revision(NamedTuple):
    """A revised record, and how many of its decisions changed, and how many items were withdrawn and answered."""

    step: Transition
    decisions: int
    withdrawn: int
    answered: int


def revise_record(record: Tree, note: AgentNote, author: CRAuthor, now: int) -> Revision:
    """Change decisions, withdraw learnings and questions, and answer questions, as far as an agent may."""
    after, events = record, list[RecordChange]()
    for stated in note.decisions:
        if (old := _decision(after, stated)) is not None and _decision_is_new(old, stated) and not _why_settled(old):
            after = put(after, "decision", _decided(old, stated, author, now))
            events.append(RecordChange("updated", path_of("decision", old["id"]), {"status": stated.status}))
    decided = len(events)
    gone = {normalised(text) for text in note.withdraw}
    learnings = [item for item in after["learnings"] if normalised(item["content"]) not in gone or _is_persons(item)]
    withdrawn, answered = len(after["learnings"]) - len(learnings), 0
    if withdrawn:
        after = {**after, "learnings": learnings}
        events.append(RecordChange("updated", "", {"members": ["learnings"]}))
    for question in _own_questions(after, gone):
        step = skip_question(after, question["id"], _WITHDRAWN, author, now)
        after, events, withdrawn = step.record, [*events, *step.events], withdrawn + 1
    for given in note.answers:
        for question in _own_questions(after, {normalised(given.question)}):
            try:
                step = answer_question(after, question["id"], given.answer, author, now)
            except InvalidError:  # it is none of the options: `ignored` says so
                continue
            after, events, answered = step.record, [*events, *step.events], answered + 1
    step = Transition(with_blocking(record, after, now), tuple(events))
    return Revision(step, decided, withdrawn, answered)


def _decision(record: Tree, stated: NotedDecision) -> Tree | None:
    text = normalised(stated.decision)
    return next((item for item in record["decisions"] if normalised(item["description"]) == text), None)


def _decision_is_new(old: Tree, stated: NotedDecision) -> bool:
    """Whether a note says something else about a decision than the record."""
    return old["status"] != stated.status or bool(stated.because and stated.because != old["rationale"])


def _decided(old: Tree, stated: NotedDecision, author: CRAuthor, now: int) -> Tree:
    """A decision with the status and the reason of a note. The earlier reason stays as a variant."""
    changed = {**old, "status": stated.status, **signed("made", author, now)}
    if stated.because and stated.because != old["rationale"]:
        changed |= {"rationale": stated.because, "variants": with_variants(old.get("variants", []), variant_of(old))}
    return changed


def _why_settled(decision: Tree) -> str:
    """Why an agent cannot change a decision; "" if it can."""
    if decision["status"] == "contested":
        return f"contested: a person settles it with `adjourn decide {decision['id']}`"
    if decision["madeBy"]["type"] != "agent" or "agent" not in decision["overridableBy"]:
        return "a person decided it: ask with adjourn.ask"
    return ""


def _is_persons(item: Tree) -> bool:
    return bool(item["learnedBy"]["type"] == "human")


def _own_questions(record: Tree, texts: set[str]) -> list[Tree]:
    """The open questions in these words that need no person: neither blocking, nor asking for a person's consent."""
    return [item for item in _open_questions(record, texts) if not _needs_person(item)]


def _open_questions(record: Tree, texts: set[str]) -> list[Tree]:
    return [
        item
        for item in record["questionsForUser"]
        if item["status"] == "open" and normalised(item["question"]) in texts
    ]


def _needs_person(question: Tree) -> bool:
    return bool(question["priority"] == "blocking" or question["type"] != "question")


# --- what changed nothing


def ignored(record: Tree, state: Tree | None, note: AgentNote) -> list[str]:
    """Each part of a note that changes nothing in a record and a state of mind, and why; at most `MAX_IGNORED`, then their number."""
    lines = [*_known(record, state, note), *_unknown(record, state, note)]
    more = len(lines) - MAX_IGNORED
    return [*lines[:MAX_IGNORED], f"and {more} more"] if more > 0 else lines


def _known(record: Tree, state: Tree | None, note: AgentNote) -> Iterator[str]:
    """The items that are known in the same words."""
    gone = {normalised(text) for text in note.withdraw}
    minds = _minds(state)
    for name, texts in (
        ("facts", _without_basis(state, note.fact_texts)),
        ("assumptions", note.assumptions),
        ("questions", note.questions),
        ("goals", note.goals),
    ):
        for text in texts:
            if normalised(text) in minds[name] - gone:
                yield _line(name, text, "known already")
    for stated in note.decisions:
        if (old := _decision(record, stated)) is not None:
            if why := _why_settled(old):
                yield _line("decisions", stated.decision, why)
            elif not _decision_is_new(old, stated):
                yield _line("decisions", stated.decision, "known already")
    learned = {normalised(item["content"]) for item in record["learnings"]} - gone
    for learning in note.learnings:
        if normalised(learning.content) in learned:
            yield _line("learnings", learning.content, "known already; withdraw it to note it otherwise")
    yield from _known_of_the_task(record, note)


def _without_basis(state: Tree | None, texts: Sequence[str]) -> list[str]:
    """The texts of facts that depend on nothing: noting another again measures what it depends on."""
    facts = state["epistemicState"]["facts"] if state else ()
    based = {normalised(fact["content"]) for fact in facts if "dependsOn" in fact}
    return [text for text in texts if normalised(text) not in based]


def _known_of_the_task(record: Tree, note: AgentNote) -> Iterator[str]:
    labels = {normalised(item["label"]): item for item in record["resumePoints"]}
    for point in note.resume_points:
        if (old := labels.get(normalised(point.label))) is not None:
            steps = [list(point.next_steps), point.when, list(point.preconditions)]
            why = "known already"
            if steps != [old["nextSteps"], old["when"], old["preconditions"]]:
                why += ": note changed steps under another label"
            yield _line("resumePoints", point.label, why)
    active = {normalised(item["description"]) for item in record["blockers"] if item["status"] == "active"}
    for blocker in note.blockers:
        is_known = normalised(blocker.description) in active
        if is_known and not blocker.resolution:
            yield _line("blockers", blocker.description, "known already")
        elif not is_known and blocker.resolution:
            yield _line("blockers", blocker.description, "no active blocker has these words")
    invariants = {normalised(item["description"]): item for item in record["invariants"]}
    for stated in note.invariants:
        known = invariants.get(normalised(stated.description))
        if known is not None and known["severity"] == "soft" and stated.severity == "hard":
            yield _line("invariants", stated.description, "stays soft: only a person changes that")
    if note.status == "in-progress" and record["task"]["status"] == "blocked":
        yield "status: the task stays blocked"


def _unknown(record: Tree, state: Tree | None, note: AgentNote) -> Iterator[str]:
    """The withdrawals and answers that meet nothing, or nothing that an agent may change."""
    minds = _minds(state)
    held = set().union(*minds.values())
    for text in note.withdraw:
        if normalised(text) not in held and (why := _why_kept(record, normalised(text))):
            yield _line("withdraw", text, why)
    for given in note.answers:
        if normalised(given.question) not in minds["questions"] and (why := _why_open(record, given)):
            yield _line("answers", given.question, why)


def _why_kept(record: Tree, text: str) -> str:
    """Why nothing of a record is withdrawn that has this text, normalised; "" if something is."""
    if learned := [item for item in record["learnings"] if normalised(item["content"]) == text]:
        return "a person said it" if all(map(_is_persons, learned)) else ""
    if asked := _open_questions(record, {text}):
        return "only a person can skip this question" if all(map(_needs_person, asked)) else ""
    if any(normalised(item["description"]) == text for item in record["decisions"]):
        return "note the decision with the status rejected instead"
    return "nothing that can be withdrawn has these words"


def _why_open(record: Tree, given: NotedAnswer) -> str:
    """Why an answer closes no question of a record; "" if it does."""
    asked = _open_questions(record, {normalised(given.question)})
    if not asked:
        return "no open question has these words"
    if all(map(_needs_person, asked)):
        return "a person has to answer it"
    options = asked[0].get("options", ())
    return "" if not options or given.answer in options else f"the options are: {', '.join(options)}"[:200]


def _minds(state: Tree | None) -> Mapping[str, set[str]]:
    """The texts of a state of mind by the member of a note, to compare."""
    if state is None:
        return {"facts": set(), "assumptions": set(), "questions": set(), "goals": set()}
    knowledge = state["epistemicState"]

    def texts(items: Any, name: str) -> set[str]:
        return {normalised(item[name]) for item in items}

    return {
        "facts": texts(knowledge["facts"], "content"),
        "assumptions": texts([*knowledge["assumptions"], *knowledge["facts"]], "content"),
        "questions": texts(knowledge["openQuestions"], "question"),
        "goals": texts((goal for goal in state["intentGraph"]["goals"] if goal["status"] == "active"), "description"),
    }


def _line(name: str, text: str, why: str) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return f"{name}: {shown}: {why}"
