"""The outcome of a task's last calls, from its verified events.

Owns: the outcome of each call, and its telling argument. Must never: guess the outcome of a call, or show an event that was not verified.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from adjourn.aex.match import meta_tool
from adjourn.log import kinds
from adjourn.log.event import Event, decode
from adjourn.log.kinds import tool_name
from adjourn.store.base import Head, Store
from adjourn.tasks.entries import AFTER_NO, NotableCall
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import ELSEWHERE, REPEATED, Ledger
from adjourn.text.command_lines import telling_argument
from adjourn.text.quoting import said, spoken

TAIL = 1000
"""Events that are read, from the end of the history."""
MAX_WHY = 300
_OK = "ok"
UNANSWERED = "no answer yet"


class CallReport(msgspec.Struct):
    """A call that was let through `at` a time. `outcome` is in words, `message` says more about it, as the words of the `speaker`."""

    seq: int
    call: str
    tool: str
    digest: str
    argument: str
    effectful: bool
    outcome: str = UNANSWERED
    message: str = ""
    speaker: str = "tool"
    at: str = ""


class Reason(msgspec.Struct, frozen=True):
    """Who or what refused a call, by which rule, "" for none, what can be done about it, and what a person said with their no."""

    why: str
    remedy: str = ""
    rule: str = ""
    words: str = ""

    @property
    def brief(self) -> str:
        """Who or what refused it, with a person's words."""
        return f'{self.why}, who said "{self.words}"' if self.words else self.why

    @property
    def text(self) -> str:
        """Who or what refused it, with the rule or a person's words."""
        return f"{self.why}: {self.rule}" if self.rule else self.brief


class Refusal(msgspec.Struct):
    """A call that was not let through."""

    seq: int
    tool: str
    digest: str
    argument: str
    reason: Reason


class Consent(msgspec.Struct, frozen=True):
    """A person's yes to a call, and the reason that they gave with it."""

    tool: str
    argument: str
    by: str
    reason: str

    @property
    def text(self) -> str:
        """Who approved what, in their words."""
        return f"{said(self.by, 60)} approved {self.tool}{f' {self.argument}' if self.argument else ''}: {self.reason}"


class RecentCalls(msgspec.Struct):
    """The calls in the last events of a task, oldest first. `calls` counts those let through, with bookkeeping. `consents` are the
    approvals with a reason, `names` the full names of all tools, with what their servers call them.
    """

    made: dict[str, CallReport] = {}
    refused: list[Refusal] = []
    calls: int = 0
    consents: list[Consent] = []
    names: dict[str, str] = {}


def recent_calls(store: Store, ledger: Ledger, stamp: str, tail: int = TAIL) -> RecentCalls:
    """The outcome of a task's calls until the time `stamp`: of those in its last `tail` events, and of notable ones before.

    Raises `IntegrityError`.
    """
    start = max(0, ledger.seq + 1 - tail)
    entries = list(verified_entries_from(store, ledger.task, start, Head(ledger.seq, ledger.hash)))
    calls = fold([decode(entry.data) for entry in entries], stamp)
    before = older_calls(ledger, start)
    older = {f"{call.seq}": call for call in before.made.values()}
    return RecentCalls(
        older | calls.made,
        before.refused + calls.refused,
        calls.calls + len(older),
        before.consents + calls.consents,
        calls.names,
    )


def fold(events: Iterable[Event], stamp: str) -> RecentCalls:
    """The calls of events that were verified, in their order, as they are at the time `stamp`."""
    folded = CallsFold()
    for event in events:
        folded.apply(event)
    folded.expire(stamp)
    late = folded.let_through
    refused = [refusal for refusal in folded.refused if late.get((refusal.tool, refusal.digest), -1) < refusal.seq]
    return RecentCalls(folded.made, refused, folded.calls, folded.consents, folded.names)


_Stopped = kinds.ToolDenied | kinds.BudgetExhausted | kinds.ConfirmRequired


class CallsFold:
    """The calls so far. `asked` are the questions to a person by their id, those in `approved` were approved, `not_given` are
    refusals because nobody approved; `let_through` is the
    last position by tool and digest. `meta`: with the calls of meta-tools.
    """

    def __init__(self, *, meta: bool = False) -> None:
        self._meta = meta
        self.made: dict[str, CallReport] = {}
        self.refused: list[Refusal] = []
        self.asked: dict[str, tuple[Event, kinds.ConfirmRequired]] = {}
        self.approved: set[str] = set()
        self.not_given: dict[str, Refusal | None] = {}
        self.let_through: dict[tuple[str, str], int] = {}
        self.calls = 0
        self.consents: list[Consent] = []
        self.names: dict[str, str] = {}

    def apply(self, event: Event) -> bool:
        """Take in the next event. Returns whether it is about a call."""
        rule = _RULES.get(event.event)
        if rule is not None:
            rule(self, event, kinds.data_of(event))
        return rule is not None

    def readings(self, event: Event, data: kinds.ToolReadings) -> None:
        for settled in data.settled:
            self.settled(event, settled)
        for allowed in data.allowed:
            self.allowed(event, allowed)

    def allowed(self, event: Event, data: kinds.ToolAllowed) -> None:
        self.calls += 1
        name = self._name(data)
        self.let_through[name, data.digest] = event.seq
        self.asked.pop(data.approval, None)
        if meta_tool(data.tool) and not self._meta:
            return
        argument = telling_argument(data.arguments) if data.arguments else ""
        self.made[data.call] = CallReport(
            event.seq,
            data.call,
            name,
            data.digest,
            argument,
            data.effectful,
            speaker=_speaker(data.server, data.tool),
            at=event.timestamp,
        )

    def settled(self, event: Event, data: kinds.ToolSettled) -> None:
        del event
        if (call := self.made.get(data.call)) is not None:
            is_ours = data.outcome != "tool-error" and (not data.answer or data.message == NOT_DELIVERED)
            call.outcome = _OUTCOMES[data.outcome]
            call.message = data.message if is_ours or not data.message else spoken(call.speaker, data.message)

    def settled_by_hand(self, event: Event, data: kinds.EffectSettled) -> None:
        if (call := self.made.get(data.call)) is not None:
            call.outcome = _settled_by(event.by.id, happened=data.outcome == "done")
            call.message = data.note

    def repeated(self, event: Event, data: kinds.EffectRepeated) -> None:
        del event
        self.asked.pop(data.approval, None)
        if (call := self.made.get(data.call)) is not None:
            call.outcome = f"made again as call {data.again} of task {data.task}"

    def replayed(self, event: Event, data: kinds.ToolReplayed) -> None:
        before = self.made.get(data.call)
        argument = before.argument if before else ""
        outcome = f"not run again: answered as call {data.call} was"
        self.made[f"{data.call} again {event.seq}"] = CallReport(
            event.seq, "", tool_name(data), "", argument, effectful=False, outcome=outcome
        )

    def imported(self, event: Event, data: kinds.EntryImported) -> None:
        if data.decision == "forward":
            self.calls += 1
            outcome = "allowed there (imported, not verified)"
            name = f"imported {event.seq}"
            self.made[name] = CallReport(event.seq, "", data.tool, "", "", effectful=False, outcome=outcome)
        elif data.decision == "block":
            reason = Reason("refused there (imported, not verified)", rule=said(data.reason, MAX_WHY))
            self._refuse(event, kinds.ToolDenied(reason="", tool=data.tool), reason)

    def denied(self, event: Event, data: kinds.ToolDenied) -> None:
        self._refuse(event, data, _of_denial(data.reason, data.rule))

    def exhausted(self, event: Event, data: kinds.BudgetExhausted) -> None:
        self._refuse(event, data, _of_budget(data.budget))

    def required(self, event: Event, data: kinds.ConfirmRequired) -> None:
        self.asked[data.approval] = event, data

    def confirmed(self, event: Event, data: kinds.ConfirmApproved) -> None:
        self.approved.add(data.approval)
        if data.reason:
            _, asked = self.asked.get(data.approval, (event, None))
            argument = telling_argument(asked.arguments) if asked is not None else ""
            self.consents.append(Consent(tool_name(data), argument, event.by.id, said(data.reason, MAX_WHY)))
        if (refusal := self.not_given.pop(data.approval, None)) in self.refused:
            self.refused.remove(refusal)  # a client's dialog was closed, and a person approved it elsewhere

    def not_confirmed(self, event: Event, data: kinds.ConfirmDenied) -> None:
        if data.via in (ELSEWHERE, REPEATED):
            return  # the newer question about the same call was approved
        _, asked = self.asked.pop(
            data.approval, (event, kinds.ToolDenied(reason="", server=data.server, tool=data.tool))
        )
        by = event.by.id if event.by.type == "human" else ""
        self._refuse(event, asked, _of_answer(data.via, data.approval, by, data.reason))
        self.not_given[data.approval] = self.refused[-1] if self.refused else None

    def expire(self, stamp: str) -> None:
        """Refuse questions that expired without an answer, although no event says so."""
        for event, asked in self.asked.values():
            if asked.expires <= stamp and asked.otherwise == "deny" and asked.approval not in self.approved:
                why = f"timed out: nobody answered until {asked.expires}"
                self._refuse(event, asked, Reason(why, "repeat the call to ask again"))
        self.refused.sort(key=lambda refusal: refusal.seq)

    def _refuse(self, event: Event, asked: _Stopped, reason: Reason) -> None:
        if self._meta or not meta_tool(asked.tool):
            argument = telling_argument(asked.arguments) if asked.arguments else ""
            self.refused.append(Refusal(event.seq, self._name(asked), asked.digest, argument, reason))

    def _name(self, about: kinds.HasTool) -> str:
        name = tool_name(about)
        self.names[name] = about.tool
        return name


def older_calls(ledger: Ledger, before: int) -> RecentCalls:
    """The notable calls of a ledger whose events are before position `before`: those let through, and those refused."""
    older = RecentCalls()
    for number, call in enumerate(ledger.notable.values()):
        if call.seq >= before or meta_tool(call.tool):
            continue
        argument = telling_argument(call.arguments) if call.arguments else ""
        if call.event == kinds.ConfirmApproved.KIND:
            older.consents.append(Consent(tool_name(call), argument, call.by, said(call.said, MAX_WHY)))
            continue
        outcome = _outcome_of(call)
        if outcome is not None:
            older.made[str(number)] = CallReport(
                call.seq, "", tool_name(call), "", argument, effectful=True, outcome=outcome[0], message=outcome[1]
            )
        else:
            older.refused.append(Refusal(call.seq, tool_name(call), "", argument, _reason_of(call)))
    return older


def _outcome_of(call: NotableCall) -> tuple[str, str] | None:
    """The outcome and message of a notable call that was let through; None for one that was refused."""
    if call.event == kinds.ToolSettled.KIND:
        return "error", "" if call.why in OUR_WORDS else spoken(_speaker(call.server, call.tool), call.why)
    if call.event == kinds.EffectSettled.KIND:
        return _settled_by(call.by, happened=call.why == "done"), call.said
    return None


def _speaker(server: str, tool: str) -> str:
    """Who answers a call: the tool itself, if it is one of a client or a library."""
    return "server" if server or "." not in tool else "tool"


def _reason_of(call: NotableCall) -> Reason:
    first, _, text = call.why.partition(" ")
    if call.event == kinds.ToolDenied.KIND:
        return _of_denial(first, text)
    if call.event == kinds.BudgetExhausted.KIND:
        return _of_budget(call.why)
    return _of_answer(first, text, call.by, call.said)


def _settled_by(by: str, *, happened: bool) -> str:
    return f"settled by {said(by, 60) or 'a library'} as {'done' if happened else 'not done'}"


def _of_denial(reason: str, rule: str) -> Reason:
    why, remedy = _DENIALS.get(reason, (said(f"refused: {reason}", MAX_WHY), ""))
    return Reason(why, remedy, said(rule, MAX_WHY))


def _of_budget(budget: str) -> Reason:
    why = said(f"refused: the budget of {budget or 'calls'} is spent", MAX_WHY)
    return Reason(why, "a person can raise it in the policy")


def _of_answer(via: str, approval: str, by: str, reason: str) -> Reason:
    """Who refused a call that a person was asked about, and why. `by` is the person, "" for nobody."""
    if via == "timeout":
        why = "timed out: nobody answered the question"
    elif via == "cancelled":
        why = "not made: the client cancelled it before anybody answered the question"
    elif not by or via in CLOSED:
        why = "not made: the client closed the question; no person is known to have refused"
    else:
        return Reason(f"refused by {said(by, 60)}", AFTER_NO, words=said(reason, MAX_WHY))
    return Reason(why, f"a person can still run `adjourn approve {approval}`; then repeat the very same call")


CLOSED = ("elicitation:decline", "elicitation:cancel", "elicitation:none")
"""Answers of a client's dialog that no person need have given, also where an event of before says that one did."""
NOT_DELIVERED = "the answer was not delivered"
OUR_WORDS = (
    NOT_DELIVERED,
    "it was not sent: its intent could not be confirmed",
    "not made: the client asked a person, and reported no approval",
)
"""What adjourn itself says of a call. Of calls long ago it is not known who said it, and a server may say the same."""
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
    "once_done": ("refused: it may run only once, and did, as call", "continue without it"),
    "protected": ("refused: a protected place", "do not access that place"),
    "unclear": ("refused: two of its arguments were the same to some readers", "keep one of them"),
    "rate_limit": ("refused: too many calls in too short a time", "try again later"),
    "busy": ("refused: the same call was in progress", "try again later"),
    "refused": ("refused", ""),
}
"""Why a call was denied, and what can be done, by the reason of the event."""
_RULES: dict[str, Any] = {
    kinds.ToolAllowed.KIND: CallsFold.allowed,
    kinds.ToolSettled.KIND: CallsFold.settled,
    kinds.ToolReadings.KIND: CallsFold.readings,
    kinds.EffectSettled.KIND: CallsFold.settled_by_hand,
    kinds.EffectRepeated.KIND: CallsFold.repeated,
    kinds.ToolReplayed.KIND: CallsFold.replayed,
    kinds.EntryImported.KIND: CallsFold.imported,
    kinds.ToolDenied.KIND: CallsFold.denied,
    kinds.BudgetExhausted.KIND: CallsFold.exhausted,
    kinds.ConfirmRequired.KIND: CallsFold.required,
    kinds.ConfirmApproved.KIND: CallsFold.confirmed,
    kinds.ConfirmDenied.KIND: CallsFold.not_confirmed,
}
