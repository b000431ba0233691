"""The ledger is what a chain of events amounts to, and it only ever grows."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from adjourn.log import kinds
from adjourn.log.event import timestamp
from adjourn.log.merkle import Frontier
from adjourn.tasks.entries import Approval, OpenCall, OpenSession, Sitting
from adjourn.tasks.ledger import Ledger
from support.cases import for_each
from support.clock import NOON
from support.events import chained
from support.ledger_facts import (
    DAILY,
    LIMIT,
    ONE,
    STATE,
    TWO,
    Facts,
    after,
    allowed,
    answered,
    asked,
    changed,
    opened,
    settled,
)

DEFINED = kinds.ToolDefined(definition=ONE, server="s", tool="deploy"), "s1"


def the_call(call: str, at: int, session: str = "s1", *, effectful: bool = True) -> OpenCall:
    return OpenCall(
        call=call,
        tool="deploy",
        digest=TWO,
        effectful=effectful,
        session=session,
        since=timestamp(NOON + 1000 * at),
        arguments="{}",
    )


def the_question(approval: str = "q1", at: int = 0, **changes: Any) -> Approval:
    members: dict[str, Any] = {
        "id": approval,
        "tool": "deploy",
        "digest": TWO,
        "expires": timestamp(NOON + 60_000),
        "cause": "why",
        "asked": timestamp(NOON + 1000 * at),
        "arguments": "{}",
    }
    return Approval(**(members | changes))


THE_SESSION = OpenSession(id="s1", group="g1", host="box:b:n", pid=3, started=7, since=timestamp(NOON), client="cc")
LOST = kinds.SessionLost(calls=["c1"], lost="s1", reason="dead"), "s2"
CHECKPOINT = (
    kinds.CheckpointCreated(document=ONE, key="k", name="half-way", root=ONE, signature="", trigger="agent"),
    "s1",
)

EFFECTS: list[tuple[str, Facts, dict[str, Any]]] = [
    ("task.opened names goal and contract", [(kinds.TaskOpened(contract=ONE, goal="g"), "s1")],
     {"goal": "g", "contract": ONE, "opened": timestamp(NOON)}),
    (
        "session.opened seats a client, with its policy and budget",
        [opened()],
        {"sessions": {"s1": THE_SESSION}, "policy": ONE, "budget": 5},
    ),
    ("graph.saved changes nothing but the chain", [(kinds.GraphSaved(checkpoint="1", document=ONE), "")], {}),
    ("graph.written changes nothing but the chain", [(kinds.GraphWritten(checkpoint="1", document=ONE), "")], {}),
    ("graph.deleted changes nothing but the chain", [(kinds.GraphDeleted(count=1), "")], {}),
    ("session.opened without a budget has no limit", [opened(), opened("s2", budget=-1)], {"budget": None}),
    ("session.closed unseats it", [opened(), (kinds.SessionClosed(reason="eof"), "s1")], {"sessions": {}}),
    (
        "session.closed of a client that moved says where to",
        [opened(), (kinds.SessionClosed(reason="moved", to="other"), "s1")],
        {"moved": {"g1": "other"}},
    ),
    (
        "session.opened of a client that moved brings it back",
        [opened(), (kinds.SessionClosed(reason="moved", to="other"), "s1"), opened("s2")],
        {"moved": {}},
    ),
    (
        "session.closed puts its open effects in doubt",
        [opened(), allowed("c1"), (kinds.SessionClosed(reason="eof"), "s1")],
        {"open_calls": {}, "doubts": {"c1": the_call("c1", 1)}},
    ),
    (
        "session.lost unseats the lost one and puts its open effects in doubt",
        [opened(), allowed("c1"), LOST],
        {"sessions": {}, "open_calls": {}, "doubts": {"c1": the_call("c1", 1)}},
    ),
    (
        "session.lost drops its open reads",
        [opened(), allowed("c1", effectful=False), LOST],
        {"open_calls": {}, "doubts": {}},
    ),
    (
        "session.lost leaves the calls of others",
        [opened(), opened("s2", "g1"), allowed("c1", "s2"), LOST],
        {"open_calls": {"c1": the_call("c1", 2, "s2")}, "doubts": {}},
    ),
    (
        "tool.allowed counts a call and opens it",
        [allowed("c1")],
        {"calls_used": 1, "tools": {"deploy": 1}, "open_calls": {"c1": the_call("c1", 0)}},
    ),
    (
        "tool.allowed does not count an uncounted one",
        [allowed("c1", uncounted=True)],
        {"calls_used": 0, "tools": {"deploy": 1}},
    ),
    ("tool.allowed uses up its approval", [asked(), answered(yes=True), allowed("c1", approval="q1")], {"approvals": {}}),
    (
        "tool.allowed with a yes to repeating settles the doubt",
        [
            allowed("c1"),
            settled("c1", "no-answer"),
            asked(doubt="c1"),
            answered(yes=True),
            allowed("c2", approval="q1"),
        ],
        {"doubts": {}, "calls_used": 2, "approvals": {}},
    ),
    (
        "tool.allowed without one leaves the doubt",
        [allowed("c1"), settled("c1", "no-answer"), allowed("c2")],
        {"doubts": {"c1": the_call("c1", 0)}},
    ),
    (
        "tool.readings closes calls, then opens others",
        [
            opened(),
            allowed("c1", effectful=False),
            (kinds.ToolReadings(
                allowed=[kinds.ToolAllowed(arguments="{}", call="c2", digest=ONE, effectful=False, tool="read_file")],
                settled=[kinds.ToolSettled(call="c1", outcome="ok"), kinds.ToolSettled(call="c9", outcome="ok")],
            ), "s1"),
        ],
        {"calls_used": 2, "effects": 0, "last_call": timestamp(NOON + 2000)},
    ),
    ("tool.settled closes a call", [allowed("c1"), settled("c1")], {"open_calls": {}, "doubts": {}, "calls_used": 1}),
    (
        "tool.settled as an error closes it too",
        [allowed("c1"), settled("c1", "tool-error"), allowed("c2"), settled("c2", "error")],
        {"open_calls": {}, "doubts": {}, "calls_used": 2},
    ),
    (
        "tool.settled without an answer puts an effect in doubt",
        [allowed("c1"), settled("c1", "no-answer")],
        {"open_calls": {}, "doubts": {"c1": the_call("c1", 0)}},
    ),
    (
        "tool.settled without an answer drops a read",
        [allowed("c1", effectful=False), settled("c1", "no-answer")],
        {"open_calls": {}, "doubts": {}},
    ),
    (
        "tool.settled settles a doubt when the answer comes late",
        [opened(), allowed("c1"), LOST, settled("c1")],
        {"doubts": {}},
    ),
    ("tool.settled of an unknown call does nothing", [settled("c9", "input-required", state=STATE)], {"paused_calls": {}}),
    (
        "tool.settled with a request for input pauses the call",
        [allowed("c1"), settled("c1", "input-required", state=STATE)],
        {"open_calls": {}, "paused_calls": {STATE + the_call("c1", 0).digest: the_call("c1", 0)}},
    ),
    (
        "tool.continued opens it again, in its new session, and counts nothing",
        [
            allowed("c1"),
            settled("c1", "input-required", state=STATE),
            (kinds.ToolContinued(call="c1"), "s2"),
        ],
        {"calls_used": 1, "paused_calls": {}, "open_calls": {"c1": msgspec.structs.replace(the_call("c1", 0, "s2"), legs=1)}},
    ),
    ("tool.continued of an unknown call does nothing", [(kinds.ToolContinued(call="c9"), "s1")], {"open_calls": {}}),
    (
        "effect.settled settles a doubt",
        [allowed("c1"), settled("c1", "no-answer"), (kinds.EffectSettled(call="c1", outcome="done"), "")],
        {"doubts": {}, "calls_used": 1},
    ),
    (
        "effect.settled as done leaves a call that no client knows of",
        [allowed("c1"), settled("c1", "no-answer"), (kinds.EffectSettled(call="c1", outcome="done"), "")],
        {"unseen": {"c1": msgspec.structs.replace(the_call("c1", 0), ended=timestamp(NOON + 2000))}},
    ),
    (
        "effect.settled voids the questions about repeating the call",
        [asked("q1", doubt="c9"), asked("q2"), (kinds.EffectSettled(call="c9", outcome="not-done"), "")],
        {"approvals": {"q2": the_question("q2", 1)}, "unseen": {}},
    ),
    (
        "effect.repeated ends a doubt, and uses up an approval",
        [allowed("c1"), settled("c1", "no-answer"), asked("q1"),
         (kinds.EffectRepeated(again="c2", approval="q1", call="c1", task="t2"), "")],
        {"doubts": {}, "approvals": {}, "unseen": {}},
    ),
    (
        "session.lost leaves effects unseen whose client said nothing after their answers",
        [opened("s1"), allowed("c1"), settled("c1"), (kinds.SessionLost(calls=[], lost="s1", reason="dead"), "")],
        {"unseen": {"c1": msgspec.structs.replace(the_call("c1", 1), ended=timestamp(NOON + 2000))}, "answered": {}},
    ),
    (
        "tool.allowed shows that the client has the answers before it, unless it had not read them",
        [opened("s1"), allowed("c1"), settled("c1"), allowed("c2", behind=True), allowed("c3"),
         (kinds.SessionLost(calls=[], lost="s1", reason="dead"), "")],
        {"unseen": {}, "answered": {}},
    ),
    (
        "tool.settled late, after nobody waited, leaves a call unseen",
        [allowed("c1"), settled("c1", "no-answer"), settled("c1")],
        {"doubts": {}, "unseen": {"c1": msgspec.structs.replace(the_call("c1", 0), ended=timestamp(NOON + 2000))}},
    ),
    (
        "tool.settled by whoever made the call leaves nothing unseen",
        [allowed("c1"), settled("c1", "no-answer"), settled("c1", seen=True)],
        {"doubts": {}, "unseen": {}},
    ),
    (
        "tool.denied as done already says which session has learnt it",
        [(kinds.ToolDenied(reason="already_done", rule="c1", tool="t"), "s2")],
        {"told": {"c1": "s2"}, "notable": {}},
    ),
    ("tool.denied counts a refusal", [(kinds.ToolDenied(reason="deny_list", tool="t"), "s1")], {"calls_refused": 1}),
    (
        "budget.exhausted counts a refusal and no call",
        [(kinds.BudgetExhausted(limit=1, tool="t", used=1), "s1")],
        {"calls_refused": 1, "calls_used": 0},
    ),
    ("confirm.required opens a question", [asked()], {"approvals": {"q1": the_question()}}),
    (
        "confirm.required drops the questions that have expired",
        [asked("q1", expires=timestamp(NOON + 1000)), asked("q2")],
        {"approvals": {"q2": the_question("q2", 1)}},
    ),
    (
        "confirm.approved makes it a yes",
        [asked(), answered(yes=True)],
        {"approvals": {"q1": the_question(approved=True)}, "calls_refused": 0},
    ),
    (
        "confirm.denied makes it a no and counts a refusal",
        [asked(), answered(yes=False)],
        {"approvals": {"q1": the_question(refused="cli")}, "calls_refused": 1},
    ),
    ("confirm.approved of an unknown question does nothing", [answered(yes=True)], {"approvals": {}}),
    ("pin.refused is history only", [(kinds.PinRefused(action="adjourn approve", failures=1), "")], {"calls_used": 0}),
    ("confirm.auto_approved is history only", [(kinds.ConfirmAutoApproved(tool="t"), "s1")], {"calls_used": 0}),
    (
        "checkpoint.created is remembered with what was spent",
        [allowed("c1"), CHECKPOINT, allowed("c2")],
        {"checkpoint": "half-way", "checkpoint_seq": 1, "calls_at_checkpoint": 1, "calls_used": 2},
    ),
    (
        "checkpoint.resumed refunds nothing",
        [allowed("c1"), CHECKPOINT, allowed("c2"), (kinds.CheckpointResumed(checkpoint=ONE, name="half-way", source="store"), "s2")],
        {"calls_used": 2, "open_calls": {"c1": the_call("c1", 0), "c2": the_call("c2", 2)}},
    ),
    (
        "task.imported with a history adds nothing, since that history was counted",
        [allowed("c1"), (kinds.TaskImported(head=ONE, seq=4), "")],
        {"calls_used": 1, "sessions": {}},
    ),
    (
        "task.imported on a person's word adds the calls it says are spent",
        [allowed("c1"), (kinds.TaskImported(calls=7, document=ONE), "")],
        {"calls_used": 8},
    ),
    (
        "task.imported on a person's word keeps the limit that it says, and where it came from",
        [(kinds.TaskImported(budget=100, calls=5, source="aex"), ""), (kinds.TaskImported(source="aex"), "")],
        {"budget": 100, "calls_used": 5, "imported_from": ["aex"]},
    ),
    (
        "entry.imported names a tool or a refusal, and counts no call again",
        [
            (kinds.TaskImported(calls=5), ""),
            (kinds.EntryImported(decision="forward", entry="tool.allowed", tool="t"), ""),
            (kinds.EntryImported(decision="block", entry="tool.denied", tool="u"), ""),
            (kinds.EntryImported(entry="upstream.crashed"), ""),
        ],
        {"calls_used": 5, "calls_refused": 1, "tools": {"t": 1}, "imported": 3},
    ),
    ("task.imported never refunds", [allowed("c1"), (kinds.TaskImported(calls=-7), "")], {"calls_used": 1}),
    ("message.refused is history only", [(kinds.MessageRefused(reason="r", size=1), "s1")], {"calls_refused": 0}),
    ("upstream.refused is history only", [(kinds.UpstreamRefused(method="m", reason="r"), "s1")], {"calls_refused": 0}),
    ("upstream.error is history only", [(kinds.UpstreamError(message="m"), "s1")], {"calls_refused": 0}),
    ("upstream.crashed is history only", [allowed("c1"), (kinds.UpstreamCrashed(code=1), "s1")], {"doubts": {}}),
    ("upstream.non_jsonrpc is history only", [(kinds.UpstreamNonJson(line="l"), "s1")], {"calls_refused": 0}),
    (
        "tool.allowed counts for each of its limits",
        [allowed("c1", limits=[LIMIT, DAILY]), allowed("c2", limits=[LIMIT])],
        {"rates": {DAILY: [[NOON // 1_440_000, 1]], LIMIT: [[NOON // 1000, 1], [NOON // 1000 + 1, 1]]}},
    ),
    (
        "tool.allowed with limits that are none counts the call only",
        [allowed("c1", limits=["1/0 y", "x/1 y", "1/-1 y", "1", "", "1/ y"])],
        {"rates": {}, "calls_used": 1},
    ),
    (
        "tool.allowed keeps the name of an effect that may happen only once",
        [allowed("c1", once=ONE), settled("c1", "no-answer")],
        {"doubts": {"c1": msgspec.structs.replace(the_call("c1", 0), once=ONE)}},
    ),
    ("tool.replayed costs nothing", [(kinds.ToolReplayed(call="c1", once=ONE, tool="t"), "s1")], {"calls_used": 0, "calls_refused": 0}),
    (
        "confirm.required keeps who may answer, and what silence means",
        [asked(who="ann", otherwise="allow")],
        {"approvals": {"q1": the_question(who="ann", otherwise="allow")}},
    ),
    (
        "confirm.required keeps the questions to which silence was a yes",
        [asked("q1", expires=timestamp(NOON + 500), otherwise="allow"), asked("q2")],
        {"approvals": {"q1": the_question(expires=timestamp(NOON + 500), otherwise="allow"), "q2": the_question("q2", 1)}},
    ),
    (
        "checkpoint.created at a share of a budget marks it",
        [CHECKPOINT, (msgspec.structs.replace(CHECKPOINT[0], trigger="at 75% of calls=4"), "s1")],
        {"marks": {"at 75% of calls=4": 1}},
    ),
    (
        "policy.changed sets policy and budget, and refunds nothing",
        [opened(), allowed("c1"), (kinds.PolicyChanged(budget=9, policy=TWO), "s1")],
        {"policy": TWO, "budget": 9, "calls_used": 1},
    ),
    ("policy.changed may take the budget away", [opened(), (kinds.PolicyChanged(policy=TWO), "s1")], {"budget": None}),
    ("policy.broken is history only", [opened(), (kinds.PolicyBroken(message="m"), "s1")], {"policy": ONE, "budget": 5}),
    (
        "policy.observed refuses nothing",
        [(kinds.PolicyObserved(decision="block", reason="deny_list", tool="t"), "s1")],
        {"calls_refused": 0},
    ),
    (
        "usage.reported adds up, and takes nothing back",
        [(kinds.UsageReported(tokens=5, micro_usd=7), "s1"), (kinds.UsageReported(tokens=-9, micro_usd=-9), "s1")],
        {"tokens": 5, "micro_usd": 7},
    ),
    ("tool.defined is remembered", [DEFINED], {"definitions": {"s deploy": ONE}, "changed": {}}),
    (
        "tool.changed is remembered with what was before",
        [DEFINED, changed(ONE, TWO), changed(TWO, STATE)],
        {"definitions": {"s deploy": STATE}, "changed": {"s deploy": ONE}},
    ),
    ("tool.changed back is no change", [DEFINED, changed(ONE, TWO), changed(TWO, ONE)], {"definitions": {"s deploy": ONE}, "changed": {}}),
    (
        "tool.changed voids what was asked under the earlier definition, and nothing else",
        [asked("q1", definition=ONE), answered(yes=True), asked("q2"), asked("q3", definition=TWO), changed(ONE, TWO)],
        {"approvals": {"q2": the_question("q2", 2), "q3": the_question("q3", 3, definition=TWO)}},
    ),
    (
        "tool.changed of another tool voids nothing",
        [asked("q1", definition=ONE), changed(ONE, TWO, tool="other")],
        {"approvals": {"q1": the_question(definition=ONE)}},
    ),
    (
        "confirm.approved under the new definition ends what changed",
        [DEFINED, changed(ONE, TWO), asked("q1", definition=TWO), answered(yes=True)],
        {"changed": {}},
    ),
    (
        "confirm.approved under the earlier one does not",
        [DEFINED, changed(ONE, TWO), asked("q1"), answered(yes=True)],
        {"changed": {"s deploy": ONE}},
    ),
    ("run.started is history only", [(kinds.RunStarted(agent="a", document=ONE, inputs=TWO), "s1")], {"calls_used": 0}),
    ("run.resumed is history only", [(kinds.RunResumed(finished=1), "s1")], {"calls_used": 0}),
    (
        "tool.result is history only",
        [allowed("c1"), (kinds.ToolResult(call="c1", result=ONE, step="1", tool="deploy"), "s1")],
        {"open_calls": {"c1": the_call("c1", 0)}},
    ),
    (
        "make.result adds its tokens, and takes none back",
        [(kinds.MakeResult(bind="b", call="c1", input_tokens=3, output_tokens=4, result=ONE, step="1"), "s1"),
         (kinds.MakeResult(bind="b", call="c1", input_tokens=-3, output_tokens=-4, result=ONE, step="1"), "s1")],
        {"tokens": 7},
    ),
    (
        "phase.entered is history only",
        [(kinds.PhaseEntered(document=ONE, phase="READY", step=12), "s1")],
        {"calls_refused": 0, "calls_used": 0},
    ),
    ("check.passed is history only", [(kinds.CheckPassed(condition="c", step="1"), "s1")], {"calls_refused": 0}),
    ("check.failed is history only", [(kinds.CheckFailed(condition="c", reason="r", step="1"), "s1")], {"calls_refused": 0}),
    ("if.true is history only", [(kinds.IfTrue(condition="c", step="1"), "s1")], {"calls_refused": 0}),
    ("if.false is history only", [(kinds.IfFalse(condition="c", step="1"), "s1")], {"calls_refused": 0}),
    ("for.start is history only", [(kinds.ForStart(count=2, step="1", variable="v"), "s1")], {"calls_refused": 0}),
    ("task.finished says since when", [(kinds.TaskFinished(note="n"), "s1")], {"finish_note": "n", "finished": timestamp(NOON)}),
    ("task.reopened takes that back", [(kinds.TaskFinished(), "s1"), (kinds.TaskReopened(), "s1")], {"finished": ""}),
    ("history.accepted is history only", [(kinds.HistoryAccepted(accepted="", document="", key="", lost=1, signature="", since="", who="p"), "s1")], {"calls_refused": 0}),
    ("run.finished is history only", [(kinds.RunFinished(status="success"), "s1")], {"calls_refused": 0}),
]  # fmt: skip


@for_each(("facts", "expected"), [row[1:] for row in EFFECTS], ids=[row[0] for row in EFFECTS])
def test_what_each_kind_does(facts: Facts, expected: dict[str, Any]) -> None:
    """After these facts the ledger has these values; whatever the row does not name it leaves as it should be."""
    ledger = after(*facts)
    assert {name: getattr(ledger, name) for name in expected} == expected
    assert (ledger.seq, ledger.exists) == (len(facts) - 1, True)
    assert ledger.touched == timestamp(NOON + 1000 * (len(facts) - 1))


def test_the_table_has_every_kind() -> None:
    """No kind of event is without a row that says what it does."""
    assert {row[0].split(" ")[0] for row in EFFECTS} == set(kinds.REGISTRY)


def test_an_unknown_kind_is_only_chained() -> None:
    """An event whose data are not known moves the position on and changes nothing else."""
    ledger = after(allowed("c1"))
    (event, event_hash, _) = chained([allowed("c1"), settled("c1")])[1]
    before = msgspec.to_builtins(ledger)
    ledger.apply(event, event_hash, None)
    changed = {name for name, value in msgspec.to_builtins(ledger).items() if value != before[name]}
    assert changed == {"seq", "hash", "touched", "tree", "worked"}


def test_what_a_ledger_holds_is_frozen() -> None:
    """A copy of a ledger shares its values, so none of them can be changed in place, but for the tree, which no copy has."""
    kinds_held = {
        kind
        for field in msgspec.structs.fields(Ledger)
        for kind in (
            field.type,
            *get_args(field.type),
            *(each for arg in get_args(field.type) for each in get_args(arg)),
        )
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    assert Sitting in kinds_held
    assert {kind for kind in kinds_held if not kind.__struct_config__.frozen} == {Frontier}
