"""Draw docs/assets/architecture.svg from the imports in src: `python docs/draw_architecture.py`.

A package stands below every package that imports it. An arrow means "imports"; an arrow that follows from others is left out
(transitive reduction), and so are the arrows to the modules at the bottom, which every package imports. The layout is Sugiyama's:
rows by the longest path, long arrows routed through free places, crossings reduced by barycentres.

Owns: the picture. Must never: draw anything that is not in the source, such as sizes, which change with every commit.
"""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from house import product

REPOSITORY = Path(__file__).parents[1]
PICTURE = REPOSITORY / "docs" / "assets" / "architecture.svg"
PURPOSES = {
    "__main__": "fast start of proxy, hook",
    "adapters": "model SDKs, OpenTelemetry",
    "aex": "the contract language",
    "checkpoints": "events, folders, pages, rollback",
    "cli": "the command line",
    "clients": "state of a client process",
    "code": "server of coding sessions",
    "handover": "what a resuming session receives",
    "hooks": "answers to clients' hooks",
    "host": "this machine: clock, keys, git",
    "knowledge": "records, cognitive sessions",
    "langgraph": "a contract as a LangGraph graph",
    "log": "events, hash chain, signatures",
    "mcp": "lines and frames of the protocol",
    "notify": "command, webhook, desktop",
    "policy": "rules that guard a call",
    "proxy": "between a client and a server, over pipes",
    "relay": "what passes between them",
    "gateway": "the same over HTTP",
    "runs": "running a contract's steps",
    "sessions": "clients' own transcripts",
    "setup": "settings of clients",
    "store": "bytes: memory, SQLite, PostgreSQL",
    "tasks": "journal, ledger, decision",
    "testing": "a relay in one process, for tests",
    "text": "quoting, redaction, strict JSON",
    "ui": "a web page for people",
    "verification": "check of a whole store",
}
EVERYWHERE = ("errors", "findings", "_public")
WIDTH, BOX, HEIGHT, ROW, LANE = 1200, 158, 60, 98, 26
STYLE = """
  text { font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 11px; fill: #57606a; text-anchor: middle; }
  .name { font-weight: 600; font-size: 14px; fill: #1f2328; }
  rect { fill: #f6f8fa; stroke: #8c959f; }
  path { fill: none; stroke: #8c959f; stroke-width: 1.2; }
  marker path { fill: #8c959f; stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1; } .name { fill: #f0f6fc; }
    rect { fill: #151b23; stroke: #6e7681; } path { stroke: #6e7681; } marker path { fill: #6e7681; }
  }
"""

Node = tuple[str, str]
"""A package, or a place that an arrow passes: (package, "") or (source, target) in some row."""


def package_imports() -> dict[str, set[str]]:
    """Package → packages that it imports, anywhere in it, without those that every package imports."""
    source = product()
    graph: dict[str, set[str]] = {}
    for module in source.modules.values():
        if "." not in module.name:  # the public names of all
            continue
        package = module.name.split(".")[1]
        if package in EVERYWHERE:
            continue
        targets = {name.split(".")[1] for name in source.imports_of(module, deferred=True) if "." in name}
        graph.setdefault(package, set()).update(targets - {package, *EVERYWHERE})
    return graph


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without the arrows that follow from others."""

    def reached(start: str) -> set[str]:
        return {start}.union(*(reached(target) for target in graph[start]))

    return {
        package: {target for target in targets if not any(target in reached(other) for other in targets - {target})}
        for package, targets in graph.items()
    }


def rows_of(graph: dict[str, set[str]]) -> dict[str, int]:
    """Package → its row, 0 at the top: below all that import it, by the longest path."""
    above = {package: {other for other, targets in graph.items() if package in targets} for package in graph}

    def depth(package: str) -> int:
        return max((depth(other) + 1 for other in above[package]), default=0)

    return {package: depth(package) for package in sorted(graph)}


def placed(arrows: dict[str, set[str]], rows: dict[str, int]) -> dict[tuple[int, Node], float]:
    """(row, node) → the x of its middle. An arrow that spans rows has a narrow place in each row between."""
    lines: list[list[Node]] = [[] for _ in range(max(rows.values()) + 1)]
    links: dict[tuple[int, Node], set[tuple[int, Node]]] = defaultdict(set)
    for package, row in rows.items():
        lines[row].append((package, ""))
    for package, targets in sorted(arrows.items()):
        for target in sorted(targets):
            way: list[tuple[int, Node]] = [(rows[package], (package, ""))]
            for row in range(rows[package] + 1, rows[target]):
                lines[row].append((package, target))
                way.append((row, (package, target)))
            way.append((rows[target], (target, "")))
            for one, next_one in pairwise(way):
                links[one].add(next_one)
                links[next_one].add(one)
    place: dict[tuple[int, Node], float] = {}
    for row, line in enumerate(lines):
        place |= _spread(row, line)
    for sweep in range(60):
        down = sweep % 2 == 0
        order = range(len(lines)) if down else reversed(range(len(lines)))
        for row in order:
            wanted: dict[Node, float] = {}
            for node in lines[row]:
                beside = [place[one] for one in links[row, node] if (one[0] < row) == down] or [place[row, node]]
                wanted[node] = sum(beside) / len(beside)
            lines[row].sort(key=lambda node: (wanted[node], node))
            place |= _spread(row, lines[row])
    return place


def _spread(row: int, line: list[Node]) -> dict[tuple[int, Node], float]:
    """Boxes and lanes of a row, in their order, with equal gaps."""
    widths = [LANE if target else BOX for _, target in line]
    gap = (WIDTH - sum(widths)) / (len(line) + 1)
    found, left = {}, gap
    for node, width in zip(line, widths, strict=True):
        found[row, node] = left + width / 2
        left += width + gap
    return found


def picture() -> str:
    """The SVG."""
    graph = package_imports()
    arrows, rows = reduced(graph), rows_of(graph)
    place = placed(arrows, rows)
    top = {row: 12 + row * ROW for row in range(max(rows.values()) + 2)}
    bottom = top[max(rows.values()) + 1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + HEIGHT + 12}" role="img">',
        "<title>Packages of adjourn; an arrow means: imports</title>",
        f"<style>{STYLE}</style>",
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '<path d="M0 0 8 4 0 8z"/></marker>',
    ]
    for package, targets in sorted(arrows.items()):
        for target in sorted(targets):
            x, y = place[rows[package], (package, "")], top[rows[package]] + HEIGHT
            way = f"M{x:.0f} {y}"
            for row in range(rows[package] + 1, rows[target] + 1):
                node = (package, target) if row < rows[target] else (target, "")
                next_x, next_y = place[row, node], top[row]
                way += f" C{x:.0f} {y + 18} {next_x:.0f} {next_y - 18} {next_x:.0f} {next_y}"
                if row < rows[target]:
                    way += f" V{next_y + HEIGHT}"
                x, y = next_x, next_y + HEIGHT
            parts.append(f'<path d="{way}" marker-end="url(#head)"/>')
    for package, row in rows.items():
        parts += _box(package, place[row, (package, "")], top[row])
    parts.append(f'<rect x="12" y="{bottom}" width="{WIDTH - 24}" height="{HEIGHT}" rx="6"/>')
    parts.append(f'<text class="name" x="{WIDTH / 2:.0f}" y="{bottom + 24}">{" · ".join(EVERYWHERE)}</text>')
    parts.append(
        f'<text x="{WIDTH / 2:.0f}" y="{bottom + 42}">every package may import these; no arrows are drawn</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def _box(package: str, x: float, y: float) -> list[str]:
    lines = textwrap.wrap(PURPOSES[package], 24)
    return [
        f'<rect x="{x - BOX / 2:.0f}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6"/>',
        f'<text class="name" x="{x:.0f}" y="{y + 19}">{package}</text>',
        *(f'<text x="{x:.0f}" y="{y + 35 + 14 * number}">{line}</text>' for number, line in enumerate(lines)),
    ]


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), "utf-8")
