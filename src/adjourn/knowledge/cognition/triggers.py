"""Checkpoint triggers: the six kinds of change of a session after which a checkpoint is created.

    phase_change     the last node is in another phase
    tool_complete    a tool-call node became completed
    decision_made    a decision node became completed, or a decision of the record left `tentative`
    high_confidence  a node's confidence reached the threshold from below, or began there; once per node
    branch_created   there is a new branch
    error_recovery   a node that had failed became completed, or one became completed that retries a failed one (same parent and tool)

Owns: these rules, and the label of a checkpoint with several triggers. Must never: create a checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from adjourn.knowledge.model import Tree, by_id
from adjourn.text import one_line

Trigger = Literal[
    "phase_change", "tool_complete", "decision_made", "high_confidence", "branch_created", "error_recovery"
]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
THRESHOLD = 0.9
MAX_LABEL = 200
MAX_DESCRIPTION = 60_000


class FiredTrigger(NamedTuple):
    """Why a checkpoint is due, and its label and description. `automatic`: because of the number of replies."""

    trigger: Trigger | Literal["automatic"]
    label: str
    description: str


class TriggerState(NamedTuple):
    """The history that a change does not show: the ids of nodes that failed, and of those whose confidence was high."""

    failed: frozenset[str] = frozenset()
    confident: frozenset[str] = frozenset()


def fired_triggers(
    before: Tree,
    after: Tree,
    watched: TriggerState = TriggerState(),  # noqa: B008  # a constant
    *,
    triggers: Collection[Trigger] = TRIGGERS,
    threshold: float = THRESHOLD,
) -> tuple[list[FiredTrigger], TriggerState]:
    """The triggers that a change of a session fires, and the trigger state after it.

    Start with the `trigger_state` of the first session; pass the returned state with the next change.
    """
    found = [
        *_phase(before, after),
        *_nodes(before, after, watched, threshold),
        *_branches(before, after),
    ]
    now = trigger_state(after, threshold)
    completed = {node["id"] for node in after["workingState"]["nodes"] if node["status"] == "completed"}
    kept = TriggerState((watched.failed | now.failed) - completed, watched.confident | now.confident)
    return [occasion for occasion in found if occasion.trigger in triggers], kept


def trigger_state(session: Tree, threshold: float = THRESHOLD) -> TriggerState:
    """The trigger state of a session without known history."""
    nodes = session["workingState"]["nodes"]
    return TriggerState(
        frozenset(node["id"] for node in nodes if node["status"] == "failed"),
        frozenset(node["id"] for node in nodes if node["confidence"] >= threshold),
    )


def fired_by_record(before: Tree, after: Tree) -> list[FiredTrigger]:
    """The triggers that a change of a Continuation Record fires."""
    old = by_id(before["decisions"])
    return [
        FiredTrigger(
            "decision_made", f"Decision: {one['description']}", f"{one['description']} is {one['status']}"
        )
        for one in after["decisions"]
        if old.get(one["id"], one)["status"] == "tentative" != one["status"]
    ]


def combined_label(found: Sequence[FiredTrigger]) -> tuple[str, str]:
    """The label and the description of the one checkpoint for several triggers."""
    labels, descriptions = (
        "; ".join(dict.fromkeys(map(one_line, texts)))
        for texts in ([one.label for one in found], [one.description for one in found])
    )
    return one_line(labels, MAX_LABEL), one_line(descriptions, MAX_DESCRIPTION)


def _phase(before: Tree, after: Tree) -> Iterator[FiredTrigger]:
    phase, old = (
        session["workingState"]["nodes"][-1]["phase"] if session["workingState"]["nodes"] else ""
        for session in (after, before)
    )
    if phase and phase != old:
        yield FiredTrigger("phase_change", f"Phase: {phase}", f"Entering {phase} phase")


def _nodes(before: Tree, after: Tree, watched: TriggerState, threshold: float) -> Iterator[FiredTrigger]:
    old = by_id(before["workingState"]["nodes"])
    nodes = after["workingState"]["nodes"]
    failed = {_attempt(node) for node in nodes if node["status"] == "failed"}
    for node in nodes:
        was, label = old.get(node["id"]), node["label"]
        if was is node:
            continue
        if node["status"] == "completed" and not (was and was["status"] == "completed"):
            if node["type"] == "tool-call":
                tool = node.get("toolBinding", {}).get("toolName", label)
                yield FiredTrigger("tool_complete", f"Tool: {tool}", f"Completed {label}")
            if node["type"] == "decision":
                yield FiredTrigger("decision_made", f"Decision: {label}", f"Decided {label}")
            if (
                node["id"] in watched.failed
                or (was and was["status"] == "failed")
                or _attempt(node) in failed
            ):
                yield FiredTrigger(
                    "error_recovery", f"Recovered: {label}", f"Completed {label} after a failure"
                )
        was_confident = node["id"] in watched.confident or (was and was["confidence"] >= threshold)
        if node["confidence"] >= threshold and not was_confident:
            said = f"{label} has confidence {node['confidence']:g}"
            yield FiredTrigger("high_confidence", f"Confidence: {label}", said)


def _attempt(node: Tree) -> tuple[str, str] | str:
    """A key that two attempts at the same step share. A node without a parent or a tool has a key of its own."""
    if "parentId" in node and "toolBinding" in node:
        return (node["parentId"], node["toolBinding"]["toolName"])
    return f"only {node['id']}"


def _branches(before: Tree, after: Tree) -> Iterator[FiredTrigger]:
    for name, branch in after["branches"].items():
        if name not in before["branches"]:
            yield FiredTrigger(
                "branch_created", f"Branch: {branch['name']}", f"Created branch {branch['name']}"
            )
