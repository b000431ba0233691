"""The picture of a task: a lane for the sessions of a client, a mark for each call by its outcome, and idle time folded away.

It is drawn from the raw events, in bins as wide as a mark, so a long history costs no more elements than a short one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

from markupsafe import Markup, escape

from adjourn.handover.lane_history import LaneCall, LaneHistory, LaneSession, LaneSign
from adjourn.store.base import EMPTY, Entry, Head, Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.text.redact import visible_line, without_secrets
from adjourn.text.times import span

WIDTH, LEFT, RIGHT = 1000, 150, 26
"""Units of the picture: its width, and the room beside the lanes."""
TOP, LANE, BOTTOM = 18, 44, 24
BIN = 7
"""Units that one mark takes. Calls of a lane that fall into one bin share its mark."""
FOLD = 18
"""Units that a folded stretch of idle time takes."""
IDLE_MS = 10 * 60_000
"""Milliseconds without any event, from which on the time is idle."""
MAX_FOLDS = 12
MAX_LANES = 12
COLOURS = 5
MAX_LABEL = 20

Address = Callable[[int, int], str]

OUTCOMES: Mapping[str, str] = {
    "doubt": "in doubt",
    "error": "error",
    "refused": "refused",
    "waits": "waits",
    "running": "no answer yet",
    "ok": "ok",
}
"""The outcomes of calls as they are named to people, the most notable first: it is the one that a shared mark shows."""
_SHAPES = {
    "doubt": "M-5 0L0 -6L5 0L0 6Z",
    "error": "M-4.5 -5L4.5 5M4.5 -5L-4.5 5",
    "refused": "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0M-3.5 3.5L3.5 -3.5",
    "waits": "M-4.5 -4.5H4.5V4.5H-4.5Z",
    "running": "M-4 -5L5 0L-4 5Z",
    "ok": "M-2 -8H2V8H-2Z",
}
_SIGNS = {
    "flag": ("M0 0V-17H10L7.5 -13.5L10 -10H0", -3, "checkpoint"),
    "pin": ("M0 -6A4.5 4.5 0 1 0 -0.1 -6M0 -6V0", -9, "answered by a person"),
    "cut": ("M-5 -9L5 9M-5 9L5 -9", 0, "session lost"),
}
"""The path of each sign, how far above its lane it stands, and its name."""


class SessionLanes(NamedTuple):
    """The picture, its legend (mark, outcome, number of calls), how many events are in it, and what it leaves out."""

    picture: Markup = Markup()
    legend: Sequence[tuple[Markup, str, int]] = ()
    events: int = 0
    hidden_sessions: int = 0
    zone: str = ""


def session_lanes(
    entries: Iterable[Entry], doubts: Collection[str], address: Address = lambda _seq, _part: ""
) -> SessionLanes:
    """The lanes of verified entries, as `draw_lanes` draws them."""
    history = LaneHistory()
    history.feed(entries)
    return draw_lanes(history, doubts, address)


def draw_lanes(
    history: LaneHistory, doubts: Collection[str], address: Address = lambda _seq, _part: ""
) -> SessionLanes:
    """The lanes of what was read. `doubts` are the calls in doubt; `address` gives the link to a fact by the position of its event, and its
    own in that; "" for none.
    """
    calls = history.calls(doubts)
    shown = list(history.sessions)[-MAX_LANES:]
    if not calls or not shown:
        return SessionLanes()
    lanes = {name: number for number, name in enumerate(shown)}
    calls = [call for call in calls if call.session in lanes]
    signs = [sign for sign in history.signs if sign.place.session in lanes]
    sessions = [history.sessions[name] for name in shown]
    times = sorted(
        {
            *(call.at for call in calls),
            *(sign.place.at for sign in signs),
            *(at for each in sessions for at in (each.first, each.last)),
        }
    )
    axis = _FoldedAxis(times)
    height = TOP + LANE * len(shown) + BOTTOM
    drawn = [
        f'<svg class="tracks" viewBox="0 0 {WIDTH} {height}" role="group" aria-label="Sessions and their calls over time">',
        *axis.drawn(height),
        *_drawn_sessions(sessions, axis),
        *_drawn_calls(calls, lanes, axis, address),
        *_drawn_signs(signs, lanes, axis, address),
        "</svg>",
    ]
    counts = Counter(call.outcome for call in calls)
    legend = [
        (_shape(f"mark-{name}", _SHAPES[name]), label, counts[name]) for name, label in OUTCOMES.items() if counts[name]
    ]
    kinds = Counter(sign.kind for sign in signs)
    legend += [
        (_shape(f"sign-{kind}", path), label, kinds[kind]) for kind, (path, _, label) in _SIGNS.items() if kinds[kind]
    ]
    picture = Markup("".join(drawn))  # noqa: S704  # every text in it is escaped
    return SessionLanes(picture, legend, history.count, len(history.sessions) - len(shown), axis.zone)


def _shape(name: str, path: str) -> Markup:
    """A mark, for the legend."""
    low = 0 if name in ("sign-flag", "sign-pin") else 9
    svg = f'<svg class="mark {name}" viewBox="-9 {low - 18} 18 18" width="14" height="14" aria-hidden="true">'
    return Markup(f'{svg}<path d="{path}"/></svg>')  # noqa: S704  # constants


class _FoldedAxis:
    """Where a time stands: busy stretches in proportion to their length, idle ones all as narrow as a fold."""

    def __init__(self, times: Sequence[int]) -> None:
        gaps = sorted(((after - before, before, after) for before, after in pairwise(times)), reverse=True)
        folds = sorted((before, after) for gap, before, after in gaps[:MAX_FOLDS] if gap > IDLE_MS)
        starts = [times[0], *(after for _, after in folds)]
        ends = [*(before for before, _ in folds), times[-1]]
        busy = [end - start for start, end in zip(starts, ends, strict=True)]
        room = WIDTH - LEFT - RIGHT - FOLD * len(folds)
        least = min(30.0, room / (2 * len(busy)))
        scale = (room - least * len(busy)) / max(sum(busy), 1)
        self._starts, self._busy, self._scale, self._least = starts, busy, scale, least
        self._folds = folds
        self._offsets = [
            LEFT + sum(least + length * scale + FOLD for length in busy[:number]) for number in range(len(busy))
        ]
        offset = f"{datetime.fromtimestamp(times[-1] / 1000).astimezone():%z}"
        self.zone = "UTC" if offset == "+0000" else f"UTC{offset[:3]}:{offset[3:]}"

    def x(self, at: int) -> float:
        """Units from the left."""
        number = max(0, bisect_right(self._starts, at) - 1)
        length = min(at - self._starts[number], self._busy[number])
        return self._offsets[number] + self._least / 2 + max(0, length) * self._scale

    def drawn(self, height: int) -> list[str]:
        """The folds with how long nothing happened, and clock times below."""
        parts, right = [], -100.0
        for before, after in self._folds:
            x = self._offsets[self._starts.index(after)] - FOLD
            idle = span((after - before) // 1000)
            parts.append(
                f'<g class="fold"><title>nothing for {idle}</title><rect x="{x:.1f}" y="{TOP - 4}" width="{FOLD}" height="{height - TOP - BOTTOM + 6}" rx="3"/></g>'
            )
            if x + FOLD / 2 - right > 55:
                right = x + FOLD / 2
                parts.append(f'<text class="idle" x="{right:.1f}" y="10" text-anchor="middle">{idle}</text>')
        right, day = -100.0, ""
        for start, offset in zip(self._starts, self._offsets, strict=True):
            when = datetime.fromtimestamp(start / 1000).astimezone()
            text = f"{when:%H:%M}" if f"{when:%d %b}" == day else f"{when:%d %b %H:%M}"
            x = offset + self._least / 2
            if x - right > (45 if len(text) == 5 else 85) and x < WIDTH - 80:
                right, day = x, f"{when:%d %b}"
                parts.append(f'<text class="clock" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{text}</text>')
        return parts


def _drawn_sessions(sessions: Sequence[LaneSession], axis: _FoldedAxis) -> list[str]:
    parts, colours = [], dict[str, int]()
    for number, session in enumerate(sessions):
        y = _middle(number)
        colour = colours.setdefault(session.client, len(colours) % COLOURS)
        name = session.client or "a client"
        label = name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…"
        end = max(axis.x(session.last), axis.x(session.first) + 2)
        parts.append(
            f'<g class="track track-{colour}"><title>{_text(name)}</title><text x="4" y="{y + 5}">{_text(label)}</text>'
            f'<path d="M{axis.x(session.first):.1f} {y}H{end:.1f}"/></g>'
        )
    return parts


def _drawn_calls(calls: Sequence[LaneCall], lanes: Mapping[str, int], axis: _FoldedAxis, address: Address) -> list[str]:
    bins: dict[tuple[int, int], list[LaneCall]] = {}
    for call in calls:
        bins.setdefault((lanes[call.session], int(axis.x(call.at) // BIN)), []).append(call)
    order, parts = list(OUTCOMES), []
    for number, ((lane, column), inside) in enumerate(sorted(bins.items())):
        worst = min(inside, key=lambda call: order.index(call.outcome))
        label = f"{worst.tool}: {OUTCOMES[worst.outcome]}"
        if len(inside) > 1:
            counts = Counter(call.outcome for call in inside)
            label += f" (with {len(inside) - 1} more: {', '.join(f'{counts[name]} {OUTCOMES[name]}' for name in order if counts[name])})"
        size = " mark-many" if len(inside) > 1 else ""
        drawn = _LaneMark(f"mark-{worst.outcome}{size}", (column + 0.5) * BIN, _middle(lane), _SHAPES[worst.outcome])
        parts.append(_link(address(worst.seq, worst.part), label, drawn, reach=-bool(number)))
    return parts


def _drawn_signs(signs: Sequence[LaneSign], lanes: Mapping[str, int], axis: _FoldedAxis, address: Address) -> list[str]:
    """Flags, pins and cuts. The last one of a bin is drawn."""
    bins = {(sign.kind, lanes[sign.place.session], int(axis.x(sign.place.at) // BIN)): sign for sign in signs}
    parts = []
    for (kind, lane, column), sign in bins.items():
        path, up, _ = _SIGNS[kind]
        x = (column + 0.5) * BIN + (11 if kind == "cut" else 0)
        parts.append(_link(address(sign.seq, 0), sign.label, _LaneMark(f"sign-{kind}", x, _middle(lane) + up, path)))
    return parts


class _LaneMark(NamedTuple):
    classes: str
    x: float
    y: int
    path: str


def _link(address: str, label: str, mark: _LaneMark, *, reach: int = -1) -> str:
    """A mark that leads to its event. `reach` is 0 for the one that Tab reaches; the arrow keys walk from it."""
    text = _text(label)
    drawn = f'transform="translate({mark.x:.1f} {mark.y})"><title>{text}</title><path d="{mark.path}"/>'
    if not address:
        return f'<g class="mark {mark.classes}" {drawn}</g>'
    link = f'href="{escape(address)}" aria-label="{text}" tabindex="{reach}"'
    return f'<a class="mark {mark.classes}" {link} {drawn}</a>'


def _middle(lane: int) -> int:
    return TOP + LANE * lane + LANE // 2 + 5


def _text(text: str) -> str:
    return str(escape(visible_line(without_secrets(text[:300]))))


# --- pictures of tasks that pages ask for again and again: what was folded is kept, and only new events are read
#
# INVARIANT: every event of a picture was verified when it was read, and the first new one follows the last one that was read.

STEPS = 10
"""A picture begins at a tenth of its length, so that it has the same first event for some time."""
MAX_EVENTS = 300_000
"""Events of all folds that are kept; the ones used longest ago go first. 100,000 take about 15 MB."""


class _KeptFold:
    """The fold from one position of a task, up to `head`, and the picture that was drawn last."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.head = EMPTY
        self.history = LaneHistory()
        self.drawn: tuple[object, SessionLanes] = (None, SessionLanes())


class KeptLanes:
    """The folds of one store at a time: with another one it starts again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._store: Store | None = None
        self._folds: OrderedDict[tuple[str, int], _KeptFold] = OrderedDict()

    def lanes(self, store: Store, ledger: Ledger, drawn: int, address: Address) -> SessionLanes:
        """The picture of the last `drawn` events of a task. Addresses that are equal give equal links. Raises `IntegrityError` for an event
        that was changed.
        """
        head, doubts = Head(ledger.seq, ledger.hash), sorted(ledger.doubts)
        step = max(1, drawn // STEPS)
        start = max(0, head.seq + 1 - drawn) // step * step
        fold = self._fold(store, (ledger.task, start))
        with fold.lock:
            try:
                _read_on(fold, store, ledger.task, start, head)
            except BaseException:
                fold.head, fold.history = EMPTY, LaneHistory()  # it may have events that failed verification
                raise
            key = (fold.head, doubts, address)
            if fold.drawn[0] != key:
                fold.drawn = key, draw_lanes(fold.history, doubts, address)
            return fold.drawn[1]

    def _fold(self, store: Store, key: tuple[str, int]) -> _KeptFold:
        with self._lock:
            if store is not self._store:
                self._store = store
                self._folds.clear()
            fold = self._folds.setdefault(key, _KeptFold())
            self._folds.move_to_end(key)
            while len(self._folds) > 1 and sum(fold.history.count for fold in self._folds.values()) > MAX_EVENTS:
                self._folds.popitem(last=False)
            return fold


def _read_on(fold: _KeptFold, store: Store, task: str, start: int, head: Head) -> None:
    """Feed a fold the events up to `head`, from the first one where it is not of the same history."""
    if fold.head == head:
        return
    if fold.head.seq < head.seq and fold.head != EMPTY:
        entries = verified_entries_from(store, task, fold.head.seq, head)
        if next(entries).hash == fold.head.hash:  # so the chain leads from what was read to `head`
            fold.history.feed(entries)
            fold.head = head
            return
    fold.history = LaneHistory()
    fold.history.feed(verified_entries_from(store, task, start, head))
    fold.head = head
