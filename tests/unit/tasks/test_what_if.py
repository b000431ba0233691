"""Recorded calls under another policy: what it would have stopped, and what the record is too thin to tell."""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.aex import Policy
from adjourn.clients.explaining import WhatIf
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import timestamp
from adjourn.tasks.decision import ToolRequest
from support.clock import NOON
from support.events import TASK, chained
from support.policies import policy_of


def allowed(tool: str, given: Any = None, *, shown: str | None = None, **more: Any) -> kinds.ToolAllowed:
    """An intent; `shown` is what is recorded of its arguments, if not all."""
    text = canonical(given or {}).decode()
    arguments = text if shown is None else shown
    return kinds.ToolAllowed(
        arguments=arguments, call="c", digest=digest(text.encode()), effectful=True, tool=tool, **more
    )


def placed(_policy: Policy, call: ToolRequest) -> ToolRequest:
    path = call.given.get("path")
    return msgspec.structs.replace(call, paths=(path,)) if isinstance(path, str) else call


def replayed(policy: Policy, *facts: kinds.Data, step: int = 1000) -> WhatIf:
    replay = WhatIf(policy, placed)
    replay.take(TASK, [event for event, _, _ in chained([(fact, "s1") for fact in facts], step=step)])
    return replay


def rows(replay: WhatIf) -> set[tuple[str, str, int]]:
    return {(row.decision, row.rule, row.calls) for row in replay.stopped}


POLICY = policy_of("allow read", "allow write:src/**", "deny rm.*", "confirm before read where depth > 3", version="v1")


def test_what_it_would_have_stopped_is_told_by_rule() -> None:
    """Refused and asked about, with the tools, how often, and when last."""
    replay = replayed(
        POLICY,
        allowed("read", {"depth": 1}),
        allowed("rm.all", {"x": 1}),
        allowed("rm.one"),
        allowed("read", {"depth": 9}),
        allowed("unheard"),
        allowed("write", {"path": "src/a"}),
        allowed("write", {"path": "doc/a"}),
    )
    assert rows(replay) == {
        ("block", "deny rm.* (p.aex:6)", 2),
        ("block", "not_allowed", 2),
        ("ask", "confirm read where depth > 3 (p.aex:7)", 1),
    }
    (denied,) = [row for row in replay.stopped if row.rule.startswith("deny")]
    assert (dict(denied.tools), denied.last) == ({"rm.all": 1, "rm.one": 1}, timestamp(NOON + 2000))
    assert (replay.judged, replay.untold) == (7, {})


def test_what_cannot_be_told_is_not_guessed() -> None:
    """Where a rule examines arguments that are shortened or redacted, the call is counted apart; a plain deny is sure."""
    replay = replayed(
        POLICY,
        allowed("write", {"path": "src/a", "token": "x"}, shown='{"path":"src/a","token":"***"}'),
        allowed("write", {"path": "src/a"}, shown='{"path":"sr…'),
        allowed("write", {"path": "src/a"}, shown=""),
        allowed("rm.all", {"x": 1}, shown=""),
    )
    assert (replay.judged, dict(replay.untold)) == (1, {"write": 3})
    assert rows(replay) == {("block", "deny rm.* (p.aex:6)", 1)}


def test_a_call_that_a_person_said_yes_to_would_not_have_been_asked_about_again() -> None:
    """An approval that was used answers the question that the policy would have put."""
    given = {"depth": 9}
    assert rows(replayed(POLICY, allowed("read", given, approval="q1"))) == set()


def test_budgets_and_rates_are_spent_as_they_would_have_been() -> None:
    """What is refused takes no room from what comes after it."""
    policy = policy_of("allow a", "allow b", "limit a 2 per minute", "budget calls=4", version="v1")
    calls = [allowed(tool) for tool in ("a", "no", "a", "a", "b", "b", "b")]
    assert rows(replayed(policy, *calls)) == {
        ("block", "not_allowed", 1),
        ("block", "limit a 2 per minute (p.aex:6)", 1),
        ("block", "budget calls=4 (p.aex:7)", 1),
    }
    slow = replayed(policy, *[allowed("a")] * 4, step=40_000)
    assert rows(slow) == set()


def test_what_was_observed_is_listed_apart() -> None:
    """What a policy wrote down while it observed is shown as it was, beside what this one would have done."""
    seen = kinds.PolicyObserved(decision="block", reason="deny_list", rule="deny x (old.aex:1)", tool="x")
    replay = replayed(POLICY, seen, allowed("x"), seen, allowed("x"))
    assert {(row.rule, row.recorded, row.calls) for row in replay.stopped} == {
        ("deny x (old.aex:1)", True, 2),
        ("not_allowed", False, 2),
    }


def test_a_policy_that_observes_is_judged_as_if_it_did_not() -> None:
    """That is what the replay is for."""
    policy = policy_of("mode observe", "allow a", "deny b", version="v1")
    assert rows(replayed(policy, allowed("a"), allowed("b"))) == {("block", "deny b (p.aex:6)", 1)}


def test_odd_events_stop_nothing() -> None:
    """An imported event at no time, or with arguments that are no object, is counted as unknown."""
    replay = WhatIf(POLICY, placed)
    (event, _, _) = chained([(allowed("read"), "s1")])[0]
    replay.take(TASK, [msgspec.structs.replace(event, timestamp="never")])
    assert (replay.judged, dict(replay.untold)) == (0, {"read": 1})
    assert replayed(POLICY, allowed("write", shown="[1]")).untold == {"write": 1}
