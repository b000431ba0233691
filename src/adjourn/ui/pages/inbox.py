"""The inbox: all that waits for a person, the most urgent first, with what one needs to know to answer it; and the form of an answer.

`handover` decides what waits, records answers, and knows what each kind of item takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.answering import (
    Answerer,
    ItemReply,
    ReplyOutcome,
    ShownArguments,
    arguments_of,
    record_answer,
    revoke_approval,
)
from adjourn.handover.calls import CallReport, telling_argument
from adjourn.handover.inbox import URGENCIES, WaitingItem
from adjourn.ui.site import Form, Notice, Site, WebPage

VIA = "page"
"""How events name this way of answering."""
MAX_CARDS = 50
"""Items on the page at once; the others follow when these are answered."""
MAX_QUERY = 200
MAX_CALLS = 3
"""Calls before an item that are shown with it."""


class Card(NamedTuple):
    """An item, and what is shown with it."""

    item: WaitingItem
    arguments: ShownArguments
    before: Sequence[CallReport]


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The items with the text `q`, which tasks and records could not be read, and how many tasks are left to be read."""
    q = fields.get("q", "")[:MAX_QUERY]
    store = site.find_store()
    if store is None:
        return {
            "has_store": False,
            "cards": [],
            "count": 0,
            "shown": 0,
            "q": q,
            "unreadable": {},
            "troubles": [],
            "granted": [],
            "left": 0,
        }
    waiting, left = site.overview.waiting(store, site.within)
    cards = []
    items = [item for item in waiting.items if _has(item, q.casefold())]
    for item in items[:MAX_CARDS]:
        arguments = arguments_of(store, item, site.tree)
        before = [call for call in site.overview.last_calls(item.task) if call.call != item.id]
        cards.append(Card(item, arguments, before[-MAX_CALLS:]))
    return {
        "has_store": True,
        "cards": cards,
        "urgencies": URGENCIES,
        "count": len(waiting.items),
        "shown": len(items),
        "q": q,
        "unreadable": waiting.unreadable,
        "troubles": waiting.troubles[:MAX_CARDS],
        "granted": [(item, telling_argument(item.context)) for item in waiting.granted[-MAX_CARDS:]],
        "left": left,
    }


def _has(item: WaitingItem, words: str) -> bool:
    """Whether an item has a text, which is in lower case."""
    return any(words in text.casefold() for text in (item.kind, item.title, item.context, item.goal, item.task))


def answer_item(site: Site, form: Form) -> Notice:
    """Record an answer. The form has `kind`, `id`, `task` or `record`, `action`, and what the action needs."""
    option = form.get("option", "")[:6]
    reply = ItemReply(
        form.get("kind", ""),
        form.get("id", ""),
        form.get("action", ""),
        form.get("task", ""),
        form.get("record", ""),
        form.get("text", ""),
        int(option) if option.isascii() and option.isdecimal() else None,
    )
    return _recorded(site, lambda by: record_answer(by, reply))


def revoke(site: Site, form: Form) -> Notice:
    """Take back the approval `id` of `task`, if no call has used it."""
    return _recorded(site, lambda by: revoke_approval(by, form.get("task", ""), form.get("id", "")))


def _recorded(site: Site, record: Callable[[Answerer], ReplyOutcome]) -> Notice:
    from adjourn.host.keys import secret

    store = site.find_store()
    if store is None:
        raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
    try:
        notice = record(Answerer(store, site.person, VIA, site.clock, secret(), site.root, site.tree))
    except AdjournError as error:
        return Notice(f"Not recorded: {site.words(error.message)}.", "bad", site.words(error.remedy))
    return Notice(notice.text, "good" if notice.is_yes else "plain")


PAGE = WebPage("/", "Inbox", "inbox.html", query, {"answer": answer_item, "revoke": revoke})
