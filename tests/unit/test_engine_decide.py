"""One call's decision: deny over allow over budget over confirm, and closed by default."""

from __future__ import annotations

from typing import Any

import pytest

from adjourn.aex.policy import Policy
from adjourn.engine.decide import Ask, Block, Call, Continue, Forward, decide
from adjourn.log.event import timestamp
from adjourn.state.ledger import Approval, Ledger
from adjourn.state.ledger import Call as OpenCall
from strategies import NOON, TASK, policy_of

ONE, TWO, STATE = "1" * 64, "2" * 64, "5" * 64
POLICY = policy_of(
    "use read_file",
    "use deploy",
    "use both",
    "use aex.checkpoint",
    "deny rm",
    "deny both",
    "deny aex.review_task",
    "confirm before deploy",
    "confirm before both",
    "confirm before aex.resume",
    "budget calls=3",
)
SPENT = {"calls_used": 3}
DOUBT = OpenCall(
    call="s1.1", tool="read_file", digest=ONE, effectful=True, session="s1", since=timestamp(NOON)
)
DOUBTFUL_DEPLOY = OpenCall(
    call="s1.2", tool="deploy", digest=ONE, effectful=True, session="s1", since=timestamp(NOON)
)
PAUSED = {"paused_calls": {STATE + DOUBT.digest: DOUBT}}
REPEATS = f"it repeats call s1.1 of {timestamp(NOON)}, whose effect is in doubt"


def approval(tool: str = "deploy", *, seconds: int = 60, **changes: Any) -> dict[str, dict[str, Approval]]:
    members: dict[str, Any] = {
        "id": "q1",
        "tool": tool,
        "digest": ONE,
        "expires": timestamp(NOON + 1000 * seconds),
        "cause": "c",
        "asked": timestamp(NOON),
        "approved": True,
    }
    return {"approvals": {"q1": Approval(**(members | changes))}}


def call(tool: str, **changes: Any) -> Call:
    return Call(**({"tool": tool, "digest": ONE} | changes))


CONFIRM = Ask("confirm deploy (p.aex:11)")
TABLE: list[tuple[str, Call, dict[str, Any], dict[str, Any], object]] = [
    ("an allowed tool goes forward", call("read_file"), {}, {}, Forward()),
    ("a denied tool is blocked", call("rm"), {}, {}, "deny_list"),
    ("a tool that no rule allows is blocked", call("unheard_of"), {}, {}, "not_allowed"),
    ("deny wins over allow and confirm", call("both"), {}, {}, "deny_list"),
    ("deny wins over a spent budget", call("both"), SPENT, {}, "deny_list"),
    ("deny wins over a yes", call("both"), approval("both"), {}, "deny_list"),
    ("closed wins over a spent budget", call("unheard_of"), SPENT, {}, "not_allowed"),
    ("a spent budget blocks an allowed tool", call("read_file"), SPENT, {}, "budget_exhausted"),
    ("a spent budget wins over confirm", call("deploy"), SPENT, {}, "budget_exhausted"),
    ("a spent budget wins over a yes", call("deploy"), SPENT | approval(), {}, "budget_exhausted"),
    ("an overspent budget blocks", call("read_file"), {"calls_used": 99}, {}, "budget_exhausted"),
    ("the last call of a budget goes forward", call("read_file"), {"calls_used": 2}, {}, Forward()),
    ("what is spent but not yet written counts", call("read_file"), {"calls_used": 2}, {"spent": 1}, "budget_exhausted"),
    ("a person is asked where a rule says so", call("deploy"), {}, {}, CONFIRM),
    ("--auto-confirm passes what a rule would ask", call("deploy"), {}, {"auto_confirm": True}, Forward(auto=True)),
    ("a yes lets it forward", call("deploy"), approval(), {}, Forward(approval="q1")),
    ("a yes is used before --auto-confirm", call("deploy"), approval(), {"auto_confirm": True}, Forward(approval="q1")),
    ("a yes is not used where none is needed", call("read_file"), approval("read_file"), {}, Forward()),
    ("a question is no yes", call("deploy"), approval(approved=False), {}, CONFIRM),
    ("a no is no yes", call("deploy"), approval(approved=False, refused="cli"), {}, CONFIRM),
    ("a yes for another tool is none", call("deploy"), approval("read_file"), {}, CONFIRM),
    ("a yes for other arguments is none", call("deploy", digest=TWO), approval(), {}, CONFIRM),
    ("an expired yes is none", call("deploy"), approval(seconds=-1), {}, CONFIRM),
    ("a yes expires at its very time", call("deploy"), approval(seconds=0), {}, CONFIRM),
    ("a call like one in doubt is asked about", call("read_file"), {"doubts": {"s1.1": DOUBT}}, {}, Ask(REPEATS, "s1.1")),
    ("even with --auto-confirm", call("read_file"), {"doubts": {"s1.1": DOUBT}}, {"auto_confirm": True}, Ask(REPEATS, "s1.1")),
    ("a doubt is named before the rule", call("deploy"), {"doubts": {"s1.2": DOUBTFUL_DEPLOY}}, {}, Ask(REPEATS.replace("s1.1", "s1.2"), "s1.2")),
    ("other arguments repeat nothing", call("read_file", digest=TWO), {"doubts": {"s1.1": DOUBT}}, {}, Forward()),
    ("a call without effect repeats nothing", call("read_file", effectful=False), {"doubts": {"s1.1": DOUBT}}, {}, Forward()),
    ("a yes lets it repeat", call("read_file"), {"doubts": {"s1.1": DOUBT}} | approval("read_file", doubt="s1.1"), {}, Forward(approval="q1")),
    ("a spent budget wins over a doubt", call("read_file"), SPENT | {"doubts": {"s1.1": DOUBT}}, {}, "budget_exhausted"),
    ("a paused call goes on", call("read_file", state=STATE), PAUSED, {}, Continue("s1.1")),
    ("with a spent budget too, since it is counted", call("read_file", state=STATE), SPENT | PAUSED, {}, Continue("s1.1")),
    ("with other arguments it is a new call", call("read_file", state=STATE, digest=TWO), SPENT | PAUSED, {}, "budget_exhausted"),
    ("with another tool too", call("deploy", state=STATE), PAUSED, {}, CONFIRM),
    ("an unknown state is a new call", call("read_file", state=TWO), PAUSED, {}, Forward()),
    ("no state is no paused call", call("read_file"), {"paused_calls": {"": DOUBT}}, {}, Forward()),
    ("an ungated request that no rule names goes forward", call("aex.list_tasks", named_only=True), {}, {}, Forward()),
    ("it spends nothing", call("aex.list_tasks", named_only=True), SPENT, {}, Forward()),
    ("a rule may deny it", call("aex.review_task", named_only=True), {}, {}, "deny_list"),
    ("a rule may ask about it", call("aex.resume", named_only=True), {}, {}, Ask("confirm aex.resume (p.aex:13)")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "facts", "options", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_decision(wanted: Call, facts: dict[str, Any], options: dict[str, Any], expected: object) -> None:
    """Each row's first word says what is decided; a text expects a block for that reason."""
    decision = decide(POLICY, Ledger(task=TASK, **facts), wanted, now=NOON, **options)
    assert (decision.reason if isinstance(decision, Block) else decision) == expected


def test_a_denial_names_the_rule() -> None:
    """The message names tool, rule, file and line, and the remedy a next step."""
    decision = decide(POLICY, Ledger(task=TASK), call("rm"), now=NOON)
    assert decision == Block(
        "deny_list",
        'tool "rm" is denied by policy: deny rm (p.aex:8)',
        "use another tool, or ask a person to change the rule",
        "deny rm (p.aex:8)",
    )


def test_a_spent_budget_says_how_much_was_spent() -> None:
    """The message has the spent calls, the limit and the task."""
    decision = decide(POLICY, Ledger(task=TASK, calls_used=3), call("read_file"), now=NOON)
    assert isinstance(decision, Block)
    assert (
        decision.message
        == f"Call budget exhausted: 3 of 3 calls of task {TASK} are spent (budget calls=3 (p.aex:14))"
    )
    assert decision.rule == "budget calls=3 (p.aex:14)"


def test_an_empty_policy_permits_nothing() -> None:
    """Without rules every tool is blocked."""
    decision = decide(Policy(), Ledger(task=TASK), call("read_file"), now=NOON)
    assert isinstance(decision, Block)
    assert decision.reason == "not_allowed"


def test_a_budget_of_none_has_no_end_and_of_zero_no_beginning() -> None:
    """No budget never blocks; a budget of 0 blocks the first call."""
    endless = decide(policy_of("use a"), Ledger(task=TASK, calls_used=10**9), call("a"), now=NOON)
    nothing = decide(policy_of("use a", "budget calls=0"), Ledger(task=TASK), call("a"), now=NOON)
    assert endless == Forward()
    assert isinstance(nothing, Block)


def test_deciding_changes_nothing() -> None:
    """The ledger is the same before and after, whatever was decided."""
    for row in TABLE:
        ledger, same = Ledger(task=TASK, **row[2]), Ledger(task=TASK, **row[2])
        decide(POLICY, ledger, row[1], now=NOON, **row[3])
        assert ledger == same
