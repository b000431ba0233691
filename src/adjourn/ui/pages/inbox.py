"""The inbox: all that waits for a person, the most urgent first, with what one needs to know to answer it; and the form of an answer.

`handover` decides what waits, records answers, and knows what each kind of item takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.answered import AnsweredItem, snooze, snoozed_items
from adjourn.handover.answering import (
    WAYS,
    Answerer,
    ItemReply,
    ReplyOutcome,
    ShownArguments,
    arguments_of,
    check_reply,
    record_answer,
    revoke_approval,
)
from adjourn.handover.calls import CallReport
from adjourn.handover.held import MAX_TITLE, reply_in_words, same_replies, seconds_until_due
from adjourn.handover.inbox import URGENCIES, WaitingItem
from adjourn.log.event import milliseconds, timestamp
from adjourn.store.base import Store
from adjourn.text.command_lines import telling_argument
from adjourn.ui.site import Form, Notice, Site, WebPage

VIA = "page"
"""How events name this way of answering."""
MAX_CARDS = 50
"""Items on the page at once; the others follow when these are answered."""
MAX_QUERY = 200
MAX_CALLS = 3
"""Calls before an item that are shown with it."""
MAX_ANSWERED = 200
NAMES: Mapping[str, str] = {
    "approval": "Approval", "question": "Question", "resume-point": "Resume point", "in-doubt": "In doubt", "decision": "Decision",
    "blocker": "Blocker",
}  # fmt: skip
SHOWN = frozenset((*NAMES, "snoozed", "answered"))
"""What the filter can show."""
HOUR = 3_600_000


class Card(NamedTuple):
    """An item, what is shown with it, and the keys of the items that are equal to it."""

    item: WaitingItem
    arguments: ShownArguments
    before: Sequence[CallReport]
    equal: Sequence[str] = ()

    @property
    def about(self) -> str:
        """What tells a call from others of its tool, for the list."""
        return telling_argument(self.item.context) if self.item.kind in ("approval", "in-doubt") else ""


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The items of the kind `show` with the text `q`, which tasks and records could not be read, and how many tasks are left to be read."""
    q, show = fields.get("q", "")[:MAX_QUERY], fields.get("show", "")
    show = show if show in SHOWN else ""
    values: dict[str, Any] = {
        "has_store": False, "cards": [], "count": 0, "shown": 0, "q": q, "show": show, "kinds": {}, "answered": [], "snoozed": 0, "is_snoozed": {},
        "unreadable": {}, "troubles": [], "granted": [], "held": [], "failed": [], "left": 0, "more": 0, "urgencies": URGENCIES, "names": NAMES,
        "elsewhere": [(other.root, other.base, other.overview.count) for other in site.others() if other.overview.count],
    }  # fmt: skip
    store = site.find_store()
    if store is None:
        return values
    waiting, left = site.overview.waiting(store, site.within, tree="" if site.home else site.tree)
    held = site.held.held
    items, snoozed = _sorted_out(site, store, waiting.items)
    put_off = snoozed_items(store, site.person.id, timestamp(site.clock()))
    offered = Counter[str](item.kind for item in items)
    values |= {
        "has_store": True,
        "count": len(items),
        "kinds": {kind: f"{NAMES[kind]} ({offered[kind]})" for kind in NAMES if offered[kind]},
        "snoozed": len(snoozed),
        "is_snoozed": put_off if show == "snoozed" else {},
        "unreadable": waiting.unreadable,
        "troubles": waiting.troubles[:MAX_CARDS],
        "granted": [(item, telling_argument(item.context)) for item in waiting.granted[-MAX_CARDS:]],
        "held": held,
        "failed": site.held.failed,
        "left": left,
    }
    if show == "answered":
        answers, left = site.overview.answered(store, site.within)
        given = [_answered(answer) for answer in answers if answer.has(q.casefold())]
        more = max(0, len(given) - MAX_ANSWERED)
        return values | {"answered": given[:MAX_ANSWERED], "more": more, "left": left}
    listed = snoozed if show == "snoozed" else items
    matching = [item for item in listed if (show in ("", "snoozed", item.kind)) and item.has(q.casefold())]
    return values | {"cards": _cards(site, store, matching[:MAX_CARDS]), "shown": len(matching)}


def count_waiting(site: Site, store: Store, within: float, share: float = 1) -> int:
    """How many things wait, without those that were put off or whose answer can be undone."""
    waiting, _ = site.overview.waiting(store, within, share)
    site.overview.count = len(_sorted_out(site, store, waiting.items)[0])
    return site.overview.count


def _sorted_out(
    site: Site, store: Store, waiting: Sequence[WaitingItem]
) -> tuple[list[WaitingItem], list[WaitingItem]]:
    """What is listed, and what was put off; without what was answered, and can be undone."""
    hidden = {key for answer in site.held.held for key in answer.keys}
    put_off = snoozed_items(store, site.person.id, timestamp(site.clock())) if waiting else {}
    items, snoozed = list[WaitingItem](), list[WaitingItem]()
    for item in waiting:
        if item.key not in hidden:
            (snoozed if item.key in put_off and put_off[item.key].hides(item) else items).append(item)
    return items, snoozed


def _cards(site: Site, store: Store, items: Sequence[WaitingItem]) -> list[Card]:
    cards, groups = [], dict[tuple[str, ...], list[str]]()
    for item in items:
        groups.setdefault(item.sameness, []).append(item.key)
    for item in items:
        arguments = arguments_of(store, item, site.tree)
        before = [call for call in site.overview.last_calls(item.task) if call.call != item.id]
        equal = [key for key in groups[item.sameness] if key != item.key]
        cards.append(Card(item, arguments, before[-MAX_CALLS:], equal))
    return cards


def _answered(answer: AnsweredItem) -> tuple[AnsweredItem, str, str]:
    """An answer, the argument that says most about its call, and where it was given."""
    about = telling_argument(answer.context) if answer.kind in ("approval", "in-doubt") else answer.context
    way = WAYS.get(answer.via, "in the client" if answer.via else "")
    return answer, about, way


def answer_item(site: Site, form: Form) -> Notice:
    """Keep an answer until it can be undone no more, then record it. The form has `kind`, `item`, `task` or `record`, `action`, what the action
    needs, and the keys of `equal` items that it is for, too.
    """
    option = form.get("option", "")[:6]
    reply = ItemReply(
        form.get("kind", ""),
        form.get("item", ""),
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
    replies = same_replies(reply, items)
    if not items or items[0].who not in ("", site.person.id, *site.roles):
        return _record_all(site, replies)
    now = site.clock()
    text = reply_in_words(reply, items)
    keys = frozenset(item.key for item in items)
    kept = site.held.hold(text, keys, lambda: _record_all(site, replies), seconds_until_due(items, now))
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
    same = item.sameness
    return [item, *(each for each in waiting if each.key in keys and each is not item and each.sameness == same)]


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


def snooze_item(site: Site, form: Form) -> Notice:
    """Put the item with this `key` off for the time `for`: `1h`, or until `tomorrow`; `wake` ends that."""
    store, until = site.find_store(), form.get("for", "")
    if store is None:
        raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
    item = next((item for item in site.overview.waiting(store)[0].items if item.key == form.get("key", "")), None)
    if item is None:
        return Notice("Not snoozed: the item does not wait any more.", "bad")
    now = site.clock()
    ends = {"1h": now + HOUR, "tomorrow": _tomorrow(now)}.get(until, 0)
    if ends and item.urgency == "soon":
        return Notice("Not snoozed: the item expires soon.", "bad")
    try:
        snooze(store, site.person.id, item, timestamp(ends) if ends else "", timestamp(now))
    except AdjournError as error:
        return Notice(f"Not snoozed: {site.words(error.message)}.", "bad", "try again")
    title = item.title[:MAX_TITLE]
    return Notice(f"Snoozed: {title}." if ends else f"Waits again: {title}.", "plain")


def _tomorrow(now: int) -> int:
    """Eight in the morning of the next day, on this machine's clock."""
    today = datetime.fromtimestamp(now / 1000).astimezone()
    return int((today.replace(hour=8, minute=0, second=0, microsecond=0) + timedelta(days=1)).timestamp() * 1000)


def revoke(site: Site, form: Form) -> Notice:
    """Take back the approval `item` of `task`, if no call has used it."""
    return _recorded(site, lambda by: revoke_approval(by, form.get("task", ""), form.get("item", "")))


def _recorded(site: Site, record: Callable[[Answerer], ReplyOutcome]) -> Notice:
    from adjourn.host.keys import secret

    try:
        store = site.find_store()
        if store is None:
            raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
        outcome = record(Answerer(store, site.person, VIA, site.clock, secret(), site.root, site.tree, site.roles))
    except AdjournError as error:
        return _not_recorded(site, error)
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        # nobody waits for an answer that was kept: a person must learn that it does not count
        return Notice(f"Not recorded: {type(error).__name__}: {site.words(str(error))}.", "bad", "answer again")
    return Notice(outcome.text, "good" if outcome.is_yes else "bad" if outcome.is_late else "plain")


def _not_recorded(site: Site, error: AdjournError) -> Notice:
    return Notice(f"Not recorded: {site.words(error.message)}.", "bad", site.words(error.remedy))


ACTIONS: dict[str, Callable[[Site, Form], Notice]] = {
    "answer": answer_item,
    "undo": undo,
    "record-now": record_now,
    "dismiss": dismiss,
    "revoke": revoke,
    "snooze": snooze_item,
}
READING = frozenset(("undo", "record-now", "dismiss", "snooze"))
"""They record nothing that the person did not answer before, with the PIN."""
PAGE = WebPage("/", "Inbox", "inbox.html", query, ACTIONS, reading=READING)
