"""What the page of a task and its report show alike: what happened, with all that each event says, and which checkpoint follows which."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup
from msgspec import UnsetType

from adjourn.checkpoints.plans import gone_results, read_report
from adjourn.errors import AdjournError
from adjourn.handover.answering import ShownArguments, read_arguments
from adjourn.handover.clients import last_client
from adjourn.handover.spending import call_times, spending_of
from adjourn.handover.timeline import Timeline, TimelineEntry
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Event, decode
from adjourn.store.base import EMPTY, Store
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.troubles import open_troubles
from adjourn.text.redact import visible_lines, without_secrets
from adjourn.text.times import local

MAX_SCANNED = 5_000
"""Events, the last ones, among which checkpoints are searched."""
MAX_CHECKPOINTS = 50
MAX_ARTIFACTS = 100
_ROLLBACK = "rollback to "
_MARKS = tuple(f'"event":"{kind.KIND}"'.encode() for kind in (kinds.CheckpointCreated, kinds.CheckpointResumed))
ODD = frozenset(("error", "refused", "not made", "in doubt", "no answer", "waits", "not done"))
_WORDS = {
    "reason": "Why", "rule": "Rule", "cause": "Rule", "approval": "Approval", "via": "Answered on", "milliseconds": "Took",
    "message": "Answer", "note": "Note", "digest": "Digest of the arguments", "answer": "Digest of the answer", "limits": "Limits", "once": "Once for",
    "trigger": "Made", "description": "Description", "goal": "Goal", "client": "Client", "host": "Host", "principalName": "For", "lost": "Session",
}  # fmt: skip
"""What the members of events are called."""
_ASKING = frozenset(kind.KIND for kind in (kinds.ConfirmRequired, kinds.ConfirmApproved, kinds.ConfirmDenied))
_LONG = 64
"""Characters of a text that is shown on one line."""


class ShownFact(NamedTuple):
    """One thing that an event says. `is_code`: it is text of a call or a digest."""

    name: str
    text: str
    is_code: bool


class Proof(NamedTuple):
    """An event in the chain."""

    seq: int
    kind: str
    hash: str


class Moment(NamedTuple):
    """An entry of the timeline, with the tone of its label (`good`, `bad` or `plain`), the arguments of its call, what else its events say,
    and these events.
    """

    entry: TimelineEntry
    tone: str
    arguments: ShownArguments
    facts: Sequence[ShownFact]
    proofs: Sequence[Proof]

    def is_within(self, since: str, until: str) -> bool:
        """Whether it happened from one minute to another, both on the reader's clock; "" is no limit."""
        minute = local(self.entry.timestamp)[:16]
        return since <= minute and (not until or minute <= until)

    def has(self, text: str) -> bool:
        """Whether what is shown of it contains a text, which is in lower case."""
        entry = self.entry
        words = [entry.label, entry.what, entry.about, entry.note, entry.words, *(fact.text for fact in self.facts)]
        words += (f"{row.name} {row.value}" for row in self.arguments.rows)
        words += (line.text for line in self.arguments.diff)
        return any(text in word.casefold() for word in (*words, self.arguments.raw))


class CheckpointRow(NamedTuple):
    """A checkpoint in the list beside the picture of the branches."""

    name: str
    trigger: str
    timestamp: str
    seq: int


class Checkpoints(NamedTuple):
    """The last checkpoints, the newest first, and the picture of what follows what."""

    rows: Sequence[CheckpointRow] = ()
    lanes: Markup = Markup()
    is_cut: bool = False
    """Whether the task may have earlier ones."""


class TaskArtifact(NamedTuple):
    """What the agent says it made. `is_there`: the workspace has it, or is on another machine."""

    path: str
    note: str
    is_there: bool


class TaskReader(NamedTuple):
    """Who reads a task: the time, and the work tree ("": it is on another machine, so files are not looked at)."""

    stamp: str
    tree: str


def view_of(
    store: Store, ledger: Ledger, events: Mapping[str, Event], reader: TaskReader, *, is_last: bool
) -> dict[str, Any]:
    """What `task.html` shows of a task and these verified events of it, by their hashes. `is_last`: they are its last ones."""
    artifacts = _artifacts(store, ledger, reader.tree) if is_last else []
    troubles = open_troubles(ledger, gone_results(reader.tree, ledger) if reader.tree else ())
    return {
        "task": ledger,
        "client": last_client(store, ledger),
        "moments": moments_of(events, ledger, reader.stamp, is_last=is_last),
        "spending": spending_of(store, ledger, call_times(events.values())) if is_last else [],
        "checkpoint": ledger.checkpoint,
        "checkpoints": checkpoints_of(store, ledger) if is_last else Checkpoints(),
        "artifacts": artifacts[:MAX_ARTIFACTS],
        "has_more_artifacts": len(artifacts) > MAX_ARTIFACTS,
        "has_mind": store.head(f"cognition/{ledger.task}") != EMPTY,
        "doubts": list(ledger.doubts.values()),
        "troubles": [trouble for trouble in troubles if trouble.kind != "in doubt"],
    }


def moments_of(events: Mapping[str, Event], ledger: Ledger, stamp: str, *, is_last: bool) -> list[Moment]:
    """What happened, the newest first."""
    timeline = Timeline()
    of_entry: dict[str, list[tuple[str, Event]]] = {}
    asked: dict[str, list[tuple[str, Event]]] = {}
    for hash_, event in events.items():
        for part, fact in enumerate(kinds.facts_of(event)):
            if fact.event in _ASKING:
                asked.setdefault(_approval(fact), []).append((hash_, fact))
            for entry in timeline.take(fact, part):
                of_entry.setdefault(entry.place, []).append((hash_, fact))
    if is_last:
        timeline.mark_doubts(list(ledger.doubts))
        timeline.expire(stamp)
    moments = []
    for entry in reversed(timeline.entries()):
        those = of_entry.get(entry.place, [])
        approval = next(
            (name for _, fact in those if fact.event == kinds.ToolAllowed.KIND and (name := _approval(fact))), ""
        )
        those = [
            *(pair for pair in asked.get(approval, ()) if pair not in those),
            *those,
        ]  # the question has an entry no more
        facts = [fact for _, fact in those]
        proofs = [Proof(fact.seq, events[hash_].event, hash_) for hash_, fact in those]
        moments.append(Moment(entry, _tone(entry.label), _arguments(facts), _facts(facts), proofs))
    return moments


def _approval(event: Event) -> str:
    """The id of the approval that an event is about; "" for none."""
    return str(_json(bytes(event.data)).get("approval", ""))


def _arguments(events: Iterable[Event]) -> ShownArguments:
    """The arguments of the call that these events are about, an edit as a diff; nothing for other events."""
    texts = (_json(bytes(event.data)).get("arguments") for event in events)
    text = next((text for text in texts if isinstance(text, str) and text), "")
    return read_arguments(text, lambda _: None) if text else ShownArguments()


def _facts(events: Iterable[Event]) -> list[ShownFact]:
    """What the events of one entry say, each thing once."""
    facts: dict[tuple[str, str], ShownFact] = {}
    for event in events:
        data = _json(bytes(event.data))
        if event.event in _ASKING and event.by.type == "human":
            facts["Answered by", event.by.id] = ShownFact("Answered by", _text(event.by.id), is_code=False)
        for member, name in _WORDS.items():
            value = data.get(member)
            if value in (None, "", [], 0, "0" * 64):
                continue
            text = f"{value:,} ms" if member == "milliseconds" and type(value) is int else _text(value)
            text = text.replace("_", " ") if member == "reason" and event.event == kinds.ToolDenied.KIND else text
            fact = ShownFact(name, text, member in ("digest", "answer", "rule", "cause") or len(text) > _LONG)
            facts.setdefault((name, text), fact)
    return list(facts.values())


def _json(text: str | bytes) -> dict[str, Any]:
    """A JSON object; an empty one for anything else, however deep."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    """A member of an event. Nothing in it is hidden."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return visible_lines(without_secrets(text))


def _tone(label: str) -> str:
    return "bad" if label in ODD else "good" if label in ("ok", "done", "approved", "replayed") else "plain"


def checkpoints_of(store: Store, ledger: Ledger) -> Checkpoints:
    """The checkpoints among the last events, and which of them follows which: a session that resumes one, and a rollback, branch off."""
    rows: list[CheckpointRow] = []
    parents: list[int] = []
    last, by_hash = -1, dict[str, int]()
    for entry in store.read(ledger.task, max(0, ledger.seq + 1 - MAX_SCANNED), ledger.seq + 1):
        if not any(mark in entry.data for mark in _MARKS) or digest(entry.data) != entry.hash:
            continue
        event = decode(entry.data)
        data = kinds.data_of(event)
        if isinstance(data, kinds.CheckpointResumed):
            last = by_hash.get(data.checkpoint, last)
        elif isinstance(data, kinds.CheckpointCreated):
            if data.trigger.startswith(_ROLLBACK):
                target = data.trigger.removeprefix(_ROLLBACK)
                last = next((at for at in range(len(rows) - 1, -1, -1) if rows[at].name == target), last)
            parents.append(last)
            last = by_hash[entry.hash] = len(rows)
            rows.append(CheckpointRow(data.name, data.trigger, event.timestamp, event.seq))
    left = max(0, len(rows) - MAX_CHECKPOINTS)
    lanes = [max(-1, parent - left) for parent in parents[left:]]
    is_cut = left > 0 or ledger.seq >= MAX_SCANNED
    return Checkpoints(rows[: left - 1 if left else None : -1], lane_picture(lanes), is_cut)


def _artifacts(store: Store, ledger: Ledger, tree: str) -> list[TaskArtifact]:
    """What was stated until the last checkpoint."""
    stated = read_report(store, ledger.report).artifacts
    if isinstance(stated, UnsetType):
        return []
    return [
        TaskArtifact(artifact.path, artifact.note, not tree or _is_there(tree, artifact.path))
        for artifact in stated[: MAX_ARTIFACTS + 1]
    ]


def _is_there(tree: str, path: str) -> bool:
    from adjourn.host.workspace import resolve_inside

    try:
        return os.path.lexists(resolve_inside(tree, path))
    except AdjournError:  # not in the workspace: whether it is there is not ours to say
        return True


# --- the picture of the checkpoints

ROW = 36
"""Height of a row of the list, in pixels; `templates/task.css` has the same."""
LANE, RADIUS = 16, 5
MAX_LANES = 8


def lanes_of(parents: Sequence[int]) -> list[int]:
    """The lane of each row. `parents`, oldest first, are the rows that rows follow; -1 for none.

    Whoever follows the newest row of a lane stays in it; else a branch starts in a new one.
    """
    ends: list[int] = []
    lanes: list[int] = []
    for row, parent in enumerate(parents):
        lane = ends.index(parent) if parent in ends else len(ends)
        if lane == len(ends):
            ends.append(row)
        ends[lane] = row
        lanes.append(min(lane, MAX_LANES - 1))
    return lanes


def lane_picture(parents: Sequence[int]) -> Markup:
    """The picture; "" without rows. `parents` as for `lanes_of`."""
    if not parents:
        return Markup()
    lanes = lanes_of(parents)
    wide, high = LANE * (max(lanes) + 1), ROW * len(parents)

    def position(row: int) -> tuple[int, int]:
        return lanes[row] * LANE + LANE // 2, (len(parents) - 1 - row) * ROW + ROW // 2

    drawn = []
    for row, parent in enumerate(parents):
        if parent < 0:
            continue
        (x, y), (to_x, to_y) = position(row), position(parent)
        bend = f"V{to_y}" if x == to_x else f"V{to_y - ROW // 2}C{x} {to_y} {to_x} {to_y - ROW // 2} {to_x} {to_y}"
        drawn.append(f'<path class="lane" d="M{x} {y}{bend}"/>')
    drawn += [f'<circle class="point" cx="{x}" cy="{y}" r="{RADIUS}"/>' for x, y in map(position, range(len(parents)))]
    svg = f'<svg class="lanes" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" aria-hidden="true">'
    return Markup(f"{svg}{''.join(drawn)}</svg>")  # noqa: S704  # it has numbers only
