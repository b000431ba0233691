"""What a program says of its own work, one verb each: a step, a fact, an assumption, a goal. Each returns the typed item.

The verbs are changes of the working state like any other: durable when they return, with the checkpoints that their triggers fire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar, cast

from msgspec import UNSET, structs

from adjourn.errors import InvalidError, NotFoundError, UsageError
from adjourn.knowledge.model.cognition import (
    CONFIDENCE,
    SOURCE,
    Assumption,
    Belief,
    CognitiveNode,
    CognitiveSession,
    Fact,
    Goal,
    NodePhase,
    NodeStatus,
    NodeType,
    OpenQuestion,
    WorkingState,
    normalised,
)
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.drafts import checked
from adjourn.knowledge.model.part import DocumentPart

Item = TypeVar("Item", CognitiveNode, Fact, Assumption, OpenQuestion, Belief, Goal)
_PLACES: dict[type[DocumentPart], tuple[str, ...]] = {
    CognitiveNode: ("nodes",),
    Fact: ("epistemicState", "facts"),
    Assumption: ("epistemicState", "assumptions"),
    OpenQuestion: ("epistemicState", "openQuestions"),
    Belief: ("epistemicState", "beliefs"),
    Goal: ("intentGraph", "goals"),
}
"""Where the items of a type are in a working state."""


class SessionVerbs(ABC):
    """The verbs of a session. Text in the words of an item that the session has already changes that item; only steps are always new."""

    @abstractmethod
    def change(self, edit: Callable[[Tree, int], Tree]) -> CognitiveSession:
        """Change the working state. Returns the session."""

    @checked
    def step(
        self,
        label: str,
        *,
        type: NodeType = "reasoning",  # noqa: A002  # as the member is called
        phase: NodePhase = "execution",
        status: NodeStatus = "active",
        parent: CognitiveNode | None = None,
        confidence: float = 0.5,
    ) -> CognitiveNode:
        """Add a step of the work: what is done now, or with `status="pending"` later. `confidence` is 0 to 1.

        >>> memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
        >>> tests = memory.step("Run the tests", type="tool-call")
        >>> memory.update(tests, status="completed").status
        'completed'
        """
        members = {"type": type, "phase": phase, "status": status, "confidence": confidence}

        def edit(state: Tree, at: int) -> Tree:
            nodes = state["nodes"]
            name = _free_id(nodes, "step")
            node = {"id": name, "label": label, **members, "createdAt": at, "startedAt": at}
            if status == "pending":
                del node["startedAt"]
            if parent is not None:
                above = _with_id(nodes, parent.id)
                above["childIds"] = [*above["childIds"], name]
                node["parentId"] = parent.id
            nodes.append(node)
            return state

        return self.change(edit).working_state.nodes[-1]

    @checked
    def fact(self, content: str, *, source: str = SOURCE, confidence: float = CONFIDENCE) -> Fact:
        """Say what is known, and from where: a tool's output, the user, an inference. It validates an assumption in the same words.

        >>> memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
        >>> memory.fact("The port is 8080", source="config.toml", confidence=1).source
        'config.toml'
        """

        def edit(state: Tree, at: int) -> Tree:
            for assumption in state["epistemicState"]["assumptions"]:
                if normalised(assumption["content"]) == normalised(content):
                    assumption.setdefault("validatedAt", at)
            return _with_text(state, Fact, "content", content, {"source": source, "confidence": confidence})

        return self._said(edit, Fact, "content", content)

    @checked
    def assume(self, content: str) -> Assumption:
        """Say what is taken for true without having been verified. A `fact` in the same words verifies it."""
        return self._said(
            lambda state, _: _with_text(state, Assumption, "content", content, {}), Assumption, "content", content
        )

    @checked
    def goal(self, description: str, *, parent: Goal | None = None, priority: float = 1) -> Goal:
        """Say what to work toward: a part of `parent`, by default of the session's root goal. A higher priority is more important."""

        def edit(state: Tree, _: int) -> Tree:
            graph = state["intentGraph"]
            known = [goal for goal in graph["goals"] if normalised(goal["description"]) == normalised(description)]
            above = parent.id if parent is not None else graph["rootIntentId"]
            if known or not any(goal["id"] == above for goal in graph["goals"]):
                return _with_text(state, Goal, "description", description, {"priority": priority})
            name = _free_id(graph["goals"], "goal")
            over = _with_id(graph["goals"], above)
            over["subGoalIds"] = [*over["subGoalIds"], name]
            graph["goals"].append({"id": name, "description": description, "priority": priority, "parentGoalId": above})
            return state

        return self._said(edit, Goal, "description", description)

    def update(self, item: Item, **changes: object) -> Item:
        """Change members of an item, by their names in Python; None removes an optional one. Returns the item as it is now.

        A step that is set to `completed` or `failed` gets its time. Raises `NotFoundError` where the session has no such item any more.
        """
        kind = type(item)
        if kind not in _PLACES:
            raise UsageError(
                f"update: item is {item!r:.80}", f"give one of {', '.join(kind.__name__ for kind in _PLACES)}"
            )
        members = {field.name: field.encode_name for field in structs.fields(kind)}
        for name in changes:
            if name not in members or name == "id":
                raise InvalidError(
                    f"{kind.__name__} has no member {name!r} that can be changed", f"use one of {', '.join(members)}"
                )

        def edit(state: Tree, at: int) -> Tree:
            stored = _with_id(_items(state, kind), item.id)
            if changes.get("status") in ("completed", "failed") and "completed_at" in members:
                stored.setdefault("completedAt", at)
            for name, value in changes.items():
                if value is None or value is UNSET:
                    stored.pop(members[name], None)
                else:
                    stored[members[name]] = value
            return state

        changed = _typed_items(self.change(edit).working_state, kind)
        return next(each for each in changed if each.id == item.id)

    def _said(self, edit: Callable[[Tree, int], Tree], kind: type[Item], member: str, text: str) -> Item:
        items, words = _typed_items(self.change(edit).working_state, kind), normalised(text)
        return next(item for item in reversed(items) if normalised(item[member]) == words)


def _items(state: Tree, kind: type[DocumentPart]) -> list[Tree]:
    part: Any = state
    for name in _PLACES[kind]:
        part = part[name]
    return cast("list[Tree]", part)


def _typed_items(state: WorkingState, kind: type[Item]) -> tuple[Item, ...]:
    part: Any = state
    for name in _PLACES[kind]:
        part = part[name]
    return cast("tuple[Item, ...]", part)


def _with_text(state: Tree, kind: type[DocumentPart], member: str, text: str, members: Tree) -> Tree:
    """The state with an item of that text, which has these members."""
    items, words = _items(state, kind), normalised(text)
    known = next((item for item in items if normalised(item[member]) == words), None)
    if known is None:
        items.append({member: text, **members})
    else:
        known.update(members)
    return state


def _free_id(items: Sequence[Tree], kind: str) -> str:
    taken = {item["id"] for item in items}
    return next(name for number in count(len(items) + 1) if (name := f"{kind}-{number}") not in taken)


def _with_id(items: Sequence[Tree], name: str) -> Tree:
    item = next((item for item in items if item["id"] == name), None)
    if item is None:
        raise NotFoundError(f"the session has no item {name[:80]!r} any more", "read its state again")
    return item
