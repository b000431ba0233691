"""What the picture of a task is drawn from: its sessions, calls and signs, folded from raw events.

A fold can be given more events later, so that a page which follows a task reads each event once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

import msgspec

from adjourn.errors import InvalidError
from adjourn.log.event import milliseconds
from adjourn.log.kinds import full_name
from adjourn.store.base import Entry

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

    allowed: list[_LaneData] = []
    approval: str = ""
    call: str = ""
    client: str = ""
    group: str = ""
    lost: str = ""
    name: str = ""
    outcome: str = ""
    reason: str = ""
    server: str = ""
    settled: list[_LaneData] = []
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


class LanePoint(NamedTuple):
    """A point on the lane of a session."""

    session: str
    at: int


class LaneCall(msgspec.Struct, gc=False):
    """A call, or a question about one, on its lane: fact `part` of event `seq`."""

    seq: int
    at: int
    session: str
    tool: str
    outcome: str
    part: int = 0


class LaneSign(NamedTuple):
    """A checkpoint, an approval, a denial or the end of a lost session."""

    seq: int
    place: LanePoint
    kind: str
    label: str


class LaneSession(msgspec.Struct):
    client: str
    first: int
    last: int


_SECONDS = {f"{number:02}.": number * 1000 for number in range(60)}
_MILLISECONDS = {f"{number:03}Z": number for number in range(1000)}
"""The parts of a time stamp within a minute, in milliseconds: looked up, since a picture has 100,000 of them."""
_decode = msgspec.json.Decoder(_LaneEvent).decode


class LaneHistory:
    """The sessions, calls and signs of events, which are given in their order. `count` is the number of these events."""

    def __init__(self) -> None:
        self.count = 0
        self.sessions: dict[str, LaneSession] = {}
        """By lane: the session that began it. Sessions that one client process has open at a time, one for each server, share a lane."""
        self._lanes: dict[str, str] = {}
        self._groups: dict[str, set[str]] = {}
        """The open sessions of each client process."""
        self._group_of: dict[str, set[str]] = {}
        self.signs: list[LaneSign] = []
        self._calls: dict[str, LaneCall] = {}
        self._refused: list[LaneCall] = []
        self._asked: dict[str, LaneCall] = {}
        self._pins: dict[str, int] = {}
        self._second = ""
        self._second_at = 0
        self._names: dict[tuple[str, str], str] = {}
        self._latest = ""
        self._rules: Mapping[str, Callable[[_LaneEvent, LanePoint], None]] = {
            "session.opened": self._open,
            "session.closed": self._close,
            "session.lost": self._lose,
            "tool.allowed": self._allow,
            "tool.settled": self._settle,
            "tool.readings": self._read,
            "effect.settled": self._settle,
            "tool.denied": self._refuse,
            "budget.exhausted": self._refuse,
            "confirm.required": self._ask,
            "confirm.approved": self._answer,
            "confirm.denied": self._answer,
            "checkpoint.created": self._flag,
        }

    def feed(self, entries: Iterable[Entry]) -> None:
        """Take more events. One that cannot be read is of a later version, and left out."""
        for entry in entries:
            self.count += 1
            try:
                self._take(_decode(entry.data))
            except (msgspec.DecodeError, UnicodeDecodeError, InvalidError):
                continue

    def calls(self, doubts: Collection[str]) -> list[LaneCall]:
        """All calls in their order; `doubts` are those in doubt."""
        calls = self._calls
        if unsure := {name: calls[name] for name in doubts if name in calls}:
            calls = calls | {name: msgspec.structs.replace(call, outcome="doubt") for name, call in unsure.items()}
        return sorted([*calls.values(), *self._refused, *self._asked.values()], key=attrgetter("seq"))

    def _take(self, row: _LaneEvent) -> None:
        at = self._time(row.timestamp)
        if row.event == "session.opened":
            self._share(row.session, row.data.group)
        name = self._lanes.get(row.session, row.session) if row.session else self._latest
        session = self.sessions.get(name)
        if session is None:
            if not name:
                return
            session = self.sessions[name] = LaneSession("", at, at)
        if row.session:
            self._latest = name
            session.last = max(session.last, at)
        rule = self._rules.get(row.event)
        if rule is not None:
            rule(row, LanePoint(name, at))

    def _share(self, session: str, group: str) -> None:
        """Put a session on the lane of those that its client process has open."""
        together = self._groups.setdefault(group, set())
        if group and together:
            self._lanes[session] = self._lanes[next(iter(together))]
        else:
            self._lanes[session] = session
        together.add(session)
        self._group_of[session] = together

    def _close(self, row: _LaneEvent, _: LanePoint) -> None:
        self._leave(row.session)

    def _leave(self, session: str) -> None:
        self._group_of.pop(session, set()).discard(session)

    def _open(self, row: _LaneEvent, place: LanePoint) -> None:
        self.sessions[place.session].client = row.data.client

    def _allow(self, row: _LaneEvent, place: LanePoint) -> None:
        if row.data.approval:
            self._asked.pop(row.data.approval, None)
            pin = self._pins.pop(row.data.approval, None)
            if pin is not None:  # the call has the place of its question in the list
                self.signs[pin] = self.signs[pin]._replace(seq=row.seq)
        self._calls[row.data.call] = self._call(row, place, "running")

    def _settle(self, row: _LaneEvent, _: LanePoint) -> None:
        self._end(row.data)

    def _end(self, data: _LaneData) -> None:
        call = self._calls.get(data.call)
        if call is not None:
            call.outcome = _SETTLED.get(data.outcome, "error")

    def _read(self, row: _LaneEvent, place: LanePoint) -> None:
        for settled in row.data.settled:
            self._end(settled)
        for part, allowed in enumerate(row.data.allowed, len(row.data.settled)):
            name = self._name(allowed)
            self._calls[allowed.call] = LaneCall(row.seq, place.at, place.session, name, "running", part)

    def _refuse(self, row: _LaneEvent, place: LanePoint) -> None:
        self._refused.append(self._call(row, place, "refused"))

    def _ask(self, row: _LaneEvent, place: LanePoint) -> None:
        self._asked[row.data.approval] = self._call(row, place, "waits")

    def _answer(self, row: _LaneEvent, place: LanePoint) -> None:
        """A person's answer is a pin where the call was asked about; a call that nobody let through is refused."""
        data, asked = row.data, self._asked.get(row.data.approval)
        is_denied = row.event == "confirm.denied"
        place = place._replace(session=asked.session) if asked else place
        if asked is not None:
            del self._asked[data.approval]  # the pin takes its place
        if is_denied and asked is not None and data.via not in ("repeated", "elsewhere"):
            self._refused.append(self._call(row, place, "refused"))
        if row.by.type == "human":
            self._pins[data.approval] = len(self.signs)
            why = f": {data.reason}" if data.reason else ""
            said = f"{'denied' if is_denied else 'approved'} by {row.by.id}{why}, {full_name(data.server, data.tool)}"
            self.signs.append(LaneSign(row.seq if is_denied or asked is None else asked.seq, place, "pin", said))

    def _lose(self, row: _LaneEvent, _: LanePoint) -> None:
        lane = self._lanes.get(row.data.lost, row.data.lost)
        self._leave(row.data.lost)
        session = self.sessions.get(lane)
        if session is not None:
            end = LanePoint(lane, session.last)
            self.signs.append(LaneSign(row.seq, end, "cut", f"session lost: {row.data.reason}"))

    def _flag(self, row: _LaneEvent, place: LanePoint) -> None:
        self.signs.append(LaneSign(row.seq, place, "flag", f"checkpoint {row.data.name}"))

    def _time(self, stamp: str) -> int:
        """Milliseconds. Events of one second share the reading of its date."""
        if stamp[:20] != self._second:
            try:
                self._second_at = milliseconds(f"{stamp[:17]}00.000Z") + _SECONDS[stamp[17:20]]
            except KeyError:
                raise InvalidError(f"not a time stamp: {stamp[:40]!r}") from None
            self._second = stamp[:20]
        try:
            return self._second_at + _MILLISECONDS[stamp[20:]]
        except KeyError:
            raise InvalidError(f"not a time stamp: {stamp[:40]!r}") from None

    def _call(self, row: _LaneEvent, place: LanePoint, outcome: str) -> LaneCall:
        return LaneCall(row.seq, place.at, place.session, self._name(row.data), outcome)

    def _name(self, data: _LaneData) -> str:
        of_tool = data.server, data.tool
        return self._names.get(of_tool) or self._names.setdefault(of_tool, full_name(*of_tool))
