"""The answer of `aex.resume`, within its bounds.

Owns: which parts it has, what each may take, the cursor of the audit entries. Must never: show an event that was not verified, or
guess about a call in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from adjourn.checkpoints import (
    AUDITED,
    TaskCheckpoint,
    audit_entry,
    imported_history,
    page_files,
    shown_size,
    trusted_signer,
)
from adjourn.errors import InvalidError
from adjourn.log import data_of, decode
from adjourn.store import Entry, Head, Store
from adjourn.tasks import Ledger, OpenCall, checked, following
from adjourn.text import fit_items, fit_text

ANSWER_BYTES = 8 * 1024
"""The limit of a resume answer; `more` pages through the rest."""
MAX_AUDIT_PAGE = 200
DESCRIPTION_CHARACTERS, GOAL_CHARACTERS, TOOLS_BYTES, DOUBTS_BYTES = 2500, 500, 1000, 2000
PAGE_CHARACTERS, NOTE_CHARACTERS = 2000, 200
BRIEF_BYTES, HISTORY_BYTES = 4000, 1000
"""The limits of the parts of an answer, which leave room for the history."""
MAX_CURSOR = 19


def answer(
    store: Store,
    ledger: Ledger,
    checkpoint: TaskCheckpoint,
    *,
    budget: int | None,
    more: str = "",
    page: page_files.PageSummary | None = None,
    brief: Callable[[int], str] | None = None,
) -> dict[str, Any]:
    """The answer of `aex.resume`: published fields, newest page, brief of the task's record, calls in doubt, audit entries, cursor.

    It takes at most `ANSWER_BYTES`: the newest audit entries that fit, in order. `budget` counts calls, `more` is the cursor of an earlier
    answer, `brief` writes the record's brief in at most that many bytes. Raises `InvalidError` for an unknown cursor.
    """
    reply = _described(checkpoint, GOAL_CHARACTERS if page and page.text else DESCRIPTION_CHARACTERS)
    reply["toolsCalled"] = fit_items(list(ledger.tools), TOOLS_BYTES, shown_size)
    reply["callsUsed"] = ledger.calls_used
    if budget is not None:
        reply["budgetRemaining"] = ledger.remaining(budget)
    reply["auditSummary"] = []
    if page is not None and not more:
        reply["page"] = fit_text(page.text, PAGE_CHARACTERS)
        if page.notes:
            reply["pageNotes"] = [fit_text(note, NOTE_CHARACTERS) for note in page.notes]
    reply["task"] = ledger.task
    reply["checkpointedAt"] = checkpoint.event.timestamp
    if ledger.goal:
        reply["goal"] = fit_text(ledger.goal, GOAL_CHARACTERS)
    if imported := imported_history(ledger):
        reply["imported"] = imported
    if ledger.doubts:
        reply["inDoubt"] = fit_items(
            [_doubt(call) for call in ledger.doubts.values()], DOUBTS_BYTES, shown_size
        )
        reply["inDoubtCount"] = len(ledger.doubts)
        reply["advice"] = (
            "The calls in inDoubt were cut off: nobody knows whether they had their effect. Find out before repeating "
            "one; a person can list and settle them with `adjourn settle`."
        )
    room = ANSWER_BYTES - shown_size(reply | {"more": ""}) - MAX_CURSOR
    if brief is not None and not more and (text := brief(min(room - HISTORY_BYTES, BRIEF_BYTES))):
        reply["brief"] = text
        room -= shown_size({"brief": text})
    if more and not (more.isascii() and more.isdecimal() and len(more) < MAX_CURSOR):
        raise InvalidError(
            f"unknown cursor: {more[:40]!r}", "give the `more` of an earlier answer, or leave it out"
        )
    stop = min(int(more), ledger.seq + 1) if more else ledger.seq + 1
    reply["auditSummary"], start = _audit(
        store, ledger.task, stop, max(room, HISTORY_BYTES), Head(ledger.seq, ledger.hash)
    )
    if start > 0:
        reply["more"] = str(start)
    return reply


def _described(checkpoint: TaskCheckpoint, limit: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": checkpoint.data.name}
    if checkpoint.data.description:
        shown["description"] = fit_text(checkpoint.data.description, limit)
    if not trusted_signer(checkpoint):  # a person vouched for this history, not for its writer
        shown["untrustedSigner"] = checkpoint.data.key
    return shown


def _doubt(call: OpenCall) -> dict[str, Any]:
    shown = {"call": call.call, "tool": call.tool, "digest": call.digest, "since": call.since}
    return shown | ({"arguments": call.arguments[:200]} if call.arguments else {})


def _audit(store: Store, task: str, stop: int, room: int, head: Head) -> tuple[list[dict[str, Any]], int]:
    """The newest audit entries before event `stop` that fit into `room` bytes, oldest first, and where the rest ends.

    Each event is verified before it is shown, from `head` backwards: each page of events ends at what the one after it follows.
    """
    shown: list[dict[str, Any]] = []
    if 0 < stop <= head.seq:
        head = _before(list(islice(checked(store, task, stop, head), 1)), stop)
    while stop > 0:
        start = max(0, stop - MAX_AUDIT_PAGE)
        page = list(following(store, task, start, head))
        for entry in reversed(page):
            event = decode(entry.data)
            if event.event not in AUDITED:
                continue
            summary = audit_entry(event, data_of(event))
            room -= shown_size(summary)
            if room < 0 and shown:  # each answer has at least one entry
                return shown[::-1], event.seq + 1
            shown.append(summary)
        head = _before(page, start)
        stop = start
    return shown[::-1], 0


def _before(page: list[Entry], seq: int) -> Head:
    """The head that the first event of a verified page, at position `seq`, follows."""
    return Head(seq - 1, decode(page[0].data).after)
