"""What an agent has in mind: its goals, its steps, what it knows, and what supports or blocks what; as a picture and as lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from markupsafe import Markup

from adjourn.errors import NotFoundError
from adjourn.knowledge.cognition.repository import SessionRepository
from adjourn.knowledge.model.documents import Tree
from adjourn.log.event import timestamp
from adjourn.text.redact import visible_line, without_secrets
from adjourn.ui.site import Form, Site, WebPage

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
    opened = SessionRepository(store).open(name) if store is not None and name else None
    if store is None or opened is None:
        raise NotFoundError("this task's agent has noted nothing", "agents note goals and facts with `adjourn.note`")
    state = opened.session["workingState"]
    mind, goals = state["epistemicState"], state["intentGraph"]["goals"]
    return {
        "id": name,
        "of_task": name in store.streams(),
        "written": timestamp(opened.session["lastModifiedAt"]),
        "pictures": [picture for picture in _pictures(state["nodes"], mind, goals) if picture.svg],
        "parts": [part for part in _parts(state["nodes"], mind, goals) if part.items],
    }


def _pictures(nodes: Sequence[Tree], mind: Tree, goals: Sequence[Tree]) -> Iterator[MindPicture]:
    wanted = [*map(_goal, goals), *map(_node, nodes)]
    links = [Arrow(goal["parentGoalId"], goal["id"]) for goal in goals if goal.get("parentGoalId")]
    links += [Arrow(node["parentId"], node["id"]) for node in nodes if node.get("parentId")]
    links += [Arrow(other, node["id"], "blocks") for node in nodes for other in node.get("blockedBy", ())]
    blocking = [_question(question) for question in mind["openQuestions"] if question["blocksNodes"]]
    links += [
        Arrow(question["id"], node, "blocks") for question in mind["openQuestions"] for node in question["blocksNodes"]
    ]
    yield _picture("Goals and steps", [*wanted, *blocking], links)
    cited = {fact for belief in mind["beliefs"] for fact in belief["evidence"]}
    facts = [_fact(fact) for fact in mind["facts"] if fact["id"] in cited]
    beliefs = [_belief(belief) for belief in mind["beliefs"]]
    supports = [Arrow(fact, belief["id"], "supports") for belief in mind["beliefs"] for fact in belief["evidence"]]
    yield _picture("What supports what", [*facts, *beliefs], supports)


def _picture(title: str, boxes: Sequence[Box], links: Sequence[Arrow]) -> MindPicture:
    """Without links a picture would say no more than the list."""
    svg = graph_picture(title, boxes, links) if links else Markup()
    return MindPicture(title, svg, max(0, len(boxes) - MAX_BOXES))


def _goal(goal: Tree) -> Box:
    return Box(goal["id"], goal["description"], "goal", f"goal · {goal['status']}", _TONES.get(goal["status"], ""))


def _node(node: Tree) -> Box:
    return Box(node["id"], node["label"], "step", f"{node['type']} · {node['status']}", _TONES.get(node["status"], ""))


def _question(question: Tree) -> Box:
    return Box(question["id"], question["question"], "question", f"open question · {question['priority']}", "bad")


def _fact(fact: Tree) -> Box:
    return Box(fact["id"], fact["content"], "fact", f"fact · {fact['source']}")


def _belief(belief: Tree) -> Box:
    return Box(belief["id"], belief["statement"], "belief", f"belief · {_sure(belief)}")


def _sure(item: Tree) -> str:
    return f"{item['confidence']:.0%} sure"


def _parts(nodes: Sequence[Tree], mind: Tree, goals: Sequence[Tree]) -> Iterator[MindPart]:
    texts = {goal["id"]: goal["description"] for goal in goals} | {node["id"]: node["label"] for node in nodes}
    texts |= {fact["id"]: fact["content"] for fact in mind["facts"]}

    def named(word: str, ids: Sequence[str]) -> list[str]:
        return [f"{word} {texts.get(name, name)}" for name in ids if name]

    yield _part("Goals", [
        MindItem(goal["id"], goal["description"], goal["status"], named("part of", [goal.get("parentGoalId", "")]))
        for goal in goals
    ])  # fmt: skip
    yield _part("Steps", [
        MindItem(
            node["id"], node["label"], f"{node['type']}, {node['status']}",
            [*named("part of", [node.get("parentId", "")]), *named("blocked by", node.get("blockedBy", ()))],
        )
        for node in nodes
    ])  # fmt: skip
    yield _part(
        "Facts",
        [MindItem(fact["id"], fact["content"], _sure(fact), [f"from {fact['source']}"]) for fact in mind["facts"]],
    )
    yield _part("Beliefs", [
        MindItem(belief["id"], belief["statement"], _sure(belief), named("supported by", belief["evidence"])) for belief in mind["beliefs"]
    ])  # fmt: skip
    yield _part("Assumptions", [
        MindItem(assumption["id"], assumption["content"], "checked" if assumption.get("validatedAt") else "not checked", ())
        for assumption in mind["assumptions"]
    ])  # fmt: skip
    yield _part("Open questions", [
        MindItem(question["id"], question["question"], question["priority"], named("blocks", question["blocksNodes"]))
        for question in mind["openQuestions"]
    ])  # fmt: skip


def _part(title: str, items: Sequence[MindItem]) -> MindPart:
    return MindPart(title, items[:MAX_ITEMS], max(0, len(items) - MAX_ITEMS))


PAGE = WebPage("/cognition", "State of mind", "cognition.html", query, is_listed=False)


# --- a graph as a picture (SVG)

MAX_BOXES = 60
"""Boxes of one picture; the others are in the list only."""
LINE, LINES = 29, 2
"""Characters of a line of a box's text, and lines."""
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 224, 66, 44, 14, 8


class Box(NamedTuple):
    """A box. `kind` chooses its form (a class), `about` is the line above its text, `tone` is `good`, `bad`, `open` or ""."""

    id: str
    text: str
    kind: str
    about: str = ""
    tone: str = ""


class Arrow(NamedTuple):
    """What leads from one box to another. `kind` (a class) is `part`, `supports` or `blocks`."""

    start: str
    end: str
    kind: str = "part"


def graph_picture(title: str, boxes: Sequence[Box], links: Sequence[Arrow]) -> Markup:
    """The picture of the first `MAX_BOXES` boxes and the links between them; "" without boxes."""
    drawn_boxes = {box.id: box for box in boxes[:MAX_BOXES]}
    if not drawn_boxes:
        return Markup()
    drawn_links = [
        link for link in links if link.start in drawn_boxes and link.end in drawn_boxes and link.start != link.end
    ]
    places = _places(list(drawn_boxes), drawn_links)
    wide = MARGIN * 2 + (max(column for column, _ in places.values()) + 1) * (WIDTH + GAP_X) - GAP_X
    high = MARGIN * 2 + (max(row for _, row in places.values()) + 1) * (HEIGHT + GAP_Y) - GAP_Y
    parts = [
        f'<svg class="graph" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img" aria-label={quoteattr(title)}>',
        (
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8Z"/></marker></defs>'
        ),
        *(_line(box, places) for box in drawn_links),
        *(_box(box, places[box.id]) for box in drawn_boxes.values()),
        "</svg>",
    ]
    return Markup("".join(parts))  # noqa: S704  # every text in it is escaped


def _places(names: Sequence[str], links: Sequence[Arrow]) -> Mapping[str, tuple[int, int]]:
    """The column and the row of each box: right of all that leads to it, and not above the first of these.

    No other box stands where a link passes, and what is not connected shares no row.
    """
    before: dict[str, list[str]] = {name: [] for name in names}
    for link in links:
        before[link.end].append(link.start)
    column, order = _columns(names, links)
    groups = _groups(names, links)
    order.sort(key=lambda name: groups[name])  # stable: what belongs together stands together
    row: dict[str, int] = {}
    free: dict[int, int] = {}
    for number, name in enumerate(order):
        if number and groups[order[number - 1]] != groups[name]:
            free = dict.fromkeys(range(len(names)), max(row.values()) + 1)
        reached = [text for text in before[name] if text in row]
        passed = range(min((column[text] for text in reached), default=column[name] - 1) + 1, column[name] + 1)
        wanted = min((row[text] for text in reached), default=0)
        row[name] = max(wanted, *(free.get(value, 0) for value in (*passed, column[name])))
        free |= dict.fromkeys((*passed, column[name]), row[name] + 1)
    return {name: (column[name], row[name]) for name in names}


def _columns(names: Sequence[str], links: Sequence[Arrow]) -> tuple[dict[str, int], list[str]]:
    """The column of each box, and all boxes, each behind what leads to it."""
    after: dict[str, list[str]] = {name: [] for name in names}
    waits = dict.fromkeys(names, 0)
    for link in links:
        after[link.start].append(link.end)
        waits[link.end] += 1
    column = dict.fromkeys(names, 0)
    ready = [name for name in names if not waits[name]]
    order: list[str] = []
    while ready:
        name = ready.pop(0)
        order.append(name)
        reached = []
        for following in after[name]:
            column[following] = max(column[following], column[name] + 1)
            waits[following] -= 1
            if not waits[following]:
                reached.append(following)
        ready[:0] = reached
    left = [name for name in names if waits[name]]  # in a circle, which only a changed store has
    return column, order + left


def _groups(names: Sequence[str], links: Sequence[Arrow]) -> dict[str, int]:
    """A number for each box; connected boxes have the same."""
    group = {name: number for number, name in enumerate(names)}
    for link in links:
        old, new = sorted((group[link.start], group[link.end]), reverse=True)
        group.update((name, new) for name, number in group.items() if number == old)
    return group


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y)


def _line(link: Arrow, places: Mapping[str, tuple[int, int]]) -> str:
    """To the gap beside the box, along it, and then in the row of the other box."""
    x, y = _corner(places[link.start])
    to_x, to_y = _corner(places[link.end])
    x, y, to_y = x + WIDTH, y + HEIGHT // 2, to_y + HEIGHT // 2
    turn = x + GAP_X // 2 + (6 if link.kind == "blocks" else -6)  # lines of both kinds can be followed
    return f'<path class="link link-{link.kind}" d="M{x} {y}H{turn}V{to_y}H{to_x}" marker-end="url(#arrow)"/>'


def _box(box: Box, place: tuple[int, int]) -> str:
    x, y = _corner(place)
    text = without_secrets(visible_line(box.text))
    lines = _wrapped(text)
    about = without_secrets(visible_line(box.about))
    words = "".join(
        f'<text x="{x + 14}" y="{y + 38 + number * 17}">{escape(line)}</text>' for number, line in enumerate(lines)
    )
    radius = {"goal": 22, "fact": 0}.get(box.kind, 7)
    return (
        f'<g class="box box-{box.kind} tone-{box.tone or "plain"}"><title>{escape(f"{about}: {text}")}</title>'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{radius}"/>'
        f'<text class="about" x="{x + 14}" y="{y + 19}">{escape(about[: LINE + 6])}</text>{words}</g>'
    )


def _wrapped(text: str) -> list[str]:
    """The beginning of a text in lines that fit a box."""
    lines: list[str] = [""]
    for word in text[: LINE * LINES * 2].split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    fitting = [line[:LINE] for line in lines[:LINES]]
    if " ".join(fitting) != " ".join(text.split()):
        fitting[-1] = f"{fitting[-1][: LINE - 1].rstrip()}…"
    return fitting
