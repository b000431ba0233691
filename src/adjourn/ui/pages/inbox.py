"""The inbox: all that waits for a person, the most urgent first, with what one needs to know to answer it; and the form of an answer.

`handover` decides what waits, records answers, and knows what each kind of item takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.answering import (
    Answerer,
    ItemReply,
    ReplyOutcome,
    ShownArguments,
    arguments_of,
    check_reply,
    record_answer,
    revoke_approval,
)
from adjourn.handover.calls import CallReport, telling_argument
from adjourn.handover.inbox import URGENCIES, WaitingItem
from adjourn.log.event import milliseconds
from adjourn.ui.site import Form, Notice, Site, WebPage

VIA = "page"
"""How events name this way of answering."""
MAX_CARDS = 50
"""Items on the page at once; the others follow when these are answered."""
MAX_QUERY = 200
MAX_CALLS = 3
"""Calls before an item that are shown with it."""
MAX_TITLE = 80
MARGIN = 2.0
"""Seconds before an item expires at which its answer is recorded at the latest."""
HOUR = 3_600_000
WORDS = {
    "accept": "Accept", "answer": "Answer", "approve": "Approve", "deny": "Deny", "done": "It happened:", "not-done": "It did not happen:",
    "override": "Decide otherwise:", "resolve": "Resolved:", "skip": "Skip",
}  # fmt: skip
"""What answers are called while they can be undone."""


class Card(NamedTuple):
    """An item, what is shown with it, and the keys of the items that are equal to it."""

    item: WaitingItem
    arguments: ShownArguments
    before: Sequence[CallReport]
    equal: Sequence[str] = ()


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
            "held": [],
            "failed": [],
            "left": 0,
        }
    waiting, left = site.overview.waiting(store, site.within)
    held = site.held.held
    answered = {key for answer in held for key in answer.keys}
    open_items = [item for item in waiting.items if item.key not in answered]
    cards = []
    items = [item for item in open_items if _has(item, q.casefold())]
    groups: dict[tuple[str, ...], list[str]] = {}
    for item in items[:MAX_CARDS]:
        groups.setdefault(_sameness(item), []).append(item.key)
    for item in items[:MAX_CARDS]:
        arguments = arguments_of(store, item, site.tree)
        before = [call for call in site.overview.last_calls(item.task) if call.call != item.id]
        equal = [key for key in groups[_sameness(item)] if key != item.key]
        cards.append(Card(item, arguments, before[-MAX_CALLS:], equal))
    return {
        "has_store": True,
        "cards": cards,
        "urgencies": URGENCIES,
        "count": len(open_items),
        "shown": len(items),
        "q": q,
        "unreadable": waiting.unreadable,
        "troubles": waiting.troubles[:MAX_CARDS],
        "granted": [(item, telling_argument(item.context)) for item in waiting.granted[-MAX_CARDS:]],
        "held": held,
        "failed": site.held.failed,
        "left": left,
    }


def _sameness(item: WaitingItem) -> tuple[str, ...]:
    """What equal items have in common. Only approvals and questions have equals: what happened to a call differs."""
    if item.kind not in ("approval", "question"):
        return (item.key,)
    return item.kind, item.title, item.context, item.document, item.cause, item.who, item.released, *item.options


def _has(item: WaitingItem, words: str) -> bool:
    """Whether an item has a text, which is in lower case."""
    return any(words in text.casefold() for text in (item.kind, item.title, item.context, item.goal, item.task))


def answer_item(site: Site, form: Form) -> Notice:
    """Keep an answer until it can be undone no more, then record it. The form has `kind`, `id`, `task` or `record`, `action`, what the action
    needs, and the keys of `equal` items that it is for, too.
    """
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
    items = _items_of(site, reply, form.get("equal", "").split())
    try:
        for item in items:
            check_reply(item, reply)
    except AdjournError as error:
        return _not_recorded(site, error)
    replies = [reply, *(reply._replace(id=item.id, task=item.task, record=item.record) for item in items[1:])]
    if not items or items[0].who not in ("", site.person.id):
        return _record_all(site, replies)
    now = site.clock()
    within = min((milliseconds(item.until) - now for item in items if item.until), default=HOUR) / 1000
    text = f"{WORDS[reply.action]} {items[0].title[:MAX_TITLE]}{f' ({len(items)})' if len(items) > 1 else ''}"
    keys = frozenset(item.key for item in items)
    kept = site.held.hold(text, keys, lambda: _record_all(site, replies), within - MARGIN)
    if kept is None:
        return _record_all(site, replies)
    seconds = round((milliseconds(kept.due) - now) / 1000)
    return Notice(f"{text}: recorded in {seconds} s, unless you undo it.", "plain")


def _items_of(site: Site, reply: ItemReply, keys: Sequence[str]) -> list[WaitingItem]:
    """The item of an answer, and those of these keys that are equal to it; none where it does not wait any more."""
    store = site.find_store()
    if store is None:
        return []
    waiting = site.overview.waiting(store)[0].items
    named = [item for item in waiting if (item.kind, item.id) == (reply.kind, reply.id)]
    item = next((item for item in named if item.record == (reply.record if item.record else "")), None)
    if item is None or item.task != (reply.task if not item.record else item.task):
        return []
    same = _sameness(item)
    return [item, *(each for each in waiting if each.key in keys and each is not item and _sameness(each) == same)]


def _record_all(site: Site, replies: Sequence[ItemReply]) -> Notice:
    """Record an answer for each of some equal items."""
    notices = [_recorded(site, partial(record_answer, reply=reply)) for reply in replies]
    if len(notices) == 1:
        return notices[0]
    failed = [notice for notice in notices if notice.tone == "bad"]
    text = f"{(failed or notices)[0].text} The same for {len(failed or notices) - 1} equal {_items(len(failed or notices) - 1)}."
    return (failed or notices)[0]._replace(text=text)


def _items(count: int) -> str:
    return "item" if count == 1 else "items"


def undo(site: Site, form: Form) -> Notice:
    """Forget the answer `held`, if it is not recorded yet."""
    text = site.held.undo(form.get("held", ""))
    if not text:
        return Notice("Not undone: the answer was recorded before.", "bad")
    return Notice(f"Undone: {text}. It waits again.", "plain")


def record_now(site: Site, form: Form) -> Notice:
    """Record the answer `held` at once."""
    return site.held.record(form.get("held", "")) or Notice("The answer was recorded or undone before.", "plain")


def dismiss(site: Site, form: Form) -> Notice:
    """Show no more which answers could not be recorded."""
    del form
    site.held.dismiss()
    return Notice("Dismissed.", "plain")


def revoke(site: Site, form: Form) -> Notice:
    """Take back the approval `id` of `task`, if no call has used it."""
    return _recorded(site, lambda by: revoke_approval(by, form.get("task", ""), form.get("id", "")))


def _recorded(site: Site, record: Callable[[Answerer], ReplyOutcome]) -> Notice:
    from adjourn.host.keys import secret

    try:
        store = site.find_store()
        if store is None:
            raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
        outcome = record(Answerer(store, site.person, VIA, site.clock, secret(), site.root, site.tree))
    except AdjournError as error:
        return _not_recorded(site, error)
    return Notice(outcome.text, "good" if outcome.is_yes else "bad" if outcome.is_late else "plain")


def _not_recorded(site: Site, error: AdjournError) -> Notice:
    return Notice(f"Not recorded: {site.words(error.message)}.", "bad", site.words(error.remedy))


ACTIONS: dict[str, Callable[[Site, Form], Notice]] = {
    "answer": answer_item,
    "undo": undo,
    "record-now": record_now,
    "dismiss": dismiss,
    "revoke": revoke,
}
READING = frozenset(("undo", "record-now", "dismiss"))
"""They record nothing that the person did not answer before, with the PIN."""
PAGE = WebPage("/", "Inbox", "inbox.html", query, ACTIONS, reading=READING)
