"""What an inbox page shows besides what waits now: one kind, what was snoozed, and what was answered with what was asked."""

from __future__ import annotations

import re
from html import unescape

import pytest

from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.tasks.approvals import answer
from adjourn.tasks.task import NewEvent
from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask
from support.waiting import asked, in_doubt, noted, opened

BOB = Actor("bob", "human")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjourn.host.keys.secret", lambda: SECRET)
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)


@pytest.fixture
def shared() -> SharedTask:
    return SharedTask()


@pytest.fixture
def page(shared: SharedTask) -> PageInMemory:
    return PageInMemory(shared.store, shared.clock).enter()


def titles(page: str) -> list[str]:
    return [unescape(title) for title in re.findall(r"<h2 id=\"item-[^>]*>(.*?)</h2>", page)]


def snoozable(page: str) -> list[str]:
    """The keys of the items that can be snoozed."""
    return re.findall(r'action="/snooze".*?name="key" value="([^"]*)"', page, re.DOTALL)


def test_one_kind_is_shown(shared: SharedTask, page: PageInMemory) -> None:
    """The filter offers the kinds that wait, and shows one of them."""
    task = opened(shared)
    noted(shared)
    in_doubt(task)
    shared.clock.move(seconds=3600)
    shown = page.get("/?show=question")
    assert titles(shown) == ["Lock the table?"]
    assert 'value="blocker"' in shown
    assert 'value="approval"' not in shown
    assert len(titles(page.get("/?show=nothing-known"))) == len(titles(page.get()))


def test_a_snoozed_item_comes_back(shared: SharedTask, page: PageInMemory) -> None:
    """A snoozed item is not counted, is found on request, is woken by hand, and comes back by itself, also in another process."""
    opened(shared)
    noted(shared)
    before = titles(page.get())
    key = snoozable(page.get())[0]
    fields = {"csrf": page.access.form_token, "key": key}
    assert page.answer({**fields, "for": "1h"}, "/snooze").startswith("Snoozed: ")
    other = PageInMemory(shared.store, shared.clock).enter()
    assert titles(other.get()) == before[1:]
    assert titles(other.get("/?show=snoozed")) == before[:1]
    assert page.answer({**fields, "for": "wake"}, "/snooze").startswith("Waits again: ")
    assert titles(page.get()) == before
    page.answer({**fields, "for": "1h"}, "/snooze")
    shared.clock.move(seconds=3601)
    assert titles(page.get()) == before


def test_a_snoozed_item_that_begins_to_block_a_session_shows_again(shared: SharedTask, page: PageInMemory) -> None:
    """What was put off while it could wait shows once a living session waits for it; then it can be put off as such."""
    opened(shared)
    noted(shared)
    before = titles(page.get())
    fields = {"csrf": page.access.form_token, "key": snoozable(page.get())[0], "for": "1h"}
    page.answer(fields, "/snooze")
    assert titles(page.get()) == before[1:]
    shared.opened()
    assert titles(page.get()) == before
    page.answer(fields, "/snooze")
    assert titles(page.get()) == before[1:]


def test_what_expires_soon_cannot_be_snoozed(shared: SharedTask, page: PageInMemory) -> None:
    """A question that expires within minutes stays, whatever a form says."""
    asked(opened(shared))
    assert snoozable(page.get()) == []
    (key,) = re.findall(r'<article class="card" id="([^"]*)"', page.get())
    page.answer({"csrf": page.access.form_token, "key": key, "for": "1h"}, "/snooze")
    assert titles(page.get()) == ["deploy"]


def test_a_snoozed_item_is_snoozed_for_one_person(shared: SharedTask, page: PageInMemory) -> None:
    """Another person of the same store still sees it."""
    opened(shared)
    noted(shared)
    count = len(titles(page.get()))
    page.answer({"csrf": page.access.form_token, "key": snoozable(page.get())[0], "for": "tomorrow"}, "/snooze")
    assert len(titles(page.get())) == count - 1
    others = PageInMemory(shared.store, shared.clock, person=BOB).enter()
    assert len(titles(others.get())) == count


def test_what_was_answered_is_found_with_what_was_asked(shared: SharedTask, page: PageInMemory) -> None:
    """Answers of every kind, the newest first: what was asked, the answer, by whom, where and why; found by any text of it."""
    task = opened(shared)
    records = noted(shared)
    asked(task, "k1", arguments='{"to":"staging"}')
    answer(shared.task(), "k1", yes=False, via="cli", by=BOB, reason="not on a Friday")
    shared.clock.move(seconds=60)
    in_doubt(task, "c9", "pay")
    task.refresh()
    task.commit(lambda _: [NewEvent(kinds.EffectSettled(call="c9", outcome="done", note="I saw it"), BOB)])
    shared.clock.move(seconds=60)
    from support.waiting import CODEX

    records.answer_question("line", "q1", "Lock the table? no", CODEX)
    shown = page.get("/?show=answered")
    rows = [
        unescape(re.sub(r"<[^>]+>|\s+", " ", row)) for row in re.findall(r'<li id="answered-.*?</li>', shown, re.DOTALL)
    ]
    assert len(rows) == 3
    assert "Lock the table? no" in rows[0]
    assert "codex" in rows[0]
    assert "pay" in rows[1]
    assert "it happened" in rows[1]
    assert "I saw it" in rows[1]
    for text in ("denied", "deploy", "staging", "not on a Friday", "bob", "in a terminal"):
        assert text in rows[2]
    found = page.get("/?show=answered&q=STAGING")
    assert found.count('<li id="answered-') == 1


def test_an_answer_of_nobody_is_not_in_the_list(shared: SharedTask, page: PageInMemory) -> None:
    """A question that ran out was answered by nobody."""
    task = opened(shared)
    asked(task)
    task.refresh()
    task.commit(lambda _: [NewEvent(kinds.ConfirmDenied(approval="k1", tool="deploy", via="timeout"))])
    assert '<li id="answered-' not in page.get("/?show=answered")
