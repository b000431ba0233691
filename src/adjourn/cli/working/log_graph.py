"""The history of a task as a graph: the task is the trunk, each session a branch, with its calls and checkpoints.

Owns: the lanes of the graph. Must never: read a store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from adjourn.cli.shared.output import counted, cut
from adjourn.cli.shared.terminal import Spans
from adjourn.cli.shared.timeline_view import STYLES
from adjourn.handover import TimelineEntry
from adjourn.log import kinds
from adjourn.text import ago

_POINTS = {kinds.CheckpointCreated.KIND: "◆", kinds.CheckpointResumed.KIND: "↻"}
_ENDS = frozenset((kinds.SessionClosed.KIND, kinds.SessionLost.KIND))
_CALLS = frozenset(("tool", "effect", "budget", "confirm", "entry"))
_PLAIN = str.maketrans("│├─╮╯●◆↻○", "||-\\/*#@o")
"""For an output that has no such characters."""
_STYLE = "bright_black"
_MIN_TEXT = 10


def graph_lines(
    entries: Sequence[TimelineEntry], now: int, columns: int, *, unicode: bool
) -> Iterator[Spans]:
    """The lines of a graph: lanes, time, and what happened. Calls in a row of one session are one line."""
    lanes: list[str] = []
    drawn: list[tuple[str, str, TimelineEntry, str]] = []
    for (session, kind), run in groupby(entries, key=lambda one: (one.session, _kind(one))):
        group = list(run)
        if kind == "calls":
            drawn.append((_at(lanes, session, "●"), "", group[-1], _counts(group)))
            continue
        drawn += [(_node(lanes, entry), entry.label, entry, _said(entry)) for entry in group]
    size = max((len(prefix) for prefix, _, _, _ in drawn), default=0)
    for prefix, label, entry, text in drawn:
        lane = prefix if unicode else prefix.translate(_PLAIN)
        when = f"{ago(entry.timestamp, now):>10}  "
        room = columns - size - len(when) - 2
        shown = cut(text, max(room, _MIN_TEXT)) if columns else text
        style = STYLES.get(label, "bold" if label == "session" else "")
        yield [(f"{lane:<{size}}  ", _STYLE), (when, "dim"), (shown, style)]


def _kind(entry: TimelineEntry) -> str:
    return (
        "calls" if entry.event.partition(".")[0] in _CALLS and entry.event != "tool.changed" else entry.event
    )


def _node(lanes: list[str], entry: TimelineEntry) -> str:
    """The lanes at an entry; a session takes its lane when it begins, and leaves it when it ends."""
    if entry.event == kinds.SessionOpened.KIND:
        lanes.append(entry.session)
        return "├─" + "│─" * (len(lanes) - 1) + "╮"
    ended = entry.closes or entry.session
    if entry.event in _ENDS and ended in lanes:
        at = lanes.index(ended)
        shown = "├─" + "│─" * at + "╯" + " │" * (len(lanes) - at - 1)
        lanes.pop(at)
        return shown
    return _at(lanes, entry.session, _POINTS.get(entry.event, "○"))


def _at(lanes: Sequence[str], session: str, mark: str) -> str:
    trunk = "│" if session in lanes else mark
    return trunk + "".join(f" {mark if lane == session else '│'}" for lane in lanes)


def _counts(group: Sequence[TimelineEntry]) -> str:
    """`12 calls: 10 ok, 1 error, 1 refused`; a single call is named."""
    if len(group) == 1:
        (one,) = group
        return "  ".join(part for part in (one.label, one.what, one.about) if part)
    labels = Counter(one.label for one in group)
    return (
        f"{counted(len(group), 'call')}: {', '.join(f'{count} {label}' for label, count in labels.items())}"
    )


def _said(entry: TimelineEntry) -> str:
    name = entry.what if entry.label == "session" else f"{entry.label} {entry.what}"
    return "  ".join(part for part in (name, entry.about, entry.note) if part)
