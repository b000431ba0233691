"""A graph as a picture (SVG): boxes in columns from left to right, and what leads from one to another.

The picture has classes and no colours: `static/graph.css` has the rules. What a box says is in its title whole, and beside the picture
in a list, for whoever cannot see it.

Owns: the layout and the drawing. Must never: know what a graph is about, or put a text into the picture that is not escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from markupsafe import Markup

from adjourn.text import visible_line, without_secrets

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
    shown = {box.id: box for box in boxes[:MAX_BOXES]}
    if not shown:
        return Markup()
    kept = [one for one in links if one.start in shown and one.end in shown and one.start != one.end]
    places = _places(list(shown), kept)
    wide = MARGIN * 2 + (max(column for column, _ in places.values()) + 1) * (WIDTH + GAP_X) - GAP_X
    high = MARGIN * 2 + (max(row for _, row in places.values()) + 1) * (HEIGHT + GAP_Y) - GAP_Y
    parts = [
        f'<svg class="graph" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img" aria-label={quoteattr(title)}>',
        (
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8Z"/></marker></defs>'
        ),
        *(_line(one, places) for one in kept),
        *(_box(box, places[box.id]) for box in shown.values()),
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
        reached = [one for one in before[name] if one in row]
        passed = range(min((column[one] for one in reached), default=column[name] - 1) + 1, column[name] + 1)
        wanted = min((row[one] for one in reached), default=0)
        row[name] = max(wanted, *(free.get(one, 0) for one in (*passed, column[name])))
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
        f'<text x="{x + 14}" y="{y + 38 + number * 17}">{escape(line)}</text>'
        for number, line in enumerate(lines)
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
    kept = [line[:LINE] for line in lines[:LINES]]
    if " ".join(kept) != " ".join(text.split()):
        kept[-1] = f"{kept[-1][: LINE - 1].rstrip()}…"
    return kept
