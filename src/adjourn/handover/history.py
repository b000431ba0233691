"""The history behind a hand-over, page by page: the published entries of `auditSummary`, the newest page first.

Owns: the cursor, and the size of a page. Must never: show an event that was not verified.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from adjourn.checkpoints import AUDITED, audit_entry
from adjourn.errors import InvalidError
from adjourn.log import data_of, decode
from adjourn.store import Entry, Head, Store
from adjourn.tasks import Ledger, checked, following

MAX_AUDIT_PAGE = 200
MAX_CURSOR = 19


def page_before(store: Store, ledger: Ledger, more: str, room: int) -> tuple[list[dict[str, Any]], str]:
    """The newest entries before the cursor `more` that fit into `room` bytes, oldest first, and the cursor of the page before ("": none).

    Raises `InvalidError` for what is no cursor, `IntegrityError` for a history that was changed.
    """
    if not (more.isascii() and more.isdecimal() and len(more) < MAX_CURSOR):
        raise InvalidError(
            f"unknown cursor: {more[:40]!r}", "give the `more` of an earlier answer, or leave it out"
        )
    stop = min(int(more), ledger.seq + 1)
    shown, start = _audit(store, ledger.task, stop, room, Head(ledger.seq, ledger.hash))
    return shown, str(start) if start > 0 else ""


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
            room -= len(msgspec.json.encode(summary)) + 1
            if room < 0 and shown:  # each answer has at least one entry
                return shown[::-1], event.seq + 1
            shown.append(summary)
        head = _before(page, start)
        stop = start
    return shown[::-1], 0


def _before(page: list[Entry], seq: int) -> Head:
    """The head that the first event of a verified page, at position `seq`, follows."""
    return Head(seq - 1, decode(page[0].data).after)
