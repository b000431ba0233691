"""The ledger: the task-scope projection of a task's events. Over all sessions and clients, and it only ever grows.

Owns: what each event kind does to the spent budget, the open and doubtful effects, the approvals, who holds the task.
Must never: write anything, read a clock, or lower `calls_used`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from adjourn.aex.rule import SESSION_CALLS
from adjourn.errors import IntegrityError, InvalidError
from adjourn.log import kinds
from adjourn.log.event import GENESIS, Envelope, milliseconds
from adjourn.log.kinds import full_name, tool_name
from adjourn.log.merkle import MAX_LATE, Frontier
from adjourn.tasks.entries import Approval, FailedStep, NotableCall, OpenCall, OpenSession, Rates, Sitting, count_rates
from adjourn.text.command_lines import VERIFICATIONS, WorkStep, command_of, scope_of_run, step_of
from adjourn.text.fitting import fit_text

if TYPE_CHECKING:
    from adjourn.aex.policy import Policy

MAX_LISTED_TOOLS = 1000
MAX_PAUSED_CALLS = 100
MAX_FENCED = 100
MAX_MARKS = 100
MAX_NOTABLE = 60
MAX_UNSEEN = 100
"""Answered calls that a task keeps because the answer did not reach the client."""
MAX_NOTED = 200
"""Characters that are kept of the arguments of a notable call."""
MAX_TIME = 32
"""Characters that are kept of a time that an imported file states."""
MAX_SAID = 500
"""Characters that are kept of a person's reason."""
MAX_SILENT = 100
"""Open questions beyond which those that nobody answered are forgotten, even where silence means yes."""
PAUSE = 5 * 60_000
"""Milliseconds between two events beyond which a task is taken to rest."""
ALREADY_DONE = "already_done"
"""The reason for refusing the repetition of a call when its answer did not reach the client; the refusal names that call as its rule."""
REPEATED = "repeated"
"""Where the no to an older question about a call comes from when the newer one is approved."""
_DATE = r"\d{4}-\d\d-\d\d"
ELSEWHERE = "elsewhere"
"""The source of a denial when the same question was approved in another task: that approval also serves here."""
MAX_FAILED = 100
MAX_BETWEEN = 4
"""Events between a checkpoint and the call before which it was made, at most."""
BEFORE = "before "
"""Prefix of the trigger of a checkpoint before a destructive call: `before shell.exec: rm`."""
ROLLBACK = "rollback to "
"""Prefix of the trigger of a rollback."""
MILESTONE = "milestone: "
"""Prefix of the trigger of a checkpoint at a step of the work: `milestone: tests pass again: pytest -q`."""
MAX_RED = 10
MAX_MILESTONES = 10
MAX_MILESTONE = 80
"""Characters of a command that name a milestone."""
NO_CHANGE = ("todo.", "shell.output", "agent.message", "skill.")
"""Prefixes of clients' own tools that have effects, and change nothing of the work."""
MAX_GONE = 20
"""Results that are gone which a checkpoint names."""
OWN_TOOLS = ("file.", "shell.")
"""Prefixes of clients' own tools: where their calls are seen, all edits are."""
REQUESTED = frozenset(("agent", "person"))
"""The triggers of checkpoints that somebody asked for."""
AT_SHARE = "at "
"""Prefix of the trigger of a checkpoint at a share of a budget: `at 75% of calls=100`."""


class Named(Protocol):
    """What names a call: its tool, the digest of its arguments, and these as text."""

    @property
    def server(self) -> str: ...

    @property
    def tool(self) -> str: ...

    @property
    def digest(self) -> str: ...

    @property
    def arguments(self) -> str: ...


class Ledger(msgspec.Struct, kw_only=True, rename="camel"):
    """The fold of events `0 … seq`. `hash` is that of event `seq`; `tree` the Merkle frontier over their hashes.

    `asked` is what the person asked the client for first, `policy_goal` the goal of the contract or policy: the task's `goal` is that of
    its contract, else what was asked, else the policy's. `worked` are the milliseconds between events, of each pause `PAUSE` at the most; `rates` the calls that count for a
    limit, as [slice of the period, calls]; `marks` the checkpoints made at shares of budgets, as trigger and position.
    `imported` counts the entries of imported histories, which nobody verified, `imported_from` are the formats of their files,
    `imported_at` is the newest time that these state. `over` is the task that this one starts over, whose spent calls count here.
    `tools` counts the calls of each tool by its full name. `notable` are the last calls that were refused, failed or were settled by hand, by tool and digest, until the same call is let
    through again. `beside` counts the effects that were claimed without a session: by a library, not through a proxy. `definitions` are the
    tools as their servers listed them last, `changed` those that no yes was given for since they changed, with the digest
    before; both by `definition_key`. `answered` are effects that happened and whose session's client has said nothing since; `unseen` those
    of which the client did not get the answer, as its session ended first. `told` says which session
    has learnt that a call is `unseen`. `finished` is since when the task is finished (empty: it is active),
    `finished_by` the type of actor that said so. `failed` are destructive calls that failed, by call; `red` are builds and
    runs of tests that failed, until they, or more, pass; `failed_more` and `red_more` count those that are no longer kept.
    `checked` is the command that ran tests last, `unchecked` counts the edits since. `changes` counts the calls that
    may have changed something, `sees_edits` says whether those of the client's own tools are among them; `unchanged`
    are items of the plan that were called done without any. `milestones` are steps of the work that are done and have
    no checkpoint yet; `gone` are results that were not there any more at the last one; `rolled_back` is the checkpoint that the task was rolled back to since its agent last made one;
    `before_call` the last checkpoint before a destructive call: its name, trigger and position.

    `effects` counts the calls with effects, `last_call` is the time of the last call. `sittings` counts the clients' sessions, `worker` is the
    session that made the last call or checkpoint, `worker_end` why that session ended ("" while it is open). `stated` is the time of the last
    checkpoint that an agent or a person asked for, `stated_seq` its event, `calls_at_stated` and `effects_at_stated` what was counted then.
    """

    task: str
    seq: int = -1
    hash: str = GENESIS
    goal: str = ""
    asked: str = ""
    policy_goal: str = ""
    contract: str = ""
    policy: str = ""
    budget: int | None = None
    session_budget: int | None = None
    opened: str = ""
    touched: str = ""
    over: str = ""
    calls_used: int = 0
    sitting: Sitting = msgspec.field(default_factory=Sitting)
    calls_refused: int = 0
    tools: dict[str, int] = {}
    open_calls: dict[str, OpenCall] = {}
    paused_calls: dict[str, OpenCall] = {}
    doubts: dict[str, OpenCall] = {}
    failed: dict[str, FailedStep] = {}
    red: dict[str, FailedStep] = {}
    failed_more: int = 0
    red_more: int = 0
    checked: str = ""
    unchecked: int = 0
    changes: int = 0
    changes_at_stated: int = 0
    sees_edits: bool = False
    unchanged: list[str] = []
    milestones: list[str] = []
    gone: list[str] = []
    rolled_back: str = ""
    before_call: tuple[str, str, int] = ("", "", -1)
    answered: dict[str, OpenCall] = {}
    unseen: dict[str, OpenCall] = {}
    told: dict[str, str] = {}
    approvals: dict[str, Approval] = {}
    sessions: dict[str, OpenSession] = {}
    moved: dict[str, str] = {}
    fenced: dict[str, str] = {}
    worked: int = 0
    tokens: int = 0
    micro_usd: int = 0
    rates: Rates = {}
    marks: dict[str, int] = {}
    beside: int = 0
    notable: dict[str, NotableCall] = {}
    definitions: dict[str, str] = {}
    changed: dict[str, str] = {}
    imported: int = 0
    imported_from: list[str] = []
    imported_at: str = ""
    finished: str = ""
    finished_by: str = ""
    finish_note: str = ""
    calls_at_finish: int = 0
    checkpoint: str = ""
    checkpoint_seq: int = -1
    calls_at_checkpoint: int = 0
    report: str = ""
    effects: int = 0
    last_call: str = ""
    sittings: int = 0
    worker: OpenSession | None = None
    worker_end: str = ""
    stated: str = ""
    stated_seq: int = -1
    calls_at_stated: int = 0
    effects_at_stated: int = 0
    tree: Frontier = msgspec.field(default_factory=Frontier)

    @property
    def exists(self) -> bool:
        return self.seq >= 0

    def remaining(self, budget: int | None) -> int | None:
        return None if budget is None else max(0, budget - self.calls_used)

    def budgets_used(self, policy: Policy) -> Iterator[tuple[str, float, float]]:
        """Each budget of a policy: its key, how much of it is spent, and its size. In calls, minutes, tokens or dollars."""
        if policy.budget is not None:
            yield "calls", self.calls_used, policy.budget
        if (rule := policy.budgets.get(SESSION_CALLS)) is not None:
            yield SESSION_CALLS, self.sitting.used, rule.amount
        used = {"minutes": self.worked / 60_000, "tokens": float(self.tokens), "usd": self.micro_usd / 1_000_000}
        for key, rule in policy.budgets.items():
            if key in used:
                yield key, used[key], rule.amount

    def apply(self, event: Envelope, event_hash: str, data: kinds.Data | None) -> None:
        """Take in the next event. `data` is its typed data, None for a kind not known here."""
        if event.seq != self.seq + 1 or event.task != self.task or event.after != self.hash:
            raise IntegrityError(
                f"event {event.seq} of {event.task} does not follow event {self.seq} of {self.task}",
                "run `adjourn verify`",
            )
        self.tree.late.append(bytes.fromhex(event_hash))
        if len(self.tree.late) > MAX_LATE:
            self.tree.settle()
        self.seq = event.seq
        self.hash = event_hash
        stamp, before = event.timestamp, self.touched
        if stamp != before:
            now, then = stamp[17:19] + stamp[20:23], before[17:19] + before[20:23]
            if stamp[:17] == before[:17] and now.isdecimal() and then.isdecimal() and max(now, then) < "60":
                self.worked += max(0, int(now) - int(then))  # within a minute, as nearly always
            else:
                self.worked += _pause(before, stamp)
            self.touched = stamp
        rule = _RULES.get(type(data))
        if rule is not None:
            rule(self, event, data)


def _pause(before: str, after: str) -> int:
    """The milliseconds between two time stamps, as far as they count as work."""
    try:
        passed = milliseconds(after) - milliseconds(before)
    except InvalidError:  # the first event, or one made elsewhere
        return 0
    return min(max(passed, 0), PAUSE)


def _task_opened(ledger: Ledger, event: Envelope, data: kinds.TaskOpened) -> None:
    ledger.goal = ledger.policy_goal = data.goal
    ledger.contract = data.contract
    ledger.opened = event.timestamp
    if data.over:
        ledger.over, ledger.calls_used = data.over, max(0, data.spent)


def _task_finished(ledger: Ledger, event: Envelope, data: kinds.TaskFinished) -> None:
    ledger.finished, ledger.finished_by = event.timestamp, event.by.type
    ledger.finish_note, ledger.calls_at_finish = data.note, ledger.calls_used


def _task_reopened(ledger: Ledger, event: Envelope, data: kinds.TaskReopened) -> None:
    del event, data
    ledger.finished = ledger.finished_by = ledger.finish_note = ""
    ledger.calls_at_finish = 0


def _session_opened(ledger: Ledger, event: Envelope, data: kinds.SessionOpened) -> None:
    ledger.policy = data.policy
    is_new = not ledger.tools and (not ledger.calls_used or bool(ledger.over))
    if data.prompt and is_new and ledger.checkpoint_seq < 0:
        ledger.asked = data.prompt
        ledger.goal = ledger.goal if ledger.contract else data.prompt
    ledger.budget = None if data.budget < 0 else data.budget
    ledger.session_budget = None if data.per_session < 0 else data.per_session
    ledger.sessions[event.session] = OpenSession(
        id=event.session,
        group=data.group,
        host=data.host,
        pid=data.pid,
        started=data.started,
        since=event.timestamp,
        client=data.client,
        era=data.era,
    )
    if ledger.sitting.group != data.group or ledger.sitting.since < 0:
        ledger.sitting = ledger.sitting.followed_by(data.group, event.seq)
        ledger.sittings += 1
    ledger.moved.pop(data.group, None)
    if ledger.worker is None:
        _work_of(ledger, event.session)


def _work_of(ledger: Ledger, session: str) -> None:
    """A session is the one that worked last."""
    if (opened := ledger.sessions.get(session)) is not None:
        ledger.worker, ledger.worker_end = opened, ""


def _end_work(ledger: Ledger, session: str, reason: str) -> None:
    if ledger.worker is not None and ledger.worker.id == session:
        ledger.worker_end = reason


def _session_closed(ledger: Ledger, event: Envelope, data: kinds.SessionClosed) -> None:
    _end_work(ledger, event.session, data.reason)
    session = ledger.sessions.pop(event.session, None)
    if session is not None and data.to:
        ledger.moved[session.group] = data.to
    _doubt_calls_of(ledger, event.session)
    for call in _answered_of(ledger, event.session):
        if call.call in data.unread:
            _miss(ledger, call)


def _session_lost(ledger: Ledger, event: Envelope, data: kinds.SessionLost) -> None:
    ledger.sessions.pop(data.lost, None)
    _end_work(ledger, data.lost, data.reason)
    if data.reason == "taken-over":
        ledger.fenced[data.lost] = event.timestamp
        if len(ledger.fenced) > MAX_FENCED:
            del ledger.fenced[next(iter(ledger.fenced))]
    _doubt_calls_of(ledger, data.lost)
    for call in _answered_of(ledger, data.lost):
        if data.reason != "taken-over":  # else its client lives
            _miss(ledger, call)


def _doubt_calls_of(ledger: Ledger, session: str) -> None:
    """What an ended session left unanswered: effects are in doubt; a cut-off read did no harm."""
    for call in [call for call in ledger.open_calls.values() if call.session == session]:
        del ledger.open_calls[call.call]
        if call.effectful:
            ledger.doubts[call.call] = call


def _answered_of(ledger: Ledger, session: str) -> list[OpenCall]:
    """Remove the calls of a session that wait for a sign that the client has their answers: its next message is that sign."""
    calls = [call for call in ledger.answered.values() if call.session == session]
    for call in calls:
        del ledger.answered[call.call]
    return calls


def _miss(ledger: Ledger, call: OpenCall) -> None:
    """A call happened, and its client does not know."""
    ledger.unseen[call.call] = call
    if len(ledger.unseen) > MAX_UNSEEN:
        del ledger.unseen[next(iter(ledger.unseen))]


def _forget_doubt(ledger: Ledger, call: str) -> OpenCall | None:
    """A call is in doubt no longer: nobody needs to be asked any more whether to repeat it."""
    for approval in [approval for approval in ledger.approvals.values() if approval.doubt == call]:
        del ledger.approvals[approval.id]
    return ledger.doubts.pop(call, None)


def _tool_allowed(ledger: Ledger, event: Envelope, data: kinds.ToolAllowed) -> None:
    ledger.calls_used += not data.uncounted
    if event.session and not data.uncounted:
        ledger.sitting = msgspec.structs.replace(ledger.sitting, calls=ledger.sitting.calls + 1)
    ledger.effects += data.effectful and not data.uncounted
    ledger.last_call = event.timestamp
    if event.session and (ledger.worker is None or ledger.worker.id != event.session):
        _work_of(ledger, event.session)
    name = full_name(data.server, data.tool)
    if name in ledger.tools or len(ledger.tools) < MAX_LISTED_TOOLS:
        ledger.tools[name] = ledger.tools.get(name, 0) + 1
    call = OpenCall(
        call=data.call,
        tool=data.tool,
        digest=data.digest,
        effectful=data.effectful,
        session=event.session,
        since=event.timestamp,
        arguments=data.arguments,
        once=data.once,
        params=data.params,
        server=data.server,
        before=_checkpoint_before(ledger, event, data) if ledger.before_call[2] >= event.seq - MAX_BETWEEN else "",
    )
    ledger.beside += not event.session
    ledger.sees_edits |= bool(event.session) and not data.server and data.tool.startswith(OWN_TOOLS)
    if event.session or not data.effectful:
        ledger.open_calls[call.call] = call
    else:  # nobody can tell whether who claimed it lives: it is in doubt until it is settled
        ledger.doubts[call.call] = call
    if ledger.notable:
        ledger.notable.pop(f"{data.server} {data.tool} {data.digest}", None)
    if data.limits:
        count_rates(ledger.rates, event.timestamp, data.limits)
    if ledger.answered and not data.behind:
        _answered_of(ledger, event.session)
    if ledger.unseen:
        _forget_unseen(ledger, data)
    used = ledger.approvals.pop(data.approval, None) if data.approval else None
    if used is not None and used.doubt:
        _forget_doubt(ledger, used.doubt)  # a person decided to run it again


def _checkpoint_before(ledger: Ledger, event: Envelope, data: kinds.ToolAllowed) -> str:
    """The name of the checkpoint that was made right before a call, as it may destroy something."""
    name, trigger, at = ledger.before_call
    return name if at < event.seq and trigger.partition(": ")[0] == f"{BEFORE}{tool_name(data)}" else ""


def _forget_failed(ledger: Ledger, done: OpenCall) -> None:
    """The same call was made again, with another outcome."""
    for failed in list(ledger.failed.values()):
        if failed.call.digest == done.digest and is_same_tool(failed.call, done):
            del ledger.failed[failed.call.call]


def _forget_unseen(ledger: Ledger, data: kinds.ToolAllowed) -> None:
    """The client makes a call again: what an earlier one answered matters no longer."""
    same = (call for call in ledger.unseen.values() if call.digest == data.digest and is_same_tool(call, data))
    for seen in list(same):
        del ledger.unseen[seen.call]


def is_same_tool(tool: kinds.HasTool, other: kinds.HasTool) -> bool:
    """Whether two calls are of one tool, as far as that is known: histories of before do not name servers, or name them in `tool`."""
    if tool.server and other.server:
        return (tool.server, tool.tool) == (other.server, other.tool)
    return tool.tool == other.tool or tool_name(tool) == tool_name(other)


def definition_key(server: str, tool: str) -> str:
    """The name under which a tool's definition is kept: servers of one task may have tools of one name."""
    return f"{server} {tool}"


def _tool_defined(ledger: Ledger, event: Envelope, data: kinds.ToolDefined) -> None:
    del event
    key = definition_key(data.server, data.tool)
    if key in ledger.definitions or len(ledger.definitions) < MAX_LISTED_TOOLS:
        ledger.definitions[key] = data.definition


def _tool_changed(ledger: Ledger, event: Envelope, data: kinds.ToolChanged) -> None:
    del event
    for approval in list(ledger.approvals.values()):
        if (approval.tool, approval.definition) == (data.tool, data.before):
            del ledger.approvals[approval.id]
    key = definition_key(data.server, data.tool)
    if key not in ledger.definitions and len(ledger.definitions) >= MAX_LISTED_TOOLS:
        return
    ledger.definitions[key] = data.after
    if ledger.changed.setdefault(key, data.before) == data.after:
        del ledger.changed[key]


def _tool_continued(ledger: Ledger, event: Envelope, data: kinds.ToolContinued) -> None:
    for state, call in ledger.paused_calls.items():
        if call.call == data.call:
            del ledger.paused_calls[state]
            ledger.open_calls[call.call] = msgspec.structs.replace(call, session=event.session, legs=call.legs + 1)
            return


def _tool_settled(ledger: Ledger, event: Envelope, data: kinds.ToolSettled) -> None:
    call = ledger.open_calls.pop(data.call, None) or ledger.doubts.get(data.call)
    if call is None:
        return
    if data.outcome == "no-answer" and call.effectful:
        ledger.doubts[call.call] = call
        return
    if data.outcome == "ok" and call.effectful and event.session and not ledger.sitting.got_on:
        ledger.sitting = msgspec.structs.replace(ledger.sitting, got_on=True)
    was_given_up = data.call in ledger.doubts and _forget_doubt(ledger, data.call) is not None
    if data.outcome == "ok" and call.effectful and event.session and not data.seen:
        ended = msgspec.structs.replace(call, ended=event.timestamp, answer=data.answer)
        if was_given_up:
            _miss(ledger, ended)
        else:
            ledger.answered[call.call] = ended
    if call.effectful:
        step = step_of(call.tool, call.arguments)
        if data.outcome == "ok" and step not in VERIFICATIONS and not call.tool.startswith(NO_CHANGE):
            ledger.changes += 1
        if step:
            _take_step(ledger, step, call, data)
    if data.outcome != "ok" or ledger.failed:
        _take_outcome(ledger, event, call, data)


def _tool_readings(ledger: Ledger, event: Envelope, data: kinds.ToolReadings) -> None:
    for settled in data.settled:
        call = ledger.open_calls.get(settled.call)
        if call is None or call.effectful or settled.outcome != "ok" or ledger.failed or ledger.doubts:
            _tool_settled(ledger, event, settled)
        else:
            del ledger.open_calls[settled.call]
    for allowed in data.allowed:
        _tool_allowed(ledger, event, allowed)


def _take_step(ledger: Ledger, step: WorkStep, call: OpenCall, data: kinds.ToolSettled) -> None:
    """Keep whether tests fail, what was edited since they ran, and which step of the work was done."""
    shown = fit_text(command_of(call.arguments) or tool_name(call), MAX_MILESTONE)
    if step in VERIFICATIONS:
        _take_verification(ledger, step, call, data, shown)
    elif data.outcome != "ok":
        return
    elif step == "edit":
        ledger.unchecked += bool(ledger.checked)
        ledger.unchanged = []
    else:
        _reach(ledger, f"{step}: {shown}")


def _take_verification(ledger: Ledger, step: WorkStep, call: OpenCall, data: kinds.ToolSettled, shown: str) -> None:
    if data.outcome not in ("ok", "tool-error", "error"):
        return  # nobody knows how they ended
    if step == "tests":
        ledger.checked, ledger.unchecked = shown, 0
    words = scope_of_run(call.tool, call.arguments)
    red = [failed.call for failed in ledger.red.values() if step_of(failed.call.tool, failed.call.arguments) == step]
    covered = [failed for failed in red if words <= scope_of_run(failed.tool, failed.arguments)]
    for failed in covered:
        del ledger.red[failed.call]
    if data.outcome != "ok":
        ledger.red[call.call] = FailedStep(call, data.message[:MAX_NOTED])
        if len(ledger.red) > MAX_RED:
            del ledger.red[next(iter(ledger.red))]
            ledger.red_more += 1
        return
    if step == "tests" and len(words) <= 1:  # all tests ran
        ledger.red_more = 0
    if step == "tests" and red and len(covered) == len(red) and not ledger.red_more:
        _reach(ledger, f"tests pass again: {shown}")


def _reach(ledger: Ledger, milestone: str) -> None:
    """A step of the work is done: a checkpoint is due."""
    if milestone not in ledger.milestones:
        ledger.milestones = [*ledger.milestones, milestone][-MAX_MILESTONES:]


def _take_outcome(ledger: Ledger, event: Envelope, call: OpenCall, data: kinds.ToolSettled) -> None:
    """Keep what follows from the outcome of a call."""
    if data.outcome == "ok" and ledger.failed:
        _forget_failed(ledger, call)
    if data.outcome in ("tool-error", "error"):
        if call.before:
            _forget_failed(ledger, call)
            ledger.failed[call.call] = FailedStep(call, data.message[:MAX_NOTED])
            if len(ledger.failed) > MAX_FAILED:
                del ledger.failed[next(iter(ledger.failed))]
                ledger.failed_more += 1
        _note(ledger, event, call, data.message)
    elif data.outcome == "input-required":
        ledger.paused_calls[data.state + call.digest] = call
        if len(ledger.paused_calls) > MAX_PAUSED_CALLS:
            del ledger.paused_calls[next(iter(ledger.paused_calls))]


def _note(ledger: Ledger, event: Envelope, call: Named, why: str, reason: str = "") -> None:
    """Keep the outcome of a call that did not simply succeed, or a person's `reason` for an approval, also after the call was made."""
    key = f"{call.server} {call.tool} {call.digest or event.seq}"
    if event.event == kinds.ConfirmApproved.KIND:
        key = f"approved {key}"
    ledger.notable.pop(key, None)  # the last one stands last
    if len(ledger.notable) >= MAX_NOTABLE:
        del ledger.notable[next(iter(ledger.notable))]
    ledger.notable[key] = NotableCall(
        seq=event.seq,
        event=event.event,
        tool=call.tool,
        arguments=call.arguments[:MAX_NOTED],
        why=why[:MAX_NOTED],
        by=event.by.id if event.by.type == "human" else "",
        server=call.server,
        said=reason[:MAX_SAID] if event.by.type == "human" else "",
    )


def _effect_settled(ledger: Ledger, event: Envelope, data: kinds.EffectSettled) -> None:
    ledger.failed.pop(data.call, None)
    if (call := _forget_doubt(ledger, data.call)) is None:
        return
    _note(ledger, event, call, data.outcome, data.note)
    if data.outcome == "done":
        ledger.changes += 1
        by = event.by.id if event.by.type == "human" else ""
        _miss(ledger, msgspec.structs.replace(call, ended=event.timestamp, by=by))


def _effect_repeated(ledger: Ledger, event: Envelope, data: kinds.EffectRepeated) -> None:
    del event
    _forget_doubt(ledger, data.call)
    ledger.unseen.pop(data.call, None)
    ledger.approvals.pop(data.approval, None)


def _task_imported(ledger: Ledger, event: Envelope, data: kinds.TaskImported) -> None:
    del event
    ledger.calls_used += max(0, data.calls)
    if data.budget >= 0:
        ledger.budget = data.budget
    if re.match(_DATE, data.at):
        ledger.imported_at = max(ledger.imported_at, data.at[:MAX_TIME])
    if data.source and data.source not in ledger.imported_from and len(ledger.imported_from) < MAX_MARKS:
        ledger.imported_from.append(data.source)


def _entry_imported(ledger: Ledger, event: Envelope, data: kinds.EntryImported) -> None:
    """Its calls are counted by the import itself: here are the names of the tools, and what was refused."""
    del event
    ledger.imported += 1
    if data.decision == "block":
        ledger.calls_refused += 1
    elif data.decision == "forward" and (data.tool in ledger.tools or len(ledger.tools) < MAX_LISTED_TOOLS):
        ledger.tools[data.tool] = ledger.tools.get(data.tool, 0) + 1


def _denied(ledger: Ledger, event: Envelope, data: kinds.ToolDenied) -> None:
    _answered_of(ledger, event.session)
    ledger.calls_refused += 1
    if data.reason != ALREADY_DONE:
        _note(ledger, event, data, f"{data.reason} {data.rule}")
        return
    ledger.told[data.rule] = event.session
    if len(ledger.told) > MAX_UNSEEN:
        del ledger.told[next(iter(ledger.told))]


def _exhausted(ledger: Ledger, event: Envelope, data: kinds.BudgetExhausted) -> None:
    _answered_of(ledger, event.session)
    ledger.calls_refused += 1
    _note(ledger, event, data, data.budget)


def _confirm_required(ledger: Ledger, event: Envelope, data: kinds.ConfirmRequired) -> None:
    _answered_of(ledger, event.session)
    # Time stamps of one width compare as text; an imported one that is no time must not stop the fold half-way.
    for old in [old for old in ledger.approvals.values() if old.expires <= event.timestamp]:
        if old.otherwise == "deny" or old.refused or len(ledger.approvals) > MAX_SILENT:
            del ledger.approvals[old.id]
    ledger.approvals[data.approval] = Approval(
        id=data.approval,
        tool=data.tool,
        digest=data.digest,
        expires=data.expires,
        cause=data.cause,
        asked=event.timestamp,
        arguments=data.arguments,
        doubt=data.doubt,
        who=data.who,
        otherwise=data.otherwise,
        params=data.params,
        definition=data.definition,
        server=data.server,
        document=data.document,
    )


def _confirm_approved(ledger: Ledger, event: Envelope, data: kinds.ConfirmApproved) -> None:
    if (approval := ledger.approvals.get(data.approval)) is not None:
        ledger.approvals[approval.id] = msgspec.structs.replace(approval, approved=True, refused="", reason=data.reason)
        if data.reason:
            _note(ledger, event, approval, data.via, data.reason)
        ledger.notable.pop(f"{approval.server} {approval.tool} {approval.digest}", None)
        for key in [key for key in ledger.changed if key.partition(" ")[2] == approval.tool]:
            if ledger.definitions[key] == approval.definition:
                del ledger.changed[key]


def _confirm_denied(ledger: Ledger, event: Envelope, data: kinds.ConfirmDenied) -> None:
    refused = data.via not in (REPEATED, ELSEWHERE)
    ledger.calls_refused += refused
    if (approval := ledger.approvals.get(data.approval)) is not None:
        if refused:
            _note(ledger, event, approval, f"{data.via} {data.approval}", data.reason)
        ledger.approvals[approval.id] = msgspec.structs.replace(
            approval, approved=False, refused=data.via, reason=data.reason
        )


def _checkpoint_created(ledger: Ledger, event: Envelope, data: kinds.CheckpointCreated) -> None:
    if event.by.type == "agent":  # its client asked for it
        _answered_of(ledger, event.session)
        ledger.sitting = msgspec.structs.replace(ledger.sitting, got_on=True, carried=0)
    if data.trigger.startswith(MILESTONE) and ledger.milestones:
        done = data.trigger.removeprefix(MILESTONE)
        ledger.milestones = [milestone for milestone in ledger.milestones if milestone != done]
    if data.trigger.startswith(BEFORE):
        ledger.before_call = (data.name, data.trigger, event.seq)
    if data.trigger.startswith(ROLLBACK):
        ledger.failed.clear()
        ledger.failed_more = 0
        ledger.rolled_back = data.trigger.removeprefix(ROLLBACK)
    elif event.by.type == "agent" and data.report:
        ledger.rolled_back = ""
    ledger.checkpoint = data.name
    ledger.checkpoint_seq = event.seq
    ledger.calls_at_checkpoint = ledger.calls_used
    ledger.report = data.report or ledger.report
    ledger.gone = data.gone[:MAX_GONE]
    if data.trigger in REQUESTED:
        ledger.stated, ledger.stated_seq = event.timestamp, event.seq
        ledger.calls_at_stated, ledger.effects_at_stated = ledger.calls_used, ledger.effects
        ledger.changes_at_stated, ledger.unchanged = ledger.changes, data.unchanged
        if event.by.type == "agent":
            _work_of(ledger, event.session)
    if data.trigger.startswith(AT_SHARE):
        ledger.marks[data.trigger] = event.seq
        if len(ledger.marks) > MAX_MARKS:
            del ledger.marks[next(iter(ledger.marks))]


def _policy_changed(ledger: Ledger, event: Envelope, data: kinds.PolicyChanged) -> None:
    del event
    ledger.policy = data.policy
    ledger.budget = None if data.budget < 0 else data.budget
    ledger.session_budget = None if data.per_session < 0 else data.per_session


def _usage_reported(ledger: Ledger, event: Envelope, data: kinds.UsageReported) -> None:
    del event
    ledger.tokens += max(0, data.tokens)
    ledger.micro_usd += max(0, data.micro_usd)


def _tool_result(ledger: Ledger, event: Envelope, data: kinds.ToolResult) -> None:
    del event
    ledger.unseen.pop(data.call, None)  # the run that made it has the result


def _make_result(ledger: Ledger, event: Envelope, data: kinds.MakeResult) -> None:
    del event
    ledger.tokens += max(0, data.input_tokens) + max(0, data.output_tokens)


_RULES: dict[type | None, Callable[[Ledger, Envelope, Any], None]] = {
    kinds.TaskOpened: _task_opened,
    kinds.TaskFinished: _task_finished,
    kinds.TaskReopened: _task_reopened,
    kinds.SessionOpened: _session_opened,
    kinds.SessionClosed: _session_closed,
    kinds.SessionLost: _session_lost,
    kinds.ToolAllowed: _tool_allowed,
    kinds.ToolContinued: _tool_continued,
    kinds.ToolDefined: _tool_defined,
    kinds.ToolChanged: _tool_changed,
    kinds.ToolSettled: _tool_settled,
    kinds.ToolReadings: _tool_readings,
    kinds.EffectSettled: _effect_settled,
    kinds.EffectRepeated: _effect_repeated,
    kinds.ToolDenied: _denied,
    kinds.BudgetExhausted: _exhausted,
    kinds.ConfirmRequired: _confirm_required,
    kinds.ConfirmApproved: _confirm_approved,
    kinds.ConfirmDenied: _confirm_denied,
    kinds.CheckpointCreated: _checkpoint_created,
    kinds.TaskImported: _task_imported,
    kinds.EntryImported: _entry_imported,
    kinds.PolicyChanged: _policy_changed,
    kinds.UsageReported: _usage_reported,
    kinds.ToolResult: _tool_result,
    kinds.MakeResult: _make_result,
}
"""What each kind does. A kind that is not here is history only."""


def changes_ledger(data: kinds.Data) -> bool:
    """Whether an event is more than history."""
    return type(data) in _RULES
