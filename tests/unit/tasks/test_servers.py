"""Servers in the history of a task: two with one tool name are distinguished, and what is from before servers were named is not lost."""

from __future__ import annotations

from typing import Any

import pytest

from adjourn.aex import KnownTool, KnownTools, Policy
from adjourn.log import kinds
from adjourn.log.event import timestamp
from adjourn.tasks.decision import Ask, Block, Circumstances, Forward, RecordedAnswer, ToolRequest, decide
from adjourn.tasks.entries import Approval, OpenCall
from adjourn.tasks.ledger import Ledger, is_same_tool
from adjourn.tasks.session import Session
from support.clock import NOON
from support.events import TASK
from support.ledger_facts import after
from support.payments import finish
from support.policies import policy_of
from support.task_sessions import SharedTask, admit_one

ONE = "1" * 64
KNOWN = KnownTools(
    {name: (KnownTool("deploy"), KnownTool("charge")) for name in ("inv", "notes", "twin")},
    {"inv": "command-1", "notes": "command-2", "twin": "command-1"},
)
ONCE = policy_of("use *", "once charge by invoice", version="v1")


def call(server: str, tool: str = "deploy", **changes: Any) -> ToolRequest:
    return ToolRequest(server=server, tool=tool, digest=ONE, **changes)


def at(server: str, policy: Policy = policy_of("use *", "confirm before x.*")) -> Policy:  # noqa: B008
    return policy.at_server(server, KNOWN)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (call("inv"), call("inv"), True),
        (call("inv"), call("notes"), False),
        (call(""), call("inv"), True),
        (call(""), call(""), True),
        (call("", "inv.deploy"), call("inv"), True),
        (call("", "notes.deploy"), call("inv"), False),
        (call("inv"), call("inv", "charge"), False),
    ],
)
def test_two_calls_are_of_one_tool_as_far_as_is_known(first: ToolRequest, second: ToolRequest, same: bool) -> None:
    """Servers tell tools of one name apart where both are known; a history may lack the server, or have it in the tool's name."""
    assert is_same_tool(first, second) is same
    assert is_same_tool(second, first) is same


@pytest.mark.parametrize(
    ("server", "tool", "asks"),
    [
        ("inv", "deploy", True),  # the same server
        ("notes", "deploy", False),  # another one
        ("", "deploy", True),  # a history of before
        ("", "inv.deploy", True),  # a hook's history of before
        ("Inventory", "deploy", True),  # a name that no server is known by: this one may have had it
        ("twin", "deploy", True),  # the same command started it
        ("notes", "charge", False),
    ],
)
def test_a_call_in_doubt_is_recognised_by_its_server(server: str, tool: str, asks: bool) -> None:
    """A person is asked before a call repeats one in doubt, unless that one was of a server that is known to be another."""
    doubt = OpenCall(
        call="s1.1", server=server, tool=tool, digest=ONE, effectful=True, session="s1", since=timestamp(NOON)
    )
    decision = decide(at("inv"), Ledger(task=TASK, doubts={"s1.1": doubt}), call("inv"), Circumstances(now=NOON))
    assert isinstance(decision, Ask if asks else Forward)


@pytest.mark.parametrize(
    ("server", "tool", "counts"),
    [
        ("inv", "deploy", True),
        ("", "deploy", False),
        ("", "inv.deploy", False),
        ("inv", "inv.deploy", False),
        ("notes", "deploy", False),
    ],
)
def test_a_yes_is_for_the_tool_of_one_server(server: str, tool: str, counts: bool) -> None:
    """An approval lets the tool pass of the server that it was asked for, not one that is shown by the same name."""
    yes = Approval(
        id="q1", server=server, tool=tool, digest=ONE, expires=timestamp(NOON + 9000), cause="c", asked="",
        approved=True,
    )  # fmt: skip
    policy = at("inv", policy_of("use *", "confirm before deploy"))
    decision = decide(policy, Ledger(task=TASK, approvals={"q1": yes}), call("inv"), Circumstances(now=NOON))
    assert isinstance(decision, Forward if counts else Ask)


def test_the_ledger_counts_and_notes_calls_by_their_full_names() -> None:
    """Calls of two servers' tools of one name are counted apart, and one that was refused does not hide the other."""
    facts = [
        (kinds.ToolAllowed(call=f"s1.{n}", digest=ONE, effectful=True, server=server, tool="deploy"), "s1")
        for n, server in enumerate(("inv", "notes", "inv", ""))
    ]
    refused = [
        (kinds.ToolDenied(digest=ONE, reason="deny_list", server=server, tool="deploy"), "s1")
        for server in ("inv", "notes")
    ]
    ledger = after(*facts, *refused)
    assert ledger.tools == {"inv.deploy": 2, "notes.deploy": 1, "deploy": 1}
    assert [(one.server, one.tool) for one in ledger.notable.values()] == [("inv", "deploy"), ("notes", "deploy")]
    assert ledger.open_calls["s1.1"].server == "notes"


def test_a_success_hides_no_failure_of_a_tool_that_is_shown_by_the_same_name() -> None:
    """What went wrong with a server's `inv.deploy` is still told after its `deploy` has passed with the same arguments."""
    refused = kinds.ToolDenied(digest=ONE, reason="deny_list", server="inv", tool="inv.deploy")
    passed = kinds.ToolAllowed(call="s1.1", digest=ONE, effectful=True, server="inv", tool="deploy")
    assert [one.tool for one in after((refused, "s1"), (passed, "s1")).notable.values()] == ["inv.deploy"]


def charge(server: str) -> ToolRequest:
    return ToolRequest(server=server, tool="charge", digest=ONE, given={"invoice": "A-7"})


def under(session: Session, server: str) -> None:
    session.decide_under(ONCE.at_server(server, KNOWN))


def test_an_effect_that_happens_once_happens_once_for_each_server(shared_task: SharedTask) -> None:
    """A `once` rule by the short form counts for each server by itself: the second call of one is answered as its first was."""
    session = shared_task.opened(policy=ONCE)
    for server in ("inv", "notes"):
        under(session, server)
        first = admit_one(session, charge(server))
        assert isinstance(first.decision, Forward)
        finish(session, first)
        again = admit_one(session, charge(server)).decision
        assert isinstance(again, RecordedAnswer)
        assert again.call == first.call


@pytest.mark.parametrize(("before", "now"), [("", "inv"), ("Inventory", "inv"), ("inv", "")])
def test_an_effect_that_happened_under_another_name_is_not_repeated(
    shared_task: SharedTask, before: str, now: str
) -> None:
    """An effect that was claimed when the server had no name, or one that no server is known by, has happened."""
    session = shared_task.opened(policy=ONCE)
    under(session, before)
    finish(session, first := admit_one(session, charge(before)))
    under(session, now)
    again = admit_one(session, charge(now)).decision
    assert isinstance(again, RecordedAnswer)
    assert again.call == first.call


def test_a_limit_by_the_short_form_is_of_all_servers_and_a_full_name_of_one() -> None:
    """`limit deploy` counts the calls of every server's tool, `limit inv.deploy` those of one."""
    policy = policy_of("use *", "limit inv.deploy 1 per minute", "limit deploy 2 per minute", version="v1")
    ledger = Ledger(task=TASK)
    kept = []
    for server, seq in (("inv", 0), ("notes", 1)):
        decision = decide(policy.at_server(server, KNOWN), ledger, call(server), Circumstances(now=NOON))
        assert isinstance(decision, Forward)
        kept.append(sorted(decision.limits))
        assert len(decision.limits) == 2 - seq
    assert kept == [["1/60 inv.deploy", "2/60 deploy"], ["2/60 deploy"]]


def test_a_refusal_says_which_form_a_person_can_write() -> None:
    """An allow that may mean two servers is closed, and its refusal names the rule and the full name."""
    decision = decide(at("inv", policy_of("use deploy")), Ledger(task=TASK), call("inv"), Circumstances(now=NOON))
    assert isinstance(decision, Block)
    assert "use deploy" not in decision.remedy
    assert decision.remedy == "a person can write: use inv.deploy"
    assert "allow deploy (p.aex:4) may mean the tool of another server" in decision.message
