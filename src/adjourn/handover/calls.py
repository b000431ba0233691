"""What became of a task's last calls, from its verified events.

Owns: the outcome of each call, and its telling argument. Must never: guess what became of a call, or show an event that was not verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from adjourn.log import Event, decode, kinds
from adjourn.policy import meta_tool
from adjourn.store import Head, Store
from adjourn.tasks import following
from adjourn.text import one_line, without_secrets

TAIL = 1000
"""Events that are read, from the end of the history."""
MAX_ARGUMENT = 160
MAX_WHY = 300
TELLING = (
    "path", "file_path", "filepath", "filename", "file", "notebook_path", "command", "cmd", "url", "uri", "query", "sql",
    "statement", "pattern", "destination", "source", "to", "recipient", "branch", "name", "title", "subject", "key", "id",
    "message", "text",
)  # fmt: skip
"""Names of arguments that tell what a call was for, the most telling first."""
_PAIR = re.compile(
    r'"((?:[^"\\]|\\.)*)"\s*:\s*\[?\s*(?:"((?:[^"\\]|\\.)*)("?)|(-?\d[\d.eE+-]*|true|false))', re.DOTALL
)
_SHORT = 80
_OK = "ok"


class CallReport(msgspec.Struct):
    """A call that was let through. `outcome` is in words, `message` says more about it."""

    seq: int
    call: str
    tool: str
    digest: str
    argument: str
    effectful: bool
    outcome: str = "no answer yet"
    message: str = ""


class Refusal(msgspec.Struct):
    """A call that was not let through: who or what refused it, and what can be done about it."""

    seq: int
    tool: str
    digest: str
    argument: str
    why: str
    remedy: str


class RecentCalls(msgspec.Struct):
    """The calls in the last events of a task, oldest first. `calls` counts those let through, with bookkeeping."""

    made: dict[str, CallReport] = {}
    refused: list[Refusal] = []
    calls: int = 0


def recent_calls(store: Store, task: str, head: Head, tail: int = TAIL) -> RecentCalls:
    """Read what became of the calls in the last `tail` events before and with `head`. Raises `IntegrityError`."""
    entries = list(following(store, task, max(0, head.seq + 1 - tail), head))
    return fold(decode(entry.data) for entry in entries)


def fold(events: Iterable[Event]) -> RecentCalls:
    """The calls of events that were verified, in their order."""
    folded = _Fold()
    for event in events:
        rule = _RULES.get(event.event)
        if rule is not None:
            rule(folded, event, kinds.data_of(event))
    late = folded.let_through
    refused = [one for one in folded.refused if late.get((one.tool, one.digest), -1) < one.seq]
    return RecentCalls(folded.made, refused, folded.calls)


def telling_argument(arguments: str) -> str:
    """The argument that tells what a call was for, of arguments as JSON, which may be cut; "" for none."""
    found: dict[str, str] = {}
    for key, text, closed, bare in _PAIR.findall(arguments):
        value = bare or _unescaped(text) + ("" if closed else "…")
        found.setdefault(key.lower(), value)
    named = next((found[key] for key in TELLING if found.get(key)), "")
    short = next((value for value in found.values() if 0 < len(value) <= _SHORT), "")
    return said(named or short, MAX_ARGUMENT)


def said(text: str, limit: int) -> str:
    """A text of others on one line, without secrets, cut to `limit` characters."""
    return one_line(without_secrets(text), limit)


def _unescaped(text: str) -> str:
    try:
        return msgspec.json.decode(f'"{text}"', type=str)
    except msgspec.DecodeError:
        return text


_Stopped = kinds.ToolDenied | kinds.BudgetExhausted | kinds.ConfirmRequired


class _Fold:
    """The calls so far. `asked` are the questions to a person by their id, `let_through` the last position by tool and digest."""

    def __init__(self) -> None:
        self.made: dict[str, CallReport] = {}
        self.refused: list[Refusal] = []
        self.asked: dict[str, kinds.ConfirmRequired] = {}
        self.let_through: dict[tuple[str, str], int] = {}
        self.calls = 0

    def allowed(self, event: Event, data: kinds.ToolAllowed) -> None:
        self.calls += 1
        self.let_through[data.tool, data.digest] = event.seq
        self.asked.pop(data.approval, None)
        if meta_tool(data.tool):
            return
        argument = telling_argument(data.arguments) if data.arguments else ""
        self.made[data.call] = CallReport(
            event.seq, data.call, data.tool, data.digest, argument, data.effectful
        )

    def settled(self, event: Event, data: kinds.ToolSettled) -> None:
        del event
        if (call := self.made.get(data.call)) is not None:
            call.outcome, call.message = _OUTCOMES[data.outcome], data.message

    def settled_by_hand(self, event: Event, data: kinds.EffectSettled) -> None:
        if (call := self.made.get(data.call)) is not None:
            happened = "done" if data.outcome == "done" else "not done"
            call.outcome = f"settled by {said(event.by.id, 60)} as {happened}"
            call.message = data.note

    def replayed(self, event: Event, data: kinds.ToolReplayed) -> None:
        before = self.made.get(data.call)
        argument = before.argument if before else ""
        outcome = f"not run again: answered as call {data.call} was"
        self.made[f"{data.call} again {event.seq}"] = CallReport(
            event.seq, "", data.tool, "", argument, effectful=False, outcome=outcome
        )

    def imported(self, event: Event, data: kinds.EntryImported) -> None:
        if data.decision == "forward":
            self.calls += 1
            outcome = "let through there (imported, not verified)"
            name = f"imported {event.seq}"
            self.made[name] = CallReport(event.seq, "", data.tool, "", "", effectful=False, outcome=outcome)
        elif data.decision == "block":
            why = f"refused there (imported, not verified): {data.reason}"
            self._refuse(event, kinds.ToolDenied(reason="", tool=data.tool), why, "")

    def denied(self, event: Event, data: kinds.ToolDenied) -> None:
        why, remedy = _DENIALS.get(data.reason, (data.reason, ""))
        rule = f": {data.rule}" if data.rule else ""
        self._refuse(event, data, f"{why}{rule}", remedy)

    def exhausted(self, event: Event, data: kinds.BudgetExhausted) -> None:
        why = f"refused: the budget of {data.budget or 'calls'} is spent"
        self._refuse(event, data, why, "a person can raise it in the policy")

    def required(self, event: Event, data: kinds.ConfirmRequired) -> None:
        del event
        self.asked[data.approval] = data

    def not_confirmed(self, event: Event, data: kinds.ConfirmDenied) -> None:
        asked = self.asked.pop(data.approval, None)
        remedy = f"a person can still run `adjourn approve {data.approval}`; then repeat the very same call"
        self._refuse(
            event, asked or kinds.ToolDenied(reason="", tool=data.tool), _said_no(event, data.via), remedy
        )

    def _refuse(self, event: Event, asked: _Stopped, why: str, remedy: str) -> None:
        if not meta_tool(asked.tool):
            argument = telling_argument(asked.arguments) if asked.arguments else ""
            self.refused.append(
                Refusal(event.seq, asked.tool, asked.digest, argument, said(why, MAX_WHY), remedy)
            )


def _said_no(event: Event, via: str) -> str:
    """Who refused a call that a person was asked about."""
    if via == "timeout":
        return "timed out: nobody answered the question"
    if via == "cancelled":
        return "not made: the client gave it up before anybody answered the question"
    if event.by.type != "human" or via in ("elicitation:decline", "elicitation:cancel", "elicitation:none"):
        return "not made: the client closed the question; no person is known to have refused"
    return f"refused by {said(event.by.id, 60)}"


_OUTCOMES = {
    "ok": _OK,
    "tool-error": "error",
    "error": "error",
    "input-required": "waits for input of the client",
    "no-answer": "no answer seen",
}
_DENIALS = {
    "deny_list": ("refused by a rule", "do not try again; only a person can change the policy"),
    "not_allowed": ("refused: no rule allows it", "only a person can change the policy"),
    "once_done": ("refused: it may happen once, and did, as call", "continue without it"),
    "protected": ("refused: a protected place", "leave that place alone"),
    "rate_limit": ("refused: too many calls in too short a time", "try again later"),
    "busy": ("refused: the same call was being answered", "try again later"),
    "refused": ("refused", ""),
}
"""Why a call was denied, and what can be done, by the reason of the event."""
_RULES: dict[str, Any] = {
    kinds.ToolAllowed.KIND: _Fold.allowed,
    kinds.ToolSettled.KIND: _Fold.settled,
    kinds.EffectSettled.KIND: _Fold.settled_by_hand,
    kinds.ToolReplayed.KIND: _Fold.replayed,
    kinds.EntryImported.KIND: _Fold.imported,
    kinds.ToolDenied.KIND: _Fold.denied,
    kinds.BudgetExhausted.KIND: _Fold.exhausted,
    kinds.ConfirmRequired.KIND: _Fold.required,
    kinds.ConfirmDenied.KIND: _Fold.not_confirmed,
}
