"""The index of what is open about calls: refs `open/DIGEST/TASK/ID` by the digest of a call's arguments, one for each call in doubt, call
that happened unseen, and question or approval of a task. With it, other tasks find these (`workspace_calls`).

Owns: these refs, and how events change them. Must never: read or write a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adjourn.log import Envelope, Frontier, kinds
from adjourn.tasks.ledger import Ledger

INDEX = "open/"
CHANGING = frozenset(
    (
        kinds.SessionClosed,
        kinds.SessionLost,
        kinds.EffectSettled,
        kinds.EffectRepeated,
        kinds.ConfirmRequired,
        kinds.ConfirmApproved,
        kinds.ConfirmDenied,
        kinds.ToolChanged,
        kinds.ToolResult,
    )
)
"""Events that may change the entries of a task. Of others only calls and their settlements may (`Task.stage`)."""


def ref_of(task: str, digest: str, ident: str) -> str:
    """The entry of a call or an approval of a task."""
    return f"{INDEX}{digest}/{task}/{ident}"


def entries(ledger: Ledger) -> dict[str, str]:
    """The entries of a task."""
    found = {ref_of(ledger.task, one.digest, one.call): "doubt" for one in ledger.doubts.values()}
    found |= {ref_of(ledger.task, one.digest, one.call): "done" for one in ledger.unseen.values()}
    found |= {
        ref_of(ledger.task, one.digest, one.id): "approved" if one.approved else "asked"
        for one in ledger.approvals.values()
    }
    return found


def changes(ledger: Ledger, events: Sequence[tuple[Envelope, str]]) -> Mapping[str, str | None]:
    """What events, which are about to follow those of a ledger, make of the entries of its task.

    The entry of an approval that a call uses up is for its user to take away: no two tasks may.
    """
    after, used = _copy(ledger), set()
    for event, event_hash in events:
        after.apply(event, event_hash, event.data)
        if isinstance(event.data, kinds.ToolAllowed):
            used.add(event.data.approval)
    before, now = entries(ledger), entries(after)
    gone: dict[str, str | None] = {
        name: None for name in before if name not in now and name.rpartition("/")[2] not in used
    }
    return gone | {name: value for name, value in now.items() if before.get(name) != value}


def _copy(ledger: Ledger) -> Ledger:
    """A ledger whose changes leave this one as it is."""
    members: dict[str, Any] = {}
    for name in ledger.__struct_fields__:
        value = getattr(ledger, name)
        if name == "rates":
            value = {key: [list(counted) for counted in slices] for key, slices in value.items()}
        members[name] = value.copy() if isinstance(value, dict | list) else value
    return Ledger(**members | {"tree": Frontier()})  # nobody asks this one for its root
