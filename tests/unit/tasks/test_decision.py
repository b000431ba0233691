"""One call's decision: deny over allow over once over budget and rate over doubt over confirm, and closed by default."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import Policy, Rule
from adjourn.log.event import timestamp
from adjourn.tasks.decision import (
    APPROVAL_MILLISECONDS,
    Ask,
    Block,
    Circumstances,
    Continue,
    Decision,
    Forward,
    OnceClaim,
    RecordedAnswer,
    ToolRequest,
    decide,
)
from adjourn.tasks.entries import Approval, OpenCall, rate_key
from adjourn.tasks.ledger import Ledger
from support.cases import for_each
from support.clock import NOON
from support.events import TASK
from support.policies import policy_of

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
DOUBT = OpenCall(call="s1.1", tool="read_file", digest=ONE, effectful=True, session="s1", since=timestamp(NOON))
DOUBTFUL_DEPLOY = OpenCall(call="s1.2", tool="deploy", digest=ONE, effectful=True, session="s1", since=timestamp(NOON))
PAUSED = {"paused_calls": {STATE + DOUBT.digest: DOUBT}}
REPEATS = f"it repeats call s1.1 of {timestamp(NOON)}, which is in doubt"


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


def call(tool: str, **changes: Any) -> ToolRequest:
    return ToolRequest(**({"tool": tool, "digest": ONE} | changes))


CONFIRM = Ask("confirm deploy (p.aex:11)")
TABLE: list[tuple[str, ToolRequest, dict[str, Any], dict[str, Any], object]] = [
    ("an allowed tool goes forward", call("read_file"), {}, {}, Forward()),
    ("a denied tool is blocked", call("rm"), {}, {}, "deny_list"),
    ("a tool that no rule allows is blocked", call("unheard_of"), {}, {}, "not_allowed"),
    ("deny wins over allow and confirm", call("both"), {}, {}, "deny_list"),
    ("a protected place wins over allow", call("read_file", protected=".aex/policy.aex"), {}, {}, "protected"),
    ("a protected place wins over deny", call("rm", protected=".aex/policy.aex"), {}, {}, "protected"),
    ("a protected place wins over a yes", call("deploy", protected=".aex/policy.aex"), approval(), {}, "protected"),
    ("a protected place wins over a paused call", call("read_file", state=STATE, protected=".aex/policy.aex"), PAUSED, {}, "protected"),
    ("a protected place wins over a doubt", call("read_file", protected=".aex/policy.aex"), {"doubts": {"s1.1": DOUBT}}, {}, "protected"),
    ("a protected place wins over a request that no rule names", call("aex.list_tasks", named_only=True, protected=".aex/policy.aex"), {}, {}, "protected"),
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
    ("a yes for other params is none", call("deploy", params=TWO), approval(), {}, CONFIRM),
    ("nor is one with params for a call without", call("deploy"), approval(params=TWO), {}, CONFIRM),
    ("a yes for these params lets it forward", call("deploy", params=TWO), approval(params=TWO), {}, Forward(approval="q1")),
    ("a yes for a call without answers is none", call("deploy", given_back=TWO), approval(), {}, CONFIRM),
    ("a yes for another definition is none", call("deploy", definition=TWO), approval(definition=ONE), {}, msgspec.structs.replace(CONFIRM, definition=TWO)),
    ("a yes from before it was listed is none", call("deploy", definition=TWO), approval(), {}, msgspec.structs.replace(CONFIRM, definition=TWO)),
    ("a yes for the definition that the task knows counts", call("deploy", command="s"), approval(definition=ONE) | {"definitions": {"s deploy": ONE}}, {}, Forward(approval="q1")),
    ("what another server listed is another definition", call("deploy", command="r"), approval(definition=ONE) | {"definitions": {"s deploy": ONE}}, {}, CONFIRM),
    ("a change since the last yes is said", call("deploy", command="s", definition=TWO), {"changed": {"s deploy": ONE}}, {}, msgspec.structs.replace(CONFIRM, definition=TWO, changed=True)),
    ("a paused call does not go on with other params", call("read_file", state=STATE, params=TWO), SPENT | PAUSED, {}, "budget_exhausted"),
    ("an expired yes is none", call("deploy"), approval(seconds=-1), {}, CONFIRM),
    ("a yes expires at its very time", call("deploy"), approval(seconds=0), {}, CONFIRM),
    ("a call like one in doubt is asked about", call("read_file"), {"doubts": {"s1.1": DOUBT}}, {}, Ask(REPEATS, "s1.1")),
    ("even with --auto-confirm", call("read_file"), {"doubts": {"s1.1": DOUBT}}, {"auto_confirm": True}, Ask(REPEATS, "s1.1")),
    ("a doubt is named before the rule", call("deploy"), {"doubts": {"s1.2": DOUBTFUL_DEPLOY}}, {}, Ask(REPEATS.replace("s1.1", "s1.2"), "s1.2")),
    ("other arguments repeat nothing", call("read_file", digest=TWO), {"doubts": {"s1.1": DOUBT}}, {}, Forward()),
    ("a call without effect repeats nothing", call("read_file", effectful=False), {"doubts": {"s1.1": DOUBT}}, {}, Forward()),
    ("a yes lets it repeat", call("read_file"), {"doubts": {"s1.1": DOUBT}} | approval("read_file", doubt="s1.1"), {}, Forward(approval="q1")),
    ("a spent budget wins over a doubt", call("read_file"), SPENT | {"doubts": {"s1.1": DOUBT}}, {}, "budget_exhausted"),
    ("a paused call goes on", call("read_file", state=STATE), PAUSED, {}, Continue("s1.1", 1)),
    ("with a spent budget too, since it is counted", call("read_file", state=STATE), SPENT | PAUSED, {}, Continue("s1.1", 1)),
    ("with other arguments it is a new call", call("read_file", state=STATE, digest=TWO), SPENT | PAUSED, {}, "budget_exhausted"),
    ("with another tool too", call("deploy", state=STATE), PAUSED, {}, CONFIRM),
    ("an unknown state is a new call", call("read_file", state=TWO), PAUSED, {}, Forward()),
    ("no state is no paused call", call("read_file"), {"paused_calls": {"": DOUBT}}, {}, Forward()),
    ("an ungated request that no rule names goes forward", call("aex.list_tasks", named_only=True), {}, {}, Forward()),
    ("it spends nothing", call("aex.list_tasks", named_only=True), SPENT, {}, Forward()),
    ("a rule may deny it", call("aex.review_task", named_only=True), {}, {}, "deny_list"),
    ("a rule may ask about it", call("aex.resume", named_only=True), {}, {}, Ask("confirm aex.resume (p.aex:13)")),
]  # fmt: skip


@for_each(("wanted", "facts", "options", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_decision(wanted: ToolRequest, facts: dict[str, Any], options: dict[str, Any], expected: object) -> None:
    """Each row's first word says what is decided; a text expects a block for that reason."""
    decision = decide(POLICY, Ledger(task=TASK, **facts), wanted, Circumstances(now=NOON, **options))
    assert (decision.reason if isinstance(decision, Block) else decision) == expected


def test_a_denial_names_the_rule() -> None:
    """The message names tool, rule, file and line, and the remedy a next step."""
    decision = decide(POLICY, Ledger(task=TASK), call("rm"), Circumstances(now=NOON))
    assert decision == Block(
        "deny_list",
        'tool "rm" is denied by policy: deny rm (p.aex:8)',
        "use another tool, or ask a person to change the rule",
        "deny rm (p.aex:8)",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protected": ".aex/a.db"}, 'tool "pay" may not touch .aex/a.db: it is protected, whatever the policy says'),
        (
            {"protected": ".aex/a.db", "named_only": True},
            "pay may not touch .aex/a.db: it is protected, whatever the policy says",
        ),
        ({"protected": "adjourn approve"}, 'tool "pay" may not run `adjourn approve`: it speaks for a person'),
    ],
)
def test_a_protected_place_is_named_as_the_rule(changes: dict[str, Any], message: str) -> None:
    """The refusal names the tool or the method, and the place; a policy that only observes refuses the call as well."""
    for policy in (V1, OBSERVED, Policy()):
        decision = decide(policy, Ledger(task=TASK), call("pay", **changes), Circumstances(now=NOON))
        assert isinstance(decision, Block)
        assert (decision.reason, decision.message) == ("protected", message)
        assert decision.rule == changes["protected"]
        assert decision.remedy.startswith("ask a person to ")


def test_a_spent_budget_says_how_much_was_spent() -> None:
    """The message has the spent calls, the limit and the task."""
    decision = decide(POLICY, Ledger(task=TASK, calls_used=3), call("read_file"), Circumstances(now=NOON))
    assert isinstance(decision, Block)
    assert (
        decision.message == f"Call budget exhausted: 3 of 3 calls of task {TASK} are spent (budget calls=3 (p.aex:14))"
    )
    assert decision.rule == "budget calls=3 (p.aex:14)"


def test_an_empty_policy_permits_nothing() -> None:
    """Without rules every tool is blocked."""
    decision = decide(Policy(), Ledger(task=TASK), call("read_file"), Circumstances(now=NOON))
    assert isinstance(decision, Block)
    assert decision.reason == "not_allowed"


def test_a_budget_of_none_has_no_end_and_of_zero_no_beginning() -> None:
    """No budget never blocks; a budget of 0 blocks the first call."""
    endless = decide(policy_of("use a"), Ledger(task=TASK, calls_used=10**9), call("a"), Circumstances(now=NOON))
    nothing = decide(policy_of("use a", "budget calls=0"), Ledger(task=TASK), call("a"), Circumstances(now=NOON))
    assert endless == Forward()
    assert isinstance(nothing, Block)


def test_deciding_changes_nothing() -> None:
    """The ledger is the same before and after, whatever was decided."""
    for row in TABLE:
        ledger, same = Ledger(task=TASK, **row[2]), Ledger(task=TASK, **row[2])
        decide(POLICY, ledger, row[1], Circumstances(now=NOON, **row[3]))
        assert ledger == same


# --- version 1

V1 = policy_of(
    "allow read_file",
    "allow file.write:src/**",
    'allow shell.exec where cmd matches "git *"',
    "allow pay",
    "allow deploy",
    "allow ship",
    "allow test",
    "deny file.write:**/.env",
    'deny shell.exec where cmd matches "*--force*"',
    "limit pay, read_file 2 per minute",
    "once pay by invoice",
    'confirm before shell.exec where cmd matches "git push*"',
    "confirm before deploy by ann within 10m else deny",
    "confirm before ship within 10m else allow",
    "confirm before test by human",
    "budget calls=9, minutes=90, tokens=2000000, usd=2.5",
    version="v1",
)
PAY = rate_key(2, 60, "pay")
MINUTE = NOON // 1000


def pays(*counts: int) -> dict[str, Any]:
    """A ledger with so many calls of `pay`, so many seconds before now."""
    return {"rates": {PAY: [[MINUTE - at, 1] for at in sorted(counts, reverse=True)]}}


def claim(state: Any, answer: str = "") -> dict[str, Any]:
    return {"claim": OnceClaim("k", state, "s1.1", answer)}


WRITE, EXEC = {"tool": "file.write"}, {"tool": "shell.exec"}
BY_ANN = "confirm deploy by ann within 10m else deny (p.aex:16)"
ELSE_ALLOW = "confirm ship within 10m else allow (p.aex:17)"
DOUBTED_PAY = "it repeats call s1.1, which is in doubt"
TEN_MINUTES = 600_000
ROWS: list[tuple[str, ToolRequest, dict[str, Any], dict[str, Any], object]] = [
    ("a path in the scope is allowed", call(**WRITE, paths=("src/a.py",)), {}, {}, Forward()),
    ("a path beside the scope is not", call(**WRITE, paths=("src/a.py", "doc/b")), {}, {}, "not_allowed"),
    ("a call without paths is in no scope", call(**WRITE), {}, {}, "deny_list"),
    ("a path in a denied scope is denied", call(**WRITE, paths=("src/a.py", "src/.env")), {}, {}, "deny_list"),
    ("a condition that holds allows", call(**EXEC, given={"cmd": "git log"}), {}, {}, Forward()),
    ("one that does not allows nothing", call(**EXEC, given={"cmd": "rm x"}), {}, {}, "not_allowed"),
    ("one that cannot be told allows nothing", call(**EXEC), {}, {}, "deny_list"),
    ("a condition of a deny denies", call(**EXEC, given={"cmd": "git push --force"}), {}, {}, "deny_list"),
    ("a condition of a confirm asks", call(**EXEC, given={"cmd": "git push"}), {}, {}, "ask"),
    ("a rate with room counts the call", call("pay"), pays(5), {}, Forward(limits=(PAY,))),
    ("a spent rate blocks", call("pay"), pays(5, 30), {}, "rate_limit"),
    ("a call that was a period ago takes no room", call("pay"), pays(5, 62), {}, Forward(limits=(PAY,))),
    ("a call just decided takes room", call("pay"), pays(5), {"counted": {PAY: 1}}, "rate_limit"),
    ("another tool's calls take none", call("pay"), pays(5), {"spent": 3}, Forward(limits=(PAY,))),
    ("a call that was counted already takes its own", call("pay"), pays(5, 6), {"spent": -1}, Forward(limits=(PAY,))),
    ("each limit counts for itself", call("read_file"), pays(5, 6), {}, Forward(limits=(rate_key(2, 60, "read_file"),))),
    ("minutes that are spent block", call("read_file"), {"worked": 90 * 60_000}, {}, "budget_exhausted"),
    ("minutes that are not do not", call("test", given={}), {"worked": 90 * 60_000 - 1}, {}, "ask"),
    ("tokens that are spent block", call("read_file"), {"tokens": 2_000_000}, {}, "budget_exhausted"),
    ("money that is spent blocks", call("read_file"), {"micro_usd": 2_500_000}, {}, "budget_exhausted"),
    ("a free effect goes forward", call("pay"), {}, claim("free"), Forward(limits=(PAY,))),
    ("an effect that has no name is refused", call("pay"), {}, {"claim": OnceClaim(missing="invoice")}, "once_unnamed"),
    ("an effect under way is waited for", call("pay"), {}, claim("open"), "busy"),
    ("an effect that happened is answered as before", call("pay"), {}, claim("done", TWO), RecordedAnswer("s1.1", "k", TWO)),
    ("even when the rate is spent", call("pay"), pays(1, 2), claim("done", TWO), RecordedAnswer("s1.1", "k", TWO)),
    ("even when the budget is", call("pay"), {"calls_used": 9}, claim("done", TWO), RecordedAnswer("s1.1", "k", TWO)),
    ("an effect that left no answer is refused", call("pay"), {}, claim("done"), "once_done"),
    ("an effect in doubt is asked about", call("pay"), {}, claim("doubt"), Ask(DOUBTED_PAY, "s1.1")),
    ("a yes lets it repeat", call("pay"), approval("pay", doubt="s1.1"), claim("doubt"), Forward(approval="q1", limits=(PAY,))),
    ("a yes to something else does not", call("pay"), approval("pay"), claim("doubt"), Ask(DOUBTED_PAY, "s1.1")),
    ("a rule may name who answers", call("deploy"), {}, {}, Ask(BY_ANN, who="ann", within=TEN_MINUTES)),
    ("--auto-confirm is not that person", call("deploy"), {}, {"auto_confirm": True}, Ask(BY_ANN, who="ann", within=TEN_MINUTES)),
    ("a yes that ann was asked for is used", call("deploy"), approval(who="ann"), {}, Forward(approval="q1")),
    ("a yes that anybody could give is not", call("deploy"), approval(), {}, Ask(BY_ANN, who="ann", within=TEN_MINUTES)),
    ("`by human` may be anybody", call("test"), {}, {}, Ask("confirm test by human (p.aex:18)")),
    ("but not --auto-confirm", call("test"), {}, {"auto_confirm": True}, Ask("confirm test by human (p.aex:18)")),
    ("--auto-confirm serves where nobody is named", call("ship"), {}, {"auto_confirm": True}, Forward(auto=True)),
    ("silence may mean yes", call("ship"), {}, {}, Ask(ELSE_ALLOW, within=TEN_MINUTES, otherwise="allow")),
    ("when its time is over", call("ship"), approval("ship", approved=False, otherwise="allow", seconds=0), {}, Forward(approval="q1")),
    ("but not before", call("ship"), approval("ship", approved=False, otherwise="allow", seconds=1), {}, "ask"),
    ("nor for ever", call("ship"), approval("ship", approved=False, otherwise="allow", seconds=-APPROVAL_MILLISECONDS // 1000), {}, "ask"),
    ("nor after a no", call("ship"), approval("ship", approved=False, refused="cli", otherwise="allow", seconds=-1), {}, "ask"),
    ("nor where the question did not say so", call("ship"), approval("ship", approved=False, seconds=-1), {}, "ask"),
    ("nor where the rule does not any more", call("test"), approval("test", approved=False, otherwise="allow", seconds=-1), {}, "ask"),
    ("nor at a time that is none", call("ship"), approval("ship", approved=False, otherwise="allow", expires=""), {}, "ask"),
    ("silence never repeats a call in doubt", call("ship"), {"doubts": {"s1.1": msgspec.structs.replace(DOUBT, tool="ship")}}, {}, Ask(REPEATS, "s1.1", within=TEN_MINUTES)),
    ("who may confirm may also repeat, nobody else", call("deploy"), {"doubts": {"s1.2": DOUBTFUL_DEPLOY}} | approval(doubt="s1.2"), {}, Ask(REPEATS.replace("s1.1", "s1.2"), "s1.2", who="ann", within=TEN_MINUTES)),
]  # fmt: skip


@for_each(("wanted", "facts", "options", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_decision_in_version_1(
    wanted: ToolRequest, facts: dict[str, Any], options: dict[str, Any], expected: object
) -> None:
    """As in the table above; `ask` expects a question, whatever it says."""
    decision = decide(V1, Ledger(task=TASK, **facts), wanted, Circumstances(now=NOON, **options))
    assert _word(decision) == expected if isinstance(expected, str) else decision == expected


def _word(decision: Decision) -> str:
    return decision.reason if isinstance(decision, Block) else type(decision).__name__.lower()


@pytest.mark.parametrize(
    ("facts", "budget", "message"),
    [
        ({"worked": 95.25 * 60_000}, ("minutes", 95, 90), "95.25 of 90 minutes"),
        ({"tokens": 2_000_001}, ("tokens", 2_000_001, 2_000_000), "2000001 of 2000000 tokens"),
        ({"micro_usd": 2_600_000}, ("usd", 2_600_000, 2_500_000), "2.6 of 2.5 usd"),
        ({"calls_used": 9}, ("", 9, 9), "9 of 9 calls"),
    ],
)
def test_a_spent_budget_is_told_in_its_own_units(
    facts: dict[str, Any], budget: tuple[str, int, int], message: str
) -> None:
    """The block names the budget, what is spent and its size, the message its rule; money counts in millionths."""
    decision = decide(V1, Ledger(task=TASK, **facts), call("read_file"), Circumstances(now=NOON))
    assert isinstance(decision, Block)
    assert (decision.budget, decision.used, decision.limit) == budget
    assert message in decision.message
    assert "(p.aex:19)" in decision.message


def test_every_budget_says_how_much_of_it_is_spent() -> None:
    """Calls, minutes, tokens and dollars, each with its size."""
    ledger = Ledger(task=TASK, calls_used=3, worked=90_000, tokens=5, micro_usd=1_250_000)
    assert list(ledger.budgets_used(V1)) == [
        ("calls", 3, 9),
        ("minutes", 1.5, 90),
        ("tokens", 5, 2_000_000),
        ("usd", 1.25, 2.5),
    ]


OBSERVED = Policy(
    **{name: getattr(V1, name) for name in ("deny", "confirm", "budget", "budget_rule", "budgets", "limits", "once")},
    allow=[rule for rule in V1.allow if rule.pattern != "test"],
    observe=True,
)  # fmt: skip
TOOLS = ["read_file", "file.write", "shell.exec", "pay", "deploy", "ship", "test", "unheard.of"]

calls = st.builds(
    ToolRequest,
    tool=st.sampled_from(TOOLS),
    digest=st.sampled_from([ONE, TWO]),
    effectful=st.booleans(),
    state=st.sampled_from(["", STATE]),
    named_only=st.booleans(),
    given=st.sampled_from([{}, {"cmd": "git push --force"}, {"cmd": "ls", "invoice": "7"}]),
    paths=st.sampled_from([(), ("src/a",), ("src/.env",)]),
)
ledgers = st.builds(
    Ledger,
    task=st.just(TASK),
    calls_used=st.integers(0, 12),
    worked=st.sampled_from([0, 10**9]),
    tokens=st.sampled_from([0, 10**9]),
    micro_usd=st.sampled_from([0, 10**9]),
    rates=st.sampled_from([{}, pays(1, 2)["rates"]]),
    approvals=st.sampled_from([{}, approval()["approvals"], approval("pay", doubt="s1.1")["approvals"]]),
)
claims = st.none() | st.builds(
    OnceClaim, st.just("k"), st.sampled_from(["free", "open", "done"]), st.just("s1.1"), st.sampled_from(["", TWO])
)


@given(calls, ledgers, claims, st.booleans())
def test_what_only_observes_blocks_nothing(
    wanted: ToolRequest, ledger: Ledger, known: OnceClaim | None, auto_confirm: bool
) -> None:
    """Whatever is spent, denied, done or asked about: the call passes, and what would have been decided is shown."""
    options: dict[str, Any] = {"now": NOON, "auto_confirm": auto_confirm, "claim": known}
    observed = decide(OBSERVED, ledger, wanted, Circumstances(**options))
    strict = decide(_enforced(OBSERVED), ledger, wanted, Circumstances(**options))
    assert isinstance(observed, Forward)
    if isinstance(strict, Forward):
        assert observed == strict
    else:
        assert observed.observed == strict
        assert observed.limits == tuple(
            rate_key(rule.amount, rule.per_seconds, rule.pattern)
            for rule in OBSERVED.limits_of(wanted.tool)
            if not wanted.named_only
        )


def _enforced(policy: Policy) -> Policy:
    names = ("allow", "deny", "confirm", "budget", "budget_rule", "budgets", "limits", "once")
    return Policy(**{name: getattr(policy, name) for name in names})


def test_what_only_observes_counts_the_leg_over_the_limit() -> None:
    """A paused call continues past its budget of legs as the next leg, and carries the block that a policy would have made."""
    paused = msgspec.structs.replace(DOUBT, legs=8)
    ledger = Ledger(task=TASK, paused_calls={STATE + paused.digest: paused})
    decision = decide(OBSERVED, ledger, call("read_file", state=STATE), Circumstances(now=NOON))
    assert isinstance(decision, Continue)
    assert (decision.call, decision.leg) == ("s1.1", 9)
    assert decision.observed == decide(
        _enforced(OBSERVED), ledger, call("read_file", state=STATE), Circumstances(now=NOON)
    )
    assert isinstance(decision.observed, Block)


@for_each("tool", TOOLS)
def test_what_only_observes_still_asks_before_it_repeats_a_call_in_doubt(tool: str) -> None:
    """A call in doubt is no matter of policy: also where a rule would refuse its repetition, a person is asked."""
    doubt = msgspec.structs.replace(DOUBT, tool=tool)
    facts: dict[str, Any] = {"doubts": {"s1.1": doubt}, "calls_used": 99}
    decision = decide(OBSERVED, Ledger(task=TASK, **facts), call(tool), Circumstances(now=NOON))
    assert isinstance(decision, Ask)
    assert decision.doubt == "s1.1"
    yes = approval(tool, doubt="s1.1", who="ann")
    passed = decide(OBSERVED, Ledger(task=TASK, **(facts | yes)), call(tool), Circumstances(now=NOON))
    assert isinstance(passed, Forward)
    assert (passed.approval, isinstance(passed.observed, Block)) == ("q1", True)


@given(st.lists(st.integers(0, 40_000), max_size=40), st.integers(0, 3), st.booleans())
def test_a_spent_limit_never_admits_more(gaps: list[int], amount: int, together: bool) -> None:
    """Of calls at any times, one by one or two at a time, no minute holds more that went forward than the limit."""
    policy = Policy(
        allow=[Rule("allow", "pay", "p.aex", 1)],
        limits=[Rule("limit", "pay", "p.aex", 2, amount=amount, per_seconds=60)],
    )
    key = rate_key(amount, 60, "pay")
    slices: list[list[int]] = []
    admitted: list[int] = []
    now = NOON
    for gap in gaps:
        now += gap
        counted: dict[str, int] = {}
        for _ in range(1 + together):
            ledger = Ledger(task=TASK, rates={key: [list(pair) for pair in slices]})
            decision = decide(policy, ledger, call("pay"), Circumstances(now=now, spent=len(counted), counted=counted))
            if isinstance(decision, Forward):
                assert decision.limits == (key,)
                admitted.append(now)
                counted[key] = counted.get(key, 0) + 1
        slices += [[now // 1000, 1]] * counted.get(key, 0)
    assert all(sum(start <= at < start + 60_000 for at in admitted) <= amount for start in admitted)


@pytest.mark.parametrize("may_clash", [True, False])
def test_a_call_that_a_rule_and_its_server_may_read_differently_is_refused(may_clash: bool) -> None:
    """Two keys that are one to some reader refuse the call where a rule examines them, and nowhere else."""
    policy = policy_of("allow pay where amount <= 10", "allow get", version="v1")
    ledger = Ledger(task=TASK)
    given = {"amount": 1, "Amount": 1000}
    call = ToolRequest(tool="pay", digest=ONE, given=given, may_clash=may_clash)
    decision = decide(policy, ledger, call, Circumstances(now=NOON))
    if may_clash:
        assert isinstance(decision, Block)
        assert decision.reason == "unclear"
        assert "'amount' and 'Amount'" in decision.message
    else:
        assert isinstance(decision, Forward)
    data = msgspec.structs.replace(call, tool="get")
    assert isinstance(decide(policy, ledger, data, Circumstances(now=NOON)), Forward)
    nested = msgspec.structs.replace(call, given={"amount": 1, "env": given})
    assert isinstance(decide(policy, ledger, nested, Circumstances(now=NOON)), Forward)
