"""The inbox: all that waits for a person, oldest first, with what one needs to know to answer it.

Owns: what the inbox shows beside each item. Must never: decide what waits, which `handover` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adjourn.handover import CallReport, ShownArguments, WaitingItem, arguments_of
from adjourn.ui.answers import answer_item
from adjourn.ui.page import Form, WebPage
from adjourn.ui.site import Site

MAX_CARDS = 50
"""Items on the page at once; the others follow when these are answered."""
MAX_CALLS = 3
"""Calls before an item that are shown with it."""


class Card(NamedTuple):
    """An item, and what is shown with it."""

    item: WaitingItem
    arguments: ShownArguments
    before: Sequence[CallReport]


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The items, which tasks and records could not be read, and how many tasks are left to be read."""
    del fields
    store = site.find_store()
    if store is None:
        return {"has_store": False, "cards": [], "count": 0, "unreadable": {}, "left": 0}
    found, left = site.overview.waiting(store, site.within)
    cards = []
    for item in found.items[:MAX_CARDS]:
        arguments = arguments_of(store, item, site.tree)
        before = [call for call in site.overview.last_calls(item.task) if call.call != item.id]
        cards.append(Card(item, arguments, before[-MAX_CALLS:]))
    return {
        "has_store": True,
        "cards": cards,
        "count": len(found.items),
        "unreadable": found.unreadable,
        "left": left,
    }


PAGE = WebPage("/", "Inbox", "inbox.html", query, {"answer": answer_item})
