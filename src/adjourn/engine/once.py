"""Effects that may happen only once in a task: `once payments.charge by invoice`.

The chain holds all of it: an intent names its effect (`tool.allowed`, `once`), its settlement the digest of the answer. The
refs kept here, `once/TASK/KEY` to `CALL [ANSWER]`, are an index of that, written in the same transactions.

Owns: those refs and what they say of an effect. Must never: decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from adjourn.aex.policy import Policy
from adjourn.aex.where import values_at
from adjourn.engine.decide import Call, Claim
from adjourn.engine.task import Task
from adjourn.errors import InvalidError
from adjourn.log import kinds
from adjourn.log.canonical import canonical, digest
from adjourn.log.event import Event
from adjourn.state.ledger import Call as OpenCall
from adjourn.state.ledger import Ledger

MAX_ANSWER = 1024 * 1024
"""Bytes of an answer that is kept. Of a longer one only that it came is known."""
_TELLING = {kinds.ToolAllowed.KIND, kinds.ToolSettled.KIND, kinds.EffectSettled.KIND}
DONE = "done"
"""Stands for the answer of an effect that happened, but left no answer to keep."""


def ref(task: str, key: str) -> str:
    return f"once/{task}/{key}"


def look_up(
    task: Task, policy: Policy, ledger: Ledger, call: Call, changes: Mapping[str, str | None]
) -> Claim | None:
    """What is known of the effect of a call; None where no rule limits it. `changes` are refs about to be written."""
    if not policy.once or call.named_only:
        return None
    rules = policy.once_of(call.tool)
    if not rules:
        return None
    rule = rules[0]
    named = values_at(call.given, rule.by.split("."))
    if any(value is None or value == "" for value in named):
        return Claim(missing=rule.by)
    try:
        key = digest(canonical([rule.pattern, rule.by, *named]))
    except InvalidError:
        return Claim(missing=rule.by)
    name = ref(task.id, key)
    if name in changes:
        return Claim(key, "open", changes[name] or "")
    earlier, _, answer = (task.store.ref(name) or "").partition(" ")
    if not earlier:
        return Claim(key)
    if earlier in ledger.open_calls or any(paused.call == earlier for paused in ledger.paused_calls.values()):
        return Claim(key, "open", earlier)
    if earlier in ledger.doubts:
        return Claim(key, "doubt", earlier)
    if not answer:
        return Claim(key)  # it was settled as having had no effect
    return Claim(key, "done", earlier, "" if answer == DONE else answer)


def keep(
    task: Task, settled: Sequence[kinds.ToolSettled], answers: Mapping[str, bytes]
) -> dict[str, str | None]:
    """The refs that point at the answers of calls which had their effect."""
    changes: dict[str, str | None] = {}
    for one in settled:
        call = task.ledger.open_calls.get(one.call) or task.ledger.doubts.get(one.call)
        if call is not None and call.once and one.outcome == "ok":
            changes[ref(task.id, call.once)] = f"{one.call} {one.answer if one.call in answers else DONE}"
    return changes


def settled_by_hand(task: str, call: OpenCall, *, happened: bool) -> dict[str, str | None]:
    """What a person's word on a call in doubt makes of its claim."""
    return {ref(task, call.once): f"{call.call} {DONE}" if happened else None} if call.once else {}


def index(task: str, events: Iterable[Event]) -> dict[str, str | None]:
    """The refs that a chain of events amounts to: for a history that was made elsewhere. Answers stayed there."""
    keys: dict[str, str] = {}
    changes: dict[str, str | None] = {}
    for event in events:
        if event.event not in _TELLING:
            continue
        data = kinds.data_of(event)
        if isinstance(data, kinds.ToolAllowed) and data.once:
            keys[data.call] = name = ref(task, data.once)
            changes[name] = data.call
        elif isinstance(data, kinds.ToolSettled) and data.outcome == "ok" and data.call in keys:
            changes[keys[data.call]] = f"{data.call} {data.answer or DONE}"
        elif isinstance(data, kinds.EffectSettled) and data.call in keys:
            changes[keys[data.call]] = f"{data.call} {DONE}" if data.outcome == "done" else None
    return changes
