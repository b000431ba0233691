"""State machines: the statuses of nodes, goals, tasks, decisions, resume points, questions, blockers and invariants.

A transition is pure: it takes a tree, an author and a time in milliseconds, and returns a new tree. Must never: read a
clock, or decide who may make a transition (`interventions` and `updating` do).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from adjourn.errors import NotFoundError, RefusedError
from adjourn.knowledge.model.documents import MAX_ID, Tree, by_id, pointer, tree_of, without
from adjourn.knowledge.model.record import CRAuthor, EventType
from adjourn.log.canonical_json import digest

EDGES: dict[str, dict[str, tuple[str, ...]]] = {
    "node": {
        "pending": ("active", "deferred"),
        "active": ("paused", "completed", "failed", "deferred"),
        "paused": ("active",),
        "failed": ("active",),
        "deferred": ("pending",),
        "completed": (),
    },
    "goal": {"active": ("achieved", "abandoned", "deferred"), "deferred": ("active",), "achieved": (), "abandoned": ()},
    "task": {
        "not-started": ("in-progress",),
        "in-progress": ("blocked", "completed", "failed"),
        "blocked": ("in-progress", "failed"),
        "failed": ("in-progress",),
        "completed": (),
    },
    "decision": {
        "tentative": ("accepted", "rejected", "contested"),
        "accepted": ("contested", "rejected"),
        "rejected": ("tentative", "contested"),
        "contested": ("accepted", "rejected"),
    },
    "resume point": {
        "pending": ("approved", "denied", "auto-approved"),
        "approved": (),
        "denied": (),
        "auto-approved": (),
    },
    "question": {"open": ("answered", "expired", "skipped"), "answered": (), "expired": (), "skipped": ()},
    "blocker": {"active": ("resolved",), "resolved": ()},
    "invariant": {"unknown": ("holding", "violated"), "holding": ("violated",), "violated": ("holding",)},
    "effect": {
        "claimed": ("completed", "failed", "unknown"),
        "unknown": ("completed", "failed", "claimed"),
        "failed": ("claimed", "completed"),
        "completed": (),
    },
}
"""For each kind of item, the statuses that may follow each status."""

COLLECTION = {
    "decision": "decisions",
    "resume point": "resumePoints",
    "question": "questionsForUser",
    "blocker": "blockers",
    "invariant": "invariants",
    "effect": "toolEffects",
}


BLOCKS_FOR_A_PERSON = ("human-required", "permission", "missing-info")
"""The types of blockers that wait for a person; dependencies and errors wait for something else."""


class RecordChange(NamedTuple):
    """One change of a record: the type, the path and the details of its CREvent."""

    type: EventType
    path: str = ""
    detail: Any = None


class Transition(NamedTuple):
    """The record after a transition, with the envelope of before, and the changes for its events."""

    record: Tree
    events: tuple[RecordChange, ...]


def require_edge(kind: str, name: str, old: str, new: str) -> None:
    """Raise `RefusedError` unless status `new` may follow `old`."""
    allowed = EDGES[kind].get(old, ())
    if new not in allowed:
        raise RefusedError(
            f"{kind} {name} is {old} and cannot become {new}",
            f"choose {' or '.join(allowed)}" if allowed else f"make a new {kind}: {old} is final",
        )


def find(record: Tree, kind: str, name: str) -> Tree:
    """The item of a record with that id. Raises `NotFoundError`."""
    items = record[COLLECTION[kind]]
    for item in items:
        if item["id"] == name:
            fields: Tree = item
            return fields
    ids = ", ".join(item["id"] for item in items[:10])
    raise NotFoundError(
        f"record {record.get('id', '')} has no {kind} {name}", f"use one of: {ids}" if ids else f"add a {kind} first"
    )


def put(record: Tree, kind: str, item: Tree) -> Tree:
    """The record with the item of that id replaced, or the item added at the end."""
    collection = COLLECTION[kind]
    items = [item if old["id"] == item["id"] else old for old in record[collection]]
    if item["id"] not in by_id(record[collection]):
        items.append(item)
    return {**record, collection: items}


def path_of(kind: str, name: str) -> str:
    return pointer(COLLECTION[kind], name)


def derived_id(prefix: str, name: str) -> str:
    """An id derived from another, always the same."""
    derived = f"{prefix}-{name}"
    return derived if len(derived) <= MAX_ID else f"{prefix}-{digest(name.encode())}"


# --- the working state


def move_node(state: Tree, node_id: str, status: str, now: int) -> Tree:
    """A working state in which a node has another status. `active` needs every node of `blockedBy` to be completed."""
    nodes = by_id(state["nodes"])
    if node_id not in nodes:
        raise NotFoundError(f"there is no node {node_id}", "add it first")
    node = nodes[node_id]
    require_edge("node", node_id, node["status"], status)
    if status == "active":
        waiting = [name for name in node.get("blockedBy", ()) if nodes.get(name, {}).get("status") != "completed"]
        if waiting:
            raise RefusedError(f"node {node_id} waits for {', '.join(waiting)}", "complete them first")
    moved = _with_status(node, status, now)
    return {**state, "nodes": [moved if old is node else old for old in state["nodes"]]}


def move_goal(state: Tree, goal_id: str, status: str) -> tuple[Tree, list[str]]:
    """A working state in which a goal has another status, and warnings."""
    graph = state["intentGraph"]
    goals = by_id(graph["goals"])
    if goal_id not in goals:
        raise NotFoundError(f"there is no goal {goal_id}", "add it first")
    goal = goals[goal_id]
    require_edge("goal", goal_id, goal["status"], status)
    open_parts = [name for name in goal["subGoalIds"] if goals.get(name, {}).get("status") == "active"]
    warnings = [f"goal {goal_id} is achieved while {name} is active" for name in open_parts if status == "achieved"]
    moved = [{**old, "status": status} if old is goal else old for old in graph["goals"]]
    return {**state, "intentGraph": {**graph, "goals": moved}}, warnings


# --- the record


def move_task(record: Tree, status: str, now: int) -> Tree:
    """A record whose task has another status. It cannot be completed with a blocking question or a broken hard invariant."""
    require_edge("task", record["task"]["id"], record["task"]["status"], status)
    return set_task(record, status, now)


def set_task(record: Tree, status: str, now: int) -> Tree:
    """`move_task`, from whatever status."""
    task = record["task"]
    if status == "completed":
        why = [*blocking_questions(record), *broken_invariants(record)]
        if why:
            raise RefusedError(f"task {task['id']} cannot be completed: {'; '.join(why)}", "settle that first")
    return {**record, "task": _with_status(task, status, now)}


def _with_status(item: Tree, status: str, now: int) -> Tree:
    """A node or a task with another status, when it was first begun, and when it ended if it has."""
    moved = {**without(item, "completedAt"), "status": status}
    if status in ("active", "in-progress"):
        moved.setdefault("startedAt", now)
    if status in ("completed", "failed"):
        moved["completedAt"] = now
    return moved


def resolve_blocker(record: Tree, blocker_id: str, resolution: str, author: CRAuthor, now: int) -> Transition:
    """Mark an active blocker as resolved."""
    blocker = find(record, "blocker", blocker_id)
    require_edge("blocker", blocker_id, blocker["status"], "resolved")
    resolved = {**blocker, "status": "resolved", **signed("resolved", author, now), "resolution": resolution}
    after = with_blocking(record, put(record, "blocker", resolved), now)
    return Transition(after, (RecordChange("updated", path_of("blocker", blocker_id), {"resolution": resolution}),))


def check_invariant(record: Tree, invariant_id: str, status: str, now: int, *, evidence: str = "") -> Transition:
    """Record the result of checking an invariant. A newly violated hard invariant is an event of its own."""
    invariant = find(record, "invariant", invariant_id)
    if status != invariant["status"]:
        require_edge("invariant", invariant_id, invariant["status"], status)
    checked = {**without(invariant, "evidence"), "status": status, "lastCheckedAt": now}
    if evidence:
        checked["evidence"] = evidence
    after = put(record, "invariant", checked)
    return Transition(
        after, tuple(violations(record, after)) or (RecordChange("updated", path_of("invariant", invariant_id)),)
    )


def violations(before: Tree, after: Tree) -> Iterator[RecordChange]:
    """A change for each hard invariant that is violated now and was not before."""
    if after["invariants"] is before["invariants"]:
        return
    old_invariants = by_id(before["invariants"])
    for invariant in after["invariants"]:
        old = old_invariants.get(invariant["id"])
        if _is_broken(invariant) and not (old and _is_broken(old)):
            path = path_of("invariant", invariant["id"])
            yield RecordChange("invariant-violated", path, {"description": invariant["description"]})


def signed(verb: str, author: CRAuthor, now: int) -> Tree:
    """The members `<verb>By` and `<verb>At`."""
    return {f"{verb}By": tree_of(author), f"{verb}At": now}


def blocking_questions(record: Tree) -> list[str]:
    return [
        f"question {question['id']} is {question['status']} and blocks"
        for question in record["questionsForUser"]
        if question["priority"] == "blocking" and is_unanswered(record, question)
    ]


def broken_invariants(record: Tree) -> list[str]:
    return [f"invariant {item['id']} is violated" for item in record["invariants"] if _is_broken(item)]


def is_unanswered(record: Tree, question: Tree) -> bool:
    """Whether a question is open; or blocking, expired, and the question that replaced it is unanswered too."""
    if question["status"] == "expired" and question["priority"] == "blocking":
        raised = by_id(record["questionsForUser"]).get(derived_id("again", question["id"]))
        return raised is None or is_unanswered(record, raised)
    return bool(question["status"] == "open")


def with_blocking(before: Tree, after: Tree, now: int) -> Tree:
    """`after` with its task blocked if no resume point can be used now, or unblocked if one can again."""
    was, is_now = _is_blocked(before), _is_blocked(after)
    status = after["task"]["status"]
    if is_now and not was and status == "in-progress":
        return move_task(after, "blocked", now)
    if was and not is_now and status == "blocked":
        return move_task(after, "in-progress", now)
    return after


def _is_blocked(record: Tree) -> bool:
    """Whether there are unused resume points, and each is denied, or pending behind a blocker or a blocking question."""
    points = [point for point in record["resumePoints"] if "consumedAt" not in point]
    if not points:
        return False
    covered = {
        point
        for blocker in record["blockers"]
        if blocker["status"] == "active"
        for point in blocker["blocksResumePoints"]
    }
    for question in record["questionsForUser"]:
        if question["priority"] == "blocking" and is_unanswered(record, question):
            covered.update(question["blocksResumePoints"])
    return all(
        point["approvalStatus"] == "denied" or (point["approvalStatus"] == "pending" and point["id"] in covered)
        for point in points
    )


def _is_broken(invariant: Tree) -> bool:
    return bool(invariant["severity"] == "hard" and invariant["status"] == "violated")
