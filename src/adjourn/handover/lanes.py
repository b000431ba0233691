"""The picture of a task: a lane for each session, a mark for each call by its outcome, and idle time folded away.

It is drawn from the raw events, in bins as wide as a mark, so a long history costs no more elements than a short one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import msgspec
from markupsafe import Markup, escape

from adjourn.errors import InvalidError
from adjourn.log.event import milliseconds
from adjourn.log.kinds import full_name
from adjourn.store.base import Entry
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

Address = Callable[[int], str]

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
_SETTLED = {
    "ok": "ok",
    "done": "ok",
    "tool-error": "error",
    "error": "error",
    "no-answer": "running",
    "input-required": "waits",
}


class _LaneData(msgspec.Struct, gc=False):
    """What the picture needs of an event's data."""

    approval: str = ""
    call: str = ""
    client: str = ""
    lost: str = ""
    name: str = ""
    outcome: str = ""
    reason: str = ""
    server: str = ""
    tool: str = ""
    via: str = ""


class _LaneActor(msgspec.Struct, gc=False):
    id: str = ""
    type: str = ""


class _LaneEvent(msgspec.Struct, gc=False):
    by: _LaneActor
    data: _LaneData
    event: str
    seq: int
    session: str
    timestamp: str


class _LanePoint(NamedTuple):
    """A point on the lane of a session."""

    session: str
    at: int


class _LaneCall(msgspec.Struct, gc=False):
    """A call, or a question about one, on its lane."""

    seq: int
    at: int
    session: str
    tool: str
    outcome: str


class _LaneSign(NamedTuple):
    """A checkpoint, an approval, a denial or the end of a lost session."""

    seq: int
    place: _LanePoint
    kind: str
    label: str


class _LaneSession(msgspec.Struct):
    client: str
    first: int
    last: int


class SessionLanes(NamedTuple):
    """The picture, its legend (mark, outcome, number of calls), how many events are in it, and what it leaves out."""

    picture: Markup = Markup()
    legend: Sequence[tuple[Markup, str, int]] = ()
    events: int = 0
    hidden_sessions: int = 0
    zone: str = ""


def session_lanes(entries: Iterable[Entry], doubts: Collection[str], address: Address = lambda _: "") -> SessionLanes:
    """The lanes of verified entries. `doubts` are the calls in doubt; `address` gives the link to an event by its position; "" for none."""
    history = _LaneHistory()
    count = 0
    for entry in entries:
        count += 1
        try:
            row = _decode(entry.data)
            history.feed(row)
        except (msgspec.DecodeError, UnicodeDecodeError, InvalidError):
            continue  # of a later version: the list shows it
    calls = history.finish(doubts)
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
    return SessionLanes(picture, legend, count, len(history.sessions) - len(shown), axis.zone)


def _shape(name: str, path: str) -> Markup:
    """A mark, for the legend."""
    low = 0 if name in ("sign-flag", "sign-pin") else 9
    svg = f'<svg class="mark {name}" viewBox="-9 {low - 18} 18 18" width="14" height="14" aria-hidden="true">'
    return Markup(f'{svg}<path d="{path}"/></svg>')  # noqa: S704  # constants


_SECONDS = {f"{number:02}.": number * 1000 for number in range(60)}
_MILLISECONDS = {f"{number:03}Z": number for number in range(1000)}
"""The parts of a time stamp within a minute, in milliseconds: looked up, since a picture has 100,000 of them."""
_decode = msgspec.json.Decoder(_LaneEvent).decode


class _LaneHistory:
    """The sessions, calls and signs of events, which are given in their order."""

    def __init__(self) -> None:
        self.sessions: dict[str, _LaneSession] = {}
        self.signs: list[_LaneSign] = []
        self._calls: dict[str, _LaneCall] = {}
        self._refused: list[_LaneCall] = []
        self._asked: dict[str, _LaneCall] = {}
        self._pins: dict[str, int] = {}
        self._minutes: dict[str, int] = {}
        self._latest = ""
        self._rules: Mapping[str, Callable[[_LaneEvent, _LanePoint], None]] = {
            "session.opened": self._open,
            "session.lost": self._lose,
            "tool.allowed": self._allow,
            "tool.settled": self._settle,
            "effect.settled": self._settle,
            "tool.denied": self._refuse,
            "budget.exhausted": self._refuse,
            "confirm.required": self._ask,
            "confirm.approved": self._answer,
            "confirm.denied": self._answer,
            "checkpoint.created": self._flag,
        }

    def feed(self, row: _LaneEvent) -> None:
        at = self._time(row.timestamp)
        name = row.session or self._latest
        session = self.sessions.get(name)
        if session is None and name:
            session = self.sessions[name] = _LaneSession("", at, at)
        if session is None:
            return
        if row.session:
            self._latest = name
            session.last = max(session.last, at)
        rule = self._rules.get(row.event)
        if rule is not None:
            rule(row, _LanePoint(name, at))

    def finish(self, doubts: Collection[str]) -> list[_LaneCall]:
        """All calls, in their order."""
        for call in doubts:
            if call in self._calls:
                self._calls[call].outcome = "doubt"
        return sorted([*self._calls.values(), *self._refused, *self._asked.values()], key=lambda call: call.seq)

    def _open(self, row: _LaneEvent, place: _LanePoint) -> None:
        self.sessions[place.session].client = row.data.client

    def _allow(self, row: _LaneEvent, place: _LanePoint) -> None:
        if row.data.approval:
            self._asked.pop(row.data.approval, None)
            pin = self._pins.pop(row.data.approval, None)
            if pin is not None:  # the call has the place of its question in the list
                self.signs[pin] = self.signs[pin]._replace(seq=row.seq)
        self._calls[row.data.call] = _call(row, place, "running")

    def _settle(self, row: _LaneEvent, _: _LanePoint) -> None:
        call = self._calls.get(row.data.call)
        if call is not None:
            call.outcome = _SETTLED.get(row.data.outcome, "error")

    def _refuse(self, row: _LaneEvent, place: _LanePoint) -> None:
        self._refused.append(_call(row, place, "refused"))

    def _ask(self, row: _LaneEvent, place: _LanePoint) -> None:
        self._asked[row.data.approval] = _call(row, place, "waits")

    def _answer(self, row: _LaneEvent, place: _LanePoint) -> None:
        """A person's answer is a pin where the call was asked about; a call that nobody let through is refused."""
        data, asked = row.data, self._asked.get(row.data.approval)
        is_denied = row.event == "confirm.denied"
        place = place._replace(session=asked.session) if asked else place
        if asked is not None:
            del self._asked[data.approval]  # the pin takes its place
        if is_denied and asked is not None and data.via not in ("repeated", "elsewhere"):
            self._refused.append(_call(row, place, "refused"))
        if row.by.type == "human":
            self._pins[data.approval] = len(self.signs)
            why = f": {data.reason}" if data.reason else ""
            said = f"{'denied' if is_denied else 'approved'} by {row.by.id}{why}, {full_name(data.server, data.tool)}"
            self.signs.append(_LaneSign(row.seq if is_denied or asked is None else asked.seq, place, "pin", said))

    def _lose(self, row: _LaneEvent, _: _LanePoint) -> None:
        session = self.sessions.get(row.data.lost)
        if session is not None:
            end = _LanePoint(row.data.lost, session.last)
            self.signs.append(_LaneSign(row.seq, end, "cut", f"session lost: {row.data.reason}"))

    def _flag(self, row: _LaneEvent, place: _LanePoint) -> None:
        self.signs.append(_LaneSign(row.seq, place, "flag", f"checkpoint {row.data.name}"))

    def _time(self, stamp: str) -> int:
        """Milliseconds. Events of one minute share the reading of its date."""
        minute = self._minutes.get(stamp[:17])
        if minute is None:
            minute = self._minutes[stamp[:17]] = milliseconds(f"{stamp[:17]}00.000Z")
        try:
            return minute + _SECONDS[stamp[17:20]] + _MILLISECONDS[stamp[20:]]
        except KeyError:
            raise InvalidError(f"not a time stamp: {stamp[:40]!r}") from None


def _call(row: _LaneEvent, place: _LanePoint, outcome: str) -> _LaneCall:
    return _LaneCall(row.seq, place.at, place.session, full_name(row.data.server, row.data.tool), outcome)


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


def _drawn_sessions(sessions: Sequence[_LaneSession], axis: _FoldedAxis) -> list[str]:
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


def _drawn_calls(
    calls: Sequence[_LaneCall], lanes: Mapping[str, int], axis: _FoldedAxis, address: Address
) -> list[str]:
    bins: dict[tuple[int, int], list[_LaneCall]] = {}
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
        parts.append(_link(address(worst.seq), label, drawn, reach=-bool(number)))
    return parts


def _drawn_signs(
    signs: Sequence[_LaneSign], lanes: Mapping[str, int], axis: _FoldedAxis, address: Address
) -> list[str]:
    """Flags, pins and cuts. The last one of a bin is drawn."""
    bins = {(sign.kind, lanes[sign.place.session], int(axis.x(sign.place.at) // BIN)): sign for sign in signs}
    parts = []
    for (kind, lane, column), sign in bins.items():
        path, up, _ = _SIGNS[kind]
        x = (column + 0.5) * BIN + (11 if kind == "cut" else 0)
        parts.append(_link(address(sign.seq), sign.label, _LaneMark(f"sign-{kind}", x, _middle(lane) + up, path)))
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
