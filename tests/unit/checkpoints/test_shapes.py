"""The published shapes of an event, and nothing added to them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.attachments import AUDITED, audit_entry, shown_size, tool_history_entry
from adjourn.log import kinds
from adjourn.log.event import Event, decode
from support.cases import for_each
from support.events import chained
from support.strategies import data, json_values


def event_of(item: kinds.Data) -> Event:
    (made,) = chained([(item, "s1")])
    return made[0]


def history(item: kinds.Data) -> dict[str, Any] | None:
    return tool_history_entry(event_of(item), item)


def audit(item: kinds.Data) -> dict[str, Any]:
    return audit_entry(event_of(item), item)


STAMP = "2026-05-02T15:30:12.345Z"
D = "1" * 64


@pytest.mark.parametrize(
    ("item", "decision", "reason"),
    [
        (kinds.ToolAllowed(call="c", digest=D, effectful=True, tool="t"), "forward", None),
        (kinds.ToolAllowed(approval="q", call="c", digest=D, effectful=False, tool="t"), "forward", None),
        (kinds.ToolDenied(reason="deny_list", rule="deny t (p:1)", tool="t"), "block", "deny_list"),
        (kinds.ToolDenied(reason="not_allowed", tool="t"), "block", "not_allowed"),
        (kinds.BudgetExhausted(limit=3, tool="t", used=3), "block", "budget_exhausted"),
        (kinds.ConfirmDenied(approval="q", tool="t", via="timeout"), "block", "confirm_required"),
    ],
)
def test_decisions_in_the_history(item: kinds.Data, decision: str, reason: str | None) -> None:
    """Tool, time, decision, and for a refusal its reason, in the published order."""
    expected = [("tool", "t"), ("timestamp", STAMP), ("decision", decision)]
    shown = history(item)
    assert shown is not None
    assert list(shown.items()) == expected + ([("reason", reason)] if reason else [])


DECISIONS = {"tool.allowed", "tool.denied", "budget.exhausted", "confirm.denied", "entry.imported"}


@given(data)
def test_nothing_else_is_in_the_history(item: kinds.Data) -> None:
    """Every decision is one entry; what is no decision on a call is none."""
    shown = history(item)
    if (isinstance(item, kinds.ToolDenied) and not item.reason) or (
        isinstance(item, kinds.EntryImported) and not item.decision
    ):
        assert shown is None
        return
    assert (shown is not None) == (item.KIND in DECISIONS)
    if shown is not None:
        assert list(shown) in (["tool", "timestamp", "decision"], ["tool", "timestamp", "decision", "reason"])
        if not isinstance(item, kinds.EntryImported):  # told as another tool wrote it
            assert ("reason" in shown) == (shown["decision"] == "block")


@for_each(
    ("item", "shown"),
    [
        (kinds.ToolAllowed(call="c", digest=D, effectful=True, tool="t", arguments="{}"), {"tool": "t"}),
        (kinds.ToolDenied(reason="deny_list", rule="r", tool="t"), {"tool": "t", "reason": "deny_list"}),
        (kinds.BudgetExhausted(limit=3, tool="t", used=4), {"tool": "t", "used": 4, "limit": 3}),
        (kinds.ConfirmApproved(approval="q", tool="t", via="terminal"), {"tool": "t"}),
        (kinds.ConfirmAutoApproved(tool="t"), {"tool": "t"}),
        (kinds.CheckpointResumed(checkpoint=D, name="n", source="store"), {"name": "n"}),
        (kinds.UpstreamCrashed(code=3), {"code": 3}),
        (kinds.UpstreamCrashed(signal=9), {"signal": 9}),
        (kinds.UpstreamError(message="no such program"), {"message": "no such program"}),
        (kinds.EffectSettled(call="c", outcome="done"), {}),
        (
            kinds.EntryImported(at="2026-05-02T15:28:00Z", decision="forward", entry="tool.allowed", tool="t"),
            {"entry": "tool.allowed", "tool": "t", "at": "2026-05-02T15:28:00Z", "verified": False},
        ),
        (kinds.TaskImported(calls=5, document="d"), {"from": "aex", "calls": 5, "verified": False}),
        (kinds.TaskImported(calls=5, source="langgraph"), {"from": "langgraph", "calls": 5, "verified": False}),
        (kinds.TaskImported(head="h", seq=4, signer="ed25519:0"), {}),
        (kinds.TaskFinished(note="shipped"), {}),
        (kinds.TaskReopened(), {}),
    ],
)
def test_entries_of_the_audit_summary(item: kinds.Data, shown: dict[str, Any]) -> None:
    """Event and data as published; ids, digests and arguments stay in the audit log."""
    assert list(audit(item).items()) == [("event", item.KIND), ("data", shown)]
    assert item.KIND in AUDITED


@given(data)
def test_audit_entries_are_of_one_shape(item: kinds.Data) -> None:
    """For any event: the kind, and a few fields that are there."""
    shown = audit(item)
    assert list(shown) == ["event", "data"]
    members = {"tool", "reason", "used", "limit", "name", "code", "signal", "message"}
    if isinstance(item, kinds.EntryImported | kinds.TaskImported):
        members |= {"at", "calls", "entry", "from", "verified"}
    assert shown["data"].keys() <= members
    assert "" not in shown["data"].values()


def test_a_kind_that_is_not_known() -> None:
    """It is no decision, and says only that it happened."""
    stored = chained([(kinds.TaskOpened(), "s")])[0][2].replace(b"task.opened", b"task.planned")
    event = decode(stored)
    assert kinds.data_of(event) is None
    assert tool_history_entry(event, None) is None
    assert audit_entry(event, None) == {"event": "task.planned", "data": {}}


@given(st.lists(json_values(), min_size=1, max_size=3))
def test_a_size_is_never_too_small(values: list[Any]) -> None:
    """A list in an answer takes no more, as it is shown, than its parts were said to."""
    text = msgspec.json.format(msgspec.json.encode({"list": values}), indent=2)
    assert len(text) <= len('{\n  "list": [\n  ]\n}') + sum(map(shown_size, values))


def test_kinds_that_are_told_are_known() -> None:
    """Each published kind is in the registry."""
    assert kinds.REGISTRY.keys() >= AUDITED
