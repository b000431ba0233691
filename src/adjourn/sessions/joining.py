"""A session's calls and those of adjourn's ledgers, joined: one call is shown once, with the outcome that the ledger has evidence of.

They are the same by the client's id of the call, else by arguments and time. A transcript that breaks off has no outcome of its last call;
the ledger may have it, because a hook or a proxy saw the call end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from adjourn.errors import AdjournError
from adjourn.log.canonical_json import digest
from adjourn.log.event import milliseconds
from adjourn.sessions.evidence import LedgerCall
from adjourn.sessions.story import Outcome, SessionCall, SessionStory

MAX_APART = 60_000
"""Milliseconds between the times that a transcript and a ledger give for one call."""
MAX_COMPARED = 100
"""Characters of arguments that are compared."""
_OUTCOMES: dict[str, Outcome] = {"ok": "ok", "error": "failed"}


def join(story: SessionStory, entries: Sequence[LedgerCall]) -> tuple[list[LedgerCall], list[str]]:
    """Give the story's calls the outcomes that only the ledger has. Returns the ledger's calls in doubt, and notes on what it lacks."""
    by_mark = {entry.call.rpartition(".")[2]: entry for entry in entries if "." in entry.call}
    free = {entry.call: entry for entry in entries}
    by_minute: dict[int, list[LedgerCall]] = {}
    for each in entries:
        by_minute.setdefault(_minute(each.since), []).append(each)
    governed, tasks = 0, dict[str, None]()
    effects = [call for call in story.calls if call.has_effects]
    for call in effects:
        entry = by_mark.get(digest(call.id.encode())[:8]) if call.id else None
        if entry is None or entry.call not in free:
            minute = _minute(call.at)
            near = (other for at in (minute, minute - 1, minute + 1) for other in by_minute.get(at, ()))
            entry = next((other for other in near if other.call in free and is_alike(call, other)), None)
        if entry is None:
            continue
        del free[entry.call]
        governed, tasks[entry.task] = governed + 1, None
        outcome = _OUTCOMES.get(entry.outcome)
        if call.outcome in ("unknown", "stopped") and outcome is not None:
            call.outcome, call.ended, call.by_ledger = outcome, call.step, True
    notes = []
    if governed:
        where = f"task{'s' * (len(tasks) > 1)} {', '.join(list(tasks)[:3])}"
        notes.append(f"adjourn's ledger ({where}) has {governed} of its {len(effects)} calls with effects")
    return [entry for entry in entries if not entry.outcome], notes


def _minute(stamp: str) -> int:
    """The number of the `MAX_APART` that a time is in; a negative one for no time."""
    with suppress(AdjournError):
        return milliseconds(stamp) // MAX_APART
    return -9


def is_same(call: SessionCall, entry: LedgerCall) -> bool:
    """Whether a call of a transcript and one of a ledger are the same."""
    if call.id and entry.call.endswith(f".{digest(call.id.encode())[:8]}"):  # as the hook's session names it
        return True
    return is_alike(call, entry)


def is_alike(call: SessionCall, entry: LedgerCall) -> bool:
    """Whether arguments and time of two calls are the same."""
    what, arguments = call.what[:MAX_COMPARED], entry.arguments.replace('\\"', '"')
    if not what or not (what in arguments or (entry.outcome and arguments[:MAX_COMPARED] == what)):
        return False
    with suppress(AdjournError):
        return bool(call.at) and abs(milliseconds(entry.since) - milliseconds(call.at)) < MAX_APART
    return False
