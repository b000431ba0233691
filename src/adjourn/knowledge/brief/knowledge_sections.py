"""Sections 7 to 13 of a brief: progress, decisions, constraints, knowledge, open questions, goals and budget.

Owns: the choice and the wording; the most important item comes first. Must never: bound the length, or put a text of the record where it
could pass for ours (`compose` does both).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adjourn.knowledge.brief.context import BriefContext, Item, author_of, duration, when
from adjourn.knowledge.brief.resume_sections import node_item
from adjourn.knowledge.cognition.transitions import is_unanswered
from adjourn.knowledge.model import Tree, by_id

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
    settled = [
        _decision(decision, status) for status in ("accepted", "rejected") for decision in by_status[status]
    ]
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
    first = (
        f"CONTESTED, not settled (to be settled by {settlers}): {decision['id']}: {decision['description']}"
    )
    return (first, *(line for side in sides for line in side))


def constraints(matter: BriefContext) -> Iterator[Item]:
    for item in matter.record["invariants"]:
        scope = f" (in {', '.join(item['scope'])})" if item["scope"] else ""
        yield (f"must remain true, {item['severity']}, {item['status']}: {item['description']}{scope}",)
    for learning in matter.record["learnings"]:
        if learning["type"] in ("constraint", "warning"):
            yield (f"{learning['type']}: {learning['content']}",)


# --- 10, 11: what is known, and what is not


def knowledge(matter: BriefContext) -> list[Item]:
    """A person's answers, facts, learnings, assumptions, beliefs; more certain and newer ones first."""
    known, facts = matter.known, by_id(matter.known["facts"])
    return [
        *(_answer(one) for one in matter.record["questionsForUser"] if one["status"] == "answered"),
        *(_fact(fact) for fact in sorted(_newest(known["facts"]), key=lambda fact: -fact["confidence"])),
        *(
            (f"{learning['type']}: {learning['content']} (from {learning['source']})",)
            for learning in _newest(matter.record["learnings"])
            if learning["type"] in ("insight", "pattern")
        ),
        *(_assumption(assumption) for assumption in _newest(known["assumptions"])),
        *(_belief(belief, facts) for belief in _newest(known["beliefs"])),
    ]


def _answer(question: Tree) -> Item:
    return (
        f"{author_of(question['answeredBy'])} was asked: {question['question']}",
        f"answered: {question['answer']}",
    )


def _fact(fact: Tree) -> Item:
    return (f"fact: {fact['content']} (source {fact['source']}, confidence {fact['confidence']:g})",)


def _assumption(assumption: Tree) -> Item:
    validated = assumption.get("validatedAt")
    status = "unverified" if validated is None else f"validated {when(validated)}"
    return (f"assumption, {status}: {assumption['content']}",)


def _belief(belief: Tree, facts: dict[str, Tree]) -> Item:
    evidence = [facts[name]["content"] if name in facts else name for name in belief["evidence"]]
    first = f"belief, confidence {belief['confidence']:g}: {belief['statement']}"
    return (first, *(f"evidence: {text}" for text in evidence))


def questions(matter: BriefContext) -> Iterator[Item]:
    asked = [one for one in matter.record["questionsForUser"] if is_unanswered(matter.record, one)]
    for question in sorted(asked, key=_rank):
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
    told: set[str] = set()
    while waiting:
        name, depth = waiting.pop()
        if name in told or name not in items:
            continue
        told.add(name)
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
