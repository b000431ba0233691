"""What an agent has in mind: its goals, its steps, what it knows, and what supports or blocks what; as a picture and as lists.

Owns: what is shown of a cognitive session. Must never: change one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from adjourn.errors import NotFoundError
from adjourn.knowledge.cognition import SessionRepository
from adjourn.knowledge.model import Tree
from adjourn.log import timestamp
from adjourn.ui.graph_picture import MAX_BOXES, Arrow, Box, graph_picture
from adjourn.ui.page import Form, WebPage
from adjourn.ui.site import Site

MAX_ITEMS = 200
"""Items of one list."""
_TONES = {"achieved": "good", "completed": "good", "failed": "bad", "abandoned": "bad", "active": "open"}


class MindItem(NamedTuple):
    """An item of a list: its text, its state, and how it is connected."""

    id: str
    text: str
    state: str
    links: Sequence[str]


class MindPart(NamedTuple):
    title: str
    items: Sequence[MindItem]
    left: int


class MindPicture(NamedTuple):
    """`left` boxes have no room in the picture."""

    title: str
    svg: Markup
    left: int


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The state of a session: of a task (`id` is the task's), or of a program."""
    store, name = site.find_store(), fields.get("id", "")
    found = SessionRepository(store).open(name) if store is not None and name else None
    if store is None or found is None:
        raise NotFoundError(
            "nothing is kept of what this task's agent has in mind",
            "agents note goals and facts with `adjourn.note`",
        )
    state = found.session["workingState"]
    known, goals = state["epistemicState"], state["intentGraph"]["goals"]
    return {
        "id": name,
        "of_task": name in store.streams(),
        "written": timestamp(found.session["lastModifiedAt"]),
        "pictures": [one for one in _pictures(state["nodes"], known, goals) if one.svg],
        "parts": [part for part in _parts(state["nodes"], known, goals) if part.items],
    }


def _pictures(nodes: Sequence[Tree], known: Tree, goals: Sequence[Tree]) -> Iterator[MindPicture]:
    wanted = [*map(_goal, goals), *map(_node, nodes)]
    links = [Arrow(one["parentGoalId"], one["id"]) for one in goals if one.get("parentGoalId")]
    links += [Arrow(one["parentId"], one["id"]) for one in nodes if one.get("parentId")]
    links += [Arrow(other, one["id"], "blocks") for one in nodes for other in one.get("blockedBy", ())]
    asked = [_question(one) for one in known["openQuestions"] if one["blocksNodes"]]
    links += [
        Arrow(one["id"], node, "blocks") for one in known["openQuestions"] for node in one["blocksNodes"]
    ]
    yield _picture("Goals and steps", [*wanted, *asked], links)
    cited = {fact for one in known["beliefs"] for fact in one["evidence"]}
    facts = [_fact(one) for one in known["facts"] if one["id"] in cited]
    beliefs = [_belief(one) for one in known["beliefs"]]
    supports = [Arrow(fact, one["id"], "supports") for one in known["beliefs"] for fact in one["evidence"]]
    yield _picture("What supports what", [*facts, *beliefs], supports)


def _picture(title: str, boxes: Sequence[Box], links: Sequence[Arrow]) -> MindPicture:
    """Without links a picture would say no more than the list."""
    svg = graph_picture(title, boxes, links) if links else Markup()
    return MindPicture(title, svg, max(0, len(boxes) - MAX_BOXES))


def _goal(one: Tree) -> Box:
    return Box(
        one["id"], one["description"], "goal", f"goal · {one['status']}", _TONES.get(one["status"], "")
    )


def _node(one: Tree) -> Box:
    return Box(
        one["id"], one["label"], "step", f"{one['type']} · {one['status']}", _TONES.get(one["status"], "")
    )


def _question(one: Tree) -> Box:
    return Box(one["id"], one["question"], "question", f"open question · {one['priority']}", "bad")


def _fact(one: Tree) -> Box:
    return Box(one["id"], one["content"], "fact", f"fact · {one['source']}")


def _belief(one: Tree) -> Box:
    return Box(one["id"], one["statement"], "belief", f"belief · {_sure(one)}")


def _sure(one: Tree) -> str:
    return f"{one['confidence']:.0%} sure"


def _parts(nodes: Sequence[Tree], known: Tree, goals: Sequence[Tree]) -> Iterator[MindPart]:
    texts = {one["id"]: one["description"] for one in goals} | {one["id"]: one["label"] for one in nodes}
    texts |= {one["id"]: one["content"] for one in known["facts"]}

    def named(word: str, ids: Sequence[str]) -> list[str]:
        return [f"{word} {texts.get(one, one)}" for one in ids if one]

    yield _part("Goals", [
        MindItem(one["id"], one["description"], one["status"], named("part of", [one.get("parentGoalId", "")]))
        for one in goals
    ])  # fmt: skip
    yield _part("Steps", [
        MindItem(
            one["id"], one["label"], f"{one['type']}, {one['status']}",
            [*named("part of", [one.get("parentId", "")]), *named("blocked by", one.get("blockedBy", ()))],
        )
        for one in nodes
    ])  # fmt: skip
    yield _part(
        "Facts",
        [
            MindItem(one["id"], one["content"], _sure(one), [f"from {one['source']}"])
            for one in known["facts"]
        ],
    )
    yield _part("Beliefs", [
        MindItem(one["id"], one["statement"], _sure(one), named("supported by", one["evidence"])) for one in known["beliefs"]
    ])  # fmt: skip
    yield _part("Assumptions", [
        MindItem(one["id"], one["content"], "checked" if one.get("validatedAt") else "not checked", ())
        for one in known["assumptions"]
    ])  # fmt: skip
    yield _part("Open questions", [
        MindItem(one["id"], one["question"], one["priority"], named("blocks", one["blocksNodes"]))
        for one in known["openQuestions"]
    ])  # fmt: skip


def _part(title: str, items: Sequence[MindItem]) -> MindPart:
    return MindPart(title, items[:MAX_ITEMS], max(0, len(items) - MAX_ITEMS))


PAGE = WebPage("/cognition", "State of mind", "cognition.html", query, is_listed=False)
