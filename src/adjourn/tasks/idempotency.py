"""Effects that may happen only once: those of `once payments.charge by invoice` in a workspace, calls with an idempotency key and
effects that a library claims in a task.

The chain holds all of it: an intent names its effect (`tool.allowed`, `once`), its settlement the digest of the answer. The refs kept
here are an index of that, written in the same transactions: by a rule `effect/KEY@SERVER` to `TASK CALL [ANSWER]` (`effect/KEY` where
the server is not known), whose name in events starts with a plus; else `once/TASK/KEY` to `CALL [ANSWER]`, for an
idempotency key `once/TASK/KEY@DIGEST`, the digest of tool and arguments.

Owns: those refs and what they say of an effect. Must never: decide.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from adjourn.aex.policy import Policy
from adjourn.aex.rule import Rule, values_at
from adjourn.errors import InvalidError
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import Event
from adjourn.log.kinds import tool_name
from adjourn.policy.principal import key_of_task
from adjourn.store.base import Store, Swap
from adjourn.tasks.decision import OnceClaim, ToolRequest
from adjourn.tasks.entries import OpenCall
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task, open_entries

MAX_ANSWER = 1024 * 1024
"""Bytes of an answer that is kept. Of a longer one only that it came is known."""
SHORT_ANSWER = 4 * 1024
"""Bytes up to which an answer is kept as it came; a longer one is compressed (zlib)."""
NO_CHANGES: Mapping[str, str | None] = MappingProxyType({})
_COMPRESSED = zlib.compress(b"")[:1]
_STRICTEST = ("another", "open", "done", "doubt", "free")
WORKSPACE = "+"
"""Prefix of the names of effects that are claimed in the whole workspace."""
AT_SERVER = "@"
"""Stands in the name of an effect between the key and the server."""
DONE = "done"
"""Stands for the answer of an effect that happened, but left no answer to keep."""


def ref(task: str, key: str) -> str:
    """The ref of an effect by its name in the events of a task."""
    return f"effect/{key[1:]}" if key.startswith(WORKSPACE) else f"once/{task}/{key}"


def claimed(task: str, keys: str, value: str | None) -> dict[str, str | None]:
    """The refs of the keys of one claim: `CALL`, `CALL ANSWER`, or None when the claim is abandoned."""
    return {
        ref(task, key): value and (f"{task} {value}" if key.startswith(WORKSPACE) else value) for key in keys.split()
    }


def claims(task: Task, keys: str, call: str) -> tuple[dict[str, str | None], dict[str, Swap]]:
    """What claims an effect for a call: the refs of those names that only this task has, and swaps for the others, since another task
    may be about to claim them.
    """
    refs = claimed(task.id, keys, call)
    swaps = {name: Swap(task.store.ref(name), refs.pop(name)) for name in list(refs) if name.startswith("effect/")}
    return refs, swaps


def of_workspace(store: Store) -> dict[str, str]:
    """The claims of tasks as an earlier version kept them, as claims of their workspace."""
    workspace = {}
    for name, value in store.refs("once/").items():
        _, task, key = name.split("/", 2)
        space = key_of_task(task)
        workspace[f"effect/{key}{'@' * bool(space)}{space}"] = f"{task} {value}"
    return workspace


def look_up(
    task: Task, policy: Policy, ledger: Ledger, call: ToolRequest, changes: Mapping[str, str | None]
) -> OnceClaim | None:
    """What is known of the effect of a call; None where no rule limits it, it has no key, and nobody has claimed it beside the sessions.

    `changes` are refs about to be written.
    """
    if call.named_only:
        return None
    once_claim: OnceClaim | None = None
    keys: list[str] = []
    for rule in policy.once_of(call.tool):
        key = key_of(rule, call.given)
        if not key:
            return OnceClaim(missing=rule.by)
        own = WORKSPACE + (f"{key}{AT_SERVER}{call.server}" if call.server else key)
        before = (name for name in names_of(task, key) if not policy.is_another(name.partition(AT_SERVER)[2]))
        keys += dict.fromkeys((own, *before))
    if ledger.beside and call.effectful:
        names = dict.fromkeys((call.tool, tool_name(call)))
        beside = [call_key(name, call.digest) for name in names]
        keys += [key for key in beside if task.store.ref(ref(task.id, key)) is not None]
    if call.key:
        own = f"{call.key}{AT_SERVER}{call_key(tool_name(call), call.digest)}"
        begin, changed = ref(task.id, f"{call.key}{AT_SERVER}"), changes.items()
        of_key = task.store.refs(begin) | {name: value for name, value in changed if name.startswith(begin)}
        of_key.pop(ref(task.id, own), None)
        if another := next(filter(None, of_key.values()), ""):
            return OnceClaim(own, "another", another.partition(" ")[0], is_retry=True)
        keys.append(own)
        once_claim = known(task, ledger, own, changes)
        if once_claim.state != "free":
            return msgspec.structs.replace(once_claim, key=" ".join(keys), is_retry=True)
    for key in keys:
        claim = known(task, ledger, key, changes)
        if once_claim is None or _STRICTEST.index(claim.state) < _STRICTEST.index(once_claim.state):
            once_claim = claim
    return msgspec.structs.replace(once_claim, key=" ".join(keys)) if once_claim is not None else None


def names_of(task: Task, key: str) -> list[str]:
    """The names under which an effect is claimed: its key, where the server was not known, or its key at servers."""
    begin = ref(task.id, WORKSPACE)
    names = (name.removeprefix(begin) for name in task.store.refs(begin + key))
    return [WORKSPACE + name for name in names if name.partition(AT_SERVER)[0] == key]


def key_of(rule: Rule, given: Mapping[str, object]) -> str:
    """The name of the effect of a call that a rule limits; empty where an argument that should say it is missing, or holds a
    whole number that some readers round (beyond 2^53 - 1), so that two numbers may be one effect.
    """
    named = values_at(given, rule.by.split("."))
    if any(value is None or value == "" for value in named):
        return ""
    try:
        return digest(canonical([rule.pattern, rule.by, *named]))
    except InvalidError:
        return ""


def call_key(tool: str, arguments: str) -> str:
    """The name of an effect that is claimed beside the sessions: the tool, and the digest of the arguments."""
    return digest(f"{tool} {arguments}".encode())


def known(task: Task, ledger: Ledger, key: str, changes: Mapping[str, str | None] = NO_CHANGES) -> OnceClaim:
    """What is known of one name of an effect. Where that does not say how a call ended, it is in doubt."""
    name = ref(task.id, key)
    is_shared = key.startswith(WORKSPACE)
    if name in changes:
        taken = (changes[name] or "").removeprefix(f"{task.id} " * is_shared)
        return OnceClaim(key, "open", taken) if taken else OnceClaim(key)
    value = task.store.ref(name) or ""
    owner, _, value = value.partition(" ") if is_shared else (task.id, "", value)
    earlier, _, answer = value.partition(" ")
    if not earlier:
        return OnceClaim(key)
    if not answer and owner != task.id:
        ledger = Task(task.store, owner, clock=task.clock, secret=task.secret).ledger
    if earlier in ledger.open_calls or any(paused.call == earlier for paused in ledger.paused_calls.values()):
        return OnceClaim(key, "open", earlier, owner=owner)
    if not answer:
        return OnceClaim(key, "doubt", earlier, owner=owner)
    return OnceClaim(
        key, "done", earlier, "" if answer == DONE or task.store.get_blob(answer) is None else answer, owner=owner
    )


def keep(task: Task, settled: Sequence[kinds.ToolSettled], answers: Mapping[str, bytes]) -> dict[str, str | None]:
    """What settlements make of the claims of their calls, where `answers`, as `packed` has them, are stored in the same step.

    A call that failed gives its claim up, one without an answer keeps it.
    """
    changes: dict[str, str | None] = {}
    for one in settled:
        answer = digest(answers[one.call]) if one.call in answers else DONE
        changes |= ended(task.ledger, one, answer, task.store.ref)
    return changes


def packed(answer: bytes) -> bytes:
    """An answer as it is kept: JSON, or compressed if it is long. No JSON text has the first byte of what is compressed."""
    if len(answer) <= SHORT_ANSWER:
        return answer
    short = zlib.compress(answer)
    return short if len(short) < len(answer) else answer


def kept_answer(store: Store, name: str) -> bytes | None:
    """The answer that the store keeps under the digest `name`; None where it has none, or none that `packed` made."""
    data = store.get_blob(name)
    if data is None or data[:1] != _COMPRESSED:
        return data
    unpacking = zlib.decompressobj()
    try:
        answer = unpacking.decompress(data, MAX_ANSWER + 1)
    except zlib.error:
        return None
    return answer if unpacking.eof and len(answer) <= MAX_ANSWER else None


def ended(
    ledger: Ledger, settled: kinds.ToolSettled, answer: str, value_of: Callable[[str], str | None]
) -> dict[str, str | None]:
    """What the end of a call makes of its claim. The ledger is as it was before that; `value_of` has the refs."""
    call = ledger.open_calls.get(settled.call) or ledger.doubts.get(settled.call)
    if call is None or settled.outcome in ("no-answer", "input-required"):
        return {}
    ended = claimed(ledger.task, call.once, f"{call.call} {answer or DONE}" if settled.outcome == "ok" else None)
    return _still_of(call, ended, value_of)


def settled_by_hand(
    task: str, call: OpenCall, *, happened: bool, value_of: Callable[[str], str | None]
) -> dict[str, str | None]:
    """What a person's word on a call in doubt makes of its claim."""
    return _still_of(call, claimed(task, call.once, f"{call.call} {DONE}" if happened else None), value_of)


def _still_of(
    call: OpenCall, ended: dict[str, str | None], value_of: Callable[[str], str | None]
) -> dict[str, str | None]:
    """The outcome of the claims of a call, without those that another call has taken since because a person allowed it."""
    return {name: value for name, value in ended.items() if call.call in (value_of(name) or call.call).split(" ")}


def index(task: str, events: Iterable[Event]) -> dict[str, str | None]:
    """The refs that a chain of events amounts to, with those of what is open at its end: for a history that was made elsewhere.
    Answers stayed there.
    """
    changes: dict[str, str | None] = {}
    ledger = Ledger(task=task)
    for event in events:
        data = kinds.data_of(event)
        if isinstance(data, kinds.ToolAllowed):
            changes |= claimed(task, data.once, data.call)
        elif isinstance(data, kinds.ToolSettled):
            changes |= ended(ledger, data, data.answer, changes.get)
        elif isinstance(data, kinds.EffectSettled) and (call := ledger.doubts.get(data.call)) is not None:
            changes |= settled_by_hand(task, call, happened=data.outcome == "done", value_of=changes.get)
        ledger.seq, ledger.hash = event.seq - 1, event.after  # whether it is a chain is for others to say
        ledger.apply(event, event.after, data)
    return changes | open_entries(ledger)
