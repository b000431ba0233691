"""The rules between the parts of a state or a record, beyond their types.

A finding's source is a path, its message says what is wrong with which value, its help is the remedy. A record or working state with an
error is not written; a checkpoint with one is not restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from adjourn.errors import InvalidError
from adjourn.findings import Finding
from adjourn.knowledge.model.documents import Tree, pointer, shown
from adjourn.knowledge.model.record import COLLECTIONS

Findings = list[Finding]
Listed = set[tuple[str, str]]
"""Pairs (parent, child) as the parents list them."""


def check_working_state(state: Tree) -> Findings:
    """Check the rules for nodes, knowledge and goals. `state` has the type of a WorkingState, or of a checkpoint."""
    return [*_nodes(state["nodes"]), *_knowledge(state), *_goals(state["intentGraph"])]


def check_record(record: Tree) -> Findings:
    """Check the rules for a record, which has the type of RecordContent."""
    return [*_identity(record), *_items(record), *_questions(record), *_gates(record), *_completion(record)]


def require(findings: Iterable[Finding]) -> Findings:
    """The warnings among the findings. Raises `InvalidError` with the first error's path, value and remedy if there is an error."""
    warnings: Findings = []
    errors: Findings = []
    for finding in findings:
        (errors if finding.severity == "error" else warnings).append(finding)
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidError(f"{errors[0].source}: {errors[0].message}{more}", errors[0].help)
    return warnings


def has_circular_references(nodes: Sequence[Tree]) -> bool:
    """Whether a node is its own descendant, over `childIds` and `parentId` together."""
    edges: dict[str, list[str]] = {node["id"]: list(node["childIds"]) for node in nodes}
    for node in nodes:
        if node.get("parentId") in edges:
            edges[node["parentId"]].append(node["id"])
    return find_cycle(edges) is not None


def find_cycle(edges: Mapping[str, Sequence[str]]) -> str | None:
    """A member of some cycle, or None. A depth-first search in three colours, without recursion."""
    active, done = set(), set()
    for start in edges:
        if start in done:
            continue
        active.add(start)
        path = [(start, iter(edges[start]))]
        while path:
            node, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                active.discard(node)
                done.add(node)
            elif target in active:
                return target
            elif target in edges and target not in done:
                active.add(target)
                path.append((target, iter(edges[target])))
    return None


# --- nodes, knowledge, goals


def _nodes(nodes: Sequence[Tree]) -> Iterator[Finding]:
    ids = {node["id"]: node for node in nodes}
    listed = {(node["id"], child) for node in nodes for child in node["childIds"]}
    yield from _duplicates("nodes", nodes)
    for node in nodes:
        path = pointer("nodes", node["id"])
        yield from _node_tree(path, node, ids, listed)
        yield from (
            _missing(f"{path}/blockedBy", name, "node") for name in node.get("blockedBy", ()) if name not in ids
        )
    yield from _confidences("nodes", "Node", nodes)
    if has_circular_references(nodes):
        yield _finding(
            "cycle", "/nodes", "Circular reference detected in node graph", "give each node one parent, and no cycle"
        )
    stuck = find_cycle({node["id"]: node.get("blockedBy", ()) for node in nodes})
    if stuck is not None:
        yield _finding(
            "deadlock", pointer("nodes", stuck, "blockedBy"), f"node {stuck} is blocked by itself", _ADD_OR_CUT
        )


def _node_tree(path: str, node: Tree, ids: Mapping[str, Tree], listed: Listed) -> Iterator[Finding]:
    name, parent = node["id"], node.get("parentId")
    if parent is not None and parent not in ids:
        message = f"Node {name} references missing parent {parent}"
        yield _finding("missing-parent", f"{path}/parentId", message, _ADD_OR_CUT)
    elif parent is not None and (parent, name) not in listed:
        yield _one_sided(f"{path}/parentId", f"node {name} has parent {parent}, which does not list it")
    for child in node["childIds"]:
        if child not in ids:
            message = f"Node {name} references missing child {child}"
            yield _finding("missing-child", f"{path}/childIds", message, _ADD_OR_CUT)
        elif ids[child].get("parentId") != name:
            yield _one_sided(f"{path}/childIds", f"node {name} lists child {child}, which has another parent")


def _knowledge(state: Tree) -> Iterator[Finding]:
    knowledge = state["epistemicState"]
    nodes = {node["id"] for node in state["nodes"]}
    facts = {fact["id"] for fact in knowledge["facts"]}
    for name in ("facts", "assumptions", "openQuestions", "beliefs"):
        yield from _duplicates(f"epistemicState/{name}", knowledge[name])
    for name, kind in (("facts", "Fact"), ("beliefs", "Belief")):
        yield from _confidences(f"epistemicState/{name}", kind, knowledge[name])
    for belief in knowledge["beliefs"]:
        path = pointer("epistemicState", "beliefs", belief["id"], "evidence")
        yield from (_missing(path, fact, "fact") for fact in belief["evidence"] if fact not in facts)
    for question in knowledge["openQuestions"]:
        path = pointer("epistemicState", "openQuestions", question["id"], "blocksNodes")
        yield from (_missing(path, node, "node") for node in question["blocksNodes"] if node not in nodes)


def _goals(graph: Tree) -> Iterator[Finding]:
    goals = {goal["id"]: goal for goal in graph["goals"]}
    yield from _duplicates("intentGraph/goals", graph["goals"])
    if graph["rootIntentId"] not in goals:
        message = f"there is no goal {shown(graph['rootIntentId'])}"
        yield _finding("missing-root", "/intentGraph/rootIntentId", message, _ADD_OR_CUT)
    listed = {(goal["id"], part) for goal in graph["goals"] for part in goal["subGoalIds"]}
    edges: dict[str, list[str]] = {name: list(goal["subGoalIds"]) for name, goal in goals.items()}
    for name, goal in goals.items():
        if goal.get("parentGoalId") in edges:
            edges[goal["parentGoalId"]].append(name)
        yield from _goal_tree(pointer("intentGraph", "goals", name), goal, goals, listed)
    if find_cycle(edges) is not None:
        yield _finding("goal-cycle", "/intentGraph/goals", "a goal is its own sub-goal", _ADD_OR_CUT)


def _goal_tree(path: str, goal: Tree, goals: Mapping[str, Tree], listed: Listed) -> Iterator[Finding]:
    name, parent = goal["id"], goal.get("parentGoalId")
    if parent is not None and parent not in goals:
        yield _missing(f"{path}/parentGoalId", parent, "goal")
    elif parent is not None and (parent, name) not in listed:
        yield _one_sided(f"{path}/parentGoalId", f"goal {name} has parent {parent}, which does not list it")
    for part in goal["subGoalIds"]:
        if part not in goals:
            yield _missing(f"{path}/subGoalIds", part, "goal")
        elif goals[part].get("parentGoalId") != name:
            yield _one_sided(f"{path}/subGoalIds", f"goal {name} lists {part}, which has another parent")
        elif goal["status"] == "achieved" and goals[part]["status"] == "active":
            message = f"goal {name} is achieved, but its sub-goal {part} is still active"
            yield _finding("active-sub-goal", path, message, "achieve or abandon the sub-goal", "warning")


# --- records


def _identity(record: Tree) -> Iterator[Finding]:
    if ("parentCRHash" in record) != (record["sequence"] > 0):
        yield _finding(
            "missing-parent", "/parentCRHash", f"sequence {record['sequence']} and parentCRHash do not agree",
            "give each version but sequence 0 a parent",
        )  # fmt: skip


def _items(record: Tree) -> Iterator[Finding]:
    for name in COLLECTIONS:
        if len(record[name]) > 1:
            yield from _duplicates(name, record[name])
    yield from _confidences("learnings", "Learning", record["learnings"])
    for decision in record["decisions"]:
        if decision["status"] == "contested" and len(decision.get("variants", ())) < 2:
            yield _finding(
                "no-variants", pointer("decisions", decision["id"], "variants"),
                f"decision {decision['id']} is contested, but has fewer than 2 variants", "contest it with contest_decision",
            )  # fmt: skip
    done = [effect for effect in record["toolEffects"] if effect.get("status") != "failed"]
    keys = [effect["idempotencyKey"] for effect in done if "idempotencyKey" in effect]
    for key, count in _repeated(keys):
        yield _finding(
            "executed-twice", "/toolEffects", f"{count} effects have the idempotency key {shown(key)}",
            "check whether the tool ran twice, and undo one run", "warning",
        )  # fmt: skip


def _questions(record: Tree) -> Iterator[Finding]:
    points = {point["id"] for point in record["resumePoints"]}
    for name in ("questionsForUser", "blockers"):
        for item in record[name]:
            for point in item["blocksResumePoints"]:
                if point not in points:
                    path = pointer(name, item["id"], "blocksResumePoints")
                    yield _missing(path, point, "resume point", "warning")
    question_ids = {question["id"] for question in record["questionsForUser"]}
    for blocker in record["blockers"]:
        if "questionId" in blocker and blocker["questionId"] not in question_ids:
            path = pointer("blockers", blocker["id"], "questionId")
            yield _missing(path, blocker["questionId"], "question", "warning")
        yield from _settlement("blockers", blocker, blocker["status"] == "resolved", ("resolvedBy", "resolvedAt"))
    for question in record["questionsForUser"]:
        answered = question["status"] == "answered"
        yield from _settlement("questionsForUser", question, answered, ("answer", "answeredBy", "answeredAt"))
        options = question.get("options", ())
        if answered and options and "answer" in question and question["answer"] not in options:
            yield _finding(
                "no-option", pointer("questionsForUser", question["id"], "answer"),
                f"{shown(question['answer'])} is not among the options",
                "answer with one of " + ", ".join(options),
            )  # fmt: skip


def _gates(record: Tree) -> Iterator[Finding]:
    for point in record["resumePoints"]:
        status = point["approvalStatus"]
        approved = status in ("approved", "auto-approved")
        yield from _settlement("resumePoints", point, approved, ("approvedBy", "approvedAt"))
        yield from _settlement("resumePoints", point, status == "denied", ("deniedBy", "deniedAt"))


def _completion(record: Tree) -> Iterator[Finding]:
    if record["task"]["status"] != "completed":
        return
    for question in record["questionsForUser"]:
        if question["status"] == "open" and question["priority"] == "blocking":
            yield _finding(
                "open-question", "/task/status", f"the task is completed while question {question['id']} blocks",
                "answer the question first",
            )  # fmt: skip
    for invariant in record["invariants"]:
        if invariant["severity"] == "hard" and invariant["status"] == "violated":
            yield _finding(
                "violated", "/task/status", f"the task is completed while invariant {invariant['id']} is violated",
                "fix it and check it again first",
            )  # fmt: skip


# --- findings

_ADD_OR_CUT = "add the missing item, or remove the reference"


def _finding(
    code: str, path: str, message: str, remedy: str, severity: Literal["error", "warning"] = "error"
) -> Finding:
    return Finding(code=code, message=message, severity=severity, source=path, help=remedy)


def _missing(path: str, name: str, kind: str, severity: Literal["error", "warning"] = "error") -> Finding:
    return _finding("dangling", path, f"there is no {kind} {shown(name)}", _ADD_OR_CUT, severity)


def _one_sided(path: str, message: str) -> Finding:
    return _finding("one-sided", path, message, "make both sides agree")


def _duplicates(path: str, items: Sequence[Tree]) -> Iterator[Finding]:
    for name, count in _repeated([item["id"] for item in items]):
        yield _finding("duplicate-id", f"/{path}/{name}", f"{count} have the id {shown(name)}", "use each id once")


def _repeated(keys: Sequence[str]) -> list[tuple[str, int]]:
    """The keys that occur more than once, and how often."""
    if len(set(keys)) == len(keys):
        return []
    return [(key, count) for key, count in Counter(keys).items() if count > 1]


def _confidences(path: str, kind: str, items: Sequence[Tree]) -> Iterator[Finding]:
    for item in items:
        value = item.get("confidence", 0)
        if not 0 <= value <= 1:
            message = f"{kind} {item['id']} has invalid confidence: {shown(value)}"
            at = f"/{path}{pointer(item['id'], 'confidence')}"
            yield _finding("confidence", at, message, "give a number from 0 to 1")


def _settlement(collection: str, item: Tree, due: bool, names: Sequence[str]) -> Iterator[Finding]:
    """The members that say who settled an item, and when, must be present exactly if it is settled."""
    for name in names:
        if (name in item) != due:
            state = item.get("status", item.get("approvalStatus"))
            message = f"{name} is {'missing' if due else 'given'} while the status is {state}"
            remedy = "use the operation that sets it" if due else "leave it out"
            yield _finding("untold", pointer(collection, item["id"], name), message, remedy)
