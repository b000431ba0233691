"""What the property tests draw from: JSON values, event data of every kind, chains, and histories that could be real."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from adjourn.aex.policy import Policy, from_text
from adjourn.log import kinds
from adjourn.log.event import GENESIS, Actor, Event, encode, timestamp
from adjourn.store.base import Entry

NOON = 1_777_735_812_345
"""Some noon or other, in milliseconds."""
MAX_INTEGER = 2**53 - 1
TASK = "20260502-7k3f9q2m"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Unicode texts, control characters included."""
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=8)
integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
numbers = integers | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | texts
milliseconds = st.integers(-62_135_596_800_000, 253_402_300_799_999)
"""The years 1 to 9999."""
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)


def json_values(
    leaves: st.SearchStrategy[Any] = scalars | numbers, keys: st.SearchStrategy[str] = texts
) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
        max_leaves=25,
    )


def _of_type(kind: Any) -> st.SearchStrategy[Any]:
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    known: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        int: integers,
        bool: st.booleans(),
        list[str]: st.lists(texts, max_size=3),
    }
    return known[kind]


def data_of_kind(kind: type[kinds.Data]) -> st.SearchStrategy[Any]:
    """Any data that fits a kind; members with defaults are often at their default."""
    members = {}
    for field in msgspec.structs.fields(kind):
        values = _of_type(field.type)
        members[field.name] = values if field.required else st.just(kinds.default_of(field)) | values
    return st.builds(kind, **members)


data = st.sampled_from(list(kinds.REGISTRY.values())).flatmap(data_of_kind)
actors = st.builds(Actor, texts, st.sampled_from(["agent", "human", "system"]))


def chained(
    facts: Sequence[tuple[kinds.Data, str]], *, task: str = TASK, first_time: int = NOON, step: int = 1000
) -> list[tuple[Event, str, bytes]]:
    """Events of `(data, session)` pairs, one `step` of milliseconds apart, with hashes and stored bytes."""
    after, result = GENESIS, []
    for seq, (item, session) in enumerate(facts):
        event = Event(
            after=after,
            by=Actor("adjourn", "system"),
            data=msgspec.Raw(msgspec.json.encode(item)),
            event=item.KIND,
            seq=seq,
            session=session,
            task=task,
            timestamp=timestamp(first_time + seq * step),
        )
        after, stored = encode(event)
        result.append((event, after, stored))
    return result


def link(after: str, rest: bytes) -> Entry:
    """An entry that names its predecessor and is otherwise whatever `rest` is."""
    stored = b'{"after":"' + after.encode() + b'"' + rest
    return Entry(sha256(stored).hexdigest(), stored)


def linked(rests: Sequence[bytes]) -> list[Entry]:
    """A chain of such entries."""
    entries: list[Entry] = []
    for rest in rests:
        entries.append(link(entries[-1].hash if entries else GENESIS, rest))
    return entries


def chains(min_size: int = 0) -> st.SearchStrategy[list[Entry]]:
    """Chains that hold, of entries that are hardly ever JSON: verification does not decode."""
    return st.lists(st.binary(max_size=12), min_size=min_size, max_size=8).map(linked)


SESSIONS = ["s1", "s2", "s3"]
CALLS = ["c1", "c2", "c3", "c4"]
APPROVALS = ["q1", "q2", "q3"]
TOOLS = ["read_file", "deploy"]

_session, _call, _approval = st.sampled_from(SESSIONS), st.sampled_from(CALLS), st.sampled_from(APPROVALS)
_tool, _digest = st.sampled_from(TOOLS), st.sampled_from(["0" * 64, "1" * 64])

telling: st.SearchStrategy[kinds.Data] = st.one_of(
    st.builds(
        kinds.SessionOpened,
        budget=st.integers(-1, 3),
        group=st.sampled_from(["g1", "g2"]),
        host=st.just("box:b:n"),
        pid=st.integers(1, 3),
        policy=_digest,
        started=st.just(7),
    ),
    st.builds(kinds.SessionClosed, reason=st.just("eof"), to=st.sampled_from(["", "other"])),
    st.builds(
        kinds.SessionLost,
        calls=st.lists(_call, max_size=2),
        lost=_session,
        reason=st.sampled_from(["dead", "expired", "taken-over"]),
    ),
    st.builds(
        kinds.ToolAllowed,
        approval=st.just("") | _approval,
        call=_call,
        digest=_digest,
        effectful=st.booleans(),
        tool=_tool,
        uncounted=st.booleans(),
    ),
    st.builds(kinds.ToolContinued, call=_call),
    st.builds(kinds.ToolDefined, definition=_digest, tool=_tool),
    st.builds(kinds.ToolChanged, after=_digest, before=_digest, tool=_tool),
    st.builds(
        kinds.ToolSettled,
        call=_call,
        outcome=st.sampled_from(["ok", "tool-error", "error", "input-required", "no-answer"]),
        state=st.sampled_from(["", "2" * 64, "3" * 64]),
    ),
    st.builds(kinds.EffectSettled, call=_call, outcome=st.sampled_from(["done", "not-done"])),
    st.builds(
        kinds.ConfirmRequired,
        approval=_approval,
        cause=st.just("confirm deploy"),
        definition=st.just("") | _digest,
        digest=_digest,
        doubt=st.just("") | _call,
        expires=st.integers(-5, 20).map(lambda seconds: timestamp(NOON + 1000 * seconds)) | texts,
        tool=_tool,
    ),
    st.builds(kinds.ConfirmApproved, approval=_approval, tool=_tool, via=st.just("terminal")),
    st.builds(kinds.ConfirmDenied, approval=_approval, tool=_tool, via=st.just("timeout")),
)
"""Data of kinds that a ledger acts on, with few names, so that events meet."""

histories = st.lists(st.tuples(telling | data, _session), max_size=40)
"""Facts in any order, sensible or not: whatever a valid chain may hold."""


class Clock:
    """A clock that stands still until it is moved. Milliseconds."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def move(self, *, seconds: float) -> None:
        self.now += int(seconds * 1000)


def policy_of(*lines: str, version: str = "v0") -> Policy:
    """The permissions of a policy with these lines, which begin in line 4."""
    policy, findings = from_text(
        "\n".join([f"policy work {version}", "", 'goal "do it"', *lines, ""]), "p.aex"
    )
    assert findings == []
    return policy
