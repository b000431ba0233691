"""Sections 7 to 13 of a brief (progress, decisions, constraints, knowledge, questions, goals, budget), and the lines of a hand-over.

Both say what a record and a state of mind have, the most important item first. `compose` bounds the length of a brief, and keeps a text
of the record from passing for ours. A hand-over's lines leave out what the task's events say as well (calls, budgets).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from adjourn.knowledge.brief.lines import Recorded, RecordLine
from adjourn.knowledge.brief.resume_sections import (
    BriefContext,
    Item,
    author_of,
    awaited,
    duration,
    evidence,
    from_nodes,
    node_item,
    warnings,
    when,
)
from adjourn.knowledge.cognition.transitions import BLOCKS_FOR_A_PERSON, is_unanswered
from adjourn.knowledge.model.cognition import normalised
from adjourn.knowledge.model.documents import Tree, by_id
from adjourn.knowledge.records.interventions import usable_resume_points
from adjourn.knowledge.records.versions import ChainVerification

_RANKS = ("blocking", "critical", "high", "medium", "low")


# --- 7, 8, 9: what was done, decided, and must stay


def counts(matter: BriefContext) -> Iterator[Item]:
    summary = matter.record["executionSummary"]
    if matter.has_record:
        steps = f"{summary['stepsCompleted']} steps completed, {summary['stepsFailed']} failed"
        yield (f"the task is {matter.record['task']['status']}: {steps}",)
    if matter.nodes:
        completed = sum(node["status"] == "completed" for node in matter.nodes)
        yield (f"{completed} of {len(matter.nodes)} nodes completed",)


def progress(matter: BriefContext) -> list[Item]:
    """Nodes by status, active ones first; then actions, newest first."""
    order = ("active", "paused", "failed", "pending", "deferred", "completed")
    nodes = sorted(_newest(matter.nodes), key=lambda node: order.index(node["status"]))
    actions = sorted(matter.record["executionSummary"]["actions"], key=lambda action: -action["timestamp"])
    return [
        *(node_item(node, f"[{node['status']}] ") for node in nodes),
        *((f"[{action['outcome']}] {action['description']}",) for action in actions),
    ]


def decisions(matter: BriefContext) -> tuple[list[Item], list[Item]]:
    """(open, settled). An open one has all its variants."""
    newest = sorted(matter.record["decisions"], key=lambda decision: -decision["madeAt"])
    by_status = {
        status: [decision for decision in newest if decision["status"] == status]
        for status in ("contested", "tentative", "accepted", "rejected")
    }
    opened = [contested(decision) for decision in by_status["contested"]]
    opened += [_decision(decision, "tentative, not settled") for decision in by_status["tentative"]]
    settled = [_decision(decision, status) for status in ("accepted", "rejected") for decision in by_status[status]]
    return opened, settled


def _decision(decision: Tree, status: str) -> Item:
    reason = (f"because: {decision['rationale']}",) if decision["rationale"] else ()
    by = author_of(decision["madeBy"])
    return (f"{status}: {decision['id']}: {decision['description']} ({by})", *reason)


def contested(decision: Tree) -> Item:
    settlers = " or ".join(decision["overridableBy"]) or "nobody"
    sides = [
        (f"{author_of(variant['author'])} says: {variant['decision']}", f"because: {variant['rationale']}")
        for variant in decision.get("variants", ())
    ]
    first = f"CONTESTED, not settled (to be settled by {settlers}): {decision['id']}: {decision['description']}"
    return (first, *(line for side in sides for line in side))


def constraints(matter: BriefContext) -> Iterator[Item]:
    for item in matter.record["invariants"]:
        scope = f" (in {', '.join(item['scope'])})" if item["scope"] else ""
        yield (f"must remain true, {item['severity']}, {item['status']}: {item['description']}{scope}", *evidence(item))
    for learning in matter.record["learnings"]:
        if learning["type"] in ("constraint", "warning"):
            yield (f"{learning['type']}: {learning['content']}",)


# --- 10, 11: what is known, and what is not


def knowledge(matter: BriefContext) -> list[Item]:
    """A person's answers, facts, learnings, assumptions, beliefs; more certain and newer ones first."""
    fields, facts = matter.known, by_id(matter.known["facts"])
    return [
        *(_answer(question) for question in matter.record["questionsForUser"] if question["status"] == "answered"),
        *(_fact(fact) for fact in sorted(_newest(fields["facts"]), key=lambda fact: -fact["confidence"])),
        *(
            (f"{learning['type']}: {learning['content']} (from {learning['source']})",)
            for learning in _newest(matter.record["learnings"])
            if learning["type"] in ("insight", "pattern")
        ),
        *(_assumption(assumption) for assumption in _newest(fields["assumptions"])),
        *(_belief(belief, facts) for belief in _newest(fields["beliefs"])),
    ]


def _answer(question: Tree) -> Item:
    return (f"{author_of(question['answeredBy'])} was asked: {question['question']}", f"answered: {question['answer']}")


def _fact(fact: Tree) -> Item:
    return (f"fact: {fact['content']} (source {fact['source']}, confidence {fact['confidence']:g})",)


def _assumption(assumption: Tree) -> Item:
    validated = assumption.get("validatedAt")
    status = "unverified" if validated is None else f"validated {when(validated)}"
    return (f"assumption, {status}: {assumption['content']}",)


def _belief(belief: Tree, facts: dict[str, Tree]) -> Item:
    basis = [facts[name]["content"] if name in facts else name for name in belief["evidence"]]
    first = f"belief, confidence {belief['confidence']:g}: {belief['statement']}"
    return (first, *(f"evidence: {text}" for text in basis))


def questions(matter: BriefContext) -> Iterator[Item]:
    unanswered = [
        open_question
        for open_question in matter.record["questionsForUser"]
        if is_unanswered(matter.record, open_question)
    ]
    for question in sorted(unanswered, key=_rank):
        options = (f"options: {'; '.join(question['options'])}",) if question.get("options") else ()
        about = f"{question['priority']} {question['type']} for a person ({question['id']})"
        context = (f"context: {question['context']}",) if question["context"] else ()
        yield (f"{about}: {question['question']}", *context, *options)
    active = [blocker for blocker in matter.record["blockers"] if blocker["status"] == "active"]
    for blocker in sorted(active, key=lambda blocker: _RANKS.index(blocker["severity"])):
        about = f"{blocker['severity']} blocker, {blocker['type']} ({blocker['id']})"
        yield (f"{about}: {blocker['description']}",)
    for question in sorted(matter.known["openQuestions"], key=_rank):
        holds = f" (blocks {', '.join(question['blocksNodes'])})" if question["blocksNodes"] else ""
        yield (f"{question['priority']}: {question['question']}{holds}",)


# --- 12, 13: goals, and what is left to spend


def goals(matter: BriefContext) -> Iterator[tuple[Item, int]]:
    """Goals and their depth in the tree: the root's first, then those under no other; the higher priority first."""
    items = by_id(matter.graph["goals"])
    root = matter.graph["rootIntentId"]
    tops = [name for name, goal in items.items() if name != root and goal.get("parentGoalId") not in items]
    waiting = [(name, 0) for name in [*reversed(_by_priority(items, tops)), root]]
    seen: set[str] = set()
    while waiting:
        name, depth = waiting.pop()
        if name in seen or name not in items:
            continue
        seen.add(name)
        goal = items[name]
        yield (f"[{goal['status']}] {goal['description']} (priority {goal['priority']:g})",), depth
        waiting += [(part, depth + 1) for part in reversed(_by_priority(items, goal["subGoalIds"]))]


def budget(matter: BriefContext, calls: tuple[int, int] | None) -> Iterator[Item]:
    summary, metadata = matter.record["executionSummary"], matter.record["metadata"]
    if calls is not None:
        used, allowed = calls
        yield (f"tool calls: {used} used, {max(0, allowed - used)} left",)
    if summary["tokensConsumed"]:
        yield (f"tokens: {summary['tokensConsumed']} used",)
    metrics = matter.checkpoint["metrics"] if matter.checkpoint else summary
    elapsed = max(summary["elapsedMs"], metrics["elapsedMs"])
    if elapsed:
        yield (f"time: {duration(elapsed)}",)
    if metadata.get("estimatedRemainingWork"):
        yield (f"remaining work: {metadata['estimatedRemainingWork']}",)


# --- words


def _newest(items: Sequence[Tree]) -> list[Tree]:
    """The items, last added first."""
    return list(reversed(items))


def _by_priority(items: dict[str, Tree], names: Sequence[str]) -> list[str]:
    return sorted((name for name in names if name in items), key=lambda name: -items[name]["priority"])


def _rank(question: Tree) -> int:
    return _RANKS.index(question["priority"])


# --- the same in short lines, for a hand-over


def recorded(
    record: Tree,
    mind: Tree | None,
    *,
    now: int,
    verified: ChainVerification | None = None,
    consumed: Container[str] = (),
    given: Sequence[str] = (),
    stale: Mapping[str, str] = {},
) -> Recorded:
    """The lines of a record and of the state of mind that belongs to it, at `now` (milliseconds).

    `verified` is the verification of the record's chain, `consumed` are the keys of all used approvals, `given` more notes;
    `stale` says why facts are stale, by their ids.
    """
    matter = BriefContext(record, mind, now, consumed, has_record=True, stale=stale)
    unanswered = [question for question in record["questionsForUser"] if is_unanswered(record, question)]
    blockers = [blocker for blocker in record["blockers"] if blocker["status"] == "active"]
    of_people = [blocker for blocker in blockers if blocker["type"] in BLOCKS_FOR_A_PERSON]
    others = [blocker for blocker in blockers if blocker["type"] not in BLOCKS_FOR_A_PERSON]
    usable = usable_resume_points(record, consumed=consumed)
    is_finished = record["task"]["status"] == "completed"
    return Recorded(
        is_finished=is_finished,
        is_blocked=bool(of_people) or any(question["priority"] == "blocking" for question in unanswered),
        steps=() if is_finished else _steps(matter, usable),
        progress=[
            *(line.text for line in _blockers(others)),
            *_subgoals(matter),
            *(f"done when: {criterion}" for criterion in record["task"]["successCriteria"]),
        ],
        waiting=[
            *_questions(unanswered),
            *_blockers(of_people),
            *(RecordLine(item[0], "".join(f"; {part}" for part in item[1:])) for item in awaited(matter)),
        ],
        decisions=[*_constraints(record), *_answers(record), *_decisions(record)],
        facts=list(_facts(matter)),
        notes=_joined(warnings(matter, verified, given)),
    )


def _joined(items: Iterator[Item] | Sequence[Item]) -> list[str]:
    return ["; ".join(item) for item in items]


def _steps(matter: BriefContext, usable: Sequence[Tree]) -> list[str]:
    begun = [
        f"{_steps_of(point)}; these steps were started: check how far they got"
        for point in matter.record["resumePoints"]
        if matter.is_consumed(point)
    ]
    return [*map(_steps_of, usable), *begun] or _joined(from_nodes(matter))


def _steps_of(point: Tree) -> str:
    steps = "; ".join(point["nextSteps"]) or point["label"]
    first = [text for text in (point["when"], *point["preconditions"]) if text]
    check = f"; make sure first: {'; '.join(first)}" if first else ""
    about = f"; {point['description']}" if point["description"] else ""
    return f"{steps} (resume point {point['id']}: {point['label']}{about}{check})"


def _subgoals(matter: BriefContext) -> list[str]:
    """The goals without the root's, which is the task's."""
    lines = _joined([item for item, _ in goals(matter)])
    return lines[matter.graph["rootIntentId"] in by_id(matter.graph["goals"]) :]


def _questions(unanswered: Sequence[Tree]) -> Iterator[RecordLine]:
    for question in sorted(unanswered, key=_rank):
        options = f"; options: {'; '.join(question['options'])}" if question.get("options") else ""
        context = f"; context: {question['context']}" if question["context"] else ""
        command = f" (a person runs `adjourn answer {question['id']} ANSWER`)"
        priority = "" if question["priority"] == "medium" else f"{question['priority']} "
        text = f"{priority}{question['type']}: {question['question']}"
        yield RecordLine(text, f"{options}{context}{command}")


def _blockers(blockers: Sequence[Tree]) -> Iterator[RecordLine]:
    for blocker in sorted(blockers, key=lambda row: _RANKS.index(row["severity"])):
        yield RecordLine(
            f"{blocker['severity']} blocker, {blocker['type']} ({blocker['id']}): {blocker['description']}"
        )


def _constraints(record: Tree) -> Iterator[RecordLine]:
    for learning in reversed(record["learnings"]):
        if learning["type"] in ("constraint", "warning"):
            yield RecordLine(f"{learning['type']}: {learning['content']}")
    for item in record["invariants"]:
        scope = f" (in {', '.join(item['scope'])})" if item["scope"] else ""
        yield RecordLine(
            f"must remain true, {item['severity']}, {item['status']}: {item['description']}{scope}",
            "".join(f"; {text}" for text in evidence(item)),
        )


def _answers(record: Tree) -> Iterator[RecordLine]:
    """What persons answered: the answer before its question, so that a cut takes the question."""
    for question in record["questionsForUser"]:
        if question["status"] == "answered":
            yield RecordLine(
                f"{author_of(question['answeredBy'])} answered: {question['answer']}; asked: {question['question']!r}"
            )


def _decisions(record: Tree) -> Iterator[RecordLine]:
    """Contested ones, then the others, the newest first."""
    newest = sorted(record["decisions"], key=lambda decision: -decision["madeAt"])
    binding = [entry["description"] for entry in reversed(newest) if entry["status"] == "accepted"]
    for earlier, later in contradictions(binding):
        yield RecordLine(f"CONTRADICTION, both are decided: first {earlier!r}, later {later!r}")
    yield from map(RecordLine, _joined([contested(entry) for entry in newest if entry["status"] == "contested"]))
    for entry in newest:
        if entry["status"] == "contested":
            continue
        status = "" if entry["status"] == "accepted" else f"{entry['status']}: "
        by = "" if entry["madeBy"]["type"] == "agent" else f" ({author_of(entry['madeBy'])})"
        because = f", because {entry['rationale']}" if entry["rationale"] else ""
        yield RecordLine(f"{status}{entry['description']}{by}", because)


def _facts(matter: BriefContext) -> Iterator[RecordLine]:
    """Stale facts, facts that beliefs rest on, then the newest; learnings, open questions, assumptions, beliefs."""
    record, fields = matter.record, matter.known
    for earlier, later in contradictions(fact["content"] for fact in fields["facts"]):
        yield RecordLine(f"CONTRADICTION, find out which is true: first {earlier!r}, later {later!r}")
    used = {name for belief in fields["beliefs"] for name in belief["evidence"]}
    for fact in sorted(_newest_first(fields["facts"], used), key=lambda fact: fact["id"] not in matter.stale):
        sure = "" if fact["confidence"] >= 0.5 else f" (confidence {fact['confidence']:g})"
        why = matter.stale.get(fact["id"], "")
        yield RecordLine((f"STALE, check again ({why}): " if why else "") + f"{fact['content']}{sure}")
    for learning in reversed(record["learnings"]):
        if learning["type"] in ("insight", "pattern"):
            yield RecordLine(f"{learning['type']}: {learning['content']}")
    for question in sorted(fields["openQuestions"], key=_rank):
        yield RecordLine(f"open question: {question['question']}")
    for assumption in reversed(fields["assumptions"]):
        checked = "unverified" if assumption.get("validatedAt") is None else "validated"
        yield RecordLine(f"assumed, {checked}: {assumption['content']}")
    contents = {name: fact["content"] for name, fact in by_id(fields["facts"]).items()}
    for belief in reversed(fields["beliefs"]):
        basis = "; ".join(contents.get(name, name) for name in belief["evidence"])
        yield RecordLine(
            f"believed ({belief['confidence']:g}): {belief['statement']}", f"; evidence: {basis}" if basis else ""
        )


def _newest_first(facts: Sequence[Tree], used: Container[str]) -> list[Tree]:
    """The facts that are used, then the others, the last added first."""
    newest = list(reversed(facts))
    return sorted(newest, key=lambda fact: fact["id"] not in used)


# --- statements that contradict each other by their words alone
#
# Few are found, and hardly any wrongly: both statements have the same words but for one value with a digit after a verb of being, or but
# for one negation.

_IS = frozenset(
    ("is", "are", "was", "were", "=", "equals", "uses", "has", "needs", "takes", "runs", "on", "at", "to", "of", "in")
)
_NOT = frozenset(("not", "no", "never", "cannot"))
_SHORT = (("won't", "will not"), ("can't", "can not"), ("cannot", "can not"), ("n't", " not"))


def contradictions(statements: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of contradicting statements, the earlier one first. `statements` are in the order in which they were made."""
    values: dict[tuple[str, ...], str] = {}
    claims: dict[tuple[str, ...], tuple[bool, str]] = {}
    for statement in statements:
        words = _words(statement)
        subject, value = words[:-1], words[-1:]
        if len(subject) > 1 and subject[-1] in _IS and any(map(str.isdigit, value[0])):
            if subject in values:
                yield values[subject], statement
            values[subject] = statement
        core = tuple(word for word in words if word not in _NOT)
        is_denied = (len(words) - len(core)) % 2 == 1
        if core in claims and claims[core][0] != is_denied:
            yield claims[core][1], statement
        if core:
            claims[core] = is_denied, statement


def _words(statement: str) -> tuple[str, ...]:
    text = normalised(statement)
    for short, long in _SHORT:
        text = text.replace(short, long)
    return tuple(re.findall(r"[^\s,;()\"']+", text))
