"""The page of what an agent has in mind, and the pictures of graphs and branches."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.handover.task_view import lane_picture, lanes_of
from adjourn.knowledge.model.documents import Tree
from adjourn.ui.pages.cognition import MAX_BOXES, Arrow, Box, graph_picture
from support.cognition import opened
from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask

HOSTILE = '</svg><script>alert(1)</script>"&\u202e'


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> SharedTask:
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)
    return SharedTask()


def step(name: str, label: str, **more: Any) -> Tree:
    return {
        "id": name, "type": "reasoning", "phase": "execution", "status": "active", "label": label, "assumptions": [],
        "openQuestions": [], "confidence": 0.5, "childIds": [], "createdAt": 1, "branchId": "main",
    } | more  # fmt: skip


def thought(say: str, steps: int = 0) -> Callable[[Tree, int], Tree]:
    """A state of mind with an item of each kind, which say the same."""

    def edit(state: Tree, _at: int) -> Tree:
        nodes = [step("n1", say, childIds=["n2"]), step("n2", say, parentId="n1")]
        return {
            "nodes": [*nodes, *(step(f"more{number}", say) for number in range(steps))],
            "intentGraph": state["intentGraph"],
            "epistemicState": {
                "facts": [{"id": "f1", "content": say, "source": say, "confidence": 1}],
                "beliefs": [{"id": "b1", "statement": say, "confidence": 0.75, "evidence": ["f1"]}],
                "assumptions": [{"id": "a1", "content": say}],
                "openQuestions": [{"id": "q1", "question": say, "priority": "high", "blocksNodes": ["n2"]}],
            },
        }

    return edit


def page(shared: SharedTask) -> str:
    return PageInMemory(shared.store, shared.clock).enter().get("/cognition?id=job")


def test_a_state_of_mind_is_drawn_and_listed(shared: SharedTask) -> None:
    """Goals, steps, facts, beliefs, assumptions and questions, with what they are part of, supported by, or block."""
    opened(shared.store).change(thought("the port is taken"))
    shown = page(shared)
    for text in (
        "ship it",
        "part of the port is taken",
        "supported by the port is taken",
        "blocks the port",
        "75% sure",
        "not checked",
    ):
        assert text in shown
    assert shown.count("<svg class") == 2
    for kind in ("goal", "step", "question", "fact", "belief"):
        assert f'class="box box-{kind}' in shown
    assert 'href="/cognition?id=job"' in PageInMemory(shared.store, shared.clock).enter().get("/record")
    assert PageInMemory(shared.store, shared.clock).enter().request("GET", "/cognition?id=x").status_code == 404


def test_what_an_agent_has_in_mind_is_inert(shared: SharedTask) -> None:
    """Markup in any text of it stays text, in the picture, too; hidden characters and secrets are not shown."""
    opened(shared.store).change(thought(HOSTILE + " ghp_" + "a1B2" * 9))
    shown = page(shared)
    assert "<script>alert" not in shown
    assert "\u202e" not in shown
    assert "ghp_a1B2" not in shown


def test_a_large_mind_is_bounded(shared: SharedTask) -> None:
    """The picture has its most boxes, the list its most items; both say how many are left out."""
    opened(shared.store).change(thought("think", steps=400))
    shown = page(shared)
    assert shown.count("<rect") == MAX_BOXES + 2
    assert "are in the lists" in shown
    assert "202 more are not shown" in shown


TEXTS = st.text(max_size=200)
NAMES = [f"n{number}" for number in range(8)]


@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=20),
)
def test_any_graph_is_well_formed(texts: list[tuple[str, str]], links: list[tuple[str, str]]) -> None:
    """Any texts and links, circles among them, give XML with a box for each, none on top of another."""
    boxes = [Box(NAMES[number], text, "step", about) for number, (text, about) in enumerate(texts)]
    tree = ET.fromstring(graph_picture("Any", boxes, [Arrow(*pair) for pair in links]))
    corners = [(one.get("x"), one.get("y")) for one in tree.iter() if one.tag.endswith("rect")]
    assert len(corners) == len(set(corners)) == len(boxes)


@given(st.lists(st.integers(min_value=0, max_value=99), max_size=20))
def test_branches_have_lanes_of_their_own(choices: list[int]) -> None:
    """A row that follows the newest of a lane stays in it; any other begins a lane; the picture has a point for each row."""
    parents = [choice % (row + 1) - 1 for row, choice in enumerate(choices)]
    lanes = lanes_of(parents)
    for row, parent in enumerate(parents):
        if parent >= 0 and parent not in parents[:row] and max(lanes, default=0) < 7:
            assert lanes[row] == lanes[parent]
    if parents:
        drawn = ET.fromstring(lane_picture(parents))
        assert sum(one.tag.endswith("circle") for one in drawn.iter()) == len(parents)


def test_no_link_passes_a_box() -> None:
    """A box that is two columns away stands in a row that is free between, and what is not connected stands below."""
    boxes = [Box(name, name, "step") for name in ("a", "b", "c", "x")]
    links = [Arrow("a", "b"), Arrow("a", "c"), Arrow("b", "c", "blocks")]
    tree = ET.fromstring(graph_picture("Any", boxes, links))
    corners = [(one.get("x"), one.get("y")) for one in tree.iter() if one.tag.endswith("rect")]
    assert corners == [("8", "8"), ("276", "8"), ("544", "88"), ("8", "168")]


def test_a_straight_history_has_one_lane() -> None:
    """Without branches all rows are in one lane; a row that goes back begins another, which later rows follow."""
    assert lanes_of([-1, 0, 1]) == [0, 0, 0]
    assert lanes_of([-1, 0, 1, 0, 3]) == [0, 0, 0, 1, 1]
