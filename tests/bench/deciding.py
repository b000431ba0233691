"""Decisions: a policy of so many rules, and calls of tools it has and has not seen before."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sizes import Sizes
from tables import Table

from adjourn.aex import Policy, from_text
from adjourn.log.canonical_json import digest
from adjourn.tasks.decision import Block, Circumstances, Forward, ToolRequest, decide
from adjourn.tasks.ledger import Ledger

KNOWN = 50
"""Different tools that an agent calls again and again."""
CONDITIONS = {
    "none": "",
    "is": ' where branch is "main"',
    "matches": ' where cmd matches "git *"',
    "~": ' where cmd ~ "^git [a-z -]+$"',
    "three tests": ' where branch in ["main", "next"] and cmd matches "git *" and options.depth <= 3',
}


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section."""
    table = Table(
        "Deciding, by the number of rules",
        ["rules", "reading the policy, ms", "known tools: decisions/s", "new tools: decisions/s"],
        f"Processor time. One decision on one call, over a ledger. Known: {KNOWN} tools take turns. New: each name is asked for the first "
        "time, so nothing is remembered of it. One rule in ten denies, one in ten asks a person, the rest allow; "
        "one in four is a prefix (`name.*`).",
    )
    for count in sizes.rules:
        policy, reading = _read(_policy_text(count, ""), count)
        known = [_call(number % count, "get") for number in range(KNOWN)]
        fresh = [_call(number % count, f"get{number}") for number in range(sizes.decisions)]
        _decide(policy, known)
        rate = sizes.decisions / _decide(policy, (known * (sizes.decisions // KNOWN + 1))[: sizes.decisions])
        table.add(f"{count:,}", reading, rate, sizes.decisions / _decide(policy, fresh))
    return [table, _conditions(sizes)]


def _conditions(sizes: Sizes) -> Table:
    table = Table(
        "Judging a call by its arguments, by the number of rules",
        ["rules", "reading the policy, ms", "making the permissions, ms", *(f"{name}, µs" for name in CONDITIONS)],
        f"Processor time. `Policy.judge_call` of {KNOWN} tools in turn, each named by one rule or a few, with decoded arguments. The rules are "
        "those of the table above, every one with the same condition, so each call is compared with it; `none` looks the "
        "verdict up.",
    )
    for count in sizes.rules:
        row = []
        for where in CONDITIONS.values():
            policy, reading = _read(_policy_text(count, where), count)
            row.append(_judge(policy, count, sizes.decisions))
        began = time.process_time()
        Policy(allow=policy.allow, deny=policy.deny, confirm=policy.confirm)
        table.add(f"{count:,}", reading, (time.process_time() - began) * 1e3, *row)
    return table


def _read(text: str, count: int) -> tuple[Policy, float]:
    """The policy of a text, and the milliseconds that reading it took."""
    began = time.process_time()
    policy, findings = from_text(text, "policy.aex")
    reading = (time.process_time() - began) * 1e3
    assert not [found for found in findings if found.severity == "error"], findings
    rules = len(policy.allow) + len(policy.deny) + len(policy.confirm)
    assert rules == count, rules
    return policy, reading


def _judge(policy: Policy, count: int, decisions: int) -> float:
    """Microseconds for judging one call."""
    arguments = {"cmd": "git status --short", "options": {"depth": 2}, "branch": "main"}
    tools = [_call(number % count, "get").tool for number in range(KNOWN)]
    tools = (tools * (decisions // KNOWN + 1))[:decisions]
    began = time.process_time()
    for tool in tools:
        policy.judge_call(tool, arguments)
    return (time.process_time() - began) / decisions * 1e6


def _name(number: int) -> str:
    return f"group{number % 97}.tool{number}"


def _policy_text(count: int, where: str) -> str:
    patterns = [_name(number) + ".*" if number % 4 == 0 else _name(number) + ".get" for number in range(count)]
    denied = patterns[0::10]
    asked = patterns[1::10]
    allowed = [pattern for number, pattern in enumerate(patterns) if number % 10 > 1]
    lines = ["policy bench v1", "", 'goal "Measure."', ""]
    lines += [f"use {pattern}{where}" for pattern in allowed]
    lines += [f"deny {pattern}{where}" for pattern in denied]
    lines += [f"confirm before {pattern}{where}" for pattern in asked]
    return "\n".join([*lines, ""])


def _call(number: int, verb: str) -> ToolRequest:
    return ToolRequest(tool=f"{_name(number)}.{verb}", digest=digest(b"{}"))


def _decide(policy: Policy, calls: Sequence[ToolRequest]) -> float:
    """The seconds that deciding on all of them took."""
    ledger = Ledger(task="20260101-bench", seq=10, calls_used=5)
    began = time.process_time()
    decisions = [decide(policy, ledger, call, Circumstances(now=1_767_225_600_000)) for call in calls]
    took = time.process_time() - began
    assert any(isinstance(decision, Forward | Block) for decision in decisions)
    return took
