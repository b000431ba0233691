"""What happened in a task, for a person: one entry for a call with its outcome, and one for each other thing that matters.

Events that only prepare or repeat another one (a tool's definition, an answer to a question) have no entry of their own.

Owns: which events become an entry, and its words. Must never: print, or name a call otherwise than the hand-over does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from adjourn.handover.calls import CallReport, CallsFold, Refusal
from adjourn.log import kinds
from adjourn.log.event import Event
from adjourn.log.kinds import full_name, tool_name
from adjourn.text.command_lines import telling_argument
from adjourn.text.quoting import said
from adjourn.text.redact import visible_line, without_secrets

MAX_TEXT = 300
LABEL = 9
_OF_COMMANDS = (kinds.ToolDefined.KIND, kinds.ToolChanged.KIND)
"""Events whose `server` stands for a command, and names no server."""


class TimelineEntry(msgspec.Struct):
    """One thing that happened. `label` is a word or two of at most `LABEL` characters, `what` its subject, `about` and `note` say more.

    It is about event `seq`, and there about fact `part`. `words` are what a person said with an answer. `closes` is the session that a loss ended, which another session found.
    """

    seq: int
    timestamp: str
    session: str
    event: str
    label: str
    what: str
    about: str = ""
    note: str = ""
    words: str = ""
    closes: str = ""
    part: int = 0

    @property
    def place(self) -> str:
        """Its place in the history: 7, or 7-2 for a later fact of event 7."""
        return f"{self.seq}-{self.part}" if self.part else f"{self.seq}"


class Timeline:
    """The entries of a task's verified events, which are given in their order."""

    def __init__(self) -> None:
        self._calls = CallsFold(meta=True)
        self._entries: dict[tuple[int, int], TimelineEntry] = {}
        self._part = 0
        self._of_call: dict[str, TimelineEntry] = {}
        self._questions: dict[str, tuple[TimelineEntry, kinds.ConfirmRequired]] = {}
        self._approved: dict[str, tuple[str, str]] = {}
        self.clients: dict[str, str] = {}
        """Session → the client that works in it."""

    def feed(self, event: Event) -> list[TimelineEntry]:
        """Take in the next event. Returns the entries that are new or changed by it."""
        return [entry for part, fact in enumerate(kinds.facts_of(event)) for entry in self.take(fact, part)]

    def take(self, event: Event, part: int) -> list[TimelineEntry]:
        """Take in one fact of the next event. Returns the entries that are new or changed by it."""
        self._part = part
        before = (len(self._calls.made), len(self._calls.refused))
        if self._calls.apply(event):
            return self._of_a_call(event, before)
        data = kinds.data_of(event)
        if isinstance(data, kinds.SessionOpened):
            self.clients[event.session] = data.client or "a client"
        changed = self.mark_doubts(data.calls) if isinstance(data, kinds.SessionLost) else []
        words = self._words(event, data)
        if words is None:
            return changed
        entry = self._add(event, *words)
        entry.closes = data.lost if isinstance(data, kinds.SessionLost) else ""
        return [*changed, entry]

    def entries(self) -> list[TimelineEntry]:
        """All entries, the oldest first."""
        return list(self._entries.values())

    def mark_doubts(self, calls: Collection[str]) -> list[TimelineEntry]:
        """Mark calls whose outcome is unknown. Returns those entries that this changed."""
        changed = []
        for call in calls:
            entry = self._of_call.get(call)
            if entry is not None and entry.label in ("running", "no answer"):
                entry.label = "in doubt"
                entry.note = entry.note or f"adjourn settle {call}"
                changed.append(entry)
        return changed

    def expire(self, stamp: str) -> None:
        """Say of questions that nobody answered in their time, until `stamp`, that the calls were not made."""
        for entry, asked in self._questions.values():
            if asked.expires <= stamp and asked.otherwise == "deny" and entry.label == "waits":
                entry.label, entry.note = "not made", "nobody answered in time"

    # --- calls

    def _of_a_call(self, event: Event, before: tuple[int, int]) -> list[TimelineEntry]:
        made, refused = self._calls.made, self._calls.refused
        data = kinds.data_of(event)
        if isinstance(data, kinds.ConfirmApproved):
            return self._approve(event, data)
        approval = str(getattr(data, "approval", ""))
        if isinstance(data, kinds.ConfirmRequired):
            argument = telling_argument(data.arguments) if data.arguments else ""
            entry = self._add(event, "waits", tool_name(data), argument, f"adjourn approve {data.approval}")
            self._questions[data.approval] = entry, data
            return [entry]
        if (pop := self._questions.pop(approval, None)) is not None:
            del self._entries[pop[0].seq, pop[0].part]  # its answer or its call takes its place
        if len(made) > before[0]:
            report = next(reversed(made.values()))
            by, words = self._approved.pop(approval, ("", ""))
            entry = self._add(event, *_call_words(report, by), words=words)
            if report.call:
                self._of_call[report.call] = entry
            return [entry]
        if len(refused) > before[1]:
            return [self._add(event, *_refusal_words(refused[-1]), words=refused[-1].reason.words)]
        call = str(getattr(data, "call", ""))
        if (timeline_entry := self._of_call.get(call)) is None:
            return []
        timeline_entry.label, _, timeline_entry.about, note = _call_words(made[call], "")
        timeline_entry.note = note or timeline_entry.note
        return [timeline_entry]

    def _approve(self, event: Event, data: kinds.ConfirmApproved) -> list[TimelineEntry]:
        by = f"approved by {said(event.by.id, 40)}" if event.by.id else "approved"
        self._approved[data.approval] = by, data.reason
        if data.approval not in self._questions:
            return []
        entry, _ = self._questions[data.approval]
        entry.label, entry.note = "approved", f"{by}; the agent can repeat the call"
        entry.words = _safe(said(data.reason, MAX_TEXT))
        return [entry]

    # --- everything else

    def _add(
        self, event: Event, label: str, what: str, about: str = "", note: str = "", *, words: str = ""
    ) -> TimelineEntry:
        what, about, note, words = (_safe(said(text, MAX_TEXT)) for text in (what, about, note, words))
        entry = TimelineEntry(
            event.seq, event.timestamp, event.session, event.event, label, what, about, note, words, part=self._part
        )
        self._entries[event.seq, self._part] = entry
        return entry

    def _words(self, event: Event, data: kinds.Data | None) -> tuple[str, ...] | None:
        client = self.clients.get(event.session, "") or "a client"
        if isinstance(data, kinds.SessionOpened):
            return "session", client, "", f"began{_for_whom(data)}"
        if isinstance(data, kinds.SessionClosed):
            switched = f", switched to task {data.to}" if data.to else ""
            return "session", client, "", f"ended{switched}"
        if isinstance(data, kinds.SessionLost):
            doubts = f"; {_calls(len(data.calls))} in doubt" if data.calls else ""
            return "session", self.clients.get(data.lost, client), "", f"lost: {_LOST[data.reason]}{doubts}"
        if event.event in _HIDDEN:
            return None
        rule = _RULES.get(event.event)
        if rule is not None and data is not None:
            return rule(data)
        label, _, what = event.event.partition(".")
        return label[:LABEL], what, "", event_details(event)


def _for_whom(data: kinds.SessionOpened) -> str:
    """The person or service that was authenticated behind a session."""
    if not data.principal:
        return ""
    return f", for {said(data.principal_name or data.principal, 40)} ({data.principal_type or 'unknown'})"


def _call_words(report: CallReport, approved: str) -> tuple[str, str, str, str]:
    label, note = _OUTCOMES.get(report.outcome, ("", report.outcome))
    if report.outcome.startswith("settled by"):
        label, note = (
            "not done" if report.outcome.endswith("not done") else "done",
            report.outcome.rpartition(" as ")[0],
        )
    elif report.outcome.startswith("not run again"):
        label, note = "replayed", report.outcome.partition(": ")[2]
    note = "; ".join(part for part in (note, report.message, approved) if part)
    return label or "imported", report.tool, report.argument, note


def _refusal_words(refusal: Refusal) -> tuple[str, str, str, str]:
    head, colon, why = refusal.reason.text.partition(": ")
    if head in _REFUSALS and colon:
        return _REFUSALS[head], refusal.tool, refusal.argument, why
    text = refusal.reason.why if refusal.reason.words else refusal.reason.text
    return "refused", refusal.tool, refusal.argument, text.removeprefix("refused ")


_LOST = {"dead": "its process had exited", "expired": "its lease had expired", "taken-over": "another client took over"}
_OUTCOMES = {
    "ok": ("ok", ""),
    "error": ("error", ""),
    "no answer yet": ("running", ""),
    "no answer seen": ("no answer", ""),
    "waits for input of the client": ("waits", "for input of the client"),
}
_REFUSALS = {"refused": "refused", "refused by a rule": "refused", "not made": "not made", "timed out": "not made"}
_HIDDEN = frozenset(
    ("tool.defined", "tool.continued", "usage.reported", "confirm.auto_approved", "tool.result", "for.start")
)
_OBSERVED = {"ask": "ask a person", "block": "refuse it", "replay": "answer from the journal"}
_RULES: dict[str, Callable[[Any], tuple[str, ...]]] = {
    "task.opened": lambda data: ("task", "opened", "", data.goal),
    "task.finished": lambda data: ("task", "finished", "", data.note),
    "task.reopened": lambda data: ("task", "reopened", "", data.note),
    "task.imported": lambda data: ("imported", data.source or "a history", "", _imported(data)),
    "history.accepted": lambda data: ("history", "cut", "", f"{data.who} accepted the loss of events up to {data.lost}"),
    "tool.changed": lambda data: ("server", data.tool, "", "its definition changed; approvals of it are void"),
    "policy.changed": lambda data: ("policy", "changed", "", _budget(data.budget)),
    "policy.broken": lambda data: ("policy", "unreadable", "", f"the earlier one counts: {data.message}"),
    "policy.observed": lambda data: ("observed", tool_name(data), "", f"would {_OBSERVED[data.decision]}: {data.rule or data.reason}"),
    "checkpoint.created": lambda data: ("saved", data.name, "", data.description or data.trigger),
    "graph.saved": lambda data: ("saved", f"step {data.step}" if data.step else "a step", "", data.source),
    "graph.written": lambda data: ("wrote", data.node, "", ""),
    "graph.deleted": lambda data: ("deleted", f"{data.count} checkpoints of the thread", "", ""),
    "checkpoint.resumed": lambda data: ("resumed", data.name, "", "from a folder" * (data.source == "folder")),
    "message.refused": lambda data: ("client", "message", "", f"refused: {data.reason}"),
    "upstream.refused": lambda data: ("server", data.method, "", f"refused: {data.reason}"),
    "upstream.error": lambda data: ("server", "did not start", "", data.message),
    "upstream.crashed": lambda data: ("server", "exited", "", _exited(data)),
    "upstream.non_jsonrpc": lambda data: ("server", "not JSON", "", data.line),
}  # fmt: skip


def _safe(text: str) -> str:
    """Text of others on one line, without secrets and without characters that nobody sees."""
    return visible_line(without_secrets(text))


def _calls(number: int) -> str:
    return f"{number} call{'s' * (number != 1)}"


def _imported(data: kinds.TaskImported) -> str:
    return f"signed by {data.signer[:12]}" if data.signer else "not verified"


def _budget(calls: int) -> str:
    return "no budget of calls" if calls < 0 else f"budget {_calls(calls)}"


def _exited(data: kinds.UpstreamCrashed) -> str:
    return f"signal {data.signal}" if data.signal else f"exit code {data.code}"


# --- events as they are


_SHOWN = (
    "tool", "method", "reason", "outcome", "name", "client", "goal", "message", "line", "arguments", "used", "limit",
    "approval", "cause", "via", "lost", "to", "rule", "trigger", "description", "source", "calls", "code", "signal", "note",
    "entry", "decision", "at", "call", "milliseconds", "agent", "status", "condition", "variable", "count", "phase", "step", "leg",
)  # fmt: skip
_BARE = (
    "tool", "method", "reason", "outcome", "name", "client", "goal", "message", "line", "arguments", "agent", "status",
    "condition", "variable", "phase", "entry", "decision",
)  # fmt: skip


def event_details(event: Event) -> str:
    """What an event says, on one line."""
    try:
        data = msgspec.json.decode(event.data, type=dict[str, str | int | bool | list[str]])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    if event.event not in _OF_COMMANDS:
        data["tool"] = full_name(str(data.get("server", "")), str(data.get("tool", "")))
    parts = []
    for name in _SHOWN:
        value = data.get(name)
        if value not in (None, "", [], 0):
            text = _safe(", ".join(value) if isinstance(value, list) else str(value))
            parts.append(text if name in _BARE else f"{name}={text}")
    return " ".join(parts)
