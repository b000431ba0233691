"""Answers that can be undone: nothing is recorded before their time is over, and equal items take one answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from html import unescape

import pytest

from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.tasks.approvals import answer
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
    return PageInMemory(shared.store, shared.clock, undo=60).enter()


def held_fields(page: PageInMemory) -> dict[str, str]:
    """The fields of the first answer that can be undone."""
    (name,) = re.findall(r'<input type="hidden" name="held" value="([^"]*)">', page.get())[:1]
    return {"csrf": page.access.form_token, "held": unescape(name)}


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.02)


def count(shared: SharedTask, kind: type[kinds.Data]) -> int:
    return sum(event.event == kind.KIND for event in shared.events())


def test_an_approval_that_is_undone_was_never_in_the_store(shared: SharedTask, page: PageInMemory) -> None:
    """An answer leaves the list, writes nothing while it can be undone, and waits again once it was."""
    asked(opened(shared))
    before = len(shared.events())
    assert page.answer({**page.form(), "action": "approve"}) == "Approve deploy: recorded in 60 s, unless you undo it."
    assert "<article" not in page.get()
    assert page.answer(held_fields(page), "/undo") == "Undone: Approve deploy. It waits again."
    assert "<article" in page.get()
    assert len(shared.events()) == before


def test_the_last_answer_to_an_item_is_the_one_that_counts(shared: SharedTask, page: PageInMemory) -> None:
    """Sent twice, or from another tab, an answer takes the place of the one before: undoing it leaves none behind."""
    asked(opened(shared))
    form = page.form()
    page.answer({**form, "action": "approve"})
    page.answer({**form, "action": "approve"})
    page.answer(held_fields(page), "/undo")
    assert "<article" in page.get()
    page.answer({**form, "action": "approve"})
    page.answer({**form, "action": "deny", "text": "not today"})
    assert page.answer(held_fields(page), "/record-now") == "Denied: deploy."
    assert (count(shared, kinds.ConfirmDenied), count(shared, kinds.ConfirmApproved)) == (1, 0)


def test_an_answer_is_recorded_at_once_on_request(shared: SharedTask, page: PageInMemory) -> None:
    """Who does not want to wait records the answer; then it cannot be undone any more."""
    asked(opened(shared))
    page.answer({**page.form(), "action": "deny", "text": "not today"})
    fields = held_fields(page)
    assert page.answer(fields, "/record-now") == "Denied: deploy."
    assert shared.last(kinds.ConfirmDenied).reason == "not today"
    assert page.answer(fields, "/undo") == "Not undone: the answer was recorded before."
    assert count(shared, kinds.ConfirmDenied) == 1


def test_an_answer_is_recorded_when_its_time_is_over(shared: SharedTask) -> None:
    """No page needs to be open for it."""
    page = PageInMemory(shared.store, shared.clock, undo=1).enter()
    asked(opened(shared))
    page.answer({**page.form(), "action": "approve"})
    assert count(shared, kinds.ConfirmApproved) == 0
    until(lambda: count(shared, kinds.ConfirmApproved) == 1)
    assert "Nothing waits for you" in page.get()


def test_an_answer_that_came_second_is_reported(shared: SharedTask) -> None:
    """If somebody else answers while an answer can be undone, the page says so until it is dismissed."""
    page = PageInMemory(shared.store, shared.clock, undo=1).enter()
    asked(opened(shared))
    page.answer({**page.form(), "action": "approve"})
    answer(shared.task(), "k1", yes=False, via="cli", by=BOB)
    until(lambda: "bob denied this in a terminal" in page.get())
    assert count(shared, kinds.ConfirmApproved) == 0
    page.answer({"csrf": page.access.form_token}, "/dismiss")
    assert "bob denied this" not in page.get()


def test_an_answer_that_cannot_be_recorded_is_refused_at_once(shared: SharedTask, page: PageInMemory) -> None:
    """A missing option or text is said before the seconds begin; so is an answer of somebody else."""
    task = opened(shared)
    noted(shared)
    asked(task, who="bob")
    fields = {"csrf": page.access.form_token, "task": "t1", "record": "line"}
    assert "no option is chosen" in page.answer({**fields, "kind": "question", "item": "q1", "action": "answer"})
    assert "the text is empty" in page.answer({**fields, "kind": "blocker", "item": "b1", "action": "resolve"})
    assert "has no such answer" in page.answer({**fields, "kind": "blocker", "item": "b1", "action": "approve"})
    assert "is for bob to answer" in page.answer({**fields, "kind": "approval", "item": "k1", "action": "approve"})
    assert 'name="held"' not in page.get()


def test_an_item_that_expires_in_the_meantime_is_answered_before(shared: SharedTask, page: PageInMemory) -> None:
    """The seconds of an answer end before the item expires; without any, it is recorded at once."""
    asked(opened(shared))
    fields = page.form()
    shared.clock.move(seconds=15 * 60 - 30)
    assert page.answer({**fields, "action": "approve"}) == "Approve deploy: recorded in 28 s, unless you undo it."
    page.answer(held_fields(page), "/undo")
    shared.clock.move(seconds=28)
    assert page.answer({**fields, "action": "approve"}) == "Approved: deploy. It runs once."


def test_equal_items_take_one_answer(shared: SharedTask, page: PageInMemory) -> None:
    """An answer can be for all equal items that the page showed; calls with other arguments are no equal items."""
    task = opened(shared)
    asked(task, "k1", arguments='{"to":"x"}')
    asked(task, "k2", arguments='{"to":"x"}')
    asked(task, "k3", arguments='{"to":"y"}')
    shown = page.get()
    assert "also for the equal one" in shown
    equal = re.findall(r'name="equal" value="([^"]*)"', shown)
    assert len(equal) == 2
    fields = {**page.form(), "action": "approve", "equal": equal[0]}
    assert page.answer(fields).startswith("Approve deploy (2): recorded in")
    assert page.get().count("<article") == 1
    assert page.answer(held_fields(page), "/record-now") == "Approved: deploy. It runs once. The same for 1 equal item."
    assert count(shared, kinds.ConfirmApproved) == 2


def test_an_answer_is_for_no_item_that_is_not_equal(shared: SharedTask, page: PageInMemory) -> None:
    """A form that names other items as equal ones answers its own only."""
    task = opened(shared)
    asked(task, "k1", arguments='{"to":"x"}')
    asked(task, "k2", arguments='{"to":"y"}')
    keys = " ".join(re.findall(r'<article class="card" id="([^"]*)"', page.get()))
    page.answer({**page.form(), "action": "approve", "equal": keys})
    page.answer(held_fields(page), "/record-now")
    assert count(shared, kinds.ConfirmApproved) == 1


def test_forms_keep_their_identity_when_the_page_updates(shared: SharedTask, page: PageInMemory) -> None:
    """Every form, button and choice has an id of its own: else an update would put another form under a pointer, or lose a choice."""
    task = opened(shared)
    noted(shared)
    in_doubt(task)
    for name in ("k1", "k2", "k3"):
        asked(task, name, arguments="{}")
    answered = page.form()
    page.answer({**answered, "action": "deny"})
    main = page.get().partition("<main")[2].partition("</main")[0]
    elements = re.findall(r"<(form|button|input|fieldset)\b([^>]*)>", main)
    named = [(name, rest) for name, rest in elements if not re.search('type="(hidden|search)"|class="filter"', rest)]
    kept = [(name, rest) for name, rest in named if "action" in rest or 'type="' in rest]
    assert len(kept) > 20
    assert [rest for _, rest in kept if ' id="' not in rest] == []
    ids = re.findall(r' id="([^"]*)"', main)
    assert len(ids) == len(set(ids))
    assert 'name="id"' not in main  # the `id` of such a form would be its field
